/** Limits of virtual hosts and users: the page with all of them, and the section on the page of one. */

import { List, api, form, format, h, may, path, tasks, whole } from "../toolkit.js";
import { attempt, link, section, userField, vhostField } from "./widgets.js";

const KINDS = {
  vhost: {
    title: "Virtual host limits", label: "Virtual host", way: "vhost-limits", names: ["max-connections", "max-queues"], link: link.vhost,
  },
  user: { title: "User limits", label: "User", way: "user-limits", names: ["max-connections", "max-channels"], link: link.user },
};

function tableOf(kind, load, context) {
  const { way, title, label } = KINDS[kind];
  const clear = (one, limit) => h("button.quick", { onclick: async () => {
    await attempt(() => api.remove(`${way}/${encodeURIComponent(one[kind])}/${limit}`));
    context.refresh();
  } }, "Clear");
  return new List({
    name: way, label: title, small: true, key: (one) => one[kind], empty: "no limits: the form below sets one", load,
    columns: [{ id: kind, title: label, always: true, cell: (one) => KINDS[kind].link(one[kind]) },
      ...KINDS[kind].names.map((name) => ({ id: name, title: name, number: true,
        cell: (one) => (one.value[name] === undefined ? "" : [`${format.count(one.value[name])} `, clear(one, name)]) }))],
  });
}

const limitForm = (kind, given, context) => form({
  label: `Set a ${KINDS[kind].label.toLowerCase()} limit`, submit: "Set limit",
  fields: [...(given === undefined ? [kind === "vhost" ? { ...vhostField(context), name: "of" } : userField("of")] : []),
    { name: "limit", label: "Limit", type: "select", options: KINDS[kind].names },
    { name: "value", label: "Value", type: "number", required: true, help: "0: none at all; -1: no limit" }],
  async run({ of = given, limit, value }) {
    await api.put(`${KINDS[kind].way}/${encodeURIComponent(of)}/${limit}`, { value });
    tasks.changed(`The limit ${limit} of ${of} is ${value}.`);
  },
});

/** The table and the form of one user's or virtual host's limits. */
export function limitsSection(kind, name, context) {
  const load = async (signal) => {
    const limits = await api.get(kind === "user" ? path`user-limits/${name}` : path`vhost-limits/${name}`, {}, signal);
    return limits.filter((one) => Object.keys(one.value).length);
  };
  const table = tableOf(kind, whole(load, () => name), context);
  return { element: h("div", {}, table.element, limitForm(kind, name, context)), refresh: (signal) => table.refresh(signal) };
}

function create(context) {
  const tables = Object.keys(KINDS).filter((kind) => kind === "vhost" || may.administer()).map((kind) =>
    ({ kind, table: tableOf(kind, whole((signal) => api.get(KINDS[kind].way, {}, signal), (one) => one[kind]), context) }));
  return {
    element: h("div.page", {}, h("h1", {}, "Limits"), tables.map(({ kind, table }) =>
      section(KINDS[kind].title, table.element, may.administer() ? limitForm(kind, undefined, context) : null))),
    refresh: (signal) => Promise.all(tables.map(({ table }) => table.refresh(signal))),
  };
}

export const limitsPage = { route: "limits", section: "admin", title: "Limits", menu: "Limits", may: may.administer, create };
