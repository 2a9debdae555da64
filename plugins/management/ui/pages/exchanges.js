/** Exchanges: the list, and the page of an exchange. */

import {
  DEFAULT_EXCHANGE, List, api, argumentsTable, facts, fill, form, format, h, paged, path, rangeChooser, rangeQuery,
  show, tasks,
} from "../toolkit.js";
import { bindingsFrom, bindingsTo, defaultBindings } from "./bindings.js";
import { publishForm } from "./publish_form.js";
import { breakdown, exchangeChart, rateColumn, rateOf } from "./rates.js";
import { deleteForm, deleteObjects, emptyList, features, folded, heading, hideForbidden, link, listPage, section, tableOf, vhostBelow, vhostField, withRights } from "./widgets.js";

const COLUMNS = [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (exchange) => exchange.vhost },
  { id: "name", title: "Name", sort: "name", always: true, cell: (exchange) => [link.exchange(exchange.vhost, exchange.name), vhostBelow(exchange)] },
  { id: "type", title: "Type", sort: "type", cell: (exchange) => exchange.type },
  { id: "features", title: "Features", wide: true, cell: features },
  rateColumn("in", "Rate in", "publish_in"),
  rateColumn("out", "Rate out", "publish_out"),
];
const FIELDS = [...COLUMNS.map((column) => column.sort).filter(Boolean), "durable,auto_delete,internal,arguments,policy"].join(",");
const KNOWN_ARGUMENTS = [
  ["alternate-exchange", "string", "gets the messages that this exchange cannot route", "All types"],
  ["x-delayed-exchange", "boolean", "holds messages back for the milliseconds in their header x-delay", "All types"],
  ["x-message-deduplication", "boolean", "drops messages with the header x-deduplication-header seen before", "All types"],
  ["x-cache-size", "number", "of deduplication: values remembered", "All types"],
  ["x-cache-ttl", "number", "of deduplication: milliseconds for which they are", "All types"],
  ["x-deduplication-header", "string", "of deduplication: another header", "All types"],
  ["x-delayed-type", "string", "the type by which it routes", "x-delayed-message"],
  ["hash-header", "string", "the header that is hashed", "x-consistent-hash"],
  ["hash-property", "string", "the property that is hashed, such as message_id", "x-consistent-hash"],
  ["x-recent-history-length", "number", "messages that new queues get", "x-recent-history"],
].map(([key, type, help, group]) => ({ key, type, help, group }));

const target = ({ vhost, name }) => path`exchanges/${vhost}/${name || DEFAULT_EXCHANGE}`;
const isOwn = ({ name }) => name === "" || name.startsWith("amq."); // the broker's: they cannot be deleted
const nameOf = (exchange) => `${exchange.name} (${exchange.vhost}), ${exchange.type}`;

async function removeExchanges(chosen) {
  const exchanges = chosen.filter((one) => !isOwn(one));
  const kept = chosen.length - exchanges.length;
  if (!exchanges.length) return tasks.say("The broker's own exchanges cannot be deleted.", "bad");
  const consequence = `Their bindings are deleted too.${kept ? ` ${format.count(kept)} of the broker's own are kept.` : ""}`;
  return deleteObjects(exchanges, { kind: "exchange", consequence, describe: nameOf, target, right: "configure" });
}

const types = (overview) => overview.exchange_types.filter((one) => !one.internal_purpose).map((one) => one.name);

