/** What each broker of a topology has to set: upstreams and a policy, and the commands that set them. */

/** The topologies, in the terms of the guide to federation. `most` is how many brokers one may have. */
export const TOPOLOGIES = {
  pair: { title: "Pair", most: 2, help: "Two brokers, each the upstream of the other: both get one copy of each message." },
  complete: { title: "Complete graph", most: 20, help: "Each broker has all others as upstreams: each gets one copy, over one hop." },
  "fan-out": { title: "Fan-out", most: 100, help: "A tree: each broker has the one above it as upstream. "
    + "Messages of the root, the first broker, reach all; others reach the brokers below." },
  ring: { title: "Ring", most: 100, help: "Each broker has the previous one as upstream, the first one the last: each gets one copy." },
};

/** How many links are between a broker and the root. `above` are the positions of the brokers above; -1 above the root. */
function depthOf(at, above) {
  let depth = 0;
  for (let place = at; place > 0; place = above[place]) {
    depth += 1;
    if (depth > above.length) throw new Error("the brokers of a fan-out must not go round in a circle");
  }
  return depth;
}

/** The positions of the upstreams of a broker. */
function upstreamsOf(topology, at, number, above) {
  if (topology === "fan-out") return at === 0 ? [] : [above[at]];
  if (topology === "ring") return [(at + number - 1) % number];
  return Array.from({ length: number }, (_, other) => other).filter((other) => other !== at);
}

/** A URI, or a list of URIs that were separated by spaces. */
function uriOf({ uri }) {
  const all = uri.split(/\s+/);
  return all.length === 1 ? all[0] : all;
}

/** The number of hops that a topology needs for all brokers to get all messages. */
function hopsOf(topology, at, number, above) {
  if (topology === "fan-out") return depthOf(at, above);
  return topology === "ring" ? number - 1 : 1;
}

/**
 * Plan a topology.
 * @param {{topology: string, brokers: Array<{name: string, uri: string, above: number}>, kind: "exchanges"|"queues",
 *   pattern: string, policy: string, priority?: number, hops?: number}} options `hops` replaces what the topology needs
 * @returns {Array<{name: string, upstreams: Array<{name, value}>, policy: Object|null}>} the settings of each broker
 */
export function plan({ topology, brokers, kind, pattern, policy, priority, hops }) {
  check(topology, brokers);
  const above = brokers.map((broker, at) => (at === 0 ? -1 : broker.above));
  return brokers.map((broker, at) => {
    const most = hops ?? hopsOf(topology, at, brokers.length, above);
    const upstreams = upstreamsOf(topology, at, brokers.length, above).map((other) => ({ name: brokers[other].name,
      value: { uri: uriOf(brokers[other]), ...(kind === "exchanges" ? { "max-hops": most } : {}) } }));
    const definition = { "federation-upstream-set": "all" };
    return {
      name: broker.name, upstreams,
      policy: upstreams.length ? { name: policy, body: { pattern, definition, priority: priority ?? 0, "apply-to": kind } } : null,
    };
  });
}

/** Raises Error with a sentence for the reader. */
function check(topology, brokers) {
  const { title, most } = TOPOLOGIES[topology];
  if (brokers.length < 2) throw new Error("a topology has two brokers at least");
  if (brokers.length > most) throw new Error(`${title}: ${most} brokers at most`);
  const names = new Set();
  for (const [at, { name, uri }] of brokers.entries()) {
    if (!name) throw new Error("each broker needs a name: that of its cluster");
    if (name.startsWith("-")) throw new Error(`${name}: a name that begins with - is taken for an option`);
    if (names.has(name)) throw new Error(`two brokers are called ${name}; cluster names must differ`);
    names.add(name);
    const isUpstream = topology !== "fan-out" || brokers.some((other, place) => place > 0 && other.above === at);
    if (isUpstream && !/^amqps?:\/\//i.test(uri)) throw new Error(`${name}: the URI has to begin with amqp:// or amqps://`);
  }
}

/** A word for a POSIX shell: quoted, unless it has only letters, digits and a few marks. */
const quoted = (word) => (/^[\w./:@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** True if a URI logs in as guest, by name or by default, at another machine: brokers let guest in from their own only. */
export function isGuestElsewhere(text) {
  return text.split(/\s+/).some((uri) => {
    const [, login = "", host] = /^amqps?:\/\/(?:([^@/]*)@)?(\[[^\]]*\]|[^/:?]*)/i.exec(uri) ?? [];
    return Boolean(host) && ["", "guest"].includes(login.split(":")[0]) && !/^(localhost|127\..*|\[::1\])$/i.test(host);
  });
}

/** The commands for a broker; `clusterName` is the name to give it first, or "". */
export function commands({ upstreams, policy }, vhost, clusterName) {
  const where = vhost === "/" ? [] : ["--vhost", vhost];
  const lines = clusterName ? [["warrenctl", "set_cluster_name", clusterName]] : [];
  lines.push(...upstreams.map(({ name, value }) =>
    ["warrenctl", "set_parameter", ...where, "federation-upstream", name, JSON.stringify(value)]));
  if (policy) {
    const { pattern, definition, priority, "apply-to": kind } = policy.body;
    const rank = priority ? ["--priority", String(priority)] : [];
    lines.push(["warrenctl", "set_policy", ...where, policy.name, pattern, JSON.stringify(definition), ...rank, "--apply-to", kind]);
  }
  return lines.map((words) => words.map(quoted).join(" "));
}
