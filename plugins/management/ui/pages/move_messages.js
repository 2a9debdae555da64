/** The form that moves messages of a queue to another queue or to an exchange. */

import * as api from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { form } from "../core/form.js";
import * as tasks from "../core/tasks.js";
import { h, show } from "../web/dom.js";
import * as format from "../web/format.js";

const PATIENCE = 50; // successive parts of a move in which the queue gave nothing: some seconds

/** Move `total` messages in parts, with progress, until it is done, stopped, or refused. */
function moveAll(here, title, destination, total) {
  let idle = 0;
  return tasks.repeat(title, total, async (left) => {
    const { moved, messages_ready: ready, problem } = await api.post(`${here}/move`, { destination, count: left });
    idle = moved ? 0 : idle + 1;
    return { done: moved, problem, more: ready > 0 && !problem && idle < PATIENCE };
  });
}

/** Make the form; `here` is the path of the queue below /api/warren. */
export function moveForm(context, { vhost, name }, here) {
  const element = form({
    label: "Move messages", submit: "Move messages", keep: true,
    fields: [
      h("p", {}, "Ready messages are removed here and published there, the oldest first. Each is stored there before it is removed here. ",
        "A message that is refused or not routed stays in this queue and ends the move."),
      { name: "kind", label: "To", type: "select", options: [["queue", "queue"], ["exchange", "exchange"]] },
      { name: "destination", label: "Name of the destination", required: true },
      { name: "key", label: "Routing key", help: "empty: each message keeps its own" },
      { name: "count", label: "Messages", type: "number", min: 1, help: "empty: all that are ready now" },
    ],
    async run({ kind, destination: chosen, key, count }) {
      const queue = await api.get(here.replace("warren/", ""), { columns: "messages_ready" });
      const total = Math.min(count ?? Infinity, queue.messages_ready);
      if (!total) throw new Error("The queue has no ready messages.");
      if (kind === "queue" && chosen === name) throw new Error("A queue cannot be moved to itself.");
      const destination = kind === "queue" ? { queue: chosen } : { exchange: chosen, ...(key ? { routing_key: key } : {}) };
      const question = `Move ${format.counted(total, "message")} of ${name}?`;
      if (!await confirm(question, `They go to this ${kind} of virtual host ${vhost}:`, [chosen], "Move")) return;
      moveAll(here, `Move messages of ${name}`, destination, total).then(context.refresh);
    },
  });
  const kind = element.querySelector("select");
  const key = element.querySelector("[data-field=key]");
  const adapt = () => show(key, kind.value === "exchange");
  kind.addEventListener("change", adapt);
  adapt();
  return element;
}
