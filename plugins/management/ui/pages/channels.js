/** Channels: the list, and the page of a channel. */

import * as api from "../core/api.js";
import { path } from "../core/api.js";
import { List, paged } from "../core/list.js";
import { rangeChooser, rangeQuery } from "../core/samples_chart.js";
import { h, facts, fill } from "../web/dom.js";
import * as format from "../web/format.js";
import { whole } from "../web/table.js";
import { consumerColumns, consumerKey } from "./consumers.js";
import { breakdown, countColumn, rateColumn, ratesChart } from "./rates.js";
import { heading, link, mark, section, state } from "./widgets.js";

function mode(one) {
  if (one.transactional) return mark("T", "transactional: tx.select");
  return one.confirm ? mark("C", "publisher confirms") : "";
}

const prefetch = (one) => [
  one.prefetch_count ? format.count(one.prefetch_count) : "unlimited",
  one.global_prefetch_count ? `, ${format.count(one.global_prefetch_count)} for the channel` : "",
].join("");

const COLUMNS = [
  { id: "name", title: "Channel", sort: "name", always: true, cell: (one) => link.channel(one.name) },
  { id: "vhost", title: "Virtual host", sort: "vhost", cell: (one) => link.vhost(one.vhost) },
  { id: "user", title: "User", sort: "user", cell: (one) => link.user(one.user) },
  { id: "mode", title: "Mode", cell: mode },
  { id: "state", title: "State", sort: "state", cell: (one) => state(one.idle_since ? "idle" : one.state) },
  countColumn("consumers", "Consumers", "consumer_count", { shown: false }),
  countColumn("unconfirmed", "Unconfirmed", "messages_unconfirmed"),
  countColumn("uncommitted", "Uncommitted", "messages_uncommitted", { shown: false }),
  { id: "prefetch", title: "Prefetch", sort: "prefetch_count", number: true, cell: prefetch },
  countColumn("unacked", "Unacked", "messages_unacknowledged"),
  rateColumn("publish", "Publish", "publish"),
  rateColumn("confirm", "Confirm", "confirm"),
  rateColumn("unroutable", "Unroutable (drop)", "drop_unroutable", { shown: false }),
  rateColumn("returned", "Unroutable (return)", "return_unroutable", { shown: false }),
  rateColumn("deliver", "Deliver / get", "deliver_get"),
  rateColumn("redeliver", "Redelivered", "redeliver", { shown: false }),
  rateColumn("ack", "Ack", "ack"),
];

/** The columns with these ids, for lists of channels on other pages. */
export const channelColumns = (...ids) => COLUMNS.filter((column) => ids.includes(column.id)).map((column) => ({ ...column, shown: true }));

function createList(context) {
  const table = new List({
    name: "channels", label: "Channels", columns: COLUMNS, key: (one) => one.name, empty: "no channels",
    load: paged(api.get, () => (context.vhost ? path`vhosts/${context.vhost}/channels` : "channels")),
  });
  return { element: h("div.page", {}, h("h1", {}, "Channels"), table.element), refresh: (signal) => table.refresh(signal) };
}

function createChannel(context) {
  const here = path`channels/${context.params.name}`;
  const chart = ratesChart();
  const details = h("div");
  const parts = breakdown([["Publishes", "publishes"], ["Deliveries", "deliveries"]]);
  let listed = [];
  const consumers = new List({
    name: "consumers-of-channel", label: "Consumers of the channel", small: true, columns: consumerColumns("channel", "user"),
    key: consumerKey, empty: "no consumers", load: whole(async () => listed, (one) => one.consumer_tag),
  });
  const element = h("div.page", {}, heading("Channel", context.params.name),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, chart.element)), parts.element,
    section("Details", details), section("Consumers", consumers.element));
  return {
    element,
    async refresh(signal) {
      const one = await api.get(here, rangeQuery(["msg_rates"]), signal);
      chart.draw(one.message_stats);
      parts.draw(one);
      fill(details, facts([
        ["Connection", link.connection(one.connection_details.name)], ["Virtual host", link.vhost(one.vhost)],
        ["User", link.user(one.user)],
        ["State", state(one.idle_since ? "idle" : one.state)], ["Mode", mode(one)], ["Prefetch", prefetch(one)],
        ["Unacknowledged messages", format.count(one.messages_unacknowledged)],
        ["Unconfirmed messages", format.count(one.messages_unconfirmed)],
        ["Uncommitted messages", format.count(one.messages_uncommitted)],
        ["Uncommitted acks", format.count(one.acks_uncommitted)],
        ["Idle since", format.time(one.idle_since)],
      ]));
      listed = one.consumer_details ?? [];
      await consumers.refresh(signal);
    },
  };
}

export const channelsPage = { route: "channels", section: "channels", title: "Channels", menu: "Channels", create: createList };
export const channelPage = { route: "channels/:name", section: "channels", title: "Channel", create: createChannel };
