"""Link specifications: the links that should run according to the node's policies and parameters; pure.

There is one link for each federated object, upstream, and name of the object there. The links of a policy are looked
up once for all its objects; an object whose policy does not federate it costs three lookups. An upstream with the key
`drain` needs no policy: it has a link for each queue that it lists.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from warren.broker.amqp.limits import RESERVED
from warren.broker.core.metadata.patterns import Pattern, SearchTime
from warren.broker.core.policies.parameters import Parameter
from warren.broker.core.policies.policy_keys import DEDUPLICATE, FEDERATION, MULTI_HOP
from warren.broker.core.policies.upstream_parameters import UPSTREAM, UPSTREAM_SET
from warren.broker.plugin import Exchange, Invalid, Node, Queue, stable_hash

from .link_settings import Kind, LinkSettings, link_settings
from .upstream.endpoint import parse_endpoint

Definition = Mapping[str, object]

ONE, SET, PATTERN = FEDERATION
DRAIN = "drain"  # a key of an upstream: the names of the queues whose messages its links take over
ALL_UPSTREAMS = "all"  # the name of the implicit set of all upstreams
PURPOSE = "x-internal-purpose"
SLICE = 2000  # exchanges and queues scanned in one step
# Costs in a job: of a link's specification, and of a target or an element of a set of upstreams without a link
SPEC_COST, OTHER_COST = 6, 3


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
    """A link that should run. `policy` is the policy that requires it, `user` the user who set the upstream."""

    key: LinkKey
    settings: LinkSettings
    policy: str
    deduplicate: bool = False
    multi_hop: bool = False
    user: str = ""


def read_upstreams(
    node: Node, found: dict[str, Upstreams], before: Mapping[str, Upstreams] | None = None
) -> Iterator[int]:
    """Add the upstreams of each virtual host to `found`, in slices; yields the cost of each.

    `before` are those that were read earlier: patterns are not searched for in their names again.
    """
    for parameter in node.parameters.unsorted():
        if parameter.component == UPSTREAM:
            if parameter.vhost not in found:
                found[parameter.vhost] = Upstreams(node, parameter.vhost, (before or {}).get(parameter.vhost))
            yield from found[parameter.vhost].add(parameter)
        else:
            yield 1


def scan(node: Node, upstreams: Mapping[str, Upstreams], targets: list[Exchange | Queue]) -> Iterator[int]:
    """Add all exchanges and queues to `targets` that are federated or drained to, SLICE objects at a time.

    Virtual hosts without upstreams are skipped. Yields the cost of each slice.
    """
    seen = 0
    for name in sorted(upstreams):
        vhost = node.vhosts.get(name)
        if vhost is None:
            continue
        drained = upstreams[name].drained
        there: list[Exchange | Queue] = [*vhost.exchanges.values(), *vhost.queues.values()]
        for target in there:
            if asks_for_federation(target.effective) or (target.name in drained and isinstance(target, Queue)):
                targets.append(target)
            seen += 1
            if seen % SLICE == 0:
                yield SLICE


def desired_links(
    node: Node, targets: Iterable[Exchange | Queue], before: Mapping[str, Upstreams] | None = None
) -> dict[LinkKey, LinkSpec]:
    """Return the links of those targets that still exist; `before` as in `read_upstreams`."""
    upstreams: dict[str, Upstreams] = {}
    for _ in read_upstreams(node, upstreams, before):
        pass
    found: dict[LinkKey, LinkSpec] = {}
    for target in targets:
        for _ in links_of(node, target, upstreams, found):
            pass
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

    The default exchange and internal exchanges and queues may not. Nor may exclusive queues and queues with generated
    names, which last no longer than their clients.
    """
    if isinstance(target, Exchange):
        return target.name != "" and not target.internal
    if target.owner is not None or target.name.startswith(RESERVED):
        return False
    return target.arguments.text(PURPOSE) is None


