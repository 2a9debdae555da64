/** A guide to common topologies: it shows the commands for each broker, and sets what concerns this one. */

import { api, confirm, fieldRow, fill, format, h, may, path, show, tasks } from "../toolkit.js";
import { commands, isGuestElsewhere, plan, TOPOLOGIES } from "./federation_plan.js";
import { preview } from "./policies.js";
import { copyButton, section, vhostField } from "./widgets.js";

const target = (vhost, name) => path`parameters/federation-upstream/${vhost}/${name}`;
const inputOf = (row) => row.querySelector("input, select");

/** The rows of brokers: name, URI and, in a fan-out, the broker above. */
function brokerRows(changed) {
  const rows = [];
  const element = h("div");
  const more = h("button", { onclick: () => add().name.focus() }, "Add a broker");

  function add(name = "") {
    const number = rows.length + 1;
    const fields = { name: fieldRow({ label: "Cluster name", value: name }),
      uri: fieldRow({ label: "URI", placeholder: "amqp://user:password@host/vhost", help: "How other brokers reach it." }),
      above: fieldRow({ label: "Broker above", type: "select", options: [] }) };
    const row = { name: inputOf(fields.name), uri: inputOf(fields.uri), above: inputOf(fields.above), aboveField: fields.above };
    row.remove = h("button", { onclick: () => {
      rows.splice(rows.indexOf(row), 1);
      row.element.remove();
      changed();
    } }, "Remove");
    row.legend = h("legend", {}, `Broker ${number}`);
    row.guest = h("p.waiting", {}, "A broker lets the user guest in from its own machine only: name another user in the URI.");
    row.element = h("fieldset.field", {}, row.legend, fields.name, fields.uri, row.guest, fields.above, row.remove);
    rows.push(row);
    element.append(row.element);
    changed();
    return row;
  }

  /** Offer as brokers above only those before, so that a tree has no circles. */
  function offer(topology) {
    rows.forEach((row, at) => {
      row.legend.textContent = `Broker ${at + 1}${at === 0 ? " (this broker)" : ""}`;
      show(row.guest, isGuestElsewhere(row.uri.value));
      show(row.remove, at > 0 && rows.length > 2);
      show(row.aboveField, topology === "fan-out" && at > 0);
      const options = rows.slice(0, at).map((other, place) => other.name.value || `broker ${place + 1}`);
      const chosen = Math.min(Number(row.above.value || 0), Math.max(at - 1, 0));
      if (options.join("\n") === [...row.above.options].map((one) => one.text).join("\n")) return;
      row.above.replaceChildren(...options.map((text, place) => h("option", { value: place, selected: place === chosen }, text)));
    });
    show(more, rows.length < TOPOLOGIES[topology].most);
  }

  const read = () => rows.map((row) => ({ name: row.name.value.trim(), uri: row.uri.value.trim(), above: Number(row.above.value || 0) }));
  return { element: h("div", {}, element, more), add, offer, read, rows };
}

/** Ask, then set the upstreams and the policy of this broker. */
async function apply({ upstreams, policy }, vhost, clusterName, refresh) {
  const known = await api.get(path`parameters/federation-upstream/${vhost}`);
  const policies = await api.get(path`policies/${vhost}`);
  const names = upstreams.map((one) => one.name);
  const verb = (existing, name) => (existing.some((one) => one.name === name) ? "replace" : "add");
  const lines = upstreams.map(({ name, value }) =>
    `${verb(known, name)} upstream ${name}: ${[value.uri].flat().map(format.uri).join(" ")}`);
  if (clusterName) lines.unshift(`name this cluster ${clusterName}`);
  if (policy) {
    const { "apply-to": kind, pattern } = policy.body;
    lines.push(`${verb(policies, policy.name)} policy ${policy.name}: ${kind} that match ${pattern}`);
  }
  const others = known.filter((one) => !names.includes(one.name)).map((one) => one.name);
  if (policy && others.length) lines.push(`note: the policy uses all upstreams, also ${others.join(", ")}`);
  if (!(await confirm("Apply to this broker?", `In virtual host ${vhost}:`, lines, "Apply"))) return;
  const work = [
    ...(clusterName ? [() => api.put("cluster-name", { name: clusterName })] : []),
    ...upstreams.map(({ name, value }) => () => api.put(target(vhost, name), { value })),
    ...(policy ? [() => api.put(path`policies/${vhost}/${policy.name}`, policy.body)] : []),
  ];
  const { failed } = await tasks.each("Federate", work, (step) => step());
  if (!failed.length) tasks.say("This broker is set. The status shows its links.");
  refresh();
}

