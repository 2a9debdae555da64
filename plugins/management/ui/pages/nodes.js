/** Nodes: columns of the overview, alarms with advice, and the page of a node with its memory. */

import {
  BYTE_STEPS, COUNT_STEPS, List, SamplesChart, api, confirm, facts, fill, format, h, may, path, rangeChooser, rangeQuery,
  refreshNow, tasks,
} from "../toolkit.js";
import { attempt, heading, link, mark, section } from "./widgets.js";

const used = (amount, limit, show, alarm) =>
  h(alarm ? "span.bad" : "span", {}, show(amount), limit ? h("small.below", {}, `of ${show(limit)}`) : "");
const hasFewFiles = (node) => node.fd_used > 0.9 * node.fd_total;

const COLUMNS = [
  { id: "name", title: "Name", always: true, cell: (node) => link.node(node.name) },
  { id: "files", title: "File descriptors", number: true,
    cell: (node) => used(node.fd_used, node.fd_total, format.count, hasFewFiles(node)) },
  { id: "memory", title: "Memory", number: true, cell: (node) => used(node.mem_used, node.mem_limit, format.bytes, node.mem_alarm) },
  {
    id: "disk", title: "Disk space", number: true,
    cell: (node) => [
      used(node.disk_free, 0, format.bytes, node.disk_free_alarm), h("small.below", {}, `low at ${format.bytes(node.disk_free_limit)}`),
    ],
  },
  { id: "lag", title: "Loop lag p99", number: true, help: "the delay of due work in the event loop",
    cell: (node) => milliseconds(node.event_loop?.lag?.p99_ms) },
  { id: "turn", title: "Longest turn", number: true, help: "of the last two minutes",
    cell: (node) => milliseconds(node.event_loop?.longest_turn_ms) },
  { id: "sync", title: "Sync p99", number: true, help: "to write and sync a batch of the journal",
    cell: (node) => milliseconds(node.journal?.count ? node.journal.p99_ms : undefined) },
  { id: "uptime", title: "Uptime", number: true, cell: (node) => format.duration(node.uptime / 1000) },
  { id: "cores", title: "Cores", number: true, cell: (node) => format.count(node.processors) },
  {
    id: "info", title: "Info",
    cell: ({ rates_mode: mode, enabled_plugins: plugins, build }) => [
      mark(mode, "rates mode"), " ", mark(format.counted(plugins.length, "plugin"), plugins.join("\n")), " ", mark("build", build),
    ],
  },
];
const RESET = {
  id: "reset", title: "Reset stats", cell: ({ name }) => h("button.quick", { onclick: () => reset(name) }, "This node"),
};

/** The columns of the list of nodes; administrators may reset the statistics of a node. */
export const nodeColumns = () => (may.administer() ? [...COLUMNS, RESET] : COLUMNS);

async function reset(node) {
  const question = "The samples of all charts and rates are deleted; counters and messages stay.";
  if (!await confirm("Reset the statistics of this node?", question, [node], "Reset")) return;
  await attempt(async () => {
    await api.remove(path`reset/${node}`);
    tasks.say(`The statistics of ${node} are reset.`);
  }, "The statistics are not reset: ");
  refreshNow();
}

const namesOf = (ones) => ones.map((one) => one.name).join(", ");
const milliseconds = (value) => (value === undefined ? "" : format.duration(value / 1000));

/** The alarms of a node, with advice; an empty list for a healthy node. */
export function alarmTexts(node) {
  const texts = [
    node.mem_alarm && `uses ${format.bytes(node.mem_used)} of memory, its limit is ${format.bytes(node.mem_limit)}: publishers are `
      + "blocked. Consume or purge long queues, limit their length by a policy, or raise vm_memory_high_watermark.",
    node.disk_free_alarm && `has ${format.bytes(node.disk_free)} of disk left, it needs ${format.bytes(node.disk_free_limit)}: publishers `
      + "are blocked. Free space on the disk of the data folder, or consume persistent messages.",
    node.storage?.alarm && `cannot store messages: ${node.storage.warning}. Publishers are blocked until it can.`,
    hasFewFiles(node) && `has ${format.counted(node.fd_total - node.fd_used, "file descriptor")} left: new connections will be refused. `
      + "Raise the limit (ulimit -n).",
    node.not_restored?.length
      && `could not restore ${format.counted(node.not_restored.length, "stored object")}: see the page of the node.`,
  ];
  return texts.filter(Boolean).map((text) => `${node.name} ${text}`);
}

