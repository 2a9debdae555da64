/** The overview: queued messages and rates over time, totals, nodes and their health, churn, listeners, definitions. */

import { List, api, fill, format, h, may, rangeChooser, rangeQuery, router, show } from "../toolkit.js";
import { definitionsSections } from "./definitions.js";
import { alarmTexts, healthOf, nodeColumns } from "./nodes.js";
import { churnChart, lengthsChart, ratesChart } from "./rates.js";
import { section } from "./widgets.js";

const TOTALS = [
  ["Connections", "connections"], ["Channels", "channels"], ["Exchanges", "exchanges"], ["Queues", "queues"], ["Consumers", "consumers"],
];
const CHURN = ["connections", "channels", "queues"];
const CONTEXTS = [
  { id: "context", title: "Context", cell: (one) => one.description },
  { id: "node", title: "Node", cell: (one) => one.node },
  { id: "address", title: "Bound to", cell: (one) => one.ip },
  { id: "port", title: "Port", number: true, cell: (one) => one.port },
  { id: "path", title: "Path", cell: (one) => one.path },
];
const LISTENERS = [
  { id: "protocol", title: "Protocol", cell: (one) => one.protocol },
  { id: "node", title: "Node", cell: (one) => one.node },
  { id: "address", title: "Bound to", cell: (one) => one.ip_address },
  { id: "port", title: "Port", number: true, cell: (one) => String(one.port) },
];

function totalsOf({ object_totals: totals }) {
  return TOTALS.map(([label, name]) =>
    h("li", {}, h("a.total", { href: router.address([name]) }, label, " ", h("b", {}, format.count(totals[name])))));
}

function create(context) {
  const lengths = lengthsChart();
  const rates = ratesChart();
  const churn = CHURN.map(churnChart);
  const totals = h("ul.totals");
  const alarms = h("div.alarms", { role: "alert", hidden: true });
  const health = h("div");
  const nodes = new List({
    name: "nodes", label: "Nodes", small: true, columns: nodeColumns(), key: (one) => one.name,
  });
  const listeners = new List({
    name: "listeners", label: "Listening ports", small: true, columns: LISTENERS,
    key: (one) => `${one.protocol} ${one.ip_address} ${one.port}`,
  });
  const contexts = new List({
    name: "contexts", label: "Web contexts", small: true, columns: CONTEXTS,
    key: (one) => `${one.description} ${one.ip} ${one.port}`,
  });
  const element = h("div.page", {}, h("h1", {}, "Overview"), alarms,
    section("Totals", rangeChooser(context.refresh), h("div.charts", {}, lengths.element, rates.element), totals),
    may.monitor() ? section("Nodes", nodes.element, health) : null,
    section("Churn statistics", h("div.charts", {}, churn.map((chart) => chart.element))),
    may.monitor() ? section("Ports and contexts", h("div.columns-2", {},
      h("div", {}, h("h3", {}, "Listening ports"), listeners.element), h("div", {}, h("h3", {}, "Web contexts"), contexts.element))) : null,
    may.administer() ? definitionsSections(context) : null);
  const refresh = async (signal) => {
    const overview = await api.get("overview", rangeQuery(["lengths", "msg_rates"]), signal);
    const all = may.monitor() ? await api.get("nodes", {}, signal) : [];
    lengths.draw(overview.queue_totals);
    rates.draw(overview.message_stats);
    CHURN.forEach((_, at) => churn[at].draw(overview.churn_rates));
    fill(totals, totalsOf(overview));
    const alarmLines = all.flatMap(alarmTexts);
    fill(alarms, alarmLines.map((text) => h("p", {}, text)));
    show(alarms, alarmLines.length > 0);
    if (may.monitor()) {
      fill(health, all.map(healthOf));
      await Promise.all([nodes.show(all), listeners.show(overview.listeners ?? []), contexts.show(overview.contexts ?? [])]);
    }
  };
  return { element, refresh };
}

export const overviewPage = { route: "overview", section: "overview", title: "Overview", create };
