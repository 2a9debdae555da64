/** The page of a queue. */

import {
  DEFAULT_EXCHANGE, List, api, confirm, facts, fill, form, format, h, rangeChooser, rangeQuery, tasks,
} from "../toolkit.js";
import { bindingsTo } from "./bindings.js";
import { consumerColumns, consumerKey } from "./channels.js";
import { publishForm } from "./publish_form.js";
import { getMessages, moveForm, unackedMessages } from "./queue_messages.js";
import { target } from "./queues.js";
import { breakdown, lengthsChart, ratesChart } from "./rates.js";
import { deleteForm, features, folded, heading, hideForbidden, link, section, state, tableOf, withRights } from "./widgets.js";

// the columns of RabbitMQ's table of sizes, with the ending of the fields
const CLASSES = [
  ["Total", ""], ["Ready", "_ready"], ["Unacked", "_unacknowledged"], ["In memory", "_ram"], ["Persistent", "_persistent"],
  ["Paged out", "_paged_out"],
];

const AGE_HELP = "its age, with the accuracy of the statistics interval";

/** The counts and bytes of messages by class; made once, then only its texts change. */
function sizesTable() {
  const cells = CLASSES.map(() => [h("td.number"), h("td.number")]);
  const label = "Messages by class";
  const rowOf = (title, row) => h("tr", {}, h("th", { scope: "row" }, title), cells.map((pair) => pair[row]));
  const element = h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, h("table", { "aria-label": label },
    h("thead", {}, h("tr", {}, h("td", {}), CLASSES.map(([title]) => h("th.number", { scope: "col" }, title)))),
    h("tbody", {}, ["Messages", "Message body bytes"].map(rowOf))));
  const draw = (queue) => CLASSES.forEach(([, ending], at) => {
    fill(cells[at][0], format.count(queue[`messages${ending}`]));
    fill(cells[at][1], format.bytes(queue[`message_bytes${ending}`]));
  });
  return { element, draw };
}

/** What a confirm means for a quorum queue; nothing for other queues. */
function replication({ replicated, guarantee }) {
  if (replicated === undefined) return "";
  return `${replicated ? "Yes" : "No"}: a confirmed message is on ${guarantee}`;
}

function leftFacts(queue) {
  const { vhost, arguments: given, policy, operator_policy: operatorPolicy, owner_pid_details: owner } = queue;
  const effective = queue.effective_policy_definition ?? {};
  return [
    ["Features", features(queue)], ["Type", queue.type], ["Replicated", replication(queue)],
    ["Arguments", Object.keys(given).length ? tableOf(given) : ""],
    ["Policy", policy ? link.policy(vhost, policy) : "none"], ["Operator policy", operatorPolicy ?? "none"],
    ["Effective policy definition", Object.keys(effective).length ? tableOf(effective) : "none"],
    ["Exclusive owner", owner ? link.connection(owner.name) : ""], ["Node", link.node(queue.node)],
  ];
}

function rightFacts(queue) {
  const { oldest_ready_message_age: oldest } = queue;
  return [
    ["State", state(queue.idle_since ? "idle" : queue.state)], ["Idle since", format.time(queue.idle_since)],
    ["Consumers", format.count(queue.consumers)], ["Consumer capacity", queue.consumers ? format.percent(queue.consumer_capacity) : ""],
    ["Single active consumer", queue.single_active_consumer_tag], ["Exclusive consumer", queue.exclusive_consumer_tag],
    ["Delivery limit", queue.delivery_limit < 0 ? "none" : format.count(queue.delivery_limit)],
    ["Oldest ready message", oldest === undefined ? "" : h("span", { title: AGE_HELP }, format.age(oldest))],
    ["Average message size", queue.messages ? format.bytes(Math.round(queue.message_bytes / queue.messages)) : ""],
    ["Memory", format.bytes(queue.memory)],
  ];
}

const deletion = (queue) => deleteForm(queue, {
  kind: "queue", target: target(queue), consequence: "Its messages and bindings are deleted too.", list: "queues",
  conditions: [["if-unused", "Only if it has no consumers"], ["if-empty", "Only if it is empty"]],
});

function purgeForm(here, { vhost, name }) {
  return form({
    label: "Purge", submit: "Purge messages", danger: true, keep: true,
    fields: [h("p", {}, "Deletes all ready messages; unacknowledged ones stay.")],
    async run() {
      if (!await confirm(`Purge queue ${name}?`, "Its ready messages are deleted.", [`${name} (${vhost})`], "Purge")) return;
      await withRights(vhost, [["read", name]], () => api.remove(`${here}/contents`));
      tasks.changed(`Queue ${name} is purged.`);
    },
  });
}

function create(context) {
  const { vhost, name } = context.params;
  const queue = { vhost, name, kind: "queue" };
  const here = target(queue);
  const lengths = lengthsChart();
  const rates = ratesChart();
  const left = h("div");
  const right = h("div");
  const sizes = sizesTable();
  const parts = breakdown([["Incoming", "incoming"], ["Deliveries", "deliveries"]]);
  const consumersTable = new List({
    name: "consumers_of_queue", label: "Consumers", columns: consumerColumns("queue", "vhost"), local: true,
    filtered: "consumer tag", empty: "no consumers", key: consumerKey, text: (one) => one.consumer_tag,
  });
  const bindings = bindingsTo(context, queue);
  const unacked = unackedMessages(`warren/${here}`);
  const unackedSection = section("Unacknowledged messages", unacked.element);
  const publish = folded("Publish message", publishForm({ vhost, exchange: "", queue: name }));
  const get = folded("Get messages", getMessages(context, { vhost, name, target: here }));
  const move = folded("Move messages", moveForm(context, queue, `warren/${here}`));
  const purge = folded("Purge", purgeForm(here, queue));
  const remove = folded("Delete", deletion(queue));
  const forms = [["write", DEFAULT_EXCHANGE, publish], ["read", name, get], ["read", name, move], ["read", name, purge],
    ["configure", name, remove]];
  let isNew = true;
  const element = h("div.page", {}, heading("Queue", name, vhost),
    section("Overview", rangeChooser(context.refresh), h("div.charts", {}, lengths.element, rates.element)), parts.element,
    section("Details", h("div.columns-2", {}, left, right), sizes.element),
    section("Consumers", consumersTable.element), unackedSection, section("Bindings to this queue", bindings.element),
    publish, get, move, purge, remove);
  const refresh = async (signal) => {
    const queue = await api.get(here, rangeQuery(["lengths", "msg_rates"]), signal);
    if (isNew) await hideForbidden(vhost, forms, signal);
    isNew = false;
    lengths.draw(queue);
    rates.draw(queue.message_stats);
    parts.draw(queue);
    sizes.draw(queue);
    fill(left, facts(leftFacts(queue)));
    fill(right, facts(rightFacts(queue)));
    const count = unackedSection.open && !queue.exclusive ? queue.messages_unacknowledged : 0;
    const consumers = consumersTable.show(queue.consumer_details ?? []);
    await Promise.all([consumers, unacked.refresh(signal, count, queue.exclusive), bindings.refresh(signal)]);
  };
  return { element, refresh };
}

export const queuePage = { route: "queues/:vhost/:name", section: "queues", title: "Queue", create };