/** Tasks of a node that have failed or were restarted, as text; nothing if there are none. */
export function healthOf(node) {
  const failed = (node.event_loop?.tasks ?? []).filter((task) => task.failures || task.restarts);
  if (!failed.length) return null;
  const texts = failed.map((task) => `${task.name} failed ${format.counted(task.failures, "time")} (${task.last_failure})`);
  return h("p.waiting", {}, `${node.name}: `, texts.join("; "));
}

function create(context) {
  const here = path`nodes/${context.params.node}`;
  const memory = new SamplesChart("Memory used", [["Memory", "mem_used"]], { steps: BYTE_STEPS, format: format.bytes });
  const disk = new SamplesChart("Disk free", [["Disk", "disk_free"]], { steps: BYTE_STEPS, format: format.bytes });
  const sockets = new SamplesChart("Sockets and files", [["Sockets", "sockets_used"], ["File descriptors", "fd_used"]],
    { steps: COUNT_STEPS, format: format.count });
  const details = h("div");
  const uses = h("div");
  const plugins = h("div");
  const alarms = h("div");
  const tasks = new List({
    name: "tasks", label: "Tasks", small: true, key: (task) => task.name, empty: "no tasks",
    columns: [
      { id: "name", title: "Task", always: true, cell: (task) => task.name },
      { id: "running", title: "Running", number: true, cell: (task) => format.count(task.running) },
      { id: "restarts", title: "Restarts", number: true, cell: (task) => format.count(task.restarts) },
      { id: "failures", title: "Failures", number: true, cell: (task) => format.count(task.failures) },
      { id: "last", title: "Last failure", cell: (task) => task.last_failure },
    ],
  });
  const element = h("div.page", {}, heading("Node", context.params.node), alarms,
    section("Charts", rangeChooser(context.refresh), h("div.charts", {}, memory.element, disk.element, sockets.element)),
    section("Details", details), section("Memory by use", uses), section("Tasks", tasks.element),
    section("Plugins and exchange types", plugins));
  const refresh = async (signal) => {
    const node = await api.get(here, { ...rangeQuery(["node_stats"]), memory: true }, signal);
    [memory, disk, sockets].forEach((chart) => chart.draw(node));
    fill(alarms, alarmTexts(node).map((text) => h("p.problem", {}, text)),
      (node.not_restored ?? []).map((one) => h("p", {}, String(one))));
    const { event_loop: loop, journal } = node;
    fill(details, facts([
      ["Uptime", format.duration(node.uptime / 1000)], ["Process", node.os_pid], ["System", node.os], ["Build", node.build],
      ["Cores", format.count(node.processors)], ["Data folder", node.db_dir || "none: everything is in memory"],
      ["Configuration", (node.config_files ?? []).join(", ")], ["Log", (node.log_files ?? []).join(", ")],
      ["Longest turn lately", milliseconds(loop?.longest_turn_ms)],
      ["Longest turn since the start", milliseconds(loop?.longest_turn_since_start_ms)],
      ["Loop lag", `mean ${milliseconds(loop?.lag?.mean_ms)}, p99 ${milliseconds(loop?.lag?.p99_ms)}`],
      ["Syncs of the journal",
        `${format.count(journal?.count)}, mean ${milliseconds(journal?.mean_ms)}, p99 ${milliseconds(journal?.p99_ms)}`],
    ]));
    const parts = Object.entries(node.memory ?? {}).filter(([, amount]) => typeof amount === "number" && amount > 0);
    parts.sort((one, other) => other[1] - one[1]);
    fill(uses, facts(parts.map(([name, amount]) => [name.replaceAll("_", " "), format.bytes(amount)])));
    fill(plugins, facts([
      ["Plugins", (node.enabled_plugins ?? []).join(", ")], ["Exchange types", namesOf(node.exchange_types ?? [])],
      ["Authentication", namesOf((node.auth_mechanisms ?? []).filter((one) => one.enabled))],
    ]));
    await tasks.show(loop?.tasks ?? []);
  };
  return { element, refresh };
}

export const nodePage = { route: "nodes/:node", section: "overview", title: "Node", may: may.monitor, create };
