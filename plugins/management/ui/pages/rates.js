/** Rates: columns of lists, and the charts of queues, exchanges, channels and the node. */

import { BYTE_STEPS, COUNT_STEPS, SamplesChart, fill, format, h, show } from "../toolkit.js";
import { link, section } from "./widgets.js";

const MOST = 100; // others of a breakdown

/**
 * The column of a rate of messages in a list.
 * @param {string} name of the counter: "publish"
 * @param {Object} [more] more properties of the column, such as `help`
 */
export const rateColumn = (id, title, name, more = {}) => ({
  id, title, number: true, sort: `message_stats.${name}_details.rate`, ...more, cell: (one) => format.rate(rateOf(one, name)),
});

/** The column of a number in a list; `more` as for `rateColumn`. */
export const countColumn = (id, title, field, more = {}) => ({
  id, title, number: true, sort: field, ...more, cell: (one) => format.count(one[field]),
});

/** The column of a rate of bytes in a list; `more` as for `rateColumn`. */
export const dataColumn = (id, title, name, more = {}) => ({
  id, title, number: true, sort: `${name}_details.rate`, ...more, cell: (one) => format.byteRate(one[`${name}_details`]?.rate),
});

/** The rate of a counter of an object, undefined if it is unknown. */
export const rateOf = (one, name) => one.message_stats?.[`${name}_details`]?.rate;

const LENGTHS = [["Ready", "messages_ready"], ["Unacked", "messages_unacknowledged"], ["Total", "messages"]];
const RATES = [
  ["Publish", "publish"], ["Publisher confirm", "confirm"], ["Deliver (manual ack)", "deliver"],
  ["Deliver (auto ack)", "deliver_no_ack"], ["Consumer ack", "ack"], ["Redelivered", "redeliver"],
  ["Get (manual ack)", "get"], ["Get (auto ack)", "get_no_ack"], ["Get (empty)", "get_empty"],
  ["Unroutable (return)", "return_unroutable"], ["Unroutable (drop)", "drop_unroutable"],
];
const EXCHANGE_RATES = [["Publish (in)", "publish_in"], ["Publish (out)", "publish_out"]];
const CHURN = {
  connections: [["Created", "connection_created"], ["Closed", "connection_closed"]],
  channels: [["Created", "channel_created"], ["Closed", "channel_closed"]],
  queues: [["Declared", "queue_declared"], ["Created", "queue_created"], ["Deleted", "queue_deleted"]],
};

const ratesOf = (title, series) => new SamplesChart(title, series, { rates: true, format: format.rate });

export const lengthsChart = () => new SamplesChart("Queued messages", LENGTHS, { steps: COUNT_STEPS, format: format.count });
export const ratesChart = () => ratesOf("Message rates", RATES);
export const exchangeChart = () => ratesOf("Message rates", EXCHANGE_RATES);
export const dataChart = () => new SamplesChart(
  "Data rates", [["From client", "recv_oct"], ["To client", "send_oct"]], { rates: true, steps: BYTE_STEPS, format: format.byteRate });
export const churnChart = (kind) => ratesOf(`${kind[0].toUpperCase()}${kind.slice(1)} opened and closed`, CHURN[kind]);

const BREAKDOWN = [
  ...["publish", "confirm", "deliver", "deliver_no_ack", "get", "get_no_ack", "ack", "redeliver"],
  ...["return_unroutable", "drop_unroutable"],
];
const RATE_NAMES = new Map(RATES.map(([label, name]) => [name, label]));

function partnerOf({ exchange, queue, channel_details: channel }) {
  if (exchange) return link.exchange(exchange.vhost, exchange.name);
  if (queue) return link.queue(queue.vhost, queue.name);
  return channel.name ? link.channel(channel.name) : "another user's channel";
}

function breakdownTable(label, rows) {
  const names = BREAKDOWN.filter((name) => rows.some(({ stats }) => stats[name]));
  const titles = names.map((name) => h("th.number", { scope: "col" }, RATE_NAMES.get(name)));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, h("table", { "aria-label": label },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, label), titles)),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, partnerOf(row)),
      names.map((name) => h("td.number", {}, format.rate(row.stats[`${name}_details`]?.rate))))))));
}

/**
 * The message rates between an object and others, where the broker counts them (`management.rates_mode = detailed`).
 * @param {Array<[string, string]>} lists the label and the field of each list: ["Incoming", "incoming"]
 * @returns {{element, draw: (found) => void}} a section, hidden while there is nothing to show
 */
export function breakdown(lists) {
  const content = h("div.columns-2");
  const element = show(section("Message rates breakdown", content), false);
  const draw = (found) => {
    const shown = lists.filter(([, field]) => found[field]?.length);
    show(element, shown.length > 0);
    fill(content, shown.map(([label, field]) => breakdownTable(label, found[field].slice(0, MOST))));
  };
  return { element, draw };
}
