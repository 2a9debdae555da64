/** The reports of the analysis: the verdict, lag, top talkers and links of the last runs. */

import { List, api, facts, fill, format, h, may, path, router, whole } from "../toolkit.js";
import { attempt, copyButton, heading, listPage, save, section, state } from "./widgets.js";

const KINDS = { balanced: "good", sampled: "waiting", incomplete: "waiting", imbalanced: "bad" };
const HEALTH = { well: { text: "nothing", kind: "good" }, wrong: { text: "see report", kind: "bad" }, unknown: { text: "unknown", kind: "waiting" } };
const seconds = (microseconds) => (typeof microseconds === "number" ? format.duration(microseconds / 1e6) : "");

const COLUMNS = [
  { id: "name", title: "Report", sort: "name", always: true, cell: (one) => h("a.name", { href: router.address(["reports", one.name]), title: one.name }, one.name) },
  { id: "made", title: "Made", sort: "made_at", cell: (one) => format.time(one.made_at) },
  { id: "status", title: "Verdict", sort: "status", cell: (one) => (one.error ? h("span.bad", {}, one.error) : h("span", { title: one.verdict }, state(one.status, KINDS[one.status]))) },
  { id: "health", title: "Wrong now", cell: (one) => (one.health ? h("span", { title: one.health.sentence }, state(HEALTH[one.health.status].text, HEALTH[one.health.status].kind)) : "") },
  { id: "published", title: "Published", number: true, sort: "totals.published", cell: (one) => format.count(one.totals?.published) },
  { id: "delivered", title: "Delivered", number: true, sort: "totals.delivered", cell: (one) => format.count(one.totals?.delivered) },
  { id: "acknowledged", title: "Acknowledged", number: true, sort: "totals.acknowledged", cell: (one) => format.count(one.totals?.acknowledged) },
  { id: "imbalances", title: "Imbalances", number: true, sort: "imbalance_count", cell: (one) => format.count(one.imbalance_count) },
  { id: "missing", title: "Missing records", number: true, sort: "missing_records", cell: (one) => format.count(one.missing_records) },
];

const ANALYZE = "warren analyze --input ./message-log --output ./reports/NAME";
const command = (text) => [h("code", {}, text), " ", copyButton(text)];

const createList = () => listPage("Reports", new List({
  name: "reports", label: "Reports", columns: COLUMNS, key: (one) => one.name, load: whole((signal) => api.get("warren/reports", {}, signal)),
  empty: () => ["no reports: switch the export on (message_log.enabled), then run ", command(ANALYZE)],
}));

const queueName = (row) => `${row.vhost ?? ""} ${row.queue ?? row.name ?? ""}`;
const COUNT = { number: true };
const count = (id, title) => ({ id, title, ...COUNT, sort: id, cell: (row) => format.count(row[id]) });
const lag = (id, title) => ({ id, title, ...COUNT, sort: id, cell: (row) => seconds(row[id]) });
const text = (id, title) => ({ id, title, sort: id, cell: (row) => h("span.name", { title: row[id] }, row[id]) });

// The lists of a report that are shown: its key, title, columns, and which rows.
const LISTS = [
  ["wrong_now", "What is wrong now", [text("cause", "Cause"), text("line", "Where, since when and why"), { id: "trace", title: "Trace of an example", cell: (row) => row.message && command(`warren trace ${row.message}`) }], (report) => report.wrong_now],
  ["imbalances", "Imbalances", [text("problem", "Problem"), text("node", "Node"), text("vhost", "Virtual host"), text("queue", "Queue"), count("records", "Records")], (report) => report.conservation?.imbalances],
  ["durability", "Durability: confirmed persistent messages before and after restarts", [text("node", "Node"), text("vhost", "Virtual host"), text("queue", "Queue"), count("confirmed_before", "Before"), count("there_after", "After"), count("missing", "Missing"), count("lost", "Lost"), count("at_risk", "At risk, at most")], (report) => report.durability],
  ["latency", "Lag: time from publish to delivery, and in the queue", [text("node", "Node"), text("vhost", "Virtual host"), text("queue", "Queue"), text("stage", "Stage"), lag("p50_us", "p50"), lag("p99_us", "p99"), lag("max_us", "Max")], (report) => report.latency],
  ["talkers", "Top talkers: users", [text("node", "Node"), text("name", "User"), text("flow", "Flow"), count("messages", "Messages"), { id: "bytes", title: "Bytes", ...COUNT, sort: "bytes", cell: (row) => format.bytes(row.bytes) }],
    (report) => report.throughput?.filter((row) => row.scope === "user" && row.grain === report.throughput[0].grain)],
  ["backlog", "Backlog", [text("node", "Node"), text("vhost", "Virtual host"), text("queue", "Queue"), count("peak", "Peak")], (report) => report.backlog],
  ["links", "Federation links", [text("link", "Link"), text("upstream_node", "Upstream"), count("taken", "Taken"), count("arrived", "Arrived"), count("missing", "Missing"), count("pending", "Pending")], (report) => report.conservation?.links],
];

function createReport(context) {
  const { name } = context.params;
  const verdict = h("div");
  const totals = h("div");
  // The page has scripts of its own, which the policy of this one forbids: it is saved, and opened from the disk.
  const savePage = async () => save(await (await api.send("GET", path`warren/reports/${name}/page`)).blob(), `${name}.html`);
  const download = h("button", { onclick: () => attempt(savePage) }, "Download the page with charts");
  const lists = LISTS.map(([key, title, columns, rows]) => ({ title, rows, table: new List({
    name: `report-${key}`, label: title, small: true, columns, key: (row) => String(row.at), text: queueName, empty: "nothing",
  }) }));
  const made = h("p", { role: "status" });
  let shown = "";
  const refresh = async (signal) => {
    // A run does not change; a stream publishes a new one from time to time.
    const current = await api.get(path`warren/reports/${name}/run`, {}, signal);
    const run = `${current.run} ${current.made_at}`;
    if (run === shown) return;
    const report = await api.get(path`warren/reports/${name}`, {}, signal);
    const { status, reasons = [] } = report.conservation;
    const health = report.health ?? { status: "unknown", sentence: "" };
    fill(verdict, h("p", {}, state(health.status, HEALTH[health.status].kind), " ", health.sentence), h("p", {}, state(status, KINDS[status]), " ", report.verdict ?? ""), h("ul", {}, reasons.map((reason) => h("li", {}, reason))));
    fill(totals, facts(Object.entries(report.totals).map(([key, value]) => [key.replaceAll("_", " "), typeof value === "number" ? format.count(value) : format.value(value)])));
    await Promise.all(lists.map(({ table, rows }) => table.show((rows(report) ?? []).map((row, at) => ({ ...row, at })))));
    fill(made, `Made ${format.time(current.made_at)}`);
    shown = run;
  };
  return { element: h("div.page", {}, heading("Report", name), h("div.tools", {}, download), made, verdict, section("Totals", totals), lists.map(({ title, table }) => section(title, table.element))), refresh };
}

export const reportsPage = { route: "reports", section: "messages", title: "Reports", menu: "Reports", may: may.monitor, create: createList };
export const reportPage = { route: "reports/:name", section: "messages", title: "Report", may: may.monitor, create: createReport };