function create(context) {
  const here = context.overview.cluster_name;
  const topology = fieldRow({ label: "Topology", type: "select",
    options: Object.entries(TOPOLOGIES).map(([value, { title }]) => [value, title]), help: " " });
  const fields = {
    kind: fieldRow({ name: "apply-to", label: "Federate", type: "select",
      options: [["exchanges", "Exchanges"], ["queues", "Queues"]] }),
    vhost: fieldRow({ ...vhostField(context), help: "Of the exchanges or queues; the same at each broker." }),
    pattern: fieldRow({ name: "pattern", label: "Pattern", value: "^federated\\.", help: "A regular expression for their names." }),
    policy: fieldRow({ label: "Name of the policy", value: "federate" }),
    priority: fieldRow({ label: "Priority", type: "number", step: 1, placeholder: "0" }),
    hops: fieldRow({ label: "Max hops", type: "number", min: 1, step: 1, help: "Empty: as many as the topology needs." }),
  };
  const chosen = inputOf(topology);
  const inputs = Object.fromEntries(Object.entries(fields).map(([name, row]) => [name, inputOf(row)]));
  const result = h("div", { "aria-live": "polite" });
  const matches = h("p.long", { role: "status" });
  const ready = { brokers: false };
  const brokers = brokerRows(() => {
    if (ready.brokers) update();
  });
  const numberOf = (input) => (input.value === "" ? undefined : Number(input.value));

  function update() {
    brokers.offer(chosen.value);
    topology.querySelector("small").textContent = TOPOLOGIES[chosen.value].help;
    show(fields.hops, inputs.kind.value === "exchanges");
    const vhost = inputs.vhost.value;
    let planned;
    try {
      planned = plan({ topology: chosen.value, brokers: brokers.read(), kind: inputs.kind.value,
        pattern: inputs.pattern.value, policy: inputs.policy.value, priority: numberOf(inputs.priority),
        hops: numberOf(inputs.hops) });
      if (!inputs.policy.value || inputs.policy.value.startsWith("-")) throw new Error("the policy needs a name that does not begin with -");
      if (!inputs.pattern.value || inputs.pattern.value.startsWith("-")) throw new Error("the pattern is empty or begins with -");
    } catch (error) {
      fill(result, h("p.empty", {}, `Not complete yet: ${error.message}.`));
      return;
    }
    fill(result, planned.map((part, at) => {
      const mine = at === 0;
      const clusterName = mine && part.name === here ? "" : part.name;
      const lines = commands(part, vhost, clusterName);
      const text = lines.join("\n");
      const applied = { onclick: () => apply(part, vhost, clusterName, context.refresh) };
      return h("section", { "aria-label": `Commands for ${part.name}` },
        h("h3.long", {}, part.name, mine ? h("small", {}, " this broker") : null),
        lines.length ? [h("pre", { tabindex: 0 }, text), h("div.buttons", {}, copyButton(text, "Copy commands"),
          mine ? h("button.primary", applied, "Apply to this broker") : null)]
          : h("p.empty", {}, "Nothing to set: it has no upstream."));
    }));
  }

  brokers.add(here);
  brokers.add();
  ready.brokers = true;
  const form = h("form", { "aria-label": "Federation wizard", onsubmit: (event) => event.preventDefault() }, topology,
    h("fieldset.field", {}, h("legend", {}, "Brokers"), brokers.element), Object.values(fields), matches);
  preview(form, matches);
  form.addEventListener("input", () => {
    while (chosen.value !== "pair" && brokers.rows.length < 3) brokers.add();
    update();
  });
  update();
  return {
    element: h("div.page", {}, h("h1", {}, "Federation wizard"), section("Topology", form),
      section("Commands", h("p", {}, "Run these at each broker, or with --url at any machine. ",
        "The user of a URI needs the permissions to configure and write ", h("code", {}, "^federation: .*"),
        " and to read ", h("code", {}, ".*"), " there."), result)),
    async refresh() {}, // only the reader changes the page
  };
}

export const wizardPage = { route: "federation/wizard", section: "federation", title: "Federation wizard",
  menu: "Wizard", may: may.makePolicies, create };
