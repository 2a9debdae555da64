/** Connections: the list, and the page of a connection. */

import {
  List, api, confirm, facts, fill, form, format, h, paged, path, rangeChooser, rangeQuery, router, short, tasks,
  whole,
} from "../toolkit.js";
import { channelColumns } from "./channels.js";
import { countColumn, dataChart, dataColumn } from "./rates.js";
import { copyButton, folded, heading, link, listPage, section, state, tableOf } from "./widgets.js";

const product = ({ client_properties: properties = {} }) => [properties.product, properties.version].filter((one) => typeof one === "string").join(" ");
const named = ({ client_properties: properties = {} }) => (typeof properties.connection_name === "string" ? properties.connection_name : "");
const stateOf = (one) => state(one.state, one.state === "running" ? "good" : "waiting");
const cipherOf = (one) => `${one.ssl_protocol} ${one.ssl_cipher}`;
const heartbeatOf = (one) => (one.timeout ? format.duration(one.timeout) : "none");

const COLUMNS = [
  { id: "name", title: "Name", sort: "name", always: true,
    cell: (one) => [link.connection(one.name), named(one) && h("div", {}, h("small.name", {}, named(one)))] },
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => link.vhost(one.vhost) },
  { id: "user", title: "User", sort: "user", wide: true, cell: (one) => link.user(one.user) },
  { id: "node", title: "Node", sort: "node", shown: false, cell: (one) => one.node },
  { id: "state", title: "State", sort: "state", cell: stateOf },
  { id: "tls", title: "TLS", sort: "ssl", wide: true, cell: (one) => (one.ssl ? h("span", { title: cipherOf(one) }, "yes") : "no") },
  { id: "protocol", title: "Protocol", sort: "protocol", wide: true, cell: (one) => one.protocol },
  countColumn("channels", "Channels", "channels", { wide: true }),
  dataColumn("from", "From client", "recv_oct"),
  dataColumn("to", "To client", "send_oct"),
  { id: "heartbeat", title: "Heartbeat", sort: "timeout", number: true, shown: false, cell: heartbeatOf },
  { id: "connected", title: "Connected", sort: "connected_at", shown: false, cell: (one) => format.time(one.connected_at) },
  { id: "client", title: "Client", sort: "client_properties.product", wide: true, cell: (one) => short(product(one)) },
];

/** Ask, then close connections; return whether they were closed. */
async function close(connections, reason = "Closed by an operator") {
  const title = connections.length === 1 ? "Close this connection?" : `Close ${format.counted(connections.length, "connection")}?`;
  const names = connections.map((one) => `${one.name} of ${one.user}`);
  if (!await confirm(title, "Their unacknowledged messages are requeued; clients may connect again.", names, "Close")) return false;
  await tasks.each("Close connections", connections, (one, signal) =>
    api.send("DELETE", path`connections/${one.name}`, { signal, headers: { "x-reason": reason.replace(/[^\x20-\x7e]/g, "?") } }));
  return true;
}

/** The text of the empty list: where clients connect. */
function noConnections({ overview }) {
  const ports = (overview.listeners ?? []).filter((one) => one.protocol.startsWith("amqp")).map(({ protocol, port }) =>
    [protocol === "amqp" ? "amqp" : "amqps", port]);
  if (!ports.length) return "no connections";
  return ["no connections: clients connect to ", ports.map(([scheme, port], at) => {
    const uri = `${scheme}://${location.hostname}:${port}`;
    return [at > 0 && " or ", h("code", {}, uri), " ", copyButton(uri)];
  })];
}

const createList = (context) => listPage("Connections", new List({
  name: "connections", label: "Connections", columns: COLUMNS, key: (one) => one.name,
  empty: () => noConnections(context),
  load: paged(api.get, () => (context.vhost ? path`vhosts/${context.vhost}/connections` : "connections")),
  actions: [{ label: "Close", run: (chosen) => close(chosen), danger: true }],
}));

function createConnection(context) {
  const { name } = context.params;
  const here = path`connections/${name}`;
  const chart = dataChart();
  const details = h("div");
  const client = h("div");
  let shown = { name, user: "" };
  const channels = new List({
    name: "channels-of-connection", label: "Channels of the connection", small: true, key: (one) => one.name, empty: "no channels",
    columns: channelColumns("channel", "mode", "state", "unconfirmed", "prefetch", "unacked", "publish", "deliver", "ack"),
    load: whole((signal) => api.get(`${here}/channels`, {}, signal)),
  });
  const element = h("div.page", {}, heading("Connection", name),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, chart.element)),
    section("Details", details), section("Channels", channels.element), section("Client properties", client),
    folded("Close this connection", form({
      submit: "Close connection", danger: true, keep: true,
      fields: [{ name: "reason", label: "Reason", value: "Closed by an operator", help: "the client gets this text" }],
      run: async ({ reason }) => { if (await close([shown], reason)) router.go(["connections"]); },
    })));
  const refresh = async (signal) => {
    const one = shown = await api.get(here, rangeQuery(["data_rates"]), signal);
    chart.draw(one);
    fill(details, facts([
      ["Virtual host", link.vhost(one.vhost)], ["User", link.user(one.user)], ["State", stateOf(one)],
      ["Given name", named(one)], ["Client", product(one)], ["Protocol", one.protocol], ["Authentication", one.auth_mechanism],
      ["Connected", format.time(one.connected_at)], ["Heartbeat", heartbeatOf(one)],
      ["Frame max", format.bytes(one.frame_max)], ["Channel limit", `${format.count(one.channels)} of ${format.count(one.channel_max)}`],
      ["TLS", one.ssl ? cipherOf(one) : "no"], ["Peer certificate", one.peer_cert_subject],
      ["Received", format.bytes(one.recv_oct)], ["Sent", format.bytes(one.send_oct)], ["Waiting to be sent", format.bytes(one.send_pend)],
    ]));
    fill(client, tableOf(one.client_properties));
    await channels.refresh(signal);
  };
  return { element, refresh };
}

export const connectionsPage = { route: "connections", section: "connections", title: "Connections", create: createList };
export const connectionPage = { route: "connections/:name", section: "connections", title: "Connection", create: createConnection };
