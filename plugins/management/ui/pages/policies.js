/** Policies and operator policies; the form shows what a pattern matches before the policy is saved. */

import { List, api, argumentsTable, facts, fill, form, format, h, may, path, short, tasks, whole } from "../toolkit.js";
import { deleteAndReturn, deleteObjects, editColumn, editSection, folded, heading, link, replaced, section, tableOf, vhostBelow, vhostField } from "./widgets.js";

const APPLY_TO = [
  ["all", "exchanges and queues"], ["exchanges", "exchanges"], ["queues", "queues"], ["classic_queues", "classic queues"],
  ["quorum_queues", "quorum queues"],
];
const QUEUE_KEYS = [
  ["max-length", "number"], ["max-length-bytes", "number"], ["overflow", "string", "drop-head, reject-publish or reject-publish-dlx"],
  ["expires", "number", "milliseconds"], ["message-ttl", "number", "milliseconds"], ["dead-letter-exchange", "string"],
  ["dead-letter-routing-key", "string"], ["delivery-limit", "number"], ["consumer-timeout", "number", "milliseconds"],
];
const OPERATOR_KEYS = ["max-length", "max-length-bytes", "overflow", "expires", "message-ttl", "delivery-limit"];
const KEYS = [
  ...QUEUE_KEYS.map(([key, type, help]) => ({ key, type, help, group: "Queues:" })),
  { key: "alternate-exchange", type: "string", group: "Exchanges:" },
  { key: "shards-per-node", type: "number", help: "queues that the exchange gets, from which clients consume by its name", group: "Exchanges:" },
  { key: "routing-key", type: "string", help: "of the bindings of these queues", group: "Exchanges:" },
  { key: "federation-upstream-set", type: "string", help: "all, or the name of a set", group: "Federation:" },
  { key: "federation-upstream", type: "string", help: "the name of an upstream", group: "Federation:" },
  { key: "federation-upstream-pattern", type: "string", help: "a regular expression for names of upstreams", group: "Federation:" },
];
const PREVIEW_MS = 300; // after the last key

const wayOf = (operator) => (operator ? "operator-policies" : "policies");
const target = (policy, operator) => `${wayOf(operator)}/${encodeURIComponent(policy.vhost)}/${encodeURIComponent(policy.name)}`;

const remove = (operator) => (policies) => deleteObjects(policies, {
  kind: "policy", kinds: "policies", action: "Clear", consequence: "The next matching policy takes effect immediately.",
  describe: (one) => `${one.name} (${one.vhost})`, target: (one) => target(one, operator),
});

const countsOf = (matches) => `${format.counted(matches.queues, "queue")} and ${format.counted(matches.exchanges, "exchange")}`;

/** Show what the pattern in a form matches now; its inputs are named vhost, pattern and apply-to. */
export function preview(element, output) {
  let timer;
  let running;
  const load = async () => {
    running?.abort();
    running = new AbortController();
    const { vhost, pattern } = element.elements;
    try {
      const query = { pattern: pattern.value, "apply-to": element.elements["apply-to"].value };
      const matches = await api.get(path`warren/policy-preview/${vhost.value}`, query, running.signal);
      const names = matches.items.map((one) => one.name).join(", ");
      const more = matches.items.length < matches.queues + matches.exchanges ? ", …" : "";
      fill(output, `Matches ${countsOf(matches)}${names && `: ${names}${more}`}.`);
    } catch (error) {
      if (error.name !== "AbortError") fill(output, error.message);
    }
  };
  element.addEventListener("input", () => {
    clearTimeout(timer);
    if (element.elements.pattern.value && element.elements.vhost.value) timer = setTimeout(load, PREVIEW_MS);
    else fill(output, "");
  });
}

/** The form that sets a policy; `existing` is the one to change, `latest` the form's option. */
function policyForm(operator, context, existing, latest) {
  const known = operator ? KEYS.filter((one) => OPERATOR_KEYS.includes(one.key)) : KEYS;
  const definition = argumentsTable({ label: "Definition", known, value: existing?.definition });
  const matches = h("p.long", { role: "status" });
  const kind = operator ? "operator policy" : "policy";
  const fixed = { required: true, readonly: Boolean(existing) };
  const element = form({
    label: existing ? `Update this ${kind}` : `Add or update ${operator ? "an" : "a"} ${kind}`,
    submit: existing ? `Update ${kind}` : `Add ${kind}`,
    keep: Boolean(existing), latest, extra: [definition.element, matches],
    replaced: existing ? undefined : replaced(kind, (values) => target(values, operator)),
    clear() {
      definition.write({});
      fill(matches, "");
    },
    fields: [
      existing ? { name: "vhost", label: "Virtual host", value: existing.vhost, ...fixed } : vhostField(context),
      { name: "name", label: "Name", value: existing?.name ?? "", ...fixed },
      { name: "pattern", label: "Pattern", value: existing?.pattern ?? "", required: true, placeholder: "^orders\\.",
        help: "a regular expression that is searched for in names" },
      { name: "apply-to", label: "Apply to", type: "select", value: existing?.["apply-to"] ?? "all",
        options: operator ? APPLY_TO.slice(2) : APPLY_TO },
      { name: "priority", label: "Priority", type: "number", value: existing?.priority ?? 0,
        help: "of all that match, the highest one counts" },
    ],
    async run({ vhost, name, pattern, priority, "apply-to": scope }) {
      const policy = { pattern, priority: priority ?? 0, "apply-to": scope, definition: definition.read() };
      await api.put(target({ vhost, name }, operator), policy);
      tasks.changed(`The ${kind} ${name} is set.`);
    },
  });
  preview(element, matches);
  return element;
}

