/** The status of federation links, and the page of a link. */

import {
  List, SamplesChart, api, confirm, facts, fill, format, h, may, paged, path, rangeChooser, rangeQuery, router, short,
  tasks,
} from "../toolkit.js";
import { countColumn } from "./rates.js";
import { heading, link, listPage, section, state } from "./widgets.js";

const UP = ["running", "starting"];
const isDown = (one) => !UP.includes(one.status);
const localName = (one) => one[one.type];
const upstreamName = (one) => one[`upstream_${one.type}`];
const titleOf = (one) => `${one.type} ${localName(one)} in ${one.vhost}, upstream ${one.upstream}, ${one.status}`;

const object = (one) => (one.type === "queue" ? link.queue : link.exchange)(one.vhost, localName(one));
const linkTo = (one, text) => h("a.name", { href: router.address(["federation", "links", one.vhost, one.id]), title: text }, text);
const upstreamPage = (one) => link.upstream(one.vhost, one.upstream);

/** The name of the object upstream, where it differs from the one here. */
function upstreamObject(one) {
  const name = upstreamName(one);
  return name === localName(one) ? null : h("small.name.row", { title: name }, name);
}

function attempts(one) {
  if (!one.retries) return "";
  const next = one.next_attempt_at ? `, next ${format.time(one.next_attempt_at)}` : "";
  return `${format.counted(one.retries, "attempt")} failed${next}`;
}

/** The state of a link: its status, its flow of messages with the reason, and its error. */
function stateOf(one) {
  const notes = [one.state, one.reason].filter(Boolean).join(": ");
  return [state(one.status, one.degraded ? "waiting" : undefined), notes ? h("small.detail", {}, notes) : null,
    one.error ? h("div.detail.bad", {}, one.error) : null,
    isDown(one) && attempts(one) ? h("small.detail", {}, attempts(one)) : null];
}

const dropped = (one) =>
  [["by hops", one.dropped_max_hops], ["already seen", one.dropped_seen], ["invalid", one.dropped_invalid]]
    .filter(([, number]) => number).map(([reason, number]) => `${format.count(number)} ${reason}`).join(", ") || "0";

const lag = (one) => (one.lag_ms === null || one.lag_ms === undefined ? "" : format.duration(one.lag_ms / 1000));
const inbound = (one) => (one.local_channel?.message_stats ?? one.message_stats)?.confirm_details?.rate;

const COLUMNS = [
  { id: "upstream", title: "Upstream", sort: "upstream", always: true, cell: (one) => [upstreamPage(one), upstreamObject(one)] },
  { id: "uri", title: "URI", sort: "uri", wide: true, cell: (one) => short(one.uri) },
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => short(one.vhost) },
  { id: "object", title: "Exchange / queue", sort: "name", always: true, cell: (one) => [object(one), h("small.detail", {}, one.type)] },
  { id: "node", title: "Node", sort: "node", shown: false, cell: (one) => one.node },
  { id: "state", title: "State", sort: "status", always: true, cell: stateOf },
  { id: "rate", title: "Inbound rate", sort: "local_channel.message_stats.confirm_details.rate", number: true,
    cell: (one) => format.rate(inbound(one)), help: "messages that are safe here, a second" },
  { id: "lag", title: "Lag", sort: "lag_ms", number: true, sparse: true, wide: true, cell: lag,
    help: "the age of the newest message, from the timestamp that its publisher set" },
  countColumn("backlog", "Backlog", "backlog", { help: "messages that wait upstream" }),
  { id: "dropped", title: "Dropped", cell: dropped, shown: false,
    help: "messages that had made all their hops, had been here before, or were invalid" },
  countColumn("retries", "Retries", "retries", { shown: false, help: "failed attempts since the link last ran" }),
  { id: "next", title: "Next attempt", sort: "next_attempt_at", cell: (one) => format.time(one.next_attempt_at), shown: false },
  countColumn("reconnects", "Reconnects", "reconnects", { shown: false, help: "failures of the link while it ran" }),
  countColumn("unconfirmed", "Unconfirmed", "unconfirmed", { shown: false }),
  { id: "changed", title: "Last changed", sort: "changed_at", shown: false, cell: (one) => format.time(one.changed_at) },
  { id: "id", title: "ID", sort: "id", always: true, wide: true, cell: (one) => linkTo(one, one.id) },
  { id: "tag", title: "Consumer tag", sort: "consumer_tag", cell: (one) => short(one.consumer_tag ?? ""), shown: false },
];

/** Ask, then restart the links; return whether they were restarted. */
async function restart(links) {
  const title = links.length === 1 ? "Restart this link?" : `Restart ${format.count(links.length)} links?`;
  const consequence = "It connects to its upstream again. Messages that wait upstream are kept.";
  if (!(await confirm(title, consequence, links.map(titleOf), "Restart"))) return false;
  await tasks.each("Restart links", links, (one, signal) =>
    api.remove(path`federation-links/vhost/${one.vhost}/${one.id}/${one.node}/restart`, {}, signal));
  return true;
}

