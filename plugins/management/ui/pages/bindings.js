/** The bindings of a queue or an exchange: lists with Unbind, and the forms that add one. */

import { DEFAULT_EXCHANGE, List, api, argumentsTable, confirm, form, h, paged, path, short, tasks } from "../toolkit.js";
import { attempt, link, nameField, tableOf, withRights } from "./widgets.js";

/** The path of a queue or an exchange with its bindings as destination: `to({vhost, kind: "queue", name})`. */
const listTo = ({ vhost, kind, name }) =>
  (kind === "queue" ? path`queues/${vhost}/${name}/bindings` : path`exchanges/${vhost}/${name || DEFAULT_EXCHANGE}/bindings/destination`);
const listFrom = ({ vhost, name }) => path`exchanges/${vhost}/${name || DEFAULT_EXCHANGE}/bindings/source`;

const between = (vhost, source, kind, destination) =>
  path`bindings/${vhost}/e/${source || DEFAULT_EXCHANGE}/${kind === "queue" ? "q" : "e"}/${destination}`;
const identity = (binding) => [binding.source, binding.destination_type, binding.destination, binding.properties_key];
const described = (binding) =>
  `${binding.source} to ${binding.destination_type} ${binding.destination}, routing key ${binding.routing_key}`;

async function unbind(context, binding) {
  if (!await confirm("Remove this binding?", "Messages are not routed by it any more.", [described(binding)], "Unbind")) return;
  const { vhost, source, destination_type: kind, destination, properties_key: key } = binding;
  const remove = () => api.remove(between(vhost, source, kind, destination) + path`/${key}`);
  await attempt(() => withRights(vhost, [["write", destination], ["read", source]], remove), "The binding was not removed: ");
  context.refresh();
}

const unbindButton = (context) => (binding) => {
  const attributes = { "aria-label": `Unbind ${described(binding)}`, onclick: () => unbind(context, binding) };
  return binding.source === "" ? h("small", {}, "cannot be removed") : h("button", attributes, "Unbind");
};

const KEY = { id: "key", title: "Routing key", sort: "routing_key", cell: (binding) => short(binding.routing_key) };
const ARGUMENTS = {
  id: "arguments", title: "Arguments", cell: ({ arguments: given }) => (Object.keys(given).length ? tableOf(given) : ""),
};
const FROM = { id: "from", title: "From", sort: "source", always: true, cell: (binding) => link.exchange(binding.vhost, binding.source) };
const TO = {
  id: "to", title: "To", sort: "destination", always: true,
  cell: (binding) => [link[binding.destination_type](binding.vhost, binding.destination), " ", h("small", {}, binding.destination_type)],
};

/** A list of bindings and the form that adds one: `{element, refresh}`. */
function bindings(context, vhost, { name, label, columns, target, adding, fields, ends }) {
  const table = new List({
    name, label, key: identity, empty: "no bindings: the form below adds one.", local: true, filtered: "name or key",
    columns: [...columns, { id: "unbind", title: "Operations", always: true, cell: unbindButton(context) }],
    load: paged(api.get, () => target),
  });
  const argumentRows = argumentsTable({ label: "Arguments" });
  const add = form({
    label: adding, submit: "Bind", fields: [...fields(() => add), { name: "key", label: "Routing key" }],
    extra: [argumentRows.element], clear: () => argumentRows.write({}),
    async run(values) {
      const { source, kind, destination } = ends(values);
      const binding = { routing_key: values.key, arguments: argumentRows.read() };
      await withRights(vhost, [["write", destination], ["read", source]], () =>
        api.post(between(vhost, source, kind, destination), binding));
      tasks.changed("The binding is added.");
    },
  });
  return { element: h("div", {}, table.element, h("h3", {}, adding), add), refresh: (signal) => table.refresh(signal) };
}

/** The bindings to a queue or an exchange. */
export function bindingsTo(context, object) {
  const { vhost, kind, name } = object;
  return bindings(context, vhost, {
    name: "bindings_to", label: `Bindings to this ${kind}`, columns: [FROM, KEY, ARGUMENTS], target: listTo(object),
    adding: `Add binding to this ${kind}`,
    fields: () => [nameField({ name: "source", label: "From exchange", required: true }, () => ({ vhost, kind: "exchange" }))],
    ends: ({ source }) => ({ source, kind, destination: name }),
  });
}

/** The bindings from an exchange. */
export function bindingsFrom(context, object) {
  const { vhost, name } = object;
  return bindings(context, vhost, {
    name: "bindings_from", label: "Bindings from this exchange", columns: [TO, KEY, ARGUMENTS], target: listFrom(object),
    adding: "Add binding from this exchange",
    fields: (form) => [
      { name: "kind", label: "To", type: "select", options: ["queue", "exchange"] },
      nameField({ name: "destination", label: "Name of the destination", required: true },
        () => ({ vhost, kind: form().elements.kind.value })),
    ],
    ends: ({ kind, destination }) => ({ source: name, kind, destination }),
  });
}

/** What the page of the default exchange says in place of its bindings, of which each queue has one. */
export const defaultBindings = () => h("p", {}, "The default exchange is bound to each queue, with the queue's name as routing key. ",
  "These bindings cannot be removed, and no other can be added.");
