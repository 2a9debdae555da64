/** The documents, which are written in Markdown, as elements: of Markdown only what they use (CommonMark, and tables). */

import { h } from "../web/dom.js";

const COMMENT = /^<!--.*-->$/;
const FENCE = /^```(\w*)/;
const HEADING = /^(#{1,4}) +(.*)$/;
const ITEM = /^(?:[-*]|\d+\.) +/;
const ORDERED = /^\d/;
const INLINE = new RegExp([
  /\\([!-/:-@[-`{-~])/, // a character that stands for itself
  /(`+)(.+?)\2(?!`)/, /\*\*(.+?)\*\*/, /\*(.+?)\*/, /(!?)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]*)\)/, /<(https?:[^>\s]+)>/,
].map((one) => one.source).join("|"), "s");

/** The anchor of a heading, as on the site of the documents. */
export const anchorOf = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");

/**
 * Make the nodes of a text with marks.
 * @param {string} text
 * @param {{link: (target: string, children: Array) => Node, image: (target: string, text: string) => Node}} makers
 */
function inline(text, makers) {
  const found = INLINE.exec(text);
  if (found === null) return text ? [text] : [];
  const [whole, escaped, , code, strong, emphasis, image, label, target, uri] = found;
  let node = escaped;
  if (code !== undefined) node = h("code", {}, code.replace(/\n/g, " "));
  else if (strong !== undefined) node = h("strong", {}, inline(strong, makers));
  else if (emphasis !== undefined) node = h("em", {}, inline(emphasis, makers));
  else if (uri !== undefined) node = makers.link(uri, [uri]);
  else if (target !== undefined) node = image ? makers.image(target, label) : makers.link(target, inline(label, makers));
  return [text.slice(0, found.index), node, ...inline(text.slice(found.index + whole.length), makers)];
}

/** The cells of a row of a table; a bar after a backslash is part of a cell. */
const cellsOf = (line) =>
  line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function table(lines, makers) {
  const [titles, , ...rows] = lines.map(cellsOf);
  const cells = (tag, row) => h("tr", {}, row.map((cell) => h(tag, {}, inline(cell, makers))));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": titles.filter(Boolean).join(", ") || "Table" },
    h("table", {}, h("thead", {}, cells("th", titles)), h("tbody", {}, rows.map((row) => cells("td", row)))));
}

/** A list: an item goes on in lines that are indented. An item of one paragraph has no paragraph of its own. */
function list(lines, makers) {
  const items = [];
  let indented = /^/; // of the lines with which the item goes on
  for (const line of lines) {
    const mark = ITEM.exec(line)?.[0];
    if (mark) {
      indented = new RegExp(`^ {1,${mark.length}}`);
      items.push([line.slice(mark.length)]);
    } else items.at(-1).push(line.replace(indented, ""));
  }
  return h(ORDERED.test(lines[0]) ? "ol" : "ul", {}, items.map((item) => {
    const blocks = render(item.join("\n"), makers);
    return h("li", {}, blocks.map((block) => (block.localName === "p" ? [...block.childNodes] : block)));
  }));
}

/** The number of lines from `at` on that fulfil the condition. */
function span(lines, at, condition) {
  let end = at;
  while (end < lines.length && condition(lines[end], end)) end += 1;
  return end;
}

const isTable = (lines, at) => lines[at].startsWith("|") && /^\|[\s:|-]+$/.test(lines[at + 1] ?? "");
const startsBlock = (line) => !line.trim() || FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || COMMENT.test(line);

/** Make the elements of a document; `makers` as for links and images, and `code(text)` for a block of code. */
export function render(text, makers) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    let end = at + 1;
    if (FENCE.test(line)) {
      end = span(lines, at + 1, (one) => !one.startsWith("```"));
      blocks.push(makers.code(lines.slice(at + 1, end).join("\n")));
      end += 1;
    } else if (HEADING.test(line)) {
      const [, marks, title] = HEADING.exec(line);
      const element = h(`h${marks.length}`, {}, inline(title, makers));
      element.id = anchorOf(element.textContent);
      blocks.push(element);
    } else if (isTable(lines, at)) {
      end = span(lines, at, (one) => one.startsWith("|"));
      blocks.push(table(lines.slice(at, end), makers));
    } else if (ITEM.test(line)) {
      // A blank line ends a list, unless another item or an indented line follows it.
      const goesOn = (one, place) => (one.trim() ? one : lines[place + 1] ?? "");
      end = span(lines, at, (one, place) => ITEM.test(goesOn(one, place)) || /^ {2}\S/.test(goesOn(one, place)) || /^ {2,}/.test(one));
      blocks.push(list(lines.slice(at, end), makers));
    } else if (line.trim() && !COMMENT.test(line)) {
      end = span(lines, at + 1, (one, place) => !startsBlock(one) && !isTable(lines, place));
      blocks.push(h("p", {}, inline(lines.slice(at, end).map((one) => one.trim()).join("\n"), makers)));
    }
    at = end;
  }
  return blocks;
}
