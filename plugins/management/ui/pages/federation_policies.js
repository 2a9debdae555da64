/** Policies that federate exchanges or queues: the list, and a form with a live list of the matching objects. */

import { List, api, fill, form, format, h, path, short, tasks, whole } from "../toolkit.js";
import { preview } from "./policies.js";
import { deleteObjects, editColumn, folded, link, replaced, section, vhostBelow, vhostField } from "./widgets.js";

const ONE = "federation-upstream";
const SET = "federation-upstream-set";
const PATTERN = "federation-upstream-pattern";
const ALL = "all"; // the set of all upstreams

const target = ({ vhost, name }) => path`policies/${vhost}/${name}`;
const PREFIXES = { [ONE]: "upstream ", [SET]: "set ", [PATTERN]: "upstreams that match " };
const upstreamOf = ({ definition }) => Object.keys(PREFIXES).filter((key) => key in definition)
  .map((key) => (key === SET && definition[key] === ALL ? "all upstreams" : PREFIXES[key] + definition[key])).join(", ");
const federates = (policy) => upstreamOf(policy) !== "";

function matches(pattern, name) {
  try {
    return new RegExp(pattern).test(name);
  } catch {
    return true; // not a pattern of JavaScript: it may match
  }
}

/** Return the policies of a virtual host that use this upstream, by its name, by a pattern or through a set. */
export async function policiesOf(vhost, upstream, signal) {
  const [policies, sets] = await Promise.all([api.get(path`policies/${vhost}`, {}, signal),
    api.get(path`parameters/federation-upstream-set/${vhost}`, {}, signal)]);
  const inSets = sets.filter((one) => one.value.some((member) => member.upstream === upstream)).map((one) => one.name);
  return policies.filter(({ definition }) => definition[ONE] === upstream || [ALL, ...inSets].includes(definition[SET])
    || (PATTERN in definition && matches(definition[PATTERN], upstream)));
}

/** Return the policies of a virtual host that use this set of upstreams. */
export async function policiesOfSet(vhost, set, signal) {
  return (await api.get(path`policies/${vhost}`, {}, signal)).filter(({ definition }) => definition[SET] === set);
}

/** The names of policies in a sentence about their use. */
export function namesOf(policies) {
  if (!policies.length) return "no policy";
  return `${policies.length === 1 ? "the policy" : "the policies"} ${policies.map((policy) => policy.name).join(", ")}`;
}

/** The list of policies on the page of an upstream or a set, or the text `none`. */
export const listOf = (policies, none) => (policies.length
  ? h("ul", {}, policies.map((policy) => h("li", {}, link.policy(policy.vhost, policy.name), ` ${policy.pattern}`)))
  : h("p.empty", {}, none));

const COLUMNS = [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => short(one.vhost) },
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => [link.policy(one.vhost, one.name), vhostBelow(one)] },
  { id: "pattern", title: "Pattern", sort: "pattern", cell: (one) => h("code.name", { title: one.pattern }, one.pattern) },
  { id: "apply", title: "Apply to", sort: "apply-to", cell: (one) => one["apply-to"] },
  { id: "upstream", title: "Upstreams", cell: (one) => short(upstreamOf(one)) },
  { id: "priority", title: "Priority", sort: "priority", number: true, cell: (one) => format.count(one.priority) },
  editColumn((one) => ["policies", one.vhost, one.name]),
];

const removePolicies = (policies) => deleteObjects(policies, {
  kind: "policy", kinds: "policies", consequence: "Their links end, and the queues of the links upstream are deleted.",
  describe: (one) => `${one.name} (${one.vhost}): ${one.pattern}`, target,
});

function federateForm(context) {
  const shown = h("p.long", { role: "status" });
  const element = form({
    label: "Federate exchanges or queues", submit: "Federate", replaced: replaced("policy", target), extra: [shown], clear: () => fill(shown, ""),
    fields: [
      vhostField(context),
      { name: "name", label: "Name of the policy", required: true },
      { name: "pattern", label: "Pattern", required: true, placeholder: "^federated\\.",
        help: "A regular expression for names: ^federated\\. is all names that begin with “federated.”" },
      { name: "apply-to", label: "Apply to", type: "select",
        options: [["exchanges", "Exchanges"], ["queues", "Queues"], ["all", "Exchanges and queues"]] },
      { name: "upstream", label: "Upstreams", type: "select", options: [[`${SET}=${ALL}`, "all upstreams"]],
        help: "All upstreams of the virtual host, a set of them, or one." },
      { name: "priority", label: "Priority", type: "number", step: 1, placeholder: "0",
        help: "Of several policies that match, the one with the highest priority applies; the others do not. Default: 0." },
    ],
    async run({ vhost, name, pattern, priority = 0, upstream, ...entered }) {
      const at = upstream.indexOf("=");
      const definition = { [upstream.slice(0, at)]: upstream.slice(at + 1) };
      await api.put(target({ vhost, name }), { pattern, definition, priority, "apply-to": entered["apply-to"] });
      tasks.changed(`Policy ${name} is set. The status shows its links.`);
    },
  });
  const { vhost, upstream } = element.elements;
  let offeredOf = ""; // the virtual host of the offered upstreams

  async function offerUpstreams() {
    const of = vhost.value;
    const names = async (component) => (await api.get(path`parameters/${component}/${of}`)).map((one) => one.name);
    try {
      const [sets, ones] = await Promise.all([names(SET), names(ONE)]);
      if (vhost.value !== of) return; // chosen meanwhile: its own are being asked for
      const [chosen] = upstream.selectedOptions;
      const options = [
        [`${SET}=${ALL}`, "all upstreams"],
        ...sets.filter((name) => name !== ALL).map((name) => [`${SET}=${name}`, `set ${name}`]),
        ...ones.map((name) => [`${ONE}=${name}`, `upstream ${name}`]),
      ];
      // One that was deleted stays chosen: another one in its place might be saved unseen.
      if (of === offeredOf && !options.some(([value]) => value === chosen.value)) options.push([chosen.value, chosen.text]);
      offeredOf = of;
      if (options.map(String).join("\n") === [...upstream.options].map((one) => `${one.value},${one.text}`).join("\n")) return;
      upstream.replaceChildren(...options.map(([value, text]) => h("option", { value, selected: value === chosen.value }, text)));
    } catch (error) {
      if (error.status !== 404) throw error; // the virtual host is being typed
    }
  }

  preview(element, shown);
  vhost.addEventListener("change", offerUpstreams);
  return { element, refresh: offerUpstreams };
}

/** The section of a page with the policies that federate, and the form to add one. */
export function policySection(context) {
  const all = async (signal) => (await api.get(context.vhost ? path`policies/${context.vhost}` : "policies", {}, signal)).filter(federates);
  const table = new List({ name: "federation-policies", label: "Policies that federate", columns: COLUMNS, small: true,
    empty: "no policies that federate: upstreams have no effect until “Federate exchanges or queues” below names what to federate",
    load: whole(all), key: (one) => [one.vhost, one.name],
    actions: [{ label: "Delete", run: removePolicies, danger: true }] });
  const adding = federateForm(context);
  const refresh = async (signal) => {
    await table.refresh(signal);
    await adding.refresh();
  };
  return { element: h("div", {}, section("Policies that federate", table.element), folded("Federate exchanges or queues", adding.element)), refresh };
}
