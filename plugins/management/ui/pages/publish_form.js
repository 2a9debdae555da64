/** The form that publishes a message to an exchange or a queue. */

import { DEFAULT_EXCHANGE, api, argumentsTable, form, h, path, tasks } from "../toolkit.js";
import { withRights } from "./widgets.js";

const PROPERTIES = [
  ["content_type", "string", "application/json"], ["content_encoding", "string", "gzip"], ["priority", "number", "0 to 255"],
  ["correlation_id", "string", ""], ["reply_to", "string", "the name of a queue"],
  ["expiration", "string", "milliseconds until it expires"], ["message_id", "string", ""],
  ["timestamp", "number", "seconds since 1970"], ["type", "string", ""], ["user_id", "string", "must be your own name"],
  ["app_id", "string", ""], ["cluster_id", "string", ""],
].map(([key, type, help]) => ({ key, type, help }));

/**
 * Make the form. Without `queue` the routing key can be entered; with it messages go to the default exchange.
 * @param {{vhost: string, exchange: string, queue?: string}} target
 */
export function publishForm({ vhost, exchange, queue }) {
  const headers = argumentsTable({ label: "Headers" });
  const properties = argumentsTable({ label: "Properties", known: PROPERTIES });
  return form({
    label: "Publish message", submit: "Publish message", keep: true,
    fields: [
      queue === undefined
        ? { name: "key", label: "Routing key" }
        : h("p", {}, "The message is published to the default exchange, which routes it to this queue."),
      { name: "mode", label: "Delivery mode", type: "select", options: [["1", "1 - Non-persistent"], ["2", "2 - Persistent"]] },
      { name: "payload", label: "Payload", type: "area" },
      { name: "encoding", label: "Payload encoding", type: "select", options: [["string", "String"], ["base64", "Base64"]] },
      headers.element, properties.element,
    ],
    async run({ key = queue, mode, payload, encoding }) {
      const allProperties = { delivery_mode: Number(mode), ...properties.read(), headers: headers.read() };
      const body = { routing_key: key, properties: allProperties, payload, payload_encoding: encoding };
      const target = path`exchanges/${vhost}/${exchange || DEFAULT_EXCHANGE}/publish`;
      const { routed } = await withRights(vhost, [["write", exchange || DEFAULT_EXCHANGE]], () => api.post(target, body));
      if (!routed) throw new Error("The message was published, but not routed: no binding matches it.");
      tasks.changed("Message published.");
    },
  });
}
