/** The unacknowledged messages of a queue: who has them, and for how long. */

import * as api from "../core/api.js";
import { List } from "../core/list.js";
import { h, short } from "../web/dom.js";
import * as format from "../web/format.js";
import { whole } from "../web/table.js";
import { link } from "./widgets.js";

const MOST = 500;

const COLUMNS = [
  { id: "tag", title: "Delivery tag", sort: "delivery_tag", number: true, always: true, cell: (one) => format.count(one.delivery_tag) },
  {
    id: "consumer", title: "Consumer tag", sort: "consumer_tag",
    cell: (one) => (one.consumer_tag ? short(one.consumer_tag) : "basic.get"),
  },
  { id: "channel", title: "Channel", cell: ({ channel_details: { name } }) => (name ? link.channel(name) : "") },
  { id: "connection", title: "Connection", shown: false, cell: ({ channel_details: { connection_name: name } }) => (name ? link.connection(name) : "") },
  { id: "user", title: "User", cell: ({ channel_details: { user } }) => (user ? link.user(user) : "") },
  {
    id: "age", title: "Age", sort: "age", number: true, help: "since the delivery, to the interval of the statistics",
    cell: (one) => format.age(one.age),
  },
  { id: "exchange", title: "Exchange", shown: false, cell: (one) => one.exchange },
  { id: "key", title: "Routing key", cell: (one) => short(one.routing_key) },
  { id: "size", title: "Payload", sort: "payload_bytes", number: true, cell: (one) => format.bytes(one.payload_bytes) },
];

/** The list; `refresh(signal, count, exclusive)` loads it if there are any. */
export function unackedMessages(here) {
  let unacked = [];
  const table = new List({
    name: "unacked", label: "Unacknowledged messages", columns: COLUMNS, local: true, filtered: "consumer tag",
    empty: "no unacknowledged messages", key: (one) => [one.channel_details.name, one.delivery_tag],
    load: whole(() => unacked, (one) => one.consumer_tag),
  });
  const note = h("small", {}, `The oldest are shown, ${format.count(MOST)} at most.`);
  return {
    element: h("div", {}, table.element, note),
    async refresh(signal, count, exclusive) {
      if (exclusive) note.textContent = "Those of an exclusive queue are not shown, as they are its connection's alone.";
      try {
        unacked = count ? await api.get(`${here}/unacked`, { limit: MOST }, signal) : [];
      } catch (error) {
        if (error.status !== 401) throw error;
        unacked = [];
        note.textContent = "They are shown to users with the right to read the queue.";
      }
      await table.refresh(signal);
    },
  };
}
