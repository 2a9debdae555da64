/** The live trace: samples of the messages that pass an exchange or a queue. */

import { DEFAULT_EXCHANGE, api, facts, fill, form, format, h, may, path, show } from "../toolkit.js";
import { link, nameField, section, tableOf, vhostField } from "./widgets.js";

const BOUNDS = "The trace shows at most 20 messages of each second, and ends when you leave this page.";
const KEPT = 200; // messages on the page

function rowOf(vhost, message) {
  const queues = message.queues ?? [message.queue];
  const { headers = {}, ...properties } = message.properties;
  const more = h("details", {}, h("summary", {}, format.bytes(message.payload_bytes)), facts([
    ["Properties", tableOf(properties)], ["Headers", tableOf(headers)],
    ["Payload", h("pre", {}, message.payload, message.payload_encoding === "base64" ? " (base64)" : "")],
  ]));
  return h("tr", {}, h("td", {}, format.clock(message.at_ms)),
    h("td", {}, h(message.event === "publish" ? "span.good" : "span.waiting", {}, message.event, message.redelivered ? " again" : "")),
    h("td", {}, link.exchange(vhost, message.exchange)), h("td.wrap", {}, message.routing_keys.join(", ")),
    h("td.wrap", {}, queues.length ? queues.map((name, at) => [at ? ", " : "", link.queue(vhost, name)]) : h("span.bad", {}, "no queue")),
    h("td", {}, message.user), h("td.column-connection", {}, link.connection(message.connection)), h("td.wrap", {}, more));
}

const HEADS = ["Time", "What", "Exchange", "Routing key", "Queues", "User", "Connection", "Message"];

/** Why the stream of a trace has ended. */
function endOf(error) {
  if (error.name === "AbortError") return "The trace is stopped.";
  return error.status === 404 ? "There is no such exchange or queue." : error.message;
}

function create(context) {
  const { query } = context;
  const body = h("tbody");
  const head = h("thead", {}, h("tr", {}, HEADS.map((title) => h("th", { scope: "col" }, title))));
  const table = h("table", { "aria-label": "Messages" }, head, body);
  const note = h("p", { role: "status" }, "Choose an exchange or a queue, or leave both empty for all messages of the virtual host.");
  const pause = h("button", { onclick: () => {
    paused = !paused;
    fill(pause, paused ? "Go on" : "Pause");
  } }, "Pause");
  const end = h("button", { onclick: () => stop?.abort() }, "Stop");
  const buttons = h("div.buttons", { hidden: true }, pause, end);
  let paused = false;
  let stop = null;

  const take = (vhost) => (line) => {
    if (!line) return;
    const message = JSON.parse(line);
    if (message.seen !== undefined) {
      const shown = format.count(message.shown);
      fill(note, `At least ${format.count(message.seen)} messages in the last second; ${shown} of them are shown.`);
    }
    if (message.event === undefined || paused) return;
    if (body.childElementCount === 0) fill(note, BOUNDS);
    body.prepend(rowOf(vhost, message));
    while (body.childElementCount > KEPT) body.lastChild.remove();
  };

  async function run({ vhost, exchange, queue }) {
    stop?.abort();
    const own = stop = new AbortController();
    body.replaceChildren();
    fill(note, `Waiting for messages. ${BOUNDS}`);
    show(buttons, true);
    // An error before the stream has begun is shown in the form, a later one as a note.
    api.lines(path`warren/trace/${vhost}`, { exchange, queue }, own.signal, take(vhost)).then(
      () => fill(note, "The trace has ended."),
      (error) => fill(note, endOf(error)),
    ).finally(() => { if (stop === own) show(buttons, false); });
  }

  const tracing = form({
    label: "Trace messages", submit: "Start", keep: true, run,
    fields: [
      vhostField(context, query.vhost),
      nameField({ name: "exchange", label: "Exchange", value: query.exchange ?? "", help: `${DEFAULT_EXCHANGE}: the default exchange` },
        () => ({ vhost: tracing.elements.vhost.value, kind: "exchange" })),
      nameField({ name: "queue", label: "Queue", value: query.queue ?? "" },
        () => ({ vhost: tracing.elements.vhost.value, kind: "queue" })),
    ],
  });
  return {
    element: h("div.page", {}, h("h1", {}, "Live trace"), section("Trace", tracing, note, buttons), h("div.list", {}, h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Messages" }, table))),
    leave: () => stop?.abort(),
  };
}

export const tracePage = { route: "trace", section: "messages", title: "Live trace", menu: "Live trace", may: may.administer, create };
