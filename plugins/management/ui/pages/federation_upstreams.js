/** Upstreams of federation: the list, and the page of an upstream. */

import { List, api, facts, fill, format, h, may, path, router, short, tasks, whole } from "../toolkit.js";
import { listOf, namesOf, policiesOf, policySection } from "./federation_policies.js";
import { GROUPS, restored, upstreamForm } from "./federation_settings.js";
import { copyButton, deleteAndReturn, deleteObjects, editColumn, editSection, folded, heading, link, replaced, section, vhostBelow, vhostField } from "./widgets.js";

const COMPONENT = "federation-upstream";
const URIS = [
  ["amqp://server-name", "to a broker, without credentials and with the virtual host of the same name"],
  ["amqp://user:password@server-name/my-vhost", "with credentials and a virtual host of another name"],
  ["amqps://user:password@server-name?cacertfile=/path/ca.pem&certfile=/path/cert.pem&keyfile=/path/key.pem&verify=verify_peer",
    "with TLS; the files are on this broker's machine"],
  ["amqp://server-one amqp://server-two", "to a cluster: the first that answers, in random order"],
  ["amqp:///my-vhost", "to another virtual host of this broker"],
];

const target = ({ vhost, name }) => path`parameters/${COMPONENT}/${vhost}/${name}`;
const textOf = ({ name }, value) => (name === "uri" ? shownUris(value).map((uri) => h("div", {}, uri)) : format.value(value[name]));
const shownUris = (value) => [value.uri].flat().map((one) => format.uri(String(one)));

/** The columns of all settings, named and ordered as in RabbitMQ; columns of rare settings are hidden at first. */
const SHOWN = ["prefetch-count", "reconnect-delay", "ack-mode", "max-hops"];
const COLUMNS = [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => short(one.vhost) },
  { id: "name", title: "Name", sort: "name", always: true, cell: (one) => [link.upstream(one.vhost, one.name), vhostBelow(one)] },
  { id: "uri", title: "URI", always: true, cell: (one) => shownUris(one.value).map((uri) => h("span.name.row", { title: uri }, uri)) },
  ...GROUPS.flatMap((group) => group.fields)
    .filter((field) => field.name !== "uri")
    .map((field) => ({ id: field.name, title: field.column ?? field.label, sort: `value.${field.name}`,
      number: field.type === "number", shown: SHOWN.includes(field.name), sparse: true,
      cell: (one) => (one.value[field.name] === undefined ? "" : short(format.value(one.value[field.name]))) })),
  editColumn((one) => ["federation-upstreams", one.vhost, one.name]),
];

/** Ask, then delete the upstreams; the question names the policies that use them. */
const removeUpstreams = (upstreams) => deleteObjects(upstreams, {
  kind: "upstream", consequence: "Its links end, and their queues upstream are deleted with the messages that wait there.", target,
  describe: async (one) => `${one.name} (${one.vhost}): used by ${namesOf(await policiesOf(one.vhost, one.name))}`,
});

function addForm(context) {
  return upstreamForm({
    label: "Add a new upstream", submit: "Add upstream", replaced: replaced("upstream", target),
    fixed: [vhostField(context), { name: "name", label: "Name", required: true }],
    async run(entered, value) {
      await api.put(target(entered), { value });
      tasks.changed(`Upstream ${entered.name} is set. It is used as soon as a policy names it.`);
    },
  });
}

const examples = () => h("ul", {}, URIS.map(([uri, text]) => h("li", {}, h("code.long", {}, uri), " ", copyButton(uri), h("small.detail", {}, text))));

function createList(context) {
  const all = (signal) => api.get(context.vhost ? path`parameters/${COMPONENT}/${context.vhost}` : `parameters/${COMPONENT}`, {}, signal);
  const table = new List({ name: "federation-upstreams", label: "Upstreams", columns: COLUMNS,
    empty: () => ["no upstreams: “Add a new upstream” below names another broker, or the ",
      h("a", { href: router.address(["federation", "wizard"]) }, "wizard"), " sets up several at once"],
    load: whole(all), key: (one) => [one.vhost, one.name],
    actions: [{ label: "Delete", run: removeUpstreams, danger: true }] });
  const policies = policySection(context);
  const element = h("div.page", {}, h("h1", {}, "Federation upstreams"), table.element,
    folded("Add a new upstream", addForm(context)), folded("URI examples", examples()), policies.element);
  const refresh = async (signal) => {
    await table.refresh(signal);
    await policies.refresh(signal);
  };
  return { element, refresh };
}

function createUpstream(context) {
  const { vhost, name } = context.params;
  const here = { vhost, name };
  const shown = h("div");
  const used = h("div");
  let seen; // the URI that was stored when its field showed it
  const load = async (signal) => (await api.get(target(here), {}, signal)).value;
  const editing = editSection("Edit", context, load, (shownValue, latest) => upstreamForm({
    label: `Edit upstream ${name}`, submit: "Save upstream", fixed: [], value: shownValue, keep: true, latest,
    async run(_, value, stored) {
      await api.put(target(here), { value: { ...value, uri: restored(value.uri, stored.uri, seen) } });
      tasks.changed(`Upstream ${name} is saved. Its links use the new settings.`);
    },
  }));
  const remove = deleteAndReturn("Delete upstream", () => removeUpstreams([here]), "federation-upstreams");
  const element = h("div.page", {}, heading("Federation upstream", name, vhost), section("Details", shown),
    section("Policies that use it", used), editing.element, h("div.buttons", {}, remove));
  const refresh = async (signal) => {
    const value = await load(signal);
    const policies = await policiesOf(vhost, name, signal);
    fill(shown, GROUPS.map((group) => {
      const fields = group.fields.filter((field) => value[field.name] !== undefined);
      return fields.length ? h("div", {}, h("h3", {}, group.title), facts(fields.map((field) => [field.label, textOf(field, value)]))) : null;
    }));
    fill(used, listOf(policies, "No policy uses it yet, so it has no links."),
      may.monitor() ? h("p", {}, h("a", { href: router.address(["federation"], { name }) }, "Status of its links")) : null);
    editing.show(value);
    if (editing.element.querySelector("[name=uri]").value === shownUris(value).join(" ")) seen = value.uri;
  };
  return { element, refresh };
}

const common = { section: "federation", may: may.makePolicies };
export const upstreamsPage = { ...common, route: "federation-upstreams", title: "Federation upstreams", menu: "Upstreams", create: createList };
export const upstreamPage = { ...common, route: "federation-upstreams/:vhost/:name", title: "Federation upstream", create: createUpstream };
