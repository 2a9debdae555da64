/** Long work, shown at the foot of the page with its progress; each task can be stopped. */

import { h, fill } from "./dom.js";
import { count } from "./format.js";

const SHOWN_MS = 6000; // after its end

/** The element that lists the tasks. */
export const element = h("section.tasks", { "aria-label": "Work in progress" });

/**
 * Run `work` for each item, one after the other, and show how far it is. A refused item does not end the task.
 * @param {string} title what is done: "Delete queues"
 * @param {Array} items
 * @param {(item, signal: AbortSignal) => Promise} work
 * @returns {Promise<{done: number, failed: Array<{item, error}>, stopped: boolean}>}
 */
export async function each(title, items, work) {
  const stop = new AbortController();
  const bar = h("progress", { max: items.length, value: 0, "aria-label": title });
  const text = h("span");
  const button = h("button", { type: "button", onclick: () => stop.abort() }, "Stop");
  const row = h("div.task", { role: "status" }, h("b", {}, title), bar, text, button);
  element.append(row);
  const failed = [];
  let done = 0;
  for (const item of items) {
    if (stop.signal.aborted) break;
    try {
      await work(item, stop.signal);
    } catch (error) {
      if (error.name === "AbortError") break;
      failed.push({ item, error });
    }
    done += 1;
    bar.value = done;
    fill(text, `${count(done)} of ${count(items.length)}`, failed.length ? `, ${count(failed.length)} refused` : "");
  }
  const stopped = stop.signal.aborted;
  fill(text, `${stopped ? "stopped after" : "done:"} ${count(done - failed.length)} of ${count(items.length)}`,
    failed.length ? `, ${count(failed.length)} refused: ${failed[0].error.message}` : "");
  button.replaceWith(h("button", { type: "button", onclick: () => row.remove() }, "Close"));
  if (!failed.length) setTimeout(() => row.remove(), SHOWN_MS);
  return { done: done - failed.length, failed, stopped };
}

/** Show a short message, for example after a change. */
export function say(text, kind = "good") {
  const row = h(`div.task.${kind}`, { role: kind === "bad" ? "alert" : "status" }, h("span", {}, text),
    h("button", { type: "button", onclick: () => row.remove() }, "Close"));
  element.append(row);
  if (kind !== "bad") setTimeout(() => row.remove(), SHOWN_MS);
}