function addForm(context) {
  const argumentRows = argumentsTable({ label: "Arguments", known: KNOWN_ARGUMENTS });
  const yesNo = [["false", "No"], ["true", "Yes"]];
  return form({
    label: "Add a new exchange", submit: "Add exchange", extra: [argumentRows.element], clear: () => argumentRows.write({}),
    fields: [
      vhostField(context),
      { name: "name", label: "Name", required: true },
      { name: "type", label: "Type", type: "select", options: types(context.overview) },
      { name: "durable", label: "Durability", type: "select", options: [["true", "Durable"], ["false", "Transient"]] },
      { name: "auto_delete", label: "Auto delete", type: "select", options: yesNo, help: "deleted when its last binding is removed" },
      { name: "internal", label: "Internal", type: "select", options: yesNo,
        help: "clients cannot publish to it; other exchanges route to it" },
    ],
    async run({ vhost, name, type, durable, auto_delete, internal }) {
      const flags = { durable: durable === "true", auto_delete: auto_delete === "true", internal: internal === "true" };
      const body = { type, ...flags, arguments: argumentRows.read() };
      const alternate = body.arguments["alternate-exchange"];
      const needed = [["configure", name], ...(alternate === undefined ? [] : [["read", name], ["write", alternate]])];
      const isNew = await withRights(vhost, needed, () => api.set(target({ vhost, name }), body));
      tasks.changed(isNew ? `Exchange ${name} is declared.` : `Exchange ${name} was there already, with these properties.`);
    },
  });
}

const createList = (context) => listPage("Exchanges", new List({
  name: "exchanges", label: "Exchanges", columns: COLUMNS, key: (exchange) => [exchange.vhost, exchange.name],
  empty: () => emptyList(context, "exchanges", "“Add a new exchange” below declares one."),
  load: paged(api.get, () => (context.vhost ? path`exchanges/${context.vhost}` : "exchanges"), { columns: FIELDS }),
  actions: [{ label: "Delete", run: removeExchanges, danger: true }],
}), folded("Add a new exchange", addForm(context)));

const deletion = (exchange) => (isOwn(exchange) ? null : folded("Delete this exchange", deleteForm(exchange, {
  kind: "exchange", target: target(exchange), consequence: "Its bindings are deleted too.", list: "exchanges",
  conditions: [["if-unused", "Only if it has no bindings"]],
})));

const NO_BINDINGS = { element: null, refresh: () => null };

function createExchange(context) {
  const { vhost } = context.params;
  const name = context.params.name === DEFAULT_EXCHANGE ? "" : context.params.name;
  const exchange = { vhost, name, kind: "exchange" };
  const chart = exchangeChart();
  const details = h("div");
  const parts = breakdown([["Incoming", "incoming"], ["Outgoing", "outgoing"]]);
  const to = name ? bindingsTo(context, exchange) : NO_BINDINGS;
  const from = name ? bindingsFrom(context, exchange) : { element: defaultBindings(), refresh: () => null };
  const publish = folded("Publish message", publishForm({ vhost, exchange: name }));
  const remove = deletion(exchange);
  const forms = [["write", context.params.name, publish], ...(remove ? [["configure", name, remove]] : [])];
  let isNew = true;
  const element = h("div.page", {}, heading("Exchange", name || "(AMQP default)", vhost),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, chart.element)), parts.element,
    section("Details", details),
    section("Bindings from this exchange", from.element), to.element && section("Bindings to this exchange", to.element),
    publish, remove);
  const refresh = async (signal) => {
    const stored = await api.get(target(exchange), rangeQuery(["msg_rates"]), signal);
    chart.draw(stored.message_stats);
    parts.draw(stored);
    if (isNew) await hideForbidden(vhost, stored.internal ? forms.slice(1) : forms, signal);
    if (stored.internal) show(publish, false);
    isNew = false;
    const alternate = stored.arguments["alternate-exchange"];
    fill(details, facts([
      ["Type", stored.type], ["Features", features(stored)], ["Policy", stored.policy ? link.policy(vhost, stored.policy) : ""],
      ["Alternate exchange", typeof alternate === "string" ? link.exchange(vhost, alternate) : ""],
      ["Arguments", Object.keys(stored.arguments).length ? tableOf(stored.arguments) : ""],
      ["Message rate in", format.rate(rateOf(stored, "publish_in"))],
      ["Message rate out", format.rate(rateOf(stored, "publish_out"))],
    ]));
    await Promise.all([from.refresh(signal), to.refresh(signal)]);
  };
  return { element, refresh };
}

export const exchangesPage = { route: "exchanges", section: "exchanges", title: "Exchanges", create: createList };
export const exchangePage = { route: "exchanges/:vhost/:name", section: "exchanges", title: "Exchange", create: createExchange };
