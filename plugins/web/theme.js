/** Light or dark: as the reader has chosen, or as the system has it. */

import { h } from "./dom.js";
import { preference, prefer } from "./preferences.js";

const THEMES = [["auto", "auto"], ["light", "light"], ["dark", "dark"]];

/** Has the event "changed" after another choice of the reader or the system. */
export const changed = new EventTarget();

function apply() {
  document.documentElement.dataset.theme = preference("theme", "auto");
  changed.dispatchEvent(new Event("changed"));
}

/** The choice of the theme. */
export function chooser() {
  const select = h("select", { "aria-label": "Theme", onchange: () => {
    prefer("theme", select.value);
    apply();
  } }, THEMES.map(([name, label]) => h("option", { value: name, selected: name === preference("theme", "auto") }, label)));
  return select;
}

apply();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed.dispatchEvent(new Event("changed")));