/** A button to restart one link: the same element while the link is listed. */
function restartButtons(context) {
  const buttons = new Map();
  return (one) => {
    if (!buttons.has(one.id)) {
      const entry = { one };
      entry.button = h("button.quick", { "aria-label": `Restart the link of ${titleOf(one)}`, onclick: async () => {
        if (await restart([entry.one])) context.refresh();
      } }, "Restart");
      buttons.set(one.id, entry);
    }
    const entry = buttons.get(one.id);
    entry.one = one;
    return entry.button;
  };
}

function createStatus(context) {
  const { query } = router.current();
  const onlyDown = h("input", { type: "checkbox", checked: query.down === "true" });
  const target = () => `federation-links${context.vhost ? path`/${context.vhost}` : ""}${onlyDown.checked ? "/state/down" : ""}`;
  const columns = [...COLUMNS];
  if (may.makePolicies()) columns.push({ id: "operations", title: "Operations", cell: restartButtons(context) });
  const table = new List({ name: "federation-links", label: "Federation links", filtered: "name or upstream", columns,
    empty: () => (may.makePolicies() ? ["no links: one needs an ", h("a", { href: router.address(["federation-upstreams"]) }, "upstream"),
      " and a policy that names exchanges or queues of this broker; the ", h("a", { href: router.address(["federation", "wizard"]) }, "wizard"),
      " sets both"] : "no links"), load: paged(api.get, target),
    key: (one) => `${one.type} ${localName(one)} in ${one.vhost}, upstream ${one.upstream} (${one.id})`,
    actions: may.makePolicies() ? [{ label: "Restart", run: restart }] : [] });
  onlyDown.addEventListener("change", () => {
    router.remember({ down: onlyDown.checked || "" });
    context.refresh();
  });
  table.filter.parentElement.insertBefore(h("label", {}, onlyDown, " only links that are down"), table.summary);
  return listPage("Federation status", table);
}

function details(one) {
  return facts([["State", stateOf(one)], ["Upstream", upstreamPage(one)], ["URI", one.uri],
    ["Upstream's cluster", one.upstream_cluster_name], ["Upstream's virtual host", one.upstream_vhost],
    [one.type === "queue" ? "Upstream queue" : "Upstream exchange", upstreamName(one)],
    [one.type === "queue" ? "Queue" : "Exchange", object(one)], ["Virtual host", one.vhost], ["Node", one.node],
    ["Policy", one.policy ? link.policy(one.vhost, one.policy) : ""],
    ["Inbound message rate", format.rate(inbound(one))], ["Lag", lag(one)], ["Backlog", format.count(one.backlog)],
    ["Messages published here", format.count(one.forwarded)], ["Unconfirmed", format.count(one.unconfirmed)],
    ["Refused here", format.count(one.nacked)], ["Dropped", dropped(one)],
    ["Bindings upstream", one.type === "exchange" ? format.count(one.bindings) : ""],
    ["Failed attempts", format.count(one.retries)], ["Next attempt", format.time(one.next_attempt_at)],
    ["Reconnects", format.count(one.reconnects)], ["Flow since", format.time(one.since)],
    ["Last changed", format.time(one.changed_at)], ["ID", one.id], ["Consumer tag", one.consumer_tag]]);
}

function createLink(context) {
  const { vhost, id } = context.params;
  const chart = new SamplesChart("Inbound messages", [["Published here", "publish"], ["Confirmed here", "confirm"]],
    { rates: true, format: format.rate });
  const title = h("span");
  const shown = h("div");
  let latest = null;
  const button = may.makePolicies() ? h("button", { disabled: true, onclick: async () => {
    if (await restart([latest])) context.refresh();
  } }, "Restart link") : null;
  const element = h("div.page", {}, heading("Federation link", title, vhost),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, chart.element)), section("Details", shown),
    button ? h("div.buttons", {}, button) : null);
  const refresh = async (signal) => {
    latest = await api.get(path`warren/federation/links/${vhost}/${id}`, rangeQuery(["msg_rates"]), signal);
    fill(title, `${latest.upstream} → ${localName(latest)}`);
    chart.draw(latest.message_stats);
    fill(shown, details(latest));
    if (button) button.disabled = false;
  };
  return { element, refresh };
}

export const statusPage = { route: "federation", section: "federation", title: "Federation status", menu: "Status",
  may: may.monitor, create: createStatus };
export const linkPage = { route: "federation/links/:vhost/:id", section: "federation", title: "Federation link",
  may: may.monitor, create: createLink };
