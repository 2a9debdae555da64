/**
 * Keys: `/` moves the focus to the filter, `n` and `p` to the next and the previous part of the page, `g` and a letter
 * open a section, `?` lists the keys. Ctrl+Enter in an area of text submits its form, as Enter does in a line.
 */

import { dialog } from "./dialog.js";
import * as router from "./router.js";
import { h } from "../web/dom.js";

const SECOND_MS = 1500; // for the second key

/**
 * Listen for keys.
 * @param {Array<{key, title}>} sections
 * @param {(section) => string} routeOf the route of a section
 */
export function keyboard(sections, routeOf) {
  let since = -Infinity;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches?.("form textarea")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const filter = document.querySelector(".filter");
      if (filter) {
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    } else if (event.key === "g") since = event.timeStamp;
    else if (event.key === "?") help(sections);
    else if (event.key === "n") toPart(Node.DOCUMENT_POSITION_FOLLOWING);
    else if (event.key === "p") toPart(Node.DOCUMENT_POSITION_PRECEDING);
    else if (event.timeStamp - since < SECOND_MS) {
      since = -Infinity;
      const section = sections.find((one) => one.key === event.key && (one.may?.() ?? true));
      if (section) router.go(routeOf(section).split("/"));
    }
  });
}

/** Move the focus to the title of the nearest part of the page on this side of what has it. */
function toPart(side) {
  const here = document.activeElement;
  const parts = [...document.querySelectorAll("main .section > summary")].filter((one) => one.checkVisibility());
  if (side === Node.DOCUMENT_POSITION_PRECEDING) parts.reverse();
  parts.find((one) => here.compareDocumentPosition(one) & side && !one.contains(here))?.focus();
}

function help(sections) {
  const rows = [["/", "go to the filter"], ["n", "next part of the page"], ["p", "previous part"],
    ["Ctrl+Enter", "submit an area of text"], ...sections.map((one) => [`g ${one.key}`, one.title]), ["?", "this list"]];
  return dialog("Keys", (close) => [
    h("dl.keys", {}, rows.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)])),
    h("div.buttons", {}, h("button", { onclick: () => close(), autofocus: true }, "Close")),
  ]);
}
