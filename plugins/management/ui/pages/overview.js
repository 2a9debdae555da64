/** The overview: queued messages and rates over time, totals, nodes and their health, churn, listeners, definitions. */

import * as api from "../core/api.js";
import { rangeChooser, rangeQuery } from "../core/chart.js";
import { h, fill, show } from "../core/dom.js";
import * as format from "../core/format.js";
import { address } from "../core/router.js";
import { may } from "../core/session.js";
import { Table, whole } from "../core/table.js";
import { definitionsSections } from "./definitions.js";
import { alarmTexts, healthOf, nodeColumns } from "./nodes.js";
import { section } from "./parts.js";
import { churnChart, lengthsChart, ratesChart } from "./rates.js";

const TOTALS = [["Connections", "connections"], ["Channels", "channels"], ["Exchanges", "exchanges"], ["Queues", "queues"]];
const CHURN = ["connections", "channels", "queues"];
const LISTENERS = [
  { id: "protocol", title: "Protocol", cell: (one) => one.protocol },
  { id: "node", title: "Node", cell: (one) => one.node },
  { id: "address", title: "Bound to", cell: (one) => one.ip_address },
  { id: "port", title: "Port", number: true, cell: (one) => String(one.port) },
];

function totalsOf(overview) {
  const totals = overview.object_totals;
  return [
    ...TOTALS.map(([label, name]) => h("li", {}, h("a.total", { href: address([name]) }, label, " ", h("b", {}, format.count(totals[name]))))),
    h("li", {}, h("span.total", {}, "Consumers ", h("b", {}, format.count(totals.consumers)))),
  ];
}

function create(context) {
  const lengths = lengthsChart();
  const rates = ratesChart();
  const churn = CHURN.map(churnChart);
  const totals = h("ul.totals");
  const alarms = h("div.alarms", { role: "alert", hidden: true });
  const health = h("div");
  let loaded = { nodes: [], listeners: [] };
  const nodes = new Table({ name: "nodes", label: "Nodes", small: true, columns: nodeColumns, key: (one) => one.name, load: whole(async () => loaded.nodes) });
  const listeners = new Table({
    name: "listeners", label: "Listeners", small: true, columns: LISTENERS, key: (one) => `${one.protocol} ${one.ip_address} ${one.port}`,
    load: whole(async () => loaded.listeners),
  });
  const element = h("div.page", {}, h("h1", {}, "Overview"), alarms,
    section("Totals", rangeChooser(context.refresh), h("div.charts", {}, lengths.element, rates.element), totals),
    may.monitor() ? section("Nodes", nodes.element, health) : null,
    section("Churn statistics", h("div.charts", {}, churn.map((chart) => chart.element))),
    may.monitor() ? section("Listeners", listeners.element) : null,
    may.administer() ? definitionsSections(context) : null);
  return {
    element,
    async refresh(signal) {
      const overview = await api.get("overview", rangeQuery(["lengths", "msg_rates"]), signal);
      loaded = { nodes: may.monitor() ? await api.get("nodes", {}, signal) : [], listeners: overview.listeners ?? [] };
      lengths.draw(overview.queue_totals);
      rates.draw(overview.message_stats);
      CHURN.forEach((_, at) => churn[at].draw(overview.churn_rates));
      fill(totals, totalsOf(overview));
      const said = loaded.nodes.flatMap(alarmTexts);
      fill(alarms, said.map((text) => h("p", {}, text)));
      show(alarms, said.length > 0);
      if (may.monitor()) {
        fill(health, loaded.nodes.map(healthOf));
        await Promise.all([nodes.refresh(signal), listeners.refresh(signal)]);
      }
    },
  };
}

export const overviewPage = { route: "overview", section: "overview", title: "Overview", create };
