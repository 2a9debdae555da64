/** Channels: the list, and the page of a channel; consumers: the list of all, and the columns of their lists on other pages. */

import { List, api, facts, fill, format, h, paged, path, rangeChooser, rangeQuery, short } from "../toolkit.js";
import { breakdown, countColumn, rateColumn, ratesChart } from "./rates.js";
import { heading, link, listPage, mark, section, state, tableOf } from "./widgets.js";

const yes = (value) => (value ? "●" : "○");

const CONSUMERS = [
  { id: "queue", title: "Queue", sort: "queue.name", cell: ({ queue }) => link.queue(queue.vhost, queue.name) },
  { id: "vhost", title: "Virtual host", sort: "queue.vhost", wide: true, cell: ({ queue }) => link.vhost(queue.vhost) },
  { id: "channel", title: "Channel", wide: true, cell: ({ channel_details: channel }) => (channel.name ? link.channel(channel.name) : "") },
  { id: "tag", title: "Consumer tag", sort: "consumer_tag", cell: (one) => short(one.consumer_tag) },
  { id: "user", title: "User", sort: "channel_details.user", wide: true, cell: ({ channel_details: { user } }) => (user ? link.user(user) : "") },
  { id: "ack", title: "Ack", sort: "ack_required", wide: true, cell: (one) => yes(one.ack_required) },
  { id: "exclusive", title: "Exclusive", sort: "exclusive", wide: true, cell: (one) => yes(one.exclusive) },
  { id: "prefetch", title: "Prefetch", sort: "prefetch_count", number: true, cell: (one) => format.count(one.prefetch_count) },
  { id: "active", title: "Active", sort: "active", cell: (one) => yes(one.active) },
  { id: "activity", title: "Status", sort: "activity_status", shown: false, cell: (one) => one.activity_status },
  { id: "arguments", title: "Arguments", wide: true, sparse: true, cell: (one) => (Object.keys(one.arguments ?? {}).length ? tableOf(one.arguments) : "") },
];

/** The identity of a consumer in a list. */
export const consumerKey = (one) => [one.channel_details.name, one.consumer_tag];

/** The columns of all consumers but those with these ids, which the page says already. */
export const consumerColumns = (...without) =>
  CONSUMERS.filter((column) => !without.includes(column.id)).map((column) => ({ ...column, shown: true }));

function mode(one) {
  if (one.transactional) return mark("T", "transactional: tx.select");
  return one.confirm ? mark("C", "publisher confirms") : "";
}

const prefetch = (one) => [
  one.prefetch_count ? format.count(one.prefetch_count) : "unlimited",
  one.global_prefetch_count ? `, ${format.count(one.global_prefetch_count)} for the channel` : "",
].join("");

const COLUMNS = [
  { id: "channel", title: "Channel", sort: "name", always: true, cell: (one) => link.channel(one.name) },
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (one) => link.vhost(one.vhost) },
  { id: "user", title: "User", sort: "user", wide: true, cell: (one) => link.user(one.user) },
  { id: "mode", title: "Mode", wide: true, sparse: true, cell: mode },
  { id: "state", title: "State", sort: "state", wide: true, cell: (one) => state(one.idle_since ? "idle" : one.state) },
  countColumn("consumers", "Consumers", "consumer_count", { shown: false }),
  countColumn("unconfirmed", "Unconfirmed", "messages_unconfirmed", { wide: true }),
  countColumn("uncommitted", "Uncommitted", "messages_uncommitted", { shown: false }),
  { id: "prefetch", title: "Prefetch", sort: "prefetch_count", number: true, wide: true, cell: prefetch },
  countColumn("unacked", "Unacked", "messages_unacknowledged"),
  rateColumn("publish", "Publish", "publish"),
  rateColumn("confirm", "Confirm", "confirm", { wide: true }),
  rateColumn("unroutable", "Unroutable (drop)", "drop_unroutable", { shown: false }),
  rateColumn("returned", "Unroutable (return)", "return_unroutable", { shown: false }),
  rateColumn("deliver", "Deliver / get", "deliver_get"),
  rateColumn("redeliver", "Redelivered", "redeliver", { shown: false }),
  rateColumn("ack", "Ack", "ack"),
];

/** The columns with these ids, for lists of channels on other pages. */
export const channelColumns = (...ids) => COLUMNS.filter((column) => ids.includes(column.id)).map((column) => ({ ...column, shown: true }));

const createList = (context) => listPage("Channels", new List({
  name: "channels", label: "Channels", columns: COLUMNS, key: (one) => one.name,
  empty: "no channels: clients open them on a connection",
  load: paged(api.get, () => (context.vhost ? path`vhosts/${context.vhost}/channels` : "channels")),
}));

function createChannel(context) {
  const here = path`channels/${context.params.name}`;
  const chart = ratesChart();
  const details = h("div");
  const parts = breakdown([["Publishes", "publishes"], ["Deliveries", "deliveries"]]);
  const consumers = new List({
    name: "consumers-of-channel", label: "Consumers of the channel", small: true, columns: consumerColumns("channel", "user"),
    key: consumerKey, empty: "no consumers",
  });
  const element = h("div.page", {}, heading("Channel", context.params.name),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, chart.element)), parts.element,
    section("Details", details), section("Consumers", consumers.element));
  const refresh = async (signal) => {
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
    await consumers.show(one.consumer_details ?? []);
  };
  return { element, refresh };
}

const createConsumers = (context) => listPage("Consumers", new List({
  name: "consumers", label: "Consumers", columns: CONSUMERS, key: consumerKey, filtered: "queue or tag",
  empty: "no consumers: clients start one with basic.consume",
  load: paged(api.get, () => (context.vhost ? path`consumers/${context.vhost}` : "consumers")),
}));

export const channelsPage = { route: "channels", section: "channels", title: "Channels", menu: "Channels", create: createList };
export const channelPage = { route: "channels/:name", section: "channels", title: "Channel", create: createChannel };
export const consumersPage = { route: "consumers", section: "channels", title: "Consumers", menu: "Consumers", create: createConsumers };
