/** Dialogs: a confirmation that names the consequence, and one with any content. */

import { h } from "../web/dom.js";
import { count } from "../web/format.js";

/**
 * Show a dialog until it is closed.
 * @param {string} title
 * @param {(close: (result?) => void) => Node[]} content makes the content
 * @returns {Promise} the result given to `close`, undefined after Escape
 */
export function dialog(title, content) {
  return new Promise((resolve) => {
    let result;
    const close = (given) => {
      result = given;
      element.close();
    };
    const heading = h("h2", { id: "dialog-title" }, title);
    const element = h("dialog", { "aria-labelledby": "dialog-title" }, heading, content(close));
    element.addEventListener("close", () => {
      element.remove();
      resolve(result);
    });
    document.body.append(element);
    element.showModal();
  });
}

export const NAMED = 20; // names shown in a confirmation

/**
 * Ask before an action that cannot be undone.
 * @param {string} title "Delete 3 queues?"
 * @param {string} consequence of the action: "Their messages are lost."
 * @param {string[]} names of the objects
 * @param {string} action the label of the button
 * @param {number} number of the objects, of which `names` may have the first ones
 * @returns {Promise<boolean>}
 */
export async function confirm(title, consequence, names = [], action = "Delete", number = names.length) {
  const listed = names.slice(0, NAMED).map((name) => h("li", {}, name));
  if (number > listed.length) listed.push(h("li", {}, `and ${count(number - listed.length)} more`));
  return (await dialog(title, (close) => [
    h("p", {}, consequence),
    names.length ? h("ul.names", {}, listed) : null,
    h("div.buttons", {},
      h("button", { onclick: () => close(false), autofocus: true }, "Cancel"),
      h("button.danger", { onclick: () => close(true) }, action)),
  ])) === true;
}
