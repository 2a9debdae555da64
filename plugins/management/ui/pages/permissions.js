/** Permissions and topic permissions of a user or in a virtual host: tables and forms. */

import { DEFAULT_EXCHANGE, List, api, confirm, form, h, path, short, tasks, whole } from "../toolkit.js";
import { attempt, link, nameField, userField, vhostField } from "./widgets.js";

const pattern = (text) => (text === "" ? h("code", {}, "^$ (nothing)") : h("code.name", { title: text }, text));

function columnsOf(given, fields, clear) {
  const other = given.user === undefined
    ? { id: "user", title: "User", always: true, cell: (one) => link.user(one.user) }
    : { id: "vhost", title: "Virtual host", always: true, cell: (one) => link.vhost(one.vhost) };
  const cell = (id) => (one) => (id === "exchange" ? short(one.exchange || "(AMQP default)") : pattern(one[id]));
  return [
    other, ...fields.map(([id, title]) => ({ id, title, cell: cell(id) })),
    { id: "clear", title: "Operations", cell: (one) => h("button", { onclick: () => clear(one) }, "Clear") },
  ];
}

const placeOf = (given) => (given.user === undefined ? path`vhosts/${given.vhost}` : path`users/${given.user}`);

/** The tables of one user (`{user}`) or virtual host (`{vhost}`), and their common refresh. */
export function permissionTables(given, context) {
  const clear = (kind, target, text) => async (one) => {
    if (!await confirm(`Clear the ${kind} of ${one.user} in ${one.vhost}?`, text, [], "Clear")) return;
    await attempt(() => api.remove(target(one)));
    context.refresh();
  };
  const make = (label, way, fields, cleared) => new List({
    name: way, label, small: true, columns: columnsOf(given, fields, cleared), empty: "none",
    key: (one) => [one.user, one.vhost, one.exchange ?? ""],
    load: whole((signal) => api.get(`${placeOf(given)}/${way}`, {}, signal), (one) => one.user),
  });
  const permissions = make("Permissions", "permissions", [["configure", "Configure"], ["write", "Write"], ["read", "Read"]],
    clear("permissions", (one) => path`permissions/${one.vhost}/${one.user}`, "The user cannot connect to this virtual host any more."));
  const topics = make("Topic permissions", "topic-permissions", [["exchange", "Exchange"], ["write", "Write"], ["read", "Read"]],
    clear("topic permission", (one) => path`topic-permissions/${one.vhost}/${one.user}/${one.exchange || DEFAULT_EXCHANGE}`,
      "Then only the permissions count for this exchange."));
  return { permissions, topics, refresh: (signal) => Promise.all([permissions.refresh(signal), topics.refresh(signal)]) };
}

const otherField = (given, context) => (given.user === undefined
  ? userField("user") : vhostField(context));

/** The forms that set them. */
export const permissionForms = {
  permission: (given, context) => form({
    label: "Set permission", submit: "Set permission", keep: true,
    fields: [
      otherField(given, context), { name: "configure", label: "Configure regexp", value: ".*" },
      { name: "write", label: "Write regexp", value: ".*" }, { name: "read", label: "Read regexp", value: ".*" },
    ],
    async run({ user = given.user, vhost = given.vhost, configure, write, read }) {
      const isNew = await api.set(path`permissions/${vhost}/${user}`, { configure, write, read });
      tasks.changed(`The permissions of ${user} in ${vhost} are ${isNew ? "set" : "replaced"}.`);
    },
  }),
  topic(given, context) {
    const element = form({
      label: "Set topic permission", submit: "Set topic permission", keep: true,
      fields: [
        otherField(given, context),
        nameField({ name: "exchange", label: "Exchange", value: "amq.topic", required: true },
          () => ({ vhost: given.vhost ?? element.elements.vhost.value, kind: "exchange" })),
        { name: "write", label: "Write regexp", value: ".*", help: "{username} and {vhost} stand for their values" },
        { name: "read", label: "Read regexp", value: ".*" },
      ],
      async run({ user = given.user, vhost = given.vhost, exchange, write, read }) {
        const isNew = await api.set(path`topic-permissions/${vhost}/${user}`, { exchange, write, read });
        tasks.changed(`The topic permissions of ${user} in ${vhost} are ${isNew ? "set" : "replaced"}.`);
      },
    });
    return element;
  },
};
