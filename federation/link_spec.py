"""Which links there should be, by what the node's policies and parameters say (spec/federation.md 1, 3); pure.

A link is one per federated object, upstream, and name of the object there. What a policy asks for is looked up once for
all that it holds for; an object whose policy says nothing of federation costs three lookups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from warren.broker.plugin import (
    DEDUPLICATE,
    FEDERATION,
    MULTI_HOP,
    UPSTREAM,
    UPSTREAM_SET,
    Exchange,
    Invalid,
    Node,
    Pattern,
    Queue,
    stable_hash,
)

from .link_settings import Kind, LinkSettings, link_settings
from .upstream.endpoint import parse_endpoint

Definition = Mapping[str, object]

ONE, SET, PATTERN = FEDERATION
EVERY = "all"  # the set of all upstreams, which nobody defines
PURPOSE = "x-internal-purpose"
RESERVED = "amq."
SLICE = 2000  # exchanges and queues looked at in one turn of the loop


class LinkKey(NamedTuple):
    """What tells links apart. `upstream_name` is the name of the exchange or queue at the upstream."""

    vhost: str
    kind: Kind
    name: str
    upstream: str
    upstream_name: str

    @property
    def id(self) -> str:
        """8 hex digits, the same after a restart and on every machine."""
        octets = b""
        for part in self:
            encoded = part.encode("utf-8", "surrogatepass")
            octets += len(encoded).to_bytes(4, "big") + encoded
        return f"{stable_hash(octets) >> 32:08x}"


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A link that should run. `policy` is the name of the one that asks for it, `user` who set the upstream."""

    key: LinkKey
    settings: LinkSettings
    policy: str
    deduplicate: bool = False
    multi_hop: bool = False
    user: str = ""


def scan(node: Node, targets: list[Exchange | Queue]) -> Iterator[None]:
    """Add to `targets` all exchanges and queues of the node that are to be federated, SLICE objects at a time.

    Virtual hosts without upstreams are left out.
    """
    seen = 0
    for name in sorted({parameter.vhost for parameter in node.parameters.all(None, UPSTREAM)}):
        vhost = node.vhosts.get(name)
        if vhost is None:
            continue
        there: list[Exchange | Queue] = [*vhost.exchanges.values(), *vhost.queues.values()]
        for target in there:
            if asks(target.effective):
                targets.append(target)
            seen += 1
            if seen % SLICE == 0:
                yield


def desired_links(node: Node, targets: Iterable[Exchange | Queue]) -> dict[LinkKey, LinkSpec]:
    """The links of those targets that are still there."""
    found: dict[LinkKey, LinkSpec] = {}
    upstreams: dict[str, Upstreams] = {}
    for target in targets:
        if is_there(node, target) and asks(target.effective) and can_be_federated(target):
            if target.vhost not in upstreams:
                upstreams[target.vhost] = Upstreams(node, target.vhost)
            found.update(links_of(target, upstreams[target.vhost]))
    return found


def is_there(node: Node, target: Exchange | Queue) -> bool:
    """Whether it is not deleted, nor its virtual host."""
    vhost = node.vhosts.get(target.vhost)
    if vhost is None:
        return False
    there: Mapping[str, object] = vhost.queues if isinstance(target, Queue) else vhost.exchanges
    return there.get(target.name) is target


def asks(definition: Definition) -> bool:
    """Whether it says anything of federation."""
    return ONE in definition or SET in definition or PATTERN in definition


def can_be_federated(target: Exchange | Queue) -> bool:
    """Not the default exchange nor what the broker has for itself; of queues none that is one connection's, or has a
    name that the broker made up, since these come and go with their clients."""
    if isinstance(target, Exchange):
        return target.name != "" and not target.internal
    if target.owner is not None or target.name.startswith(RESERVED):
        return False
    return target.arguments.text(PURPOSE) is None


