/** The messages of a queue: get some of them and show them. */

import * as api from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { form } from "../core/form.js";
import { h, facts, fill } from "../web/dom.js";
import * as format from "../web/format.js";
import { link, tableOf } from "./widgets.js";

const SHOWN_BYTES = 50_000; // of each payload; the rest is not sent
const MOST = 500;

// RabbitMQ's modes and names, with what happens to the messages
const MODES = [
  ["ack_requeue_true", "Nack message requeue true (peek: puts them back)", "",
    "The messages are put back at their places. They are marked as redelivered, and consumers do not get them while they are read."],
  ["reject_requeue_true", "Reject requeue true (puts them back)", "",
    "As peek, and it counts as a failed delivery: a queue with a delivery limit drops messages that exceed it."],
  ["ack_requeue_false", "Automatic ack (removes them)", "Remove",
    "The messages are removed from the queue. What is shown here is the only copy."],
  ["reject_requeue_false", "Reject requeue false (dead-letters or drops them)", "Remove",
    "The messages are removed from the queue and go to its dead letter exchange. Without one they are lost."],
];

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

/** Return the payload as text, or null if it is not UTF-8. A character that is cut at the end is left out. */
function textOf(bytes, cut) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return null;
  }
}

function jsonOf(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** The payload, shown as text if it is; other views are made when they are chosen. */
function payloadView(message) {
  const bytes = bytesOf(message.payload);
  const cut = bytes.length < message.payload_bytes;
  const text = textOf(bytes, cut);
  const shown = h("pre", { tabindex: 0, "aria-label": "Payload" });
  const views = [["Text", () => text], ["JSON formatted", () => jsonOf(text) ?? "This is not JSON."], ["Base64", () => message.payload]];
  const buttons = views.map(([label, make]) => h("button.quick", {
    type: "button", disabled: text === null && label !== "Base64", onclick: () => choose(label, make),
  }, label));
  const choose = (label, make) => {
    fill(shown, make());
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === label));
  };
  choose(...(text === null ? views[2] : views[0]));
  const size = `Payload: ${format.counted(message.payload_bytes, "byte")}`;
  const title = h("b", {}, size, cut ? `, the first ${format.count(bytes.length)} shown` : "");
  return [h("div.tools", {}, title, text === null ? " not text" : "", buttons), shown];
}

function messageCard(vhost, message, at) {
  const { headers, ...properties } = message.properties;
  return h("article.card.message", { "aria-label": `Message ${at + 1}` }, h("h3", {}, `Message ${at + 1}`),
    facts([
      ["Exchange", link.exchange(vhost, message.exchange)], ["Routing key", h("span.long", {}, message.routing_key)],
      ["Redelivered", message.redelivered ? "●  yes" : "○  no"],
      ["Properties", Object.keys(properties).length ? tableOf(properties) : ""],
      ["Headers", headers && Object.keys(headers).length ? tableOf(headers) : ""],
    ]), payloadView(message));
}

/** The form that gets messages, and the messages. */
export function getMessages(context, { vhost, name, target }) {
  const found = h("div.messages", { role: "status" });
  const help = h("p", {}, MODES[0][3]);
  const element = form({
    label: "Get messages", submit: "Get messages", keep: true,
    fields: [
      { name: "ackmode", label: "Ack mode", type: "select", options: MODES.map(([mode, label]) => [mode, label]) }, help,
      { name: "count", label: "Messages", type: "number", value: "1", min: 1, max: MOST, required: true },
    ],
    async run({ ackmode, count }) {
      const [, label, action, consequence] = MODES.find(([mode]) => mode === ackmode);
      if (action && !await confirm(`Remove up to ${format.counted(count, "message")} of ${name}?`, consequence, [label], action)) return;
      const messages = await api.post(`${target}/get`, { ackmode, count, encoding: "base64", truncate: SHOWN_BYTES });
      const left = messages.at(-1)?.message_count;
      if (messages.length) {
        const behind = `${format.counted(left, "ready message")} ${left === 1 ? "was" : "were"} behind them.`;
        const summary = `${format.count(messages.length)} shown; ${behind}`;
        found.replaceChildren(h("p", {}, summary), ...messages.map((one, at) => messageCard(vhost, one, at)));
      } else found.replaceChildren(h("p.empty", {}, "The queue has no ready messages."));
      context.refresh();
    },
  });
  const mode = element.querySelector("select");
  mode.addEventListener("change", () => {
    const [, , action, text] = MODES.find(([one]) => one === mode.value);
    fill(help, text);
    help.className = action ? "problem" : "";
  });
  return h("div", {}, element, found);
}
