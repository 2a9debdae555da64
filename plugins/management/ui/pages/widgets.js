/** Widgets of several pages: links to objects, features, definition lists, sections that fold, deletion. */

import {
  DEFAULT_EXCHANGE, NAMED, api, confirm, facts, fieldRow, fill, follow, form, format, h, may, path, prefer, preference, router,
  short, show, tasks,
} from "../toolkit.js";

const COPIED_MS = 2000;
const OFFERED = 50; // names of a field
const OFFER_MS = 200; // after the last key
const SAVED_MS = 10_000; // by then the browser has read the file

const linkTo = (segments, name, text = name) => h("a.name", { href: router.address(segments), title: name }, text);

/** The name of a connection or a channel without the address of the server, as in RabbitMQ's lists: `127.0.0.1:5000 (1)`. */
const withoutServer = (name) => name.replace(/ -> \S+/, "");

/** Links to the pages of objects; only the name if the user may not see the page. */
export const link = {
  queue: (vhost, name) => linkTo(["queues", vhost, name], name),
  exchange: (vhost, name) => linkTo(["exchanges", vhost, name || DEFAULT_EXCHANGE], name, name || "(AMQP default)"),
  connection: (name) => linkTo(["connections", name], name, withoutServer(name)),
  channel: (name) => linkTo(["channels", name], name, withoutServer(name)),
  user: (name) => (may.administer() ? linkTo(["users", name], name) : short(name)),
  vhost: (name) => linkTo(["vhosts", name], name),
  policy: (vhost, name) => (may.makePolicies() ? linkTo(["policies", vhost, name], name) : short(name)),
  operatorPolicy: (vhost, name) => (may.administer() ? linkTo(["operator-policies", vhost, name], name) : short(name)),
  upstream: (vhost, name) => (may.makePolicies() ? linkTo(["federation-upstreams", vhost, name], name) : short(name)),
  upstreamSet: (vhost, name) => linkTo(["federation-upstream-sets", vhost, name], name),
  node: (name) => (may.monitor() ? linkTo(["nodes", name], name) : short(name)),
};

/** A column of links to the forms that change the objects of a list; `segments` returns the address of an object's page. */
export const editColumn = (segments) => ({
  id: "edit", title: "Operations",
  cell: (one) => h("a", { href: router.address(segments(one), { edit: "true" }), "aria-label": `Edit ${one.name}` }, "Edit"),
});

/** The virtual host below the name of an object: in the place of its column, which a phone has no room for. */
export const vhostBelow = ({ vhost }) => h("small.vhost-below", {}, vhost);

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

/** A state as text with a colour: good, soft, waiting, bad. */
export function state(text, kind = { running: "good", idle: "soft", flow: "waiting", starting: "waiting" }[text] ?? "bad") {
  return text ? h(`span.state.${kind}`, {}, text) : "";
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

/**
 * The section of an object's page with the form that changes the object. The address of `editColumn` unfolds it.
 * @param {string} title
 * @param {Object} context
 * @param {() => Promise<Object>} load
 * @param {(object, latest: () => Promise<Object>) => HTMLFormElement} makeForm a form that shows the object as it is stored;
 *   `latest` is the form's option of this name
 * @returns {{element: HTMLElement, show: (object) => void}} `show` lets the form follow the object as it is stored
 */
export function editSection(title, context, load, makeForm) {
  const content = h("div");
  const element = folded(title, content);
  let current = null;
  const latest = async () => {
    const object = await load();
    show(object);
    return object;
  };
  const show = (object) => {
    const made = makeForm(object, latest);
    if (current !== null) return follow(current, made);
    current = made;
    content.append(current);
    if (context.query.edit === "true") {
      element.open = true;
      element.scrollIntoView();
      element.querySelector("form input:not([readonly]), form textarea, form select").focus();
    }
  };
  return { element, show };
}

/**
 * The field of a form in which a virtual host is chosen: the one of the frame, unless `chosen` is given. It is hidden if
 * there is only one.
 */
export function vhostField({ vhost, entered }, chosen = vhost) {
  const value = chosen || (entered.includes("/") || entered.length === 0 ? "/" : entered[0]);
  const options = entered.includes(value) ? entered : [value, ...entered];
  return { name: "vhost", label: "Virtual host", type: "select", options, value, hidden: options.length === 1 };
}

/**
 * The field for the name of a queue or an exchange, with the names that contain the entered text as choices.
 * @param {Object} field as for `fieldRow`
 * @param {() => {vhost: string, kind: "queue"|"exchange"}} of whose names
 */
export function nameField(field, of) {
  const row = fieldRow({ ...field, type: "list" });
  const input = row.querySelector("input");
  const choices = row.querySelector("datalist");
  let timer;
  const offer = async () => {
    const { vhost, kind } = of();
    const name = input.value;
    const query = { page: 1, page_size: OFFERED, name, columns: "name" };
    const { items } = await api.get(`${kind}s${path`/${vhost}`}`, query).catch(() => ({ items: [] })); // the name can be entered
    if (name === input.value) fill(choices, items.filter((one) => one.name).map((one) => h("option", { value: one.name })));
  };
  input.addEventListener("focus", offer);
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(offer, OFFER_MS);
  });
  return row;
}

/** The field in which one of the users is chosen. */
export function userField(name) {
  const row = fieldRow({ name, label: "User", type: "select", required: true });
  const select = row.querySelector("select");
  api.get("users", { columns: "name" }).then((users) => select.replaceChildren(...users.map((one) => h("option", {}, one.name))), () => {});
  return row;
}

