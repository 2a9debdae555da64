/** Export and import of definitions; an import first shows its changes. */

import { api, dialog, form, format, h, path, tasks } from "../toolkit.js";
import { folded, save } from "./widgets.js";

// The fields by which an object is the same one in both documents.
const IDENTITY = {
  users: ["name"], vhosts: ["name"], permissions: ["user", "vhost"], topic_permissions: ["user", "vhost", "exchange"],
  global_parameters: ["name"], parameters: ["component", "vhost", "name"], policies: ["vhost", "name"], queues: ["vhost", "name"],
  exchanges: ["vhost", "name"], bindings: ["vhost", "source", "destination_type", "destination", "routing_key", "arguments"],
};
const NAMED = 200; // objects listed by name

const identity = (section, item) => IDENTITY[section].map((field) => format.value(item[field] ?? ""));

function ordered(value) {
  if (Array.isArray(value)) return value.map(ordered);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, ordered(value[key])]));
}

const text = (value) => JSON.stringify(ordered(value));

/** True if the import would not change the object: the file and the broker have the same. */
const isEqual = (given, existing) => Object.keys(given).every((key) => text(given[key]) === text(existing[key]));

/** Compare a document with the broker's definitions: `[{section, added: [], changed: [], same: count}]`. */
function differences(document, existing, vhost) {
  return Object.keys(IDENTITY).filter((section) => Array.isArray(document[section])).map((section) => {
    const place = (item) => (vhost && section !== "vhosts" ? { vhost, ...item } : item);
    const known = new Map((existing[section] ?? []).map((item) => [JSON.stringify(identity(section, place(item))), place(item)]));
    const result = { section, added: [], changed: [], same: 0 };
    for (const item of document[section].map(place)) {
      const names = identity(section, item);
      const present = known.get(JSON.stringify(names));
      if (present === undefined) result.added.push(names.join(" · "));
      else if (isEqual(item, present)) result.same += 1;
      else result.changed.push(names.join(" · "));
    }
    return result;
  });
}

function listed(title, names) {
  if (!names.length) return null;
  const shown = names.slice(0, NAMED).map((name) => h("li", {}, name));
  if (names.length > NAMED) shown.push(h("li", {}, `and ${format.count(names.length - NAMED)} more`));
  return h("details", {}, h("summary", {}, `${title} (${format.count(names.length)})`), h("ul.names", {}, shown));
}

function preview(found, skipped) {
  if (found instanceof Error) {
    return [h("p", {}, `The changes of the import are unknown: ${found.message}`), listed("Left out", skipped)];
  }
  const rows = found.map(({ section, added, changed, same }) => h("tr", {}, h("td", {}, section.replaceAll("_", " ")),
    [added.length, changed.length, same].map((number) => h("td.number", {}, format.count(number)))));
  return [
    h("div.scroll", {}, h("table", { "aria-label": "Changes of the import" },
      h("thead", {}, h("tr", {}, h("th", {}, ""), ["new", "changed", "as they are"].map((title) => h("th.number", {}, title)))),
      h("tbody", {}, rows))),
    found.map(({ section, added, changed }) => [
      listed(`New ${section.replaceAll("_", " ")}`, added), listed(`Changed ${section.replaceAll("_", " ")}`, changed),
    ]),
    h("p", {}, "Nothing is deleted. Queues and exchanges that exist with other properties are not changed."),
    listed("Left out", skipped),
  ];
}

async function importFile(file, vhost) {
  const body = await file.text();
  let document;
  try {
    document = JSON.parse(body);
  } catch (error) {
    throw new Error(`${file.name} is not a definitions file: ${error.message}`);
  }
  const at = (way) => (vhost ? `${way}/${encodeURIComponent(vhost)}` : way);
  const { skipped } = await api.post(at("warren/check-definitions"), body);
  const changes = await api.get(at("definitions")).then((existing) => differences(document, existing, vhost), (error) => {
    if (error.status !== 503) throw error;
    return error; // a part of an import is there, such as that of this file before a crash
  });
  const agreed = await dialog(`Import ${file.name}?`, (close) => [preview(changes, skipped), h("div.buttons", {},
    h("button", { onclick: () => close(false), autofocus: true }, "Cancel"),
    h("button.primary", { onclick: () => close(true) }, "Import"))]);
  if (!agreed) return;
  await api.post(at("definitions"), body);
  tasks.changed(`${file.name} is imported.`);
}

async function exportFile(name, vhost) {
  const response = await api.send("GET", vhost ? path`definitions/${vhost}` : "definitions");
  save(await response.blob(), name);
}

const vhostOrAll = (context, all) => ({
  name: "vhost", label: "Virtual host", type: "select", options: [["", all], ...context.vhosts], value: context.vhost,
});

/** The sections of the overview that export and import definitions. */
export function definitionsSections(context) {
  const name = `warren_${context.overview.cluster_name.replace(/[^\w.-]/g, "_")}_${new Date().toISOString().slice(0, 10)}.json`;
  return [
    folded("Export definitions", form({
      submit: "Download definitions", keep: true,
      fields: [{ name: "name", label: "File name", value: name, required: true },
        vhostOrAll(context, "All of them, with users, permissions and parameters")],
      run: ({ name: file, vhost }) => exportFile(file, vhost),
    })),
    folded("Import definitions", form({
      submit: "Check definitions…", keep: true, label: "Import definitions",
      fields: [{ name: "file", label: "Definitions file", type: "file", required: true, accept: ".json,application/json" },
        vhostOrAll(context, "Those that the file names")],
      run: ({ file, vhost }) => importFile(file, vhost),
    })),
  ];
}
