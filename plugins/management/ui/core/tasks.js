/** Tasks that take long, shown at the foot of the page with their progress; each can be stopped. */

import { h, fill } from "../web/dom.js";
import { count } from "../web/format.js";
import { refreshNow } from "./poll.js";

const SHOWN_MS = 6000; // after its end

/** The element that lists the tasks. */
export const element = h("section.tasks", { "aria-label": "Work in progress" });

/** The row of a task: its progress, and a button that stops it. */
function taskRow(title, total) {
  const stop = new AbortController();
  const bar = h("progress", { max: total, value: 0, "aria-label": title });
  const text = h("span");
  const button = h("button", { onclick: () => stop.abort() }, "Stop");
  const row = h("div.task", { role: "status" }, h("b", {}, title), bar, text, button);
  element.append(row);
  return {
    signal: stop.signal,
    show(done, ...more) {
      bar.value = done;
      fill(text, `${count(done)} of ${count(total)}`, more);
    },
    end(done, problem = "") {
      fill(text, `${stop.signal.aborted ? "stopped after" : "done:"} ${count(done)} of ${count(total)}`, problem);
      button.replaceWith(h("button", { onclick: () => row.remove() }, "Close"));
      if (!problem) setTimeout(() => row.remove(), SHOWN_MS);
    },
  };
}

/**
 * Run `work` for each item, one after the other, and show the progress. A refused item does not end the task.
 * @param {string} title of the task: "Delete queues"
 * @param {Array} items
 * @param {(item, signal: AbortSignal) => Promise} work
 * @returns {Promise<{done: number, failed: Array<{item, error}>, stopped: boolean}>}
 */
export async function each(title, items, work) {
  const row = taskRow(title, items.length);
  const failed = [];
  let done = 0;
  for (const item of items) {
    if (row.signal.aborted) break;
    try {
      await work(item, row.signal);
    } catch (error) {
      if (error.name === "AbortError") break;
      failed.push({ item, error });
    }
    done += 1;
    row.show(done, failed.length ? `, ${count(failed.length)} refused` : "");
  }
  row.end(done - failed.length, failed.length ? `, ${count(failed.length)} refused: ${failed[0].error.message}` : "");
  return { done: done - failed.length, failed, stopped: row.signal.aborted };
}

/**
 * Repeat `step` until `total` is done, and show the progress; a refused step ends the task.
 * @param {string} title of the task: "Move messages"
 * @param {number} total
 * @param {(left: number) => Promise<{done: number, problem?: string, more: boolean}>} step one part of the work; not
 *   interrupted by Stop, because its result would be unknown. `problem` is why the work ends with this part
 * @returns {Promise<number>} the amount that is done
 */
export async function repeat(title, total, step) {
  const row = taskRow(title, total);
  let done = 0;
  let problem = "";
  try {
    for (let more = true; more && done < total && !row.signal.aborted;) {
      const result = await step(total - done);
      done += result.done;
      problem = result.problem ?? "";
      more = result.more;
      row.show(done);
    }
  } catch (error) {
    problem = error.message;
  }
  row.end(done, problem && `, ended: ${problem}`);
  return done;
}

/** Show a short message, for example after a change. */
export function say(text, kind = "good") {
  const row = h(`div.task.${kind}`, { role: kind === "bad" ? "alert" : "status" }, h("span", {}, text),
    h("button", { onclick: () => row.remove() }, "Close"));
  element.append(row);
  if (kind !== "bad") setTimeout(() => row.remove(), SHOWN_MS);
}

/** Show a message after a change, and the page as it is now. */
export function changed(text) {
  say(text);
  refreshNow();
}
