/** The list of queues. */

import { List, NAMED, api, argumentsTable, confirm, form, format, paged, path, tasks } from "../toolkit.js";
import { countColumn, rateColumn } from "./rates.js";
import { deleteObjects, features, folded, emptyList, link, listPage, state, vhostBelow, vhostField, withRights } from "./widgets.js";

const COLUMNS = [
  { id: "vhost", title: "Virtual host", sort: "vhost", wide: true, cell: (queue) => queue.vhost },
  { id: "name", title: "Name", sort: "name", always: true, cell: (queue) => [link.queue(queue.vhost, queue.name), vhostBelow(queue)] },
  { id: "type", title: "Type", sort: "type", wide: true, cell: (queue) => queue.type },
  { id: "features", title: "Features", wide: true, cell: features },
  { id: "state", title: "State", sort: "state", wide: true, cell: (queue) => state(queue.idle_since ? "idle" : queue.state) },
  countColumn("ready", "Ready", "messages_ready"),
  countColumn("unacked", "Unacked", "messages_unacknowledged"),
  countColumn("total", "Total", "messages"),
  rateColumn("incoming", "Incoming", "publish"),
  rateColumn("deliver", "Deliver / get", "deliver_get"),
  rateColumn("ack", "Ack", "ack"),
  rateColumn("redeliver", "Redelivered", "redeliver", { shown: false }),
  countColumn("consumers", "Consumers", "consumers", { shown: false }),
  { id: "capacity", title: "Consumer capacity", sort: "consumer_capacity", number: true, shown: false,
    cell: (queue) => (queue.consumers ? format.percent(queue.consumer_capacity) : "") },
  { id: "bytes", title: "Message bytes", sort: "message_bytes", number: true, shown: false,
    cell: (queue) => format.bytes(queue.message_bytes) },
  { id: "average", title: "Average size", number: true, shown: false, help: "bytes of a message's payload",
    cell: (queue) => (queue.messages ? format.bytes(Math.round(queue.message_bytes / queue.messages)) : "") },
  { id: "oldest", title: "Oldest ready message", sort: "oldest_ready_message_age", number: true, shown: false,
    help: "its age, with the accuracy of the statistics interval", cell: (queue) => format.age(queue.oldest_ready_message_age) },
];
const FIELDS = [
  ...COLUMNS.map((column) => column.sort).filter(Boolean),
  ...["durable", "auto_delete", "exclusive", "arguments", "policy", "operator_policy", "idle_since"], // of features and state
].join(",");
const KNOWN_ARGUMENTS = [
  ["x-message-ttl", "number", "milliseconds until a message expires", "Limits"],
  ["x-expires", "number", "milliseconds without use until the queue is deleted", "Limits"],
  ["x-max-length", "number", "ready messages", "Limits"], ["x-max-length-bytes", "number", "bytes of ready messages", "Limits"],
  ["x-overflow", "string", "drop-head, reject-publish or reject-publish-dlx", "Limits"],
  ["x-dead-letter-exchange", "string", "where rejected and expired messages go", "Dead letters"],
  ["x-dead-letter-routing-key", "string", "their new routing key", "Dead letters"],
  ["x-delivery-limit", "number", "deliveries of a message until it is dropped or dead-lettered", "Dead letters"],
  ["x-single-active-consumer", "boolean", "one consumer at a time", "Consumers"],
  ["x-max-priority", "number", "1 to 255", "Messages"],
  ["x-message-deduplication", "boolean", "drops messages with the header x-deduplication-header seen before", "Messages"],
  ["x-cache-size", "number", "of deduplication: values remembered", "Messages"],
  ["x-cache-ttl", "number", "of deduplication: milliseconds for which they are", "Messages"],
  ["x-deduplication-header", "string", "of deduplication: another header", "Messages"],
  ["x-consumer-timeout", "number", "milliseconds; without effect", "RabbitMQ's"],
  ["x-queue-mode", "string", "default or lazy; without effect", "RabbitMQ's"],
  ["x-queue-version", "number", "1 or 2; without effect", "RabbitMQ's"],
  ["x-queue-leader-locator", "string", "client-local or balanced; without effect", "RabbitMQ's"],
].map(([key, type, help, group]) => ({ key, type, help, group }));

/** The path of a queue in the API. */
export const target = (queue) => path`queues/${queue.vhost}/${queue.name}`;
const nameOf = (queue) => `${queue.name} (${queue.vhost}): ${format.counted(queue.messages ?? 0, "message")}`;

const removeQueues = (queues) => deleteObjects(queues, {
  kind: "queue", consequence: "Their messages and bindings are deleted too.", describe: nameOf, target, right: "configure",
});

async function purgeQueues(queues) {
  const title = queues.length === 1 ? `Purge queue ${queues[0].name}?` : `Purge ${format.count(queues.length)} queues?`;
  const names = queues.slice(0, NAMED).map(nameOf);
  if (!await confirm(title, "Their ready messages are deleted.", names, "Purge", queues.length)) return;
  await tasks.each("Purge queues", queues, (queue, signal) =>
    withRights(queue.vhost, [["read", queue.name]], () => api.remove(`${target(queue)}/contents`, {}, signal)));
}

function addForm(context) {
  const argumentRows = argumentsTable({ label: "Arguments", known: KNOWN_ARGUMENTS });
  return form({
    label: "Add a queue", submit: "Add queue", extra: [argumentRows.element], clear: () => argumentRows.write({}),
    fields: [
      vhostField(context),
      { name: "name", label: "Name", required: true },
      { name: "type", label: "Type", type: "select", options: [["", "default of the virtual host"], "classic", "quorum"] },
      { name: "durable", label: "Durability", type: "select", options: [["true", "durable"], ["false", "transient"]] },
      { name: "auto_delete", label: "Auto delete", type: "select", options: [["false", "No"], ["true", "Yes"]],
        help: "deleted when its last consumer is cancelled" },
    ],
    async run({ vhost, name, type, durable, auto_delete }) {
      const args = { ...argumentRows.read(), ...(type ? { "x-queue-type": type } : {}) };
      const body = { durable: durable === "true", auto_delete: auto_delete === "true", arguments: args };
      const deadLetters = args["x-dead-letter-exchange"];
      const needed = [["configure", name], ...(deadLetters === undefined ? [] : [["read", name], ["write", deadLetters]])];
      const isNew = await withRights(vhost, needed, () => api.set(target({ vhost, name }), body));
      tasks.changed(isNew ? `Queue ${name} is declared.` : `Queue ${name} was there already, with these properties.`);
    },
  });
}

const createList = (context) => listPage("Queues", new List({
  name: "queues", label: "Queues", columns: COLUMNS, key: (queue) => [queue.vhost, queue.name],
  empty: () => emptyList(context, "queues", "clients declare them, or “Add a queue” below does."),
  load: paged(api.get, () => (context.vhost ? path`queues/${context.vhost}` : "queues"), { columns: FIELDS }),
  actions: [{ label: "Purge", run: purgeQueues, danger: true }, { label: "Delete", run: removeQueues, danger: true }],
}), folded("Add a queue", addForm(context)));

export const queuesPage = { route: "queues", section: "queues", title: "Queues", create: createList };
