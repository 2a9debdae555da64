/** Rates: the column of a list, and the charts of queues, exchanges, channels and the node. */

import { Chart } from "../core/chart.js";
import * as format from "../core/format.js";

/**
 * The column of a rate of messages in a list.
 * @param {string} name of the counter: "publish"
 * @param {Object} [more] more properties of the column, such as `help`
 */
export const rateColumn = (id, title, name, more = {}) => ({
  id, title, number: true, sort: `message_stats.${name}_details.rate`, ...more, cell: (one) => format.rate(rateOf(one, name)),
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

const ratesOf = (title, series) => new Chart(title, series, { rates: true, format: format.rate });

export const lengthsChart = () => new Chart("Queued messages", LENGTHS, { format: format.count });
export const ratesChart = () => ratesOf("Message rates", RATES);
export const exchangeChart = () => ratesOf("Message rates", EXCHANGE_RATES);
export const dataChart = () => new Chart(
  "Data rates", [["From client", "recv_oct"], ["To client", "send_oct"]], { rates: true, format: format.byteRate });
export const churnChart = (kind) => ratesOf(`${kind[0].toUpperCase()}${kind.slice(1)} opened and closed`, CHURN[kind]);
