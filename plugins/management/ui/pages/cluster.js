/** The cluster's name, parameters, feature flags, the configuration, and the log as it is written. */

import { List, api, fill, form, h, may, path, short, tasks, typed, whole } from "../toolkit.js";
import { deleteObjects, folded, replaced, save, section, vhostField } from "./widgets.js";

function createCluster() {
  const name = h("div");
  let drawn = false;
  const element = h("div.page", {}, h("h1", {}, "Cluster"),
    section("Cluster name", h("p", {}, "Federation links and exchanged messages name this cluster by it."), name));
  const refresh = async (signal) => {
    const { name: current } = await api.get("cluster-name", {}, signal);
    if (drawn) return;
    drawn = true;
    name.replaceChildren(form({
      submit: "Change name", keep: true, fields: [{ name: "name", label: "Name", value: current, required: true }],
      async run(values) {
        await api.put("cluster-name", values);
        tasks.say(`This cluster is now named ${values.name}.`);
      },
    }));
  };
  return { element, refresh };
}

const targetOf = ({ component, vhost, name }) =>
  (component === undefined ? path`global-parameters/${name}` : path`parameters/${component}/${vhost}/${name}`);
const placeOf = ({ component, vhost, name }) => (component === "global" ? { name } : { component, vhost, name });
const NAME = { id: "name", title: "Name", sort: "name", always: true, cell: (one) => short(one.name) };

function createParameters(context) {
  const remove = (ones) => deleteObjects(ones, {
    kind: "parameter", action: "Clear", consequence: "Their components apply the change immediately.", describe: (one) => one.name, target: targetOf,
  });
  const value = { id: "value", title: "Value", cell: (one) => h("code.detail", {}, JSON.stringify(one.value)) };
  const actions = [{ label: "Clear", run: remove, danger: true }];
  const table = new List({
    name: "parameters", label: "Parameters", key: (one) => [one.component, one.vhost, one.name], empty: "no parameters: upstreams of federation are some; “Set a parameter” below sets any", actions,
    load: whole((signal) => api.get("parameters", {}, signal)),
    columns: [
      { id: "component", title: "Component", sort: "component", cell: (one) => one.component },
      { id: "vhost", title: "Virtual host", sort: "vhost", cell: (one) => short(one.vhost) }, NAME, value,
    ],
  });
  const globals = may.administer() ? new List({
    name: "global-parameters", label: "Global parameters", small: true, key: (one) => one.name, empty: "none", actions,
    load: whole((signal) => api.get("global-parameters", {}, signal)), columns: [NAME, value],
  }) : null;
  const add = form({
    label: "Set a parameter", submit: "Set parameter", replaced: replaced("parameter", (values) => targetOf(placeOf(values))),
    fields: [
      { name: "component", label: "Component", type: "list", required: true, options: ["federation-upstream", "federation-upstream-set", "global"],
        help: "global: a parameter of the whole broker" },
      vhostField(context), { name: "name", label: "Name", required: true },
      { name: "value", label: "Value (JSON)", type: "area", value: "{}" },
    ],
    async run({ component, vhost, name, value: text }) {
      const value = typed("json", text, "Value");
      const place = placeOf({ component, vhost, name });
      await api.put(targetOf(place), { ...place, value });
      context.refresh();
    },
  });
  return {
    element: h("div.page", {}, h("h1", {}, "Parameters"), section("Parameters", table.element),
      globals ? section("Global parameters", globals.element) : null, folded("Set a parameter", add)),
    refresh: (signal) => Promise.all([table.refresh(signal), globals?.refresh(signal)]),
  };
}

function createFeatures() {
  const flags = new List({
    name: "feature-flags", label: "Feature flags", key: (one) => one.name, sort: "name",
    load: whole((signal) => api.get("feature-flags", {}, signal)),
    columns: [
      NAME, { id: "state", title: "State", cell: (one) => one.state }, { id: "desc", title: "Description", cell: (one) => one.desc },
    ],
  });
  const deprecated = new List({
    name: "deprecated", label: "Deprecated features", small: true, key: (one) => one.name,
    load: whole((signal) => api.get("deprecated-features", {}, signal)),
    columns: [NAME, { id: "phase", title: "Phase", cell: (one) => one.deprecation_phase.replaceAll("_", " ") }],
  });
  return {
    element: h("div.page", {}, h("h1", {}, "Feature flags"), section("Feature flags", flags.element),
      section("Deprecated features", deprecated.element)),
    refresh: (signal) => Promise.all([flags.refresh(signal), deprecated.refresh(signal)]),
  };
}

