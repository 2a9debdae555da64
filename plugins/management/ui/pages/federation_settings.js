/** The settings of an upstream, in RabbitMQ's groups, and the form to enter them. */

import { fieldRow, form, format, h, may } from "../toolkit.js";

const HIDDEN = "[redacted]";
const YES_NO = [["", "default"], ["true", "yes"], ["false", "no"]];

/** The settings by group. `column` is the title in lists; empty inputs are not sent, so the default applies. */
export const GROUPS = [
  {
    title: "General parameters",
    fields: [
      { name: "uri", label: "URI", type: "area", rows: 2, required: true, placeholder: "amqp://server-name",
        help: "One, or several of the same broker or cluster, separated by spaces. Passwords are shown as [redacted]." },
      { name: "prefetch-count", label: "Prefetch count", type: "number", min: 0, max: 65535, step: 1,
        help: "The limit of unacknowledged messages. Default: 1000." },
      { name: "reconnect-delay", label: "Reconnect delay", type: "number", min: 0, step: "any",
        help: "Seconds between attempts to connect. Default: 5." },
      { name: "ack-mode", label: "Acknowledgement mode", column: "Ack mode", type: "select",
        options: [["", "default"], ["on-confirm", "on confirm"], ["on-publish", "on publish"], ["no-ack", "no ack"]],
        help: "When messages are acknowledged upstream. Default: on-confirm, when they are safe here, so that none is lost; "
          + "on-publish: when they are published here; no-ack: at once." },
      { name: "trust-user-id", label: "Trust User-ID", type: "select", boolean: true, options: YES_NO,
        help: "Keep the property user-id of messages. Default: no." },
      { name: "channel-use-mode", label: "Channel use mode", type: "select", options: [["", "default"], "multiple", "single"],
        help: "One channel upstream for messages and commands (single), or several. Default: multiple." },
    ],
  },
  {
    title: "Federated exchanges parameters",
    fields: [
      { name: "exchange", label: "Exchange", help: "The name of the exchange upstream. Default: the name of the federated exchange." },
      { name: "max-hops", label: "Max hops", type: "number", min: 0, step: 1, help: "How many links a message may pass. Default: 1." },
      { name: "expires", label: "Expires", column: "Expiry", type: "number", min: 1, step: 1,
        help: "Milliseconds until the queue upstream is deleted after the link is lost. Default: never." },
      { name: "message-ttl", label: "Message TTL", type: "number", min: 0, step: 1,
        help: "Milliseconds until a message that waits upstream expires. Default: never." },
      { name: "queue-type", label: "Queue type", type: "select", options: [["", "default"], "classic", "quorum"],
        help: "The type of the queue upstream. Default: classic." },
      { name: "resource-cleanup-mode", label: "Resource cleanup mode", type: "select", options: [["", "default"], "never"],
        help: "Default: the queue upstream is deleted with the link. never: it stays, and collects messages." },
      { name: "bind-nowait", label: "Bind without waiting", type: "select", boolean: true, options: YES_NO,
        help: "Do not wait for the answer to each binding upstream: faster with many bindings and a slow network. Default: no." },
    ],
  },
  {
    title: "Federated queues parameters",
    fields: [
      { name: "queue", label: "Queue", help: "The name of the queue upstream. Default: the name of the federated queue." },
      { name: "consumer-tag", label: "Consumer tag",
        help: "The tag of the link's consumer upstream. Default: federation-link- and the name of the upstream." },
    ],
  },
];
const FIELDS = GROUPS.flatMap((group) => group.fields);
const uris = (value) => [value ?? []].flat().map(String);

/** Return the value of the parameter from the entered texts, with the types that the broker stores. Empty inputs are left out. */
function valueOf(entered) {
  const value = {};
  for (const field of FIELDS) {
    const given = entered[field.name];
    if (given === undefined || given === "") continue;
    value[field.name] = field.boolean ? given === "true" : given;
  }
  const all = (entered.uri ?? "").split(/\s+/).filter(Boolean);
  return { ...value, uri: all.length === 1 ? all[0] : all };
}

/**
 * Restore passwords that were shown as [redacted], if the API has sent them: it sends them to administrators.
 * A URI that was not changed stays the same; one that was changed keeps the password of the same user, unless `stored`
 * differs from `seen`, the value that was changed: its password may be for another broker. Raises Error then.
 */
export function restored(entered, stored, seen) {
  const known = uris(stored);
  if (uris(entered).join(" ") === textOf(FIELDS[0], stored)) return stored;
  const all = uris(entered).map((one) => {
    if (!one.includes(HIDDEN)) return one;
    const same = known.find((uri) => format.uri(uri) === one);
    if (same !== undefined) return same;
    if (uris(seen).join(" ") !== known.join(" ")) throw new Error("the URI was changed by another user: enter its password again");
    const login = one.slice(0, one.indexOf(HIDDEN));
    const other = known.find((uri) => uri.startsWith(login) && uri.includes("@"));
    return other === undefined ? one : one.replace(HIDDEN, () => other.slice(login.length, other.lastIndexOf("@")));
  });
  return Array.isArray(entered) ? all : all[0];
}

/** The text of a setting in its input. */
function textOf(field, value) {
  if (field.name === "uri") return uris(value).map(format.uri).join(" ");
  return value === undefined ? "" : String(value);
}

/**
 * A form for the settings of an upstream.
 * @param {{label, submit, fixed: Array, value?: Object, keep?: boolean, latest?, replaced?, run: (entered, value, stored) => Promise}} options
 *   `fixed` are fields before the settings, `value` are stored settings to change
 */
export function upstreamForm({ label, submit, fixed, value = {}, keep = false, latest, replaced, run }) {
  const groups = GROUPS.map((group) =>
    h("fieldset.field", {}, h("legend", {}, group.title), group === GROUPS[0] ? fixed.map(fieldRow) : null,
      group.fields.map(({ column, boolean, ...field }) => fieldRow({ ...field, value: textOf(field, value[field.name]) }))));
  const hidden = keep && !may.administer() && textOf(FIELDS[0], value.uri).includes(HIDDEN);
  return form({ label, submit, keep, latest, replaced, fields: groups, run: (entered, stored) => run(entered, valueOf(entered), stored),
    extra: hidden ? [h("p", {}, "Passwords are shown to administrators only: enter them again in the URI.")] : [] });
}