class Upstreams:
    """The upstreams that the parameters of one virtual host define.

    `users` has the user who set each upstream; `drained` has the settings of links that drain, by the queue's name.
    """

    def __init__(self, node: Node, vhost: str, before: Upstreams | None = None) -> None:
        """`before` are the upstreams of the virtual host that were read earlier."""
        self._node = node
        self._vhost = vhost
        self._definitions: dict[str, dict[str, object]] = {}
        self.users: dict[str, str] = {}
        self.drained: dict[str, list[LinkSettings]] = {}
        # By kind and by id() of the definition, which is kept so that no other object can have the same id.
        self._settings: dict[tuple[Kind, int], tuple[Definition, list[LinkSettings]]] = {}
        self._matches: dict[str, Matches] = {}  # by the text of the pattern
        self._known = before._matches if before is not None else {}
        self._searched: KeysView[str] = (before or self)._definitions.keys()  # by the patterns in `_known`

    def add(self, parameter: Parameter) -> Iterator[int]:
        """Add the upstream that a parameter defines, in slices; yields the cost of each."""
        definition = parameter.value
        if isinstance(definition, dict):
            self._definitions[parameter.name] = definition
            self.users[parameter.name] = parameter.user
            queues = definition.get(DRAIN)
            if isinstance(queues, list):
                settings = replace(link_settings(parameter.name, definition), queue=None, drain=True).of_kind("queue")
                for queue in dict.fromkeys(queue for queue in queues if isinstance(queue, str)):
                    self.drained.setdefault(queue, []).append(settings)
                    yield 1
        yield 1

    def settings_for(self, definition: Definition, kind: Kind) -> Generator[int, None, list[LinkSettings]]:
        """Return the settings of the links that a policy's definition requires for each of its objects of this kind.

        Yields the cost of each.
        """
        known = self._settings.get((kind, id(definition)))
        if known is None:
            made: list[LinkSettings] = []
            for element in (yield from self._select(definition)):
                name = element.get("upstream") if isinstance(element, dict) else None
                if isinstance(element, dict) and isinstance(name, str) and name in self._definitions:
                    made.append(link_settings(name, self._definitions[name], element).of_kind(kind))
                    yield SPEC_COST
                else:  # the upstream may be defined later
                    yield OTHER_COST
            known = self._settings[kind, id(definition)] = (definition, made)
        return known[1]

    def _select(self, definition: Definition) -> Generator[int, None, Iterable[object]]:
        """Return the upstreams of a policy's definition, as the elements of a set; yields costs."""
        one, set_, pattern = (definition.get(key) for key in FEDERATION)
        if isinstance(one, str):
            return [{"upstream": one}]
        if isinstance(set_, str) and set_ != ALL_UPSTREAMS:
            elements = self._node.parameters.get(self._vhost, UPSTREAM_SET, set_)
            return elements if isinstance(elements, list) else []
        names: Iterable[str] = self._definitions
        if not isinstance(set_, str) and isinstance(pattern, str):
            names = yield from self._match(pattern)
        return ({"upstream": name} for name in names)

    def _match(self, text: str) -> Generator[int, None, dict[str, None]]:
        """Return the names in which the pattern is found, none if it is invalid; yields the costs of the searches.

        A name for which the search takes too long does not match.
        """
        present = self._matches.get(text)
        if present is not None:
            return present.names
        known = self._known.get(text)
        try:
            pattern = known.pattern if known is not None else Pattern(text or ".*")
        except Invalid:
            return {}
        found: dict[str, None] = {}
        for name in self._definitions:
            cost = 1
            if known is not None and name in self._searched:
                matches = name in known.names
            else:
                searches = SearchTime(self._node.clock.processor_s)
                matches = searches.search(pattern, name) is True
                cost += searches.cost
            if matches:
                found[name] = None
            yield cost
        self._matches[text] = Matches(pattern, found)
        return found


class Matches(NamedTuple):
    """The names of upstreams in which a pattern is found."""

    pattern: Pattern
    names: dict[str, None]


def links_of(
    node: Node, target: Exchange | Queue, upstreams: Mapping[str, Upstreams], found: dict[LinkKey, LinkSpec]
) -> Iterator[int]:
    """Add the links of a target to `found`, none if it does not exist any more; yields the cost of each.

    Of several links with the same key the first counts. Links that drain a queue precede those of a policy.
    """
    yield OTHER_COST
    known = upstreams.get(target.vhost)
    if known is None or not still_exists(node, target) or not can_be_federated(target):
        return
    definition = target.effective
    exchange = isinstance(target, Exchange)
    kind: Kind = "exchange" if exchange else "queue"
    for settings in () if exchange else known.drained.get(target.name, ()):
        key = LinkKey(target.vhost, kind, target.name, settings.upstream, target.name)
        found.setdefault(key, LinkSpec(key, settings, "", user=known.users[settings.upstream]))
        yield SPEC_COST
    if not asks_for_federation(definition):
        return
    policy = target.policy.name if target.policy is not None else ""
    deduplicate = exchange and definition.get(DEDUPLICATE) is True
    multi_hop = not exchange and definition.get(MULTI_HOP) is True
    for settings in (yield from known.settings_for(definition, kind)):
        there = (settings.exchange if exchange else settings.queue) or target.name
        key = LinkKey(target.vhost, kind, target.name, settings.upstream, there)
        user = known.users[settings.upstream]
        found.setdefault(key, LinkSpec(key, settings, policy, deduplicate, multi_hop, user))
        yield SPEC_COST


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
