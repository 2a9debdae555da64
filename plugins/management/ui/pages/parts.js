/** Parts that several pages show: links to objects, features, definition lists, sections that fold, deletion. */

import * as api from "../core/api.js";
import { DEFAULT_EXCHANGE } from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { h } from "../core/dom.js";
import * as format from "../core/format.js";
import { preference, prefer } from "../core/preferences.js";
import { address, go } from "../core/router.js";
import * as tasks from "../core/tasks.js";

/** Links to the pages of objects. */
export const link = {
  queue: (vhost, name) => h("a.name", { href: address(["queues", vhost, name]), title: name }, name),
  exchange: (vhost, name) => h("a.name", { href: address(["exchanges", vhost, name || DEFAULT_EXCHANGE]), title: name }, name || "(AMQP default)"),
  connection: (name) => h("a.name", { href: address(["connections", name]), title: name }, name),
  channel: (name) => h("a.name", { href: address(["channels", name]), title: name }, name),
  user: (name) => h("a.name", { href: address(["users", name]), title: name }, name),
  vhost: (name) => h("a.name", { href: address(["vhosts", name]), title: name }, name),
  policy: (vhost, name) => h("a.name", { href: address(["policies", vhost, name]), title: name }, name),
  node: (name) => h("a.name", { href: address(["nodes", name]), title: name }, name),
};

/** A short mark with an explanation: `D` for durable. */
export const mark = (text, help) => h("abbr.mark", { title: help }, text);

const ARGUMENT_MARKS = {
  "x-message-ttl": "TTL", "x-expires": "Exp", "x-max-length": "Lim", "x-max-length-bytes": "Lim B", "x-overflow": "Ovfl",
  "x-dead-letter-exchange": "DLX", "x-dead-letter-routing-key": "DLK", "x-max-priority": "Pri",
  "x-single-active-consumer": "SAC", "alternate-exchange": "AE", "x-delivery-limit": "DlvL",
};

/** The features of a queue or an exchange, in RabbitMQ's letters. */
export function features(item) {
  const marks = [];
  if (item.durable) marks.push(mark("D", "durable: declared again after a restart"));
  if (item.auto_delete) marks.push(mark("AD", "deleted when it is not used any more"));
  if (item.exclusive) marks.push(mark("Excl", "exclusive to one connection"));
  if (item.internal) marks.push(mark("I", "internal: clients cannot publish to it"));
  const unknown = [];
  for (const [key, value] of Object.entries(item.arguments ?? {})) {
    const text = `${key}: ${format.value(value)}`;
    if (ARGUMENT_MARKS[key]) marks.push(mark(ARGUMENT_MARKS[key], text));
    else if (key !== "x-queue-type") unknown.push(text);
  }
  if (unknown.length) marks.push(mark("Args", unknown.join("\n")));
  if (item.policy) marks.push(h("abbr.mark.policy", { title: `policy ${item.policy}` }, item.policy));
  if (item.operator_policy) marks.push(h("abbr.mark.policy", { title: `operator policy ${item.operator_policy}` }, item.operator_policy));
  return marks.flatMap((one, at) => (at ? [" ", one] : [one]));
}

/** A state as text with a colour: good, waiting, bad. */
export function state(text, kind = { running: "good", idle: "good", flow: "waiting", starting: "waiting" }[text] ?? "bad") {
  return text ? h(`span.state.${kind}`, {}, text) : "";
}

/** Rows of name and value; values are texts or nodes. Unknown values are left out. */
export function facts(rows) {
  return h("dl.facts", {}, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** The arguments or headers of an object as rows. */
export function tableOf(values) {
  return facts(Object.entries(values ?? {}).map(([key, value]) => [key, format.value(value)]));
}

/** A section that folds; whether it is open is remembered. */
export function section(title, ...content) {
  const element = h("details.section", { open: preference(`section.${title}`, true) }, h("summary", {}, h("h2", {}, title)), content);
  element.addEventListener("toggle", () => prefer(`section.${title}`, element.open));
  return element;
}

/** As `section`, folded until it is opened: forms. */
export function folded(title, ...content) {
  return h("details.section", {}, h("summary", {}, h("h2", {}, title)), content);
}

/** The heading of an object's page. */
export function heading(kind, name, vhost) {
  return h("h1", {}, h("span.kind", {}, `${kind} `), h("b.long", {}, name), vhost === undefined ? null : h("small", {}, ` in virtual host ${vhost}`));
}

/**
 * Ask, then delete objects of one kind, one after the other.
 * @param {Array} objects
 * @param {{kind: string, kinds?: string, action?: string, consequence: string,
 *   describe: (one) => string|Promise<string>, target: (one) => string}} options `kind` and `kinds` are what they are called,
 *   `action` is a verb, `describe` names an object in the question, `target` is its path in the API
 * @returns {Promise<boolean>} whether all were deleted
 */
export async function deleteObjects(objects, { kind, kinds = `${kind}s`, action = "Delete", consequence, describe, target }) {
  const title = objects.length === 1 ? `${action} ${kind} ${objects[0].name}?` : `${action} ${format.count(objects.length)} ${kinds}?`;
  const names = [];
  for (const one of objects) names.push(await describe(one));
  if (!await confirm(title, consequence, names, action)) return false;
  const { failed, stopped } = await tasks.each(`${action} ${kinds}`, objects, (one, signal) => api.remove(target(one), {}, signal));
  return !stopped && failed.length === 0;
}

/** The button of an object's page that deletes the object and opens the list; `remove` returns whether it was deleted. */
export function deleteAndReturn(label, remove, list) {
  return h("button.danger", { type: "button", onclick: async () => { if (await remove()) go([list]); } }, label);
}
