/** The messages of a queue: forms that get some of them and move them, and the list of the unacknowledged ones. */

import { List, api, confirm, facts, fill, form, format, h, short, show, tasks } from "../toolkit.js";
import { link, nameField, tableOf } from "./widgets.js";

const SHOWN_BYTES = 50_000; // of each payload; the rest is not sent
const MOST = 500; // messages of one request

// RabbitMQ's modes and names, with what happens to the messages
const MODES = [
  ["ack_requeue_true", "Nack message requeue true (peek: puts them back)", "",
    "The messages are put back at their places. They are marked as redelivered, and consumers do not get them while they are read."],
  ["reject_requeue_true", "Reject requeue true (puts them back)", "",
    "As peek, and it counts as a failed delivery: a queue with a delivery limit drops messages that exceed it."],
  ["ack_requeue_false", "Automatic ack (removes them)", "Remove",
    "The messages are removed from the queue. This page then has the only copy."],
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
  const buttons = views.map(([label, make]) =>
    h("button.quick", { disabled: text === null && label !== "Base64", onclick: () => choose(label, make) }, label));
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
  const list = h("div.messages", { role: "status" });
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
        list.replaceChildren(h("p", {}, summary), ...messages.map((one, at) => messageCard(vhost, one, at)));
      } else list.replaceChildren(h("p.empty", {}, "The queue has no ready messages."));
      context.refresh();
    },
  });
  const mode = element.querySelector("select");
  mode.addEventListener("change", () => {
    const [, , action, text] = MODES.find(([one]) => one === mode.value);
    fill(help, text);
    help.className = action ? "problem" : "";
  });
  return h("div", {}, element, list);
}

const PATIENCE = 50; // successive parts of a move in which the queue gave nothing: some seconds

/** Move `total` messages in parts, with progress, until it is done, stopped, or refused. */
function moveAll(here, title, destination, total) {
  let idle = 0;
  return tasks.repeat(title, total, async (left) => {
    const { moved, messages_ready: ready, problem } = await api.post(`${here}/move`, { destination, count: left });
    idle = moved ? 0 : idle + 1;
    return { done: moved, problem, more: ready > 0 && !problem && idle < PATIENCE };
  });
}

/** Make the form; `here` is the path of the queue below /api/warren. */
export function moveForm(context, { vhost, name }, here) {
  const element = form({
    label: "Move messages", submit: "Move messages", keep: true,
    fields: [
      h("p", {}, "Ready messages are removed here and published there, the oldest first. Each is stored there before it is removed here. ",
        "A message that is refused or not routed stays in this queue and ends the move."),
      { name: "kind", label: "To", type: "select", options: [["queue", "queue"], ["exchange", "exchange"]] },
      nameField({ name: "destination", label: "Name of the destination", required: true },
        () => ({ vhost, kind: element.elements.kind.value })),
      { name: "key", label: "Routing key", help: "empty: each message keeps its own" },
      { name: "count", label: "Messages", type: "number", min: 1, help: "empty: all that are ready now" },
    ],
    async run({ kind, destination: chosen, key, count }) {
      const queue = await api.get(here.replace("warren/", ""), { columns: "messages_ready" });
      const total = Math.min(count ?? Infinity, queue.messages_ready);
      if (!total) throw new Error("The queue has no ready messages.");
      if (kind === "queue" && chosen === name) throw new Error("A queue cannot be moved to itself.");
      const destination = kind === "queue" ? { queue: chosen } : { exchange: chosen, ...(key ? { routing_key: key } : {}) };
      const question = `Move ${format.counted(total, "message")} of ${name}?`;
      if (!await confirm(question, `They go to this ${kind} of virtual host ${vhost}:`, [chosen], "Move")) return;
      moveAll(here, `Move messages of ${name}`, destination, total).then(context.refresh);
    },
  });
  const kind = element.querySelector("select");
  const key = element.querySelector("[data-field=key]");
  const adapt = () => show(key, kind.value === "exchange");
  kind.addEventListener("change", adapt);
  adapt();
  return element;
}

const UNACKED = [
  { id: "tag", title: "Delivery tag", sort: "delivery_tag", number: true, always: true, cell: (one) => format.count(one.delivery_tag) },
  { id: "consumer", title: "Consumer tag", sort: "consumer_tag",
    cell: (one) => (one.consumer_tag ? short(one.consumer_tag) : "basic.get") },
  { id: "channel", title: "Channel", cell: ({ channel_details: { name } }) => (name ? link.channel(name) : "") },
  { id: "connection", title: "Connection", shown: false, cell: ({ channel_details: { connection_name: name } }) => (name ? link.connection(name) : "") },
  { id: "user", title: "User", cell: ({ channel_details: { user } }) => (user ? link.user(user) : "") },
  { id: "age", title: "Age", sort: "age", number: true, help: "since the delivery, with the accuracy of the statistics interval",
    cell: (one) => format.age(one.age) },
  { id: "exchange", title: "Exchange", shown: false, cell: (one) => one.exchange },
  { id: "key", title: "Routing key", cell: (one) => short(one.routing_key) },
  { id: "size", title: "Payload", sort: "payload_bytes", number: true, cell: (one) => format.bytes(one.payload_bytes) },
];

/** The list; `refresh(signal, count, exclusive)` loads it if there are any. */
export function unackedMessages(here) {
  const table = new List({
    name: "unacked", label: "Unacknowledged messages", columns: UNACKED, local: true, filtered: "consumer tag",
    empty: "no unacknowledged messages", key: (one) => [one.channel_details.name, one.delivery_tag],
    text: (one) => one.consumer_tag,
  });
  const note = h("small", {}, `The oldest are shown, ${format.count(MOST)} at most.`);
  const refresh = async (signal, count, exclusive) => {
    if (exclusive) note.textContent = "Messages of an exclusive queue are not shown: they belong to its connection.";
    let unacked = [];
    try {
      if (count) unacked = await api.get(`${here}/unacked`, { limit: MOST }, signal);
    } catch (error) {
      if (error.status !== 401) throw error;
      note.textContent = "They are shown to users with the right to read the queue.";
    }
    await table.show(unacked);
  };
  return { element: h("div", {}, table.element, note), refresh };
}
