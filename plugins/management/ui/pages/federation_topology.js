/** A picture of the brokers that federate, as this broker knows them, with the state and the rate of their links. */

import { List, api, fill, format, h, may, path, router, svg } from "../toolkit.js";
import { link, section, state } from "./widgets.js";

const RADIUS = 9; // of a broker
const LABEL = 7.5; // width of a character, about
const BEND = 0.13; // of the length of an edge, so that two directions stay apart
const BEND_MOST = 26;
const MARGIN = 46;
const KINDS = { running: "good", starting: "waiting" };
const RANK = ["soft", "good", "waiting", "bad"];

const kindOf = (one) => (one.distant ? "soft" : one.state === "blocked" ? "waiting" : (KINDS[one.status] ?? "bad"));
const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** The links between each two brokers: their number, their rate together, and the worst of their states. */
function edgesOf(links) {
  const edges = new Map();
  for (const one of links) {
    const key = JSON.stringify([one.from, one.to]);
    if (!edges.has(key)) edges.set(key, { from: one.from, to: one.to, links: [], rate: 0, kind: "soft" });
    const edge = edges.get(key);
    edge.links.push(one);
    edge.rate += one.rate ?? 0;
    if (RANK.indexOf(kindOf(one)) > RANK.indexOf(edge.kind)) edge.kind = kindOf(one);
  }
  return [...edges.values()];
}

function edgeText({ from, to, links, rate }) {
  if (links.every((one) => one.distant)) return `${from} to ${to}: known from bindings, without state`;
  const states = [...new Set(links.map((one) => one.status))].join(", ");
  return `${from} to ${to}: ${format.count(links.length)} ${links.length === 1 ? "link" : "links"}, ${states}, ${format.rate(rate)}`;
}

/** The address of the page about a link: the link itself, or the queue or connection of a link of another broker. */
function addressOf(one) {
  if (one.upstream) return router.address(["federation", "links", one.vhost, one.id]);
  if (one.queue) return router.address(["queues", one.vhost, one.queue]);
  return one.connection ? router.address(["connections", one.connection]) : null;
}

const addressOfEdge = ({ from, to, links }) =>
  (links.length === 1 && addressOf(links[0])) || router.address(["federation", "topology"], { from, to });

/** Where each broker is: on an ellipse, this broker first; two are beside each other. */
function placesOf(brokers, width, height) {
  const middle = { x: width / 2, y: height / 2 };
  if (brokers.length === 1) return new Map([[brokers[0].name, middle]]);
  const wide = middle.x - (width < 500 ? MARGIN / 2 : MARGIN * 1.6);
  const start = brokers.length === 2 ? Math.PI : -Math.PI / 2;
  const angles = brokers.map((_, at) => start + (2 * Math.PI * at) / brokers.length);
  const lowest = Math.max(...angles.map(Math.sin));
  const up = brokers.length === 2 ? 0 : ((1 - lowest) / 2) * (middle.y - MARGIN); // an odd number does not reach the bottom
  return new Map(brokers.map(({ name }, at) =>
    [name, { x: middle.x + Math.cos(angles[at]) * wide, y: middle.y + up + Math.sin(angles[at]) * (middle.y - MARGIN) }]));
}

/** True for a broker in the upper half, whose name is above it; the names of the others are below. */
const isUpper = (place, height) => place.y < height / 2 - 1;

/** The curve of an edge, from the rim of a broker to that of another, and the place of its text. */
function curveOf(from, to, height) {
  if (from === to) {
    const { x, y } = from;
    const side = isUpper(from, height) ? 1 : -1; // away from the name
    const at = (far) => y + side * far;
    const path = `M ${x - RADIUS} ${at(RADIUS)} C ${x - 50} ${at(60)}, ${x + 50} ${at(60)}, ${x + RADIUS + 3} ${at(RADIUS + 4)}`;
    return { path, x, y: at(56) };
  }
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [across, along] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const bend = Math.min(BEND_MOST, length * BEND);
  const [x, y] = [(from.x + to.x) / 2 + along * bend * 2, (from.y + to.y) / 2 - across * bend * 2];
  const end = (place, gap) => {
    const far = Math.hypot(x - place.x, y - place.y) || 1;
    return `${place.x + ((x - place.x) * gap) / far} ${place.y + ((y - place.y) * gap) / far}`;
  };
  return { path: `M ${end(from, RADIUS + 2)} Q ${x} ${y} ${end(to, RADIUS + 9)}`,
    x: (from.x + to.x) / 2 + along * (bend + 12), y: (from.y + to.y) / 2 - across * (bend + 12) };
}

function drawEdge(edge, places, height) {
  const { path, x, y } = curveOf(places.get(edge.from), places.get(edge.to), height);
  const text = edgeText(edge);
  const middle = { x, y, "text-anchor": "middle", "dominant-baseline": "middle" };
  const label = edge.kind === "soft" ? null : svg("text", middle, edge.kind === "bad" ? "down" : format.rate(edge.rate));
  const shapes = [svg("title", {}, text), svg("path", { d: path, class: "wide" }),
    svg("path", { d: path, class: "line", "marker-end": `url(#arrow-${edge.kind})` }), label];
  return svg("a", { href: addressOfEdge(edge), class: `edge ${edge.kind}`, "aria-label": text }, shapes);
}

