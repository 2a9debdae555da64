/** Virtual hosts: the list, and the page of a virtual host. */

import {
  List, api, facts, fill, form, format, h, may, path, rangeChooser, rangeQuery, short, show, tasks, whole,
} from "../toolkit.js";
import { limitsSection } from "./limits.js";
import { permissionForms, permissionTables } from "./permissions.js";
import { countColumn, dataChart, dataColumn, lengthsChart, rateColumn, ratesChart } from "./rates.js";
import { attempt, deleteAndReturn, deleteObjects, editColumn, editSection, folded, heading, link, listPage, replaced, section, state } from "./widgets.js";

const target = (vhost) => path`vhosts/${vhost.name}`;
const stateOf = (vhost) => Object.values(vhost.cluster_state ?? {})[0];

const remove = (vhosts) => deleteObjects(vhosts, {
  kind: "virtual host", consequence: "Everything in them is deleted, and their connections are closed.",
  describe: (one) => `${one.name}: ${format.counted(one.messages ?? 0, "message")}`, target,
});

const usersOf = ({ users }) => users && (users.length ? short(users.join(", ")) : h("span.waiting", {}, "no users"));
const COLUMNS = [
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => link.vhost(one.name) },
  { id: "users", title: "Users", wide: true, cell: usersOf },
  { id: "state", title: "State", wide: true, cell: (one) => state(stateOf(one)) },
  countColumn("ready", "Ready", "messages_ready"),
  countColumn("unacked", "Unacked", "messages_unacknowledged"),
  countColumn("total", "Total", "messages"),
  dataColumn("from", "From clients", "recv_oct", { wide: true }),
  dataColumn("to", "To clients", "send_oct", { wide: true }),
  rateColumn("publish", "Publish", "publish"),
  rateColumn("deliver", "Deliver / get", "deliver_get"),
  { id: "description", title: "Description", sort: "description", shown: false, cell: (one) => short(one.description) },
  { id: "tags", title: "Tags", shown: false, cell: (one) => short(one.tags.join(", ")) },
  { id: "type", title: "Default queue type", shown: false, cell: (one) => one.default_queue_type },
];

const fieldsOf = (vhost = {}) => [
  { name: "description", label: "Description", value: vhost.description ?? "" },
  { name: "tags", label: "Tags", value: (vhost.tags ?? []).join(","), help: "separated by commas" },
  { name: "default_queue_type", label: "Default queue type", type: "select",
    value: vhost.default_queue_type ?? "classic", options: ["classic", "quorum"] },
];

function createList(context) {
  const load = async (signal) => {
    const vhosts = await api.get("vhosts", {}, signal);
    if (!may.administer()) return vhosts;
    const users = new Map(vhosts.map((one) => [one.name, []]));
    for (const one of await api.get("permissions", {}, signal)) users.get(one.vhost)?.push(one.user);
    return vhosts.map((one) => ({ ...one, users: users.get(one.name) }));
  };
  const table = new List({
    name: "vhosts", label: "Virtual hosts", key: (one) => one.name, load: whole(load), empty: "no virtual hosts", sort: "name",
    columns: may.administer() ? [...COLUMNS, editColumn((one) => ["vhosts", one.name])] : COLUMNS,
    actions: may.administer() ? [{ label: "Delete", run: remove, danger: true }] : [],
  });
  const add = form({
    label: "Add a virtual host", submit: "Add virtual host", replaced: replaced("virtual host", target), fields: [{ name: "name", label: "Name", required: true }, ...fieldsOf()],
    async run({ name, ...more }) {
      await api.put(target({ name }), more);
      tasks.changed(`Virtual host ${name} is added.`);
    },
  });
  return listPage("Virtual hosts", table, may.administer() ? folded("Add a virtual host", add) : null);
}

function createVHost(context) {
  const { name } = context.params;
  const here = target({ name });
  const charts = [lengthsChart(), ratesChart(), dataChart()];
  const details = h("div");
  const update = editSection("Update this virtual host", context, () => api.get(here), (stored, latest) => form({
    label: "Update this virtual host", submit: "Update virtual host", keep: true, latest, fields: fieldsOf(stored),
    run: (values) => change(() => api.put(here, values)),
  }));
  const tables = may.administer() ? permissionTables({ vhost: name }, context) : null;
  const limits = may.administer() ? limitsSection("vhost", name, context) : null;
  let shown = null;
  const change = async (work) => {
    await work();
    context.refresh();
  };
  const toggle = (work) => h("button", { onclick: () => attempt(() => change(work)) });
  const trace = toggle(() => api.put(here, { tracing: !shown.tracing }));
  const protect = toggle(() => api.send(shown.protected_from_deletion ? "DELETE" : "POST", `${here}/deletion/protection`));
  const buttons = h("div.buttons", { hidden: true }, trace, protect);
  const element = h("div.page", {}, heading("Virtual host", name),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, charts.map((chart) => chart.element))),
    section("Details", details, buttons),
    may.administer() ? [
      section("Permissions", tables.permissions.element, permissionForms.permission({ vhost: name }, context)),
      section("Topic permissions", tables.topics.element, permissionForms.topic({ vhost: name }, context)),
      section("Limits", limits.element), update.element,
      folded("Delete this virtual host", deleteAndReturn("Delete virtual host", () => remove([shown ?? { name }]), "vhosts")),
    ] : null);
  const refresh = async (signal) => {
    const vhost = await api.get(here, rangeQuery(["lengths", "msg_rates", "data_rates"]), signal);
    charts[0].draw(vhost);
    charts[1].draw(vhost.message_stats);
    charts[2].draw(vhost);
    const { description, tags, default_queue_type: queueType, tracing, protected_from_deletion: isProtected } = vhost;
    fill(details, facts([
      ["State", state(stateOf(vhost))], ["Description", description], ["Tags", tags.join(", ")], ["Default queue type", queueType],
      ["Tracing", tracing ? "on: copies of all messages go to amq.rabbitmq.trace" : "off"],
      ["Protected from deletion", isProtected ? "yes" : "no"],
    ]));
    if (may.administer()) {
      update.show(vhost);
      fill(trace, tracing ? "Stop tracing" : "Start tracing");
      fill(protect, isProtected ? "Allow deletion" : "Protect from deletion");
      show(buttons, true);
    }
    shown = vhost;
    await Promise.all([tables?.refresh(signal), limits?.refresh(signal)]);
  };
  return { element, refresh };
}

export const vhostsPage = { route: "vhosts", section: "admin", title: "Virtual hosts", menu: "Virtual hosts", create: createList };
export const vhostPage = { route: "vhosts/:name", section: "admin", title: "Virtual host", create: createVHost };