function createConfiguration() {
  const text = h("pre.tall", { tabindex: 0, role: "region", "aria-label": "Effective configuration" });
  const refresh = async (signal) => {
    fill(text, await (await api.send("GET", "config/effective", { signal })).text());
  };
  return { element: h("div.page", {}, h("h1", {}, "Configuration"), h("p", {}, "All keys with the values in effect, without secrets."), text), refresh };
}

const LINES = 1000; // kept on the page

function createLog() {
  const lines = h("pre.tall", { tabindex: 0, role: "log", "aria-label": "Log" });
  const filter = h("input.filter", { type: "search", placeholder: "Show lines that contain", "aria-label": "Show lines that contain" });
  const setLevel = () => api.put("warren/log", { level: level.value }).then(
    () => tasks.say(`The log has level ${level.value} until the next start.`), (error) => tasks.say(error.message, "bad"));
  const level = h("select", { "aria-label": "Level of the log", onchange: setLevel },
    ["debug", "info", "warning", "error"].map((one) => h("option", {}, one)));
  const stop = new AbortController();
  const kept = [];
  const add = (line) => {
    kept.push(line);
    if (kept.length > LINES) kept.shift();
    if (line.includes(filter.value)) {
      const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
      lines.append(`${line}\n`);
      while (lines.childNodes.length > LINES) lines.firstChild.remove();
      if (isAtEnd) lines.scrollTop = lines.scrollHeight;
    }
  };
  filter.addEventListener("input", () => {
    lines.replaceChildren(...kept.filter((line) => line.includes(filter.value)).map((line) => `${line}\n`));
  });
  const linesFile = () => new Blob([kept.map((line) => `${line}\n`).join("")], { type: "text/plain" });
  const download = h("button", { onclick: () => save(linesFile(), "warren.log") }, "Download these lines");
  let started = false;
  // The last lines are read once the stream has begun, so that none is missed; a line that both return is shown once.
  const stream = async () => {
    let waiting = [];
    const addNew = (line) => { if (!kept.includes(line)) add(line); };
    const catchUp = async () => {
      try {
        (await api.get("warren/log/tail", { lines: 200 }, stop.signal)).lines.forEach(addNew);
      } finally {
        waiting.forEach(addNew);
        waiting = null;
      }
    };
    const take = (line) => (waiting === null ? add(line) : waiting.push(line));
    // If the last lines are refused, the page shows the following ones.
    await api.lines("warren/log/stream", {}, stop.signal, take, () => { catchUp().catch(() => {}); });
  };
  const follow = async () => {
    try {
      level.value = (await api.get("warren/log", {}, stop.signal)).level;
    } catch (error) {
      if (error.name !== "AbortError") add(`(${error.message})`);
    }
    while (!stop.signal.aborted) {
      try {
        await stream();
      } catch (error) {
        if (error.name === "AbortError") return;
      }
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  };
  return {
    element: h("div.page", {}, h("h1", {}, "Log"), h("div.tools", {}, filter, h("label", {}, "Level ", level), download), lines),
    async refresh() {
      if (!started) follow();
      started = true;
    },
    leave: () => stop.abort(),
  };
}

export const clusterPages = [
  { route: "parameters", section: "admin", title: "Parameters", menu: "Parameters", may: may.makePolicies, create: createParameters },
  { route: "features", section: "admin", title: "Feature flags", menu: "Feature flags", create: createFeatures },
  { route: "cluster", section: "admin", title: "Cluster", menu: "Cluster", may: may.administer, create: createCluster },
  { route: "configuration", section: "admin", title: "Configuration", menu: "Configuration", may: may.administer,
    create: createConfiguration },
  { route: "log", section: "admin", title: "Log", menu: "Log", may: may.administer, create: createLog },
];
