/** Consumers: the list of all, and the columns of their lists on other pages. */

import * as api from "../core/api.js";
import { path } from "../core/api.js";
import { List, paged } from "../core/list.js";
import { h, short } from "../web/dom.js";
import * as format from "../web/format.js";
import { link, tableOf } from "./widgets.js";

const yes = (value) => (value ? "●" : "○");

const COLUMNS = [
  { id: "queue", title: "Queue", sort: "queue.name", cell: ({ queue }) => link.queue(queue.vhost, queue.name) },
  { id: "vhost", title: "Virtual host", sort: "queue.vhost", cell: ({ queue }) => link.vhost(queue.vhost) },
  { id: "channel", title: "Channel", cell: ({ channel_details: channel }) => (channel.name ? link.channel(channel.name) : "") },
  { id: "tag", title: "Consumer tag", sort: "consumer_tag", cell: (one) => short(one.consumer_tag) },
  { id: "user", title: "User", sort: "channel_details.user", cell: ({ channel_details: { user } }) => (user ? link.user(user) : "") },
  { id: "ack", title: "Ack required", sort: "ack_required", cell: (one) => yes(one.ack_required) },
  { id: "exclusive", title: "Exclusive", sort: "exclusive", cell: (one) => yes(one.exclusive) },
  { id: "prefetch", title: "Prefetch count", sort: "prefetch_count", number: true, cell: (one) => format.count(one.prefetch_count) },
  { id: "active", title: "Active", sort: "active", cell: (one) => yes(one.active) },
  { id: "activity", title: "Activity status", sort: "activity_status", cell: (one) => one.activity_status },
  { id: "arguments", title: "Arguments", cell: (one) => (Object.keys(one.arguments ?? {}).length ? tableOf(one.arguments) : "") },
];

/** The identity of a consumer in a list. */
export const consumerKey = (one) => [one.channel_details.name, one.consumer_tag];

/** The columns of all consumers but those with these ids, which the page says already. */
export const consumerColumns = (...without) => COLUMNS.filter((column) => !without.includes(column.id));

function create(context) {
  const table = new List({
    name: "consumers", label: "Consumers", columns: COLUMNS, key: consumerKey, filtered: "queue or tag", empty: "no consumers",
    load: paged(api.get, () => (context.vhost ? path`consumers/${context.vhost}` : "consumers")),
  });
  return { element: h("div.page", {}, h("h1", {}, "Consumers"), table.element), refresh: (signal) => table.refresh(signal) };
}

export const consumersPage = { route: "consumers", section: "channels", title: "Consumers", menu: "Consumers", create };
