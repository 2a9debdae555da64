/** The page of a report: verdict, contents, and sections with their tables, charts and drawings. */

import { BYTE_STEPS, COUNT_STEPS, Chart, SECOND_STEPS, redraw } from "../../../web/chart.js";
import { h, facts, short } from "../../../web/dom.js";
import * as format from "../../../web/format.js";
import { Table, whole } from "../../../web/table.js";
import * as theme from "../../../web/theme.js";
import { flow, heatMap } from "./drawings.js";

const FILTERED = 6; // rows from which on a table has a filter
const MARKS = { bad: "problem", odd: "warning" };
const HEADINGS = { vhost: "virtual host", msg_seq: "message", boot_id: "boot", conn_id: "connection", per_s: "per second", p999: "p99.9" };
const ENDINGS = [["_per_s", "/s"], ["_us", ""], ["_s", ""], ["_bytes", ""]];
const LONG_TEXTS = ["reason", "problem", "trace"];
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
/** The unit of a column by its name. */
const UNITS = [
  [/(^|_)per_s$/, format.number], [/_us(_p99)?$/, (value) => format.duration(value / 1e6)],
  [/_s$/, format.duration], [/(^|_)bytes$/, format.bytes],
  [/share$|^utilisation$|^peak_cpu$/, format.percent],
];
const CHARTS = {
  s: { format: format.duration, steps: SECOND_STEPS },
  us: { format: (value) => format.duration(value / 1e6), steps: SECOND_STEPS.map((one) => one * 1e6) },
  bytes: { format: format.bytes, steps: BYTE_STEPS }, per_s: { format: format.rate }, count: { format: format.number, steps: COUNT_STEPS },
};

const data = JSON.parse(document.getElementById("report").textContent);

/** The title of a column: its name in words, without the unit that the values have. */
function heading(column) {
  if (column in HEADINGS) return HEADINGS[column];
  const [ending, sign] = ENDINGS.find(([one]) => column.endsWith(one)) ?? ["", ""];
  const name = column.slice(0, column.length - ending.length);
  return `${HEADINGS[name] ?? name.replaceAll("_", " ")}${sign}`;
}

/** A value as text, in the unit of its column. */
function textOf(column, value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    const unit = UNITS.find(([pattern]) => pattern.test(column))?.[1];
    return (unit ?? (Number.isInteger(value) ? format.count : format.number))(value);
  }
  if (Array.isArray(value)) return value.map((one) => textOf(column, one)).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => `${key}: ${textOf(column, one)}`).join(", ");
  if (value === "" && column === "exchange") return "(default)";
  return TIME.test(value) ? `${value.slice(0, 10)} ${value.slice(11, 23)}` : format.visible(value);
}

/** A sentence of texts and durations. */
const sentence = (words) => [words].flat().map((one) => (typeof one === "string" ? format.visible(one) : format.duration(one.s))).join("");

const isNumber = (value) => typeof value === "number" || (typeof value === "string" && /^\d+$/.test(value));

function columnOf(name, at, rows) {
  const number = rows.every((row) => row[at] === null || isNumber(row[at]));
  const cell = (row) => {
    if (name === "figure") return heading(row.figure);
    const unit = name === "before" || name === "after" ? row.figure : name; // a figure that changed names the unit of its values
    const text = textOf(unit, row[name]);
    if (number) return text;
    return LONG_TEXTS.includes(name) ? h("span.detail", {}, text) : short(text);
  };
  return { id: name, title: heading(name), sort: name, number, cell };
}

function tableOf({ title, columns, rows, more }) {
  const items = rows.map((row, at) => ({ at, ...Object.fromEntries(columns.map((name, place) => [name, row[place]])) }));
  const table = new Table({
    name: title, label: title, filtered: "text", small: rows.length < FILTERED, key: (item) => String(item.at),
    columns: columns.map((name, at) => columnOf(name, at, rows)),
    load: whole(async () => items, (item) => columns.map((name) => textOf(name, item[name])).join(" ")),
  });
  table.refresh();
  return [table.element, more > 0 && h("p.note", {}, `and ${format.count(more)} more in the tables of the report`)];
}

function chartOf({ title, unit, lines }) {
  const options = CHARTS[unit];
  const chart = new Chart(format.visible(title), lines.map(([label]) => format.visible(label)),
    { ...options, gaps: true, stored: false, label: short });
  const times = lines[0][1].map((_, at) => data.start + at * data.step);
  const peaks = lines.map(([, values]) => `at most ${options.format(Math.max(...values.filter((value) => value !== null)))}`);
  chart.plot([times, ...lines.map(([, values]) => values)], peaks);
  return chart.element;
}

const factsOf = (values) => facts(Object.entries(values).map(([name, value]) => [heading(name), short(textOf(name, value) || "-")]));

const MAKERS = {
  chart: chartOf, table: tableOf, flow, heat: (part) => heatMap(part, data.start, data.step),
  note: ({ text }) => h("p.note", {}, format.visible(text)),
  heading: ({ text }) => h("h3", {}, text),
  list: ({ lines }) => h("ul", {}, lines.map((line) => h("li", {}, short(format.visible(line))))),
  facts: ({ values }) => factsOf(values),
  fold: ({ title, open, parts }) => h("details", { open }, h("summary", {}, short(format.visible(title))), drawn(parts)),
};

/** The elements of parts; charts that follow each other are beside each other. */
function drawn(parts) {
  const elements = [];
  let charts = null;
  for (const part of parts) {
    if (part.kind !== "chart") charts = null;
    else if (charts === null) elements.push(charts = h("div.charts"));
    if (charts !== null) charts.append(MAKERS.chart(part));
    else elements.push(MAKERS[part.kind](part));
  }
  return elements;
}

const markOf = ({ mark }) => MARKS[mark] && [" ", h(`span.mark.${mark}`, {}, MARKS[mark])];

const findingOf = (section) => sentence(section.finding);

const contentsEntry = (section) => h("li", {}, h("a", { href: `#${section.id}` }, section.title), markOf(section), " ",
  h("span.finding", {}, findingOf(section)));

const sectionOf = (section) => h(`section.${section.mark}`, { id: section.id }, h("h2", {}, section.title, markOf(section)),
  h("p.finding", {}, findingOf(section)), drawn(section.parts));

/** A bar with the answer to a question: its sentence, and lines below it. */
const answer = (question, kind, sentence, lines) => h(`div.verdict.${kind}`, {}, h("h2", {}, question),
  h("p", {}, h("strong", {}, format.visible(sentence))), lines.length > 0 && h("ul", {}, lines.map((line) => h("li", {}, line))));

const wrongLine = ({ line, trace }) => [format.visible(line), trace && h("code", {}, format.visible(trace))];

const wrongLines = [...data.wrong.map(wrongLine), ...(data.more_wrong ? [`and ${format.count(data.more_wrong)} more in report.json`] : [])];

document.body.append(
  h("header", {}, theme.chooser(), h("h1", {}, "Where every message went"),
    answer("What is wrong now?", data.health_kind, data.health, wrongLines),
    answer("Is anything lost?", data.kind, data.verdict, data.reasons.map(format.visible)),
    h("h2", {}, "Totals"), factsOf(data.totals),
    h("nav", { "aria-label": "Contents" }, h("h2", {}, "Contents"), h("ol", {}, data.sections.map(contentsEntry)))),
  h("main", {}, data.sections.map(sectionOf)));
matchMedia("print").addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  for (const element of document.querySelectorAll("details")) element.open = true;
  redraw();
});
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