class Upstreams:
    """Of one virtual host, as its parameters say now."""

    __slots__ = ("_definitions", "users", "_node", "_vhost", "_asked")

    def __init__(self, node: Node, vhost: str) -> None:
        self._node = node
        self._vhost = vhost
        self._definitions: dict[str, dict[str, object]] = {}
        self.users: dict[str, str] = {}  # who set each
        for parameter in node.parameters.all(vhost, UPSTREAM):
            if isinstance(parameter.value, dict):
                self._definitions[parameter.name] = parameter.value
                self.users[parameter.name] = parameter.user
        # By the identity of a definition, which is kept so that no other can have it.
        self._asked: dict[int, tuple[Definition, list[LinkSettings]]] = {}

    def asked_by(self, definition: Definition) -> list[LinkSettings]:
        """The links that a policy's definition asks for, for each object that it holds for."""
        known = self._asked.get(id(definition))
        if known is None:
            known = self._asked[id(definition)] = (definition, list(self._looked_up(definition)))
        return known[1]

    def _looked_up(self, definition: Definition) -> Iterable[LinkSettings]:
        one, set_, pattern = (definition.get(key) for key in FEDERATION)
        if isinstance(one, str):
            return self._of([{"upstream": one}])
        if isinstance(set_, str) and set_ != EVERY:
            elements = self._node.parameters.get(self._vhost, UPSTREAM_SET, set_)
            return self._of(elements if isinstance(elements, list) else [])
        if isinstance(pattern, str):
            return self._of([{"upstream": name} for name in matching(pattern, self._definitions)])
        return self._of([{"upstream": name} for name in self._definitions])

    def _of(self, elements: list[object]) -> Iterable[LinkSettings]:
        """Those whose upstream there is: it may be defined later."""
        for element in elements:
            name = element.get("upstream") if isinstance(element, dict) else None
            if isinstance(element, dict) and isinstance(name, str) and name in self._definitions:
                yield link_settings(name, self._definitions[name], element)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those in which the pattern is found."""
    try:
        compiled = Pattern(pattern or ".*")
    except Invalid:
        return []
    return [name for name in names if compiled.found(name)]


def links_of(target: Exchange | Queue, upstreams: Upstreams) -> dict[LinkKey, LinkSpec]:
    """Of one that can be federated. An element of a set that repeats another one's names adds nothing."""
    definition = target.effective
    policy = target.policy.name if target.policy is not None else ""
    exchange = isinstance(target, Exchange)
    kind: Kind = "exchange" if exchange else "queue"
    found: dict[LinkKey, LinkSpec] = {}
    for settings in upstreams.asked_by(definition):
        there = (settings.exchange if exchange else settings.queue) or target.name
        key = LinkKey(target.vhost, kind, target.name, settings.upstream, there)
        deduplicate = exchange and definition.get(DEDUPLICATE) is True
        multi_hop = not exchange and definition.get(MULTI_HOP) is True
        user = upstreams.users[settings.upstream]
        found.setdefault(key, LinkSpec(key, settings.of_kind(kind), policy, deduplicate, multi_hop, user))
    return found


def reattaches(old: LinkSpec, new: LinkSpec) -> bool:
    """Whether the upstream queue of the old link serves the new one, so that what waits in it is kept: it would be
    declared the same, at a broker that is still among those that are named."""
    before, after = old.settings, new.settings
    if old.key != new.key or (before.expires_ms, before.message_ttl_ms, before.queue_type) != (
        after.expires_ms,
        after.message_ttl_ms,
        after.queue_type,
    ):
        return False
    if before.uris == after.uris:
        return True
    there, then = places(before, old.key.vhost), places(after, new.key.vhost)
    return any(same_broker(one, other) for one in there for other in then)


class Place(NamedTuple):
    """Where a URI leads."""

    host: str
    port: int
    tls: bool
    vhost: str


def places(settings: LinkSettings, vhost: str) -> set[Place]:
    """Of each URI that is one; the virtual host is that of the link where it names none."""
    found: set[Place] = set()
    for uri in settings.uris:
        try:
            one = parse_endpoint(uri)
        except Invalid:
            continue
        found.add(Place(one.host, one.port, one.tls, vhost if one.vhost is None else one.vhost))
    return found


def same_broker(one: Place, other: Place) -> bool:
    """As far as URIs tell: with TLS and without, a broker has two ports."""
    return (one.host, one.vhost) == (other.host, other.vhost) and (one.port == other.port or one.tls != other.tls)
