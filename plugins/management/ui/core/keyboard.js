/** Keys: `/` moves the focus to the filter, `g` and a letter open a section, `?` lists the keys. */

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
    else if (event.timeStamp - since < SECOND_MS) {
      since = -Infinity;
      const section = sections.find((one) => one.key === event.key && (one.may?.() ?? true));
      if (section) router.go(routeOf(section).split("/"));
    }
  });
}

function help(sections) {
  const rows = [["/", "go to the filter"], ...sections.map((one) => [`g ${one.key}`, one.title]), ["?", "this list"]];
  return dialog("Keys", (close) => [
    h("dl.keys", {}, rows.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)])),
    h("div.buttons", {}, h("button", { onclick: () => close(), autofocus: true }, "Close")),
  ]);
}