/** The text of an empty list of objects in virtual hosts; `next` says how objects get there. */
export const emptyList = ({ entered }, kinds, next) => (entered.length
  ? `no ${kinds}: ${next}` : `no ${kinds} that you may see: an administrator has to give you permissions in a virtual host`);

/** For `form`: the object that the entered values would replace; `target` is its path in the API. */
export const replaced = (kind, target) => async (values) => {
  try {
    await api.get(target(values));
    return `${kind} ${values.name}`;
  } catch (error) {
    if (error.status === 404) return "";
    throw error;
  }
};

/**
 * Do work that needs rights; a refusal then names those that the user lacks.
 * @param {string} vhost
 * @param {Array<[right: "configure"|"write"|"read", name: string]>} needed each with a queue or an exchange
 */
export async function withRights(vhost, needed, work) {
  try {
    return await work();
  } catch (error) {
    if (error.status !== 401) throw error;
    const lacking = [];
    for (const [right, name] of needed) {
      const rights = await api.get(path`warren/rights/${vhost}`, { name }).catch(() => ({}));
      if (rights[right] === false) lacking.push(`${right} ${name === DEFAULT_EXCHANGE || name === "" ? "the default exchange" : name}`);
    }
    if (lacking.length) error.message = `Access refused: you need the right to ${lacking.join(" and to ")}.`;
    throw error;
  }
}

/**
 * Hide the forms of a page that the user has no right to send. If the rights cannot be loaded, the forms stay.
 * @param {string} vhost
 * @param {Array<[right: "configure"|"write"|"read", name: string, element: HTMLElement]>} forms each with the right that it
 *   needs, and the queue or exchange on which
 */
export async function hideForbidden(vhost, forms, signal) {
  for (const name of new Set(forms.map((one) => one[1]))) {
    const rights = await api.get(path`warren/rights/${vhost}`, { name }, signal);
    for (const [right, of, element] of forms) if (of === name && !rights[right]) show(element, false);
  }
}

/** A page with a list of objects, and more below it, such as the form that adds one. */
export const listPage = (title, table, ...more) => ({
  element: h("div.page", {}, h("h1", {}, title), table.element, more), refresh: (signal) => table.refresh(signal),
});

/** The heading of an object's page. */
export function heading(kind, name, vhost) {
  const place = vhost === undefined ? null : h("small", {}, ` in virtual host ${vhost}`);
  return h("h1", {}, h("span.kind", {}, `${kind} `), h("b.long", {}, name), place);
}

/**
 * Ask, then delete objects of one kind, one after the other.
 * @param {Array} objects
 * @param {{kind: string, kinds?: string, action?: string, consequence: string,
 *   describe: (one) => string|Promise<string>, target: (one) => string, right?: string}} options `kind` and `kinds` are the
 *   noun, `action` is a verb, `describe` names an object in the question, `target` is its path in the API, `right` is the one
 *   that this needs on each object
 * @returns {Promise<boolean>} whether all were deleted
 */
export async function deleteObjects(objects, { kind, kinds = `${kind}s`, action = "Delete", consequence, describe, target, right }) {
  const title = objects.length === 1 ? `${action} ${kind} ${objects[0].name}?` : `${action} ${format.count(objects.length)} ${kinds}?`;
  const names = [];
  for (const one of objects.slice(0, NAMED)) names.push(await describe(one));
  if (!await confirm(title, consequence, names, action, objects.length)) return false;
  const { failed, stopped } = await tasks.each(`${action} ${kinds}`, objects, (one, signal) =>
    withRights(one.vhost, right ? [[right, one.name]] : [], () => api.remove(target(one), {}, signal)));
  return !stopped && failed.length === 0;
}

/** Do the work of a button; a refusal is shown at the foot of the page, after the text `failed`. */
export async function attempt(work, failed = "") {
  try {
    await work();
  } catch (error) {
    tasks.say(failed + error.message, "bad");
  }
}

/** A button that copies a text: a command, a URI. */
export function copyButton(text, label = "Copy") {
  return h("button.quick", { "aria-label": `${label} ${text}`, onclick: async ({ currentTarget: button }) => {
    await copied(text);
    fill(button, "Copied");
    setTimeout(() => fill(button, label), COPIED_MS);
  } }, label);
}

/** Put a text on the clipboard; browsers have its interface only on this machine and over HTTPS. */
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { value: text, "aria-hidden": "true" });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Save a file that was made in the page or loaded from the API. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}

/**
 * The form of an object's page that deletes the object, on conditions that the broker checks, and opens the list.
 * @param {{vhost: string, name: string}} object
 * @param {{kind: string, target: string, consequence: string, conditions: Array<[string, string]>, list: string}} options
 *   `target` is its path in the API, `conditions` are parameters of the request and their labels
 */
export function deleteForm({ vhost, name }, { kind, target, consequence, conditions, list }) {
  return form({
    label: `Delete this ${kind}`, submit: `Delete ${kind}`, danger: true, keep: true,
    fields: conditions.map(([condition, label]) => ({ name: condition, label, type: "checkbox" })),
    async run(chosen) {
      if (!await confirm(`Delete ${kind} ${name}?`, consequence, [`${name} (${vhost})`])) return;
      const conditionsOf = Object.fromEntries(Object.entries(chosen).filter(([, isChosen]) => isChosen));
      await withRights(vhost, [["configure", name]], () => api.remove(target, conditionsOf));
      tasks.say(`The ${kind} ${name} is deleted.`);
      router.go([list]);
    },
  });
}

/** The button of an object's page that deletes the object and opens the list; `remove` returns whether it was deleted. */
export function deleteAndReturn(label, remove, list) {
  return h("button.danger", { onclick: async () => { if (await remove()) router.go([list]); } }, label);
}