function drawBroker(broker, at, place, { width, height }) {
  const here = at === 0;
  const room = Math.max(6, Math.floor(width / 2.4 / LABEL));
  const half = 4 + (Math.min(broker.name.length, room) * LABEL) / 2; // of the name's width
  const { x, y } = place;
  const about = here ? "this broker" : broker.is_cluster_name ? "cluster name" : "address: its cluster name is not known";
  const [textX, textY] = [Math.min(Math.max(x, half), width - half), isUpper(place, height) ? y - RADIUS - 7 : y + RADIUS + 16];
  return svg("g", { class: here ? "broker here" : "broker" }, svg("title", {}, `${broker.name} (${about})`),
    svg("circle", { cx: x, cy: y, r: RADIUS }), svg("text", { x: textX, y: textY, "text-anchor": "middle" }, shorten(broker.name, room)));
}

function draw({ brokers, links }, width) {
  const height = brokers.length <= 2 ? 220 : Math.min(560, Math.max(300, width * 0.55));
  const places = placesOf(brokers, width, height);
  const arrow = { viewBox: "0 0 10 10", refX: 3, refY: 5, markerWidth: 5, markerHeight: 5, orient: "auto" };
  const arrows = RANK.map((kind) =>
    svg("marker", { id: `arrow-${kind}`, class: kind, ...arrow }, svg("path", { d: "M 0 0 L 10 5 L 0 10 z" })));
  const about = { role: "group", "aria-label": "Topology: the table below has the same links" };
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, ...about },
    svg("defs", {}, arrows), edgesOf(links).map((edge) => drawEdge(edge, places, height)),
    brokers.map((broker, at) => drawBroker(broker, at, places.get(broker.name), { width, height })));
}

const text = (value) => h("span.name", { title: value }, value ?? "");
const objectOf = (one) => {
  if (!one.name) return one.distant ? "" : h("small", {}, `${one.type}, without demand`);
  const name = one.type === "queue" ? link.queue(one.vhost, one.name) : link.exchange(one.vhost, one.name);
  return [name, h("small.detail", {}, one.type)];
};
const stateOf = (one) => (one.distant ? h("small", {}, "known from bindings") : [
  state(one.status, kindOf(one)), one.state ? h("small.detail", {}, one.state) : null,
  one.error ? h("div.detail.bad", {}, one.error) : null,
]);
const details = (one) => {
  const address = addressOf(one);
  return address === null ? "" : h("a", { href: address }, one.upstream ? "link" : one.queue ? "queue" : "connection");
};

const COLUMNS = [
  { id: "from", title: "From", sort: "from", always: true, cell: (one) => text(one.from) },
  { id: "to", title: "To", sort: "to", always: true, cell: (one) => text(one.to) },
  { id: "object", title: "Exchange / queue here", sort: "name", cell: objectOf },
  { id: "vhost", title: "Virtual host", sort: "vhost", cell: (one) => text(one.vhost) },
  { id: "state", title: "State", sort: "status", always: true, cell: stateOf },
  { id: "rate", title: "Message rate", sort: "rate", number: true, cell: (one) => format.rate(one.rate) },
  { id: "backlog", title: "Backlog", sort: "backlog", number: true, cell: (one) => format.count(one.backlog) },
  { id: "more", title: "Details", cell: details },
];

function create(context) {
  const { from, to } = context.query;
  const drawing = h("div.topology");
  const notes = h("p");
  let topology = { brokers: [], links: [] };
  const table = new List({ name: "federation-topology", label: "Links of the topology", columns: COLUMNS,
    empty: "no links", key: (one) => [one.from, one.to, one.type, one.vhost, one.id],
    text: (one) => `${one.from} ${one.to} ${one.name ?? ""}` });

  /** Draw the picture in the width that is there now; a focused link keeps the focus. */
  function redraw() {
    if (topology.brokers.length === 0) return; // not loaded yet
    const focused = drawing.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(drawing, draw(topology, Math.max(280, drawing.clientWidth)));
    if (focused !== null) [...drawing.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
  }

  let width = 0;
  const resized = new ResizeObserver(() => {
    if (drawing.clientWidth === width) return; // its height follows from the picture
    width = drawing.clientWidth;
    redraw();
  });
  resized.observe(drawing);
  const all = h("a", { href: router.address(["federation", "topology"]) }, "Show all links");
  const filtered = from || to ? h("p", {}, `Only links from ${from} to ${to}. `, all) : null;
  const element = h("div.page", {}, h("h1", {}, "Federation topology"),
    section("Brokers and links", drawing, notes, h("p", {}, h("small", {},
      "Arrows go from the upstream to the downstream, as messages do. Colours: green running, yellow starting or blocked, "
      + "red down; dotted links are farther away, and known from bindings only."))), filtered, table.element);
  const refresh = async (signal) => {
    const here = context.vhost ? path`warren/federation/topology/${context.vhost}` : "warren/federation/topology";
    topology = await api.get(here, {}, signal);
    redraw();
    fill(notes, topology.links.length ? "" : "No broker federates with this one. ",
      topology.truncated ? "There are more links than are shown." : "");
    await table.show(topology.links.filter((one) => (!from || one.from === from) && (!to || one.to === to)));
  };
  return { element, refresh, leave: () => resized.disconnect() };
}

export const topologyPage = { route: "federation/topology", section: "federation", title: "Federation topology",
  menu: "Topology", may: may.monitor, create };
