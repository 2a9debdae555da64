"""Link specifications: the links that should run according to the node's policies and parameters; pure.

There is one link for each federated object, upstream, and name of the object there. The links that a policy asks for
are looked up once for all its objects; an object whose policy does not federate it costs three lookups. An upstream
with the key `drain` asks by itself for a link of each queue that it lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from warren.broker.amqp.limits import RESERVED
from warren.broker.core.metadata.patterns import Pattern
from warren.broker.core.policies.policy_keys import DEDUPLICATE, FEDERATION, MULTI_HOP
from warren.broker.core.policies.upstream_parameters import UPSTREAM, UPSTREAM_SET
from warren.broker.plugin import Exchange, Invalid, Node, Queue, stable_hash

from .link_settings import Kind, LinkSettings, link_settings
from .upstream.endpoint import parse_endpoint

Definition = Mapping[str, object]

ONE, SET, PATTERN = FEDERATION
DRAIN = "drain"  # of an upstream: the names of the queues whose messages its links take over
ALL_UPSTREAMS = "all"  # the name of the implicit set of all upstreams
PURPOSE = "x-internal-purpose"
SLICE = 2000  # exchanges and queues scanned in one turn of the loop


class LinkKey(NamedTuple):
    """The identity of a link. `upstream_name` is the name of the exchange or queue upstream."""

    vhost: str
    kind: Kind
    name: str
    upstream: str
    upstream_name: str

    @property
    def id(self) -> str:
        """The identity as 8 hex digits, the same after a restart and on every machine."""
        joined = b""
        for part in self:
            encoded = part.encode("utf-8", "surrogatepass")
            joined += len(encoded).to_bytes(4, "big") + encoded
        return f"{stable_hash(joined) >> 32:08x}"


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A link that should run. `policy` is the policy that asks for it, `user` the user who set the upstream."""

    key: LinkKey
    settings: LinkSettings
    policy: str
    deduplicate: bool = False
    multi_hop: bool = False
    user: str = ""


def scan(node: Node, targets: list[Exchange | Queue]) -> Iterator[None]:
    """Add all exchanges and queues to `targets` that are federated or drained to, SLICE objects at a time.

    Virtual hosts without upstreams are skipped.
    """
    seen = 0
    for name in sorted({parameter.vhost for parameter in node.parameters.all(None, UPSTREAM)}):
        vhost = node.vhosts.get(name)
        if vhost is None:
            continue
        drained = Upstreams(node, name).drained
        there: list[Exchange | Queue] = [*vhost.exchanges.values(), *vhost.queues.values()]
        for target in there:
            if asks_for_federation(target.effective) or (target.name in drained and isinstance(target, Queue)):
                targets.append(target)
            seen += 1
            if seen % SLICE == 0:
                yield


def desired_links(node: Node, targets: Iterable[Exchange | Queue]) -> dict[LinkKey, LinkSpec]:
    """Return the links of those targets that still exist."""
    found: dict[LinkKey, LinkSpec] = {}
    upstreams: dict[str, Upstreams] = {}
    for target in targets:
        if still_exists(node, target) and can_be_federated(target):
            if target.vhost not in upstreams:
                upstreams[target.vhost] = Upstreams(node, target.vhost)
            found.update(links_of(target, upstreams[target.vhost]))
    return found


def still_exists(node: Node, target: Exchange | Queue) -> bool:
    """Whether the target and its virtual host still exist."""
    vhost = node.vhosts.get(target.vhost)
    if vhost is None:
        return False
    there: Mapping[str, object] = vhost.queues if isinstance(target, Queue) else vhost.exchanges
    return there.get(target.name) is target


def asks_for_federation(definition: Definition) -> bool:
    """Whether a policy's definition has a federation key."""
    return ONE in definition or SET in definition or PATTERN in definition


def can_be_federated(target: Exchange | Queue) -> bool:
    """Whether an exchange or queue may be federated.

    The default exchange and internal exchanges and queues may not. Nor may exclusive queues and queues with names made
    by the broker, which last no longer than their clients.
    """
    if isinstance(target, Exchange):
        return target.name != "" and not target.internal
    if target.owner is not None or target.name.startswith(RESERVED):
        return False
    return target.arguments.text(PURPOSE) is None


