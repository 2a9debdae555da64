/** Sets of upstreams: the list, and the page of a set. */

import { List, api, argumentsTable, fieldRow, fill, form, format, h, may, path, short, tasks, whole } from "../toolkit.js";
import { listOf, namesOf, policiesOfSet } from "./federation_policies.js";
import { GROUPS } from "./federation_settings.js";
import { deleteAndReturn, deleteObjects, editColumn, editSection, folded, heading, link, replaced, section, tableOf, vhostBelow, vhostField } from "./widgets.js";

const COMPONENT = "federation-upstream-set";
const OVERRIDES = GROUPS.flatMap((group) => group.fields)
  .filter((field) => field.name !== "uri")
  .map(({ name, type, boolean, help }) => ({ key: name, type: boolean ? "boolean" : type === "number" ? "number" : "string", help }));

const target = ({ vhost, name }) => path`parameters/${COMPONENT}/${vhost}/${name}`;

/** A member of a set as text: the upstream, and the settings that differ in this set. */
function memberText({ upstream, ...overrides }) {
  const more = Object.entries(overrides).map(([key, value]) => `${key} ${format.value(value)}`);
  return more.length ? `${upstream} (${more.join(", ")})` : upstream;
}

const COLUMNS = [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => short(one.vhost) },
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => [link.upstreamSet(one.vhost, one.name), vhostBelow(one)] },
  { id: "upstreams", title: "Upstreams",
    cell: (one) => h("span.name", { title: one.value.map(memberText).join("\n") }, one.value.map(memberText).join(", ")) },
  editColumn((one) => ["federation-upstream-sets", one.vhost, one.name]),
];

/** Ask, then delete the sets; the question names the policies that use them. */
const removeSets = (sets) => deleteObjects(sets, {
  kind: "upstream set", consequence: "The links of policies that use it end. The upstreams stay.", target,
  describe: async (one) => `${one.name} (${one.vhost}): used by ${namesOf(await policiesOfSet(one.vhost, one.name))}`,
});

/** The names of the upstreams that can be members, as the choices of an input; `load` loads them again. */
function knownUpstreams() {
  const element = h("datalist", { id: "known-upstreams" });
  const load = async (vhost, signal) => {
    const upstreams = await api.get(vhost ? path`parameters/federation-upstream/${vhost}` : "parameters/federation-upstream", {}, signal);
    const names = [...new Set(upstreams.map((one) => one.name))].sort();
    fill(element, names.map((name) => h("option", { value: name })));
  };
  return { element, load };
}

const readers = new WeakMap(); // by row of a member: the function that returns it

/** The members of a set as rows of a form: an upstream and its overrides. */
function members(value) {
  const rows = h("div", { data: { rows: "Members" } });
  const add = ({ upstream = "", ...overrides } = {}) => {
    const name = fieldRow({ label: "Upstream", required: true, value: upstream, list: "known-upstreams" });
    const settings = argumentsTable({ label: "Settings that differ in this set", known: OVERRIDES, value: overrides });
    const read = () => ({ upstream: name.querySelector("input").value, ...settings.read() });
    const row = h("fieldset.field", {}, h("legend", {}, "Member"), name, settings.element,
      h("button", { onclick: () => row.remove() }, "Remove this member"));
    readers.set(row, read);
    rows.append(row);
    return row;
  };
  const write = (all) => {
    rows.replaceChildren();
    all.forEach(add);
  };
  write(value);
  const more = h("button", { onclick: () => add().querySelector("input").focus() }, "Add a member");
  return { element: h("div", {}, rows, more), read: () => [...rows.children].map((row) => readers.get(row)()), write };
}

function setForm({ label, submit, fixed, value, keep = false, latest, name }) { // without `name` it is entered
  const rows = members(value);
  return form({
    label, submit, keep, latest, replaced: name ? undefined : replaced("upstream set", target), fields: fixed, extra: [rows.element], clear: () => rows.write([{}]),
    async run(entered) {
      const here = name ?? entered;
      await api.put(target(here), { value: rows.read() });
      tasks.changed(`Upstream set ${here.name} is set.`);
    },
  });
}

function createList(context) {
  const all = (signal) => api.get(context.vhost ? path`parameters/${COMPONENT}/${context.vhost}` : `parameters/${COMPONENT}`, {}, signal);
  const table = new List({ name: "federation-upstream-sets", label: "Upstream sets", columns: COLUMNS,
    empty: "no upstream sets; the set “all” is always there", load: whole(all), key: (one) => [one.vhost, one.name],
    actions: [{ label: "Delete", run: removeSets, danger: true }] });
  const known = knownUpstreams();
  const adding = setForm({
    label: "Add a new upstream set", submit: "Add upstream set", value: [{}],
    fixed: [
      vhostField(context),
      { name: "name", label: "Name", required: true,
        help: "The name “all” is the set of all upstreams of the virtual host, so it cannot be used." },
    ],
  });
  return {
    element: h("div.page", {}, h("h1", {}, "Federation upstream sets"), table.element,
      folded("Add a new upstream set", adding, known.element)),
    refresh: (signal) => Promise.all([table.refresh(signal), known.load(context.vhost, signal)]),
  };
}

function createSet(context) {
  const here = context.params;
  const shown = h("div");
  const used = h("div");
  const known = knownUpstreams();
  const load = async (signal) => (await api.get(target(here), {}, signal)).value;
  const editing = editSection("Edit", context, load, (value, latest) => setForm({
    label: `Edit upstream set ${here.name}`, submit: "Save upstream set", fixed: [], value, keep: true, latest, name: here,
  }));
  const remove = deleteAndReturn("Delete upstream set", () => removeSets([here]), "federation-upstream-sets");
  const element = h("div.page", {}, heading("Federation upstream set", here.name, here.vhost), section("Upstreams", shown),
    section("Policies that use it", used), editing.element, h("div.buttons", {}, remove), known.element);
  const refresh = async (signal) => {
    await known.load(here.vhost, signal);
    const value = await load(signal);
    const policies = await policiesOfSet(here.vhost, here.name, signal);
    fill(shown, value.length
      ? value.map(({ upstream, ...overrides }) => h("div", {}, link.upstream(here.vhost, upstream), tableOf(overrides)))
      : h("p.empty", {}, "no upstreams"));
    fill(used, listOf(policies, "No policy uses it."));
    editing.show(value);
  };
  return { element, refresh };
}

const common = { section: "federation", may: may.makePolicies };
export const setsPage = {
  ...common, route: "federation-upstream-sets", title: "Federation upstream sets", menu: "Upstream sets", create: createList,
};
export const setPage = { ...common, route: "federation-upstream-sets/:vhost/:name", title: "Federation upstream set", create: createSet };