const linkOf = (operator) => (operator ? link.operatorPolicy : link.policy);
const mayWrite = (operator) => (operator ? may.administer() : may.makePolicies());

const columnsOf = (operator) => [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => short(one.vhost) },
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => [linkOf(operator)(one.vhost, one.name), vhostBelow(one)] },
  { id: "pattern", title: "Pattern", sort: "pattern", cell: (one) => h("code.name", { title: one.pattern }, one.pattern) },
  { id: "apply", title: "Apply to", sort: "apply-to", cell: (one) => one["apply-to"] },
  { id: "definition", title: "Definition", cell: (one) => tableOf(one.definition) },
  { id: "priority", title: "Priority", sort: "priority", number: true, cell: (one) => format.count(one.priority) },
  ...(mayWrite(operator) ? [editColumn((one) => [wayOf(operator), one.vhost, one.name])] : []),
];

function createList(context) {
  const make = (operator) => {
    const label = operator ? "Operator policies" : "User policies";
    const way = wayOf(operator);
    const title = `Add or update ${operator ? "an operator policy" : "a policy"}`;
    const load = (signal) => api.get(context.vhost ? `${way}/${encodeURIComponent(context.vhost)}` : way, {}, signal);
    const table = new List({
      name: way, label, small: operator, columns: columnsOf(operator), key: (one) => [one.vhost, one.name], load: whole(load),
      empty: mayWrite(operator) ? `no policies: “${title}” below sets one, and shows what it matches before it is saved` : "no policies",
      actions: mayWrite(operator) ? [{ label: "Clear", run: remove(operator), danger: true }] : [],
    });
    return { table, parts: [section(label, table.element), mayWrite(operator) ? folded(title, policyForm(operator, context)) : null] };
  };
  const lists = [make(false), make(true)];
  return {
    element: h("div.page", {}, h("h1", {}, "Policies"), lists.map((one) => one.parts)),
    refresh: (signal) => Promise.all(lists.map((one) => one.table.refresh(signal))),
  };
}

const createPolicy = (operator) => (context) => {
  const { vhost, name } = context.params;
  const details = h("div");
  const load = (signal) => api.get(target({ vhost, name }, operator), {}, signal);
  const update = editSection("Update this policy", context, load, (...given) => policyForm(operator, context, ...given));
  const clear = deleteAndReturn("Clear policy", () => remove(operator)([{ vhost, name }]), "policies");
  const element = h("div.page", {}, heading(operator ? "Operator policy" : "Policy", name, vhost), section("Details", details),
    update.element, folded("Clear this policy", clear));
  const refresh = async (signal) => {
    const policy = await load(signal);
    const query = { pattern: policy.pattern, "apply-to": policy["apply-to"] };
    const matches = await api.get(path`warren/policy-preview/${vhost}`, query, signal);
    const items = matches.items.flatMap((one) => [(one.kind === "queue" ? link.queue : link.exchange)(vhost, one.name), " "]);
    fill(details, facts([
      ["Pattern", h("code", {}, policy.pattern)], ["Apply to", policy["apply-to"]], ["Definition", tableOf(policy.definition)],
      ["Priority", format.count(policy.priority)],
      ["Matches", countsOf(matches)],
      ["Among them", items.length ? h("span", {}, items) : ""],
    ]));
    update.show(policy);
  };
  return { element, refresh };
};

export const policiesPage = { route: "policies", section: "admin", title: "Policies", menu: "Policies", create: createList };
export const policyPage = {
  route: "policies/:vhost/:name", section: "admin", title: "Policy", may: may.makePolicies, create: createPolicy(false),
};
export const operatorPolicyPage = {
  route: "operator-policies/:vhost/:name", section: "admin", list: "policies", title: "Operator policy", may: may.administer,
  create: createPolicy(true),
};