class Upstreams:
    """The upstreams that the parameters of one virtual host define.

    `users` are those who set each upstream; `drained` are the upstreams that drain a queue of their own, by its name.
    """

    __slots__ = ("_definitions", "users", "drained", "_node", "_vhost", "_settings")

    def __init__(self, node: Node, vhost: str) -> None:
        self._node = node
        self._vhost = vhost
        self._definitions: dict[str, dict[str, object]] = {}
        self.users: dict[str, str] = {}
        self.drained: dict[str, list[LinkSettings]] = {}
        for parameter in node.parameters.all(vhost, UPSTREAM):
            if isinstance(parameter.value, dict):
                self._definitions[parameter.name] = parameter.value
                self.users[parameter.name] = parameter.user
                self._add_drained(parameter.name, parameter.value)
        # By id() of the definition, which is kept so that no other object can have the same id.
        self._settings: dict[int, tuple[Definition, list[LinkSettings]]] = {}

    def _add_drained(self, name: str, definition: Definition) -> None:
        queues = definition.get(DRAIN)
        if isinstance(queues, list):
            settings = replace(link_settings(name, definition), queue=None, drain=True)
            for queue in {queue for queue in queues if isinstance(queue, str)}:
                self.drained.setdefault(queue, []).append(settings)

    def settings_for(self, definition: Definition) -> list[LinkSettings]:
        """Return the settings of the links that a policy's definition asks for, for each of its objects."""
        known = self._settings.get(id(definition))
        if known is None:
            known = self._settings[id(definition)] = (definition, list(self._select(definition)))
        return known[1]

    def _select(self, definition: Definition) -> Iterable[LinkSettings]:
        one, set_, pattern = (definition.get(key) for key in FEDERATION)
        if isinstance(one, str):
            return self._resolve([{"upstream": one}])
        if isinstance(set_, str) and set_ != ALL_UPSTREAMS:
            elements = self._node.parameters.get(self._vhost, UPSTREAM_SET, set_)
            return self._resolve(elements if isinstance(elements, list) else [])
        if isinstance(pattern, str):
            return self._resolve([{"upstream": name} for name in match_names(pattern, self._definitions)])
        return self._resolve([{"upstream": name} for name in self._definitions])

    def _resolve(self, elements: list[object]) -> Iterable[LinkSettings]:
        """Make the settings of those elements whose upstream is defined; others may be defined later."""
        for element in elements:
            name = element.get("upstream") if isinstance(element, dict) else None
            if isinstance(element, dict) and isinstance(name, str) and name in self._definitions:
                yield link_settings(name, self._definitions[name], element)


def match_names(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that the pattern matches anywhere."""
    try:
        compiled = Pattern(pattern or ".*")
    except Invalid:
        return []
    return [name for name in names if compiled.matches(name)]


def links_of(target: Exchange | Queue, upstreams: Upstreams) -> dict[LinkKey, LinkSpec]:
    """Return the links of a target that can be federated. If elements of a set have equal names, the first counts.

    A link that drains a queue replaces the link of a policy.
    """
    definition = target.effective
    exchange = isinstance(target, Exchange)
    kind: Kind = "exchange" if exchange else "queue"
    found: dict[LinkKey, LinkSpec] = {}
    for settings in () if exchange else upstreams.drained.get(target.name, ()):
        key = LinkKey(target.vhost, kind, target.name, settings.upstream, target.name)
        found[key] = LinkSpec(key, settings.of_kind(kind), "", user=upstreams.users[settings.upstream])
    if not asks_for_federation(definition):
        return found
    policy = target.policy.name if target.policy is not None else ""
    for settings in upstreams.settings_for(definition):
        there = (settings.exchange if exchange else settings.queue) or target.name
        key = LinkKey(target.vhost, kind, target.name, settings.upstream, there)
        deduplicate = exchange and definition.get(DEDUPLICATE) is True
        multi_hop = not exchange and definition.get(MULTI_HOP) is True
        user = upstreams.users[settings.upstream]
        found.setdefault(key, LinkSpec(key, settings.of_kind(kind), policy, deduplicate, multi_hop, user))
    return found


def keeps_upstream_queue(old: LinkSpec, new: LinkSpec) -> bool:
    """Whether the new link uses the upstream queue of the old one, so that its messages are kept.

    It does if it declares the queue with the same properties at a broker to which both links connect.
    """
    before, after = old.settings, new.settings
    if old.key != new.key or (before.expires_ms, before.message_ttl_ms, before.queue_type) != (
        after.expires_ms,
        after.message_ttl_ms,
        after.queue_type,
    ):
        return False
    if before.uris == after.uris:
        return True
    there, then = broker_addresses(before, old.key.vhost), broker_addresses(after, new.key.vhost)
    return any(same_broker(one, other) for one in there for other in then)


class BrokerAddress(NamedTuple):
    """The broker and virtual host that a URI leads to."""

    host: str
    port: int
    tls: bool
    vhost: str


def broker_addresses(settings: LinkSettings, vhost: str) -> set[BrokerAddress]:
    """Return the address of each valid URI; `vhost` is the virtual host of URIs that name none."""
    found: set[BrokerAddress] = set()
    for uri in settings.uris:
        try:
            one = parse_endpoint(uri)
        except Invalid:
            continue
        found.add(BrokerAddress(one.host, one.port, one.tls, vhost if one.vhost is None else one.vhost))
    return found


def same_broker(one: BrokerAddress, other: BrokerAddress) -> bool:
    """Whether two addresses are those of one broker, whose ports with and without TLS differ."""
    return (one.host, one.vhost) == (other.host, other.vhost) and (one.port == other.port or one.tls != other.tls)
