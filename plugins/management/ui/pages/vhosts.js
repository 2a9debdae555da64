/** Virtual hosts: the list, and the page of a virtual host. */

import * as api from "../core/api.js";
import { path } from "../core/api.js";
import { rangeChooser, rangeQuery } from "../core/chart.js";
import { h, fill } from "../core/dom.js";
import { form } from "../core/form.js";
import * as format from "../core/format.js";
import { may } from "../core/session.js";
import { Table, whole } from "../core/table.js";
import * as tasks from "../core/tasks.js";
import { limitsSection } from "./limits.js";
import { deleteAndReturn, deleteObjects, facts, folded, heading, link, section, state } from "./parts.js";
import { permissionForms, permissionTables } from "./permissions.js";
import { dataChart, lengthsChart, ratesChart } from "./rates.js";

const target = (vhost) => path`vhosts/${vhost.name}`;
const stateOf = (vhost) => Object.values(vhost.cluster_state ?? {})[0];

const remove = (vhosts) => deleteObjects(vhosts, {
  kind: "virtual host", consequence: "Everything in them is deleted, and their connections are closed.",
  describe: (one) => `${one.name}: ${format.count(one.messages ?? 0)} messages`, target,
});

const COLUMNS = [
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => link.vhost(one.name) },
  { id: "users", title: "Users", cell: (one) => (one.users === undefined ? "" : one.users.join(", ") || h("span.waiting", {}, "no users")) },
  { id: "state", title: "State", cell: (one) => state(stateOf(one)) },
  { id: "ready", title: "Ready", sort: "messages_ready", number: true, cell: (one) => format.count(one.messages_ready) },
  { id: "unacked", title: "Unacked", sort: "messages_unacknowledged", number: true, cell: (one) => format.count(one.messages_unacknowledged) },
  { id: "total", title: "Total", sort: "messages", number: true, cell: (one) => format.count(one.messages) },
  { id: "from", title: "From clients", sort: "recv_oct_details.rate", number: true, cell: (one) => format.byteRate(one.recv_oct_details?.rate) },
  { id: "to", title: "To clients", sort: "send_oct_details.rate", number: true, cell: (one) => format.byteRate(one.send_oct_details?.rate) },
  { id: "publish", title: "Publish", sort: "message_stats.publish_details.rate", number: true, cell: (one) => format.rate(one.message_stats?.publish_details?.rate) },
  { id: "deliver", title: "Deliver / get", sort: "message_stats.deliver_get_details.rate", number: true, cell: (one) => format.rate(one.message_stats?.deliver_get_details?.rate) },
  { id: "description", title: "Description", sort: "description", shown: false, cell: (one) => one.description },
  { id: "tags", title: "Tags", shown: false, cell: (one) => one.tags.join(", ") },
  { id: "type", title: "Default queue type", shown: false, cell: (one) => one.default_queue_type },
];

const fieldsOf = (vhost = {}) => [
  { name: "description", label: "Description", value: vhost.description ?? "" },
  { name: "tags", label: "Tags", value: (vhost.tags ?? []).join(","), help: "separated by commas" },
  { name: "default_queue_type", label: "Default queue type", type: "select", value: vhost.default_queue_type ?? "classic", options: ["classic", "quorum"] },
];

function createList(context) {
  const load = async (signal) => {
    const vhosts = await api.get("vhosts", {}, signal);
    if (!may.administer()) return vhosts;
    const users = new Map(vhosts.map((one) => [one.name, []]));
    for (const one of await api.get("permissions", {}, signal)) users.get(one.vhost)?.push(one.user);
    return vhosts.map((one) => ({ ...one, users: users.get(one.name) }));
  };
  const table = new Table({
    name: "vhosts", label: "Virtual hosts", columns: COLUMNS, key: (one) => one.name, load: whole(load), empty: "no virtual hosts", sort: "name",
    actions: may.administer() ? [{ label: "Delete", run: remove, danger: true }] : [],
  });
  table.onchange = context.refresh;
  const add = form({
    label: "Add a virtual host", submit: "Add virtual host", fields: [{ name: "name", label: "Name", required: true }, ...fieldsOf()],
    async run({ name, ...more }) {
      await api.put(target({ name }), more);
      tasks.say(`Virtual host ${name} is added.`);
      context.refresh();
    },
  });
  return {
    element: h("div.page", {}, h("h1", {}, "Virtual hosts"), table.element, may.administer() ? folded("Add a virtual host", add) : null),
    refresh: (signal) => table.refresh(signal),
  };
}

function createVHost(context) {
  const { name } = context.params;
  const here = target({ name });
  const charts = [lengthsChart(), ratesChart(), dataChart()];
  const details = h("div");
  const update = h("div");
  const tables = may.administer() ? permissionTables({ vhost: name }, context) : null;
  const limits = may.administer() ? limitsSection("vhost", name, context) : null;
  let shown = null;
  const change = async (work) => {
    await work();
    context.refresh();
  };
  const buttons = h("div.buttons");
  const element = h("div.page", {}, heading("Virtual host", name),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, charts.map((chart) => chart.element))), section("Details", details, buttons),
    may.administer() ? [
      section("Permissions", tables.permissions.element, permissionForms.permission({ vhost: name }, context)),
      section("Topic permissions", tables.topics.element, permissionForms.topic({ vhost: name }, context)),
      section("Limits", limits.element), folded("Update this virtual host", update),
      folded("Delete this virtual host", deleteAndReturn("Delete virtual host", () => remove([shown]), "vhosts")),
    ] : null);
  return {
    element,
    async refresh(signal) {
      const vhost = await api.get(here, rangeQuery(["lengths", "msg_rates", "data_rates"]), signal);
      charts[0].draw(vhost);
      charts[1].draw(vhost.message_stats);
      charts[2].draw(vhost);
      fill(details, facts([["State", state(stateOf(vhost))], ["Description", vhost.description], ["Tags", vhost.tags.join(", ")],
        ["Default queue type", vhost.default_queue_type], ["Tracing", vhost.tracing ? "on: copies of all messages go to amq.rabbitmq.trace" : "off"],
        ["Protected from deletion", vhost.protected_from_deletion ? "yes" : "no"]]));
      if (may.administer() && shown === null) {
        update.replaceChildren(form({ label: "Update this virtual host", submit: "Update virtual host", keep: true, fields: fieldsOf(vhost),
          run: (values) => change(() => api.put(here, values)) }));
      }
      if (may.administer() && shown?.tracing !== vhost.tracing || shown?.protected_from_deletion !== vhost.protected_from_deletion) {
        buttons.replaceChildren(
          h("button", { type: "button", onclick: () => change(() => api.put(here, { tracing: !vhost.tracing })) }, vhost.tracing ? "Stop tracing" : "Start tracing"),
          h("button", { type: "button", onclick: () => change(() => api.send(vhost.protected_from_deletion ? "DELETE" : "POST", `${here}/deletion/protection`)) },
            vhost.protected_from_deletion ? "Allow deletion" : "Protect from deletion"));
      }
      shown = vhost;
      await Promise.all([tables?.refresh(signal), limits?.refresh(signal)]);
    },
  };
}

export const vhostsPage = { route: "vhosts", section: "admin", title: "Virtual hosts", menu: "Virtual hosts", create: createList };
export const vhostPage = { route: "vhosts/:name", section: "admin", title: "Virtual host", create: createVHost };
