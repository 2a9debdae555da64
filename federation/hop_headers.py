"""How far messages and bindings of federation go, and what is written into them on the way (spec/federation.md 6, 8.3).

All is done on the raw bytes of properties: a message without the header in question costs one search for its name, and
what is not changed keeps its bytes, types of headers included. Bytes that are no properties are let pass as they are;
the broker refuses them where they enter it.
"""

from __future__ import annotations

from warren.broker.plugin import AMQPError, Table, Value, properties

RECEIVED_FROM = "x-received-from"
BOUND_FROM = "x-bound-from"
INVALID_HEADERS = "x-invalid-headers"
ORIGINAL_EXCHANGE, ORIGINAL_KEY = "x-original-exchange", "x-original-routing-key"
CC, ORIGINAL_CC = "CC", "x-original-cc"
MAX, SEEN, STRANGE = "max_hops", "seen", "strange"
HOPS_LIMIT = 32_767  # what the 16 bits of `hops` hold
VISITS_LIMIT = (1 << 63) - 2  # one less than `visit-count` holds

_RECEIVED_FROM = RECEIVED_FROM.encode()
MALFORMED = (AMQPError, IndexError)  # what reading raises of bytes that nobody has checked yet


def obstacle(raw: bytes, max_hops: int, cluster_name: str | None, vhost: str | None) -> str:
    """Why the message may not go on to that cluster and virtual host over a link with that limit: MAX, SEEN or empty.

    Without a usable header it has not been anywhere. Identity is that of cluster name and virtual host together; where
    one of them is not known, nobody has it.
    """
    if _RECEIVED_FROM not in raw:
        return "" if max_hops > 0 else MAX
    entries: list[Value] = []
    try:
        entries = array(headers_of(raw).get(RECEIVED_FROM)) or []
    except MALFORMED:
        pass
    if len(entries) >= max_hops:
        return MAX
    if cluster_name is None or vhost is None:
        return ""
    return SEEN if any(is_identity(entry, cluster_name, vhost) for entry in entries) else ""


def headers_of(raw: bytes) -> Table:
    """Empty where there are none. What asks for them raises MALFORMED where they are not one table."""
    return properties.headers(raw) or Table.EMPTY


def array(value: Value | None) -> list[Value] | None:
    """What is in it; None where it is something else."""
    if value is None or value[0] != "A":
        return None
    assert isinstance(value[1], list)
    return value[1]


def table(value: Value) -> Table | None:
    """Itself; None where it is something else, or no table inside."""
    if value[0] != "F":
        return None
    assert isinstance(value[1], Table)
    try:
        value[1].items()
    except MALFORMED:
        return None
    return value[1]


def is_identity(entry: Value, cluster_name: str, vhost: str) -> bool:
    """Whether this entry of x-received-from or x-bound-from names both."""
    if entry[0] != "F" or not isinstance(entry[1], Table):
        return False
    if cluster_name.encode("utf-8", "surrogateescape") not in entry[1].raw:
        return False  # the usual answer, given without decoding
    fields = table(entry)
    return fields is not None and fields.text("cluster-name") == cluster_name and fields.text("vhost") == vhost


# What links write into messages


class ExchangeStamp:
    """Writes where a message of a federated exchange came from. `exchange` is the name of the local one.

    Called with properties and the upstream's redelivered flag, gives the new properties. Messages that follow one
    another are often alike, so the last answer is remembered.
    """

    __slots__ = ("_entries", "_alone", "_trust_user_id", "_last")

    def __init__(self, uri: str, exchange: str, cluster_name: str | None, vhost: str, trust_user_id: bool) -> None:
        """`cluster_name` and `vhost` are the upstream's; None where it tells none."""
        named: dict[str, object] = {} if cluster_name is None else {"cluster-name": cluster_name}
        self._entries: tuple[Value, Value] = (
            ("F", Table.of({"uri": uri, "exchange": exchange, "redelivered": False, **named, "vhost": vhost})),
            ("F", Table.of({"uri": uri, "exchange": exchange, "redelivered": True, **named, "vhost": vhost})),
        )
        # The whole header of a message that had none, encoded once
        self._alone = [Table.encode_items([(RECEIVED_FROM, ("A", [entry]))]) for entry in self._entries]
        self._trust_user_id = trust_user_id
        self._last: tuple[bytes, bool, bytes] = (b"", False, b"")

    def __call__(self, raw: bytes, redelivered: bool) -> bytes:
        last, again, stamped = self._last
        if raw == last and redelivered == again and raw:
            return stamped
        try:
            stamped = with_headers(raw, self._written(headers_of(raw), redelivered), self._trust_user_id)
        except MALFORMED:
            return raw
        self._last = (raw, redelivered, stamped)
        return stamped

    def _written(self, headers: Table, redelivered: bool) -> Table:
        """Raises MALFORMED."""
        if _RECEIVED_FROM not in headers.raw:
            return Table(headers.raw + self._alone[redelivered])
        before = headers.get(RECEIVED_FROM)
        came_from: Value = ("A", [self._entries[redelivered], *(array(before) or [])])
        return headers.with_items([*set_aside(headers, before), (RECEIVED_FROM, came_from)])


class QueueStamp:
    """Likewise for a federated queue, with the exchange and routing key that the upstream delivered it with.

    `queue` is the name of the local one. With an `identity` (cluster name, virtual host and name of the upstream queue)
    an entry also says where the message was, which RabbitMQ's do not.
    """

    __slots__ = ("_uri", "_queue", "_trust_user_id", "_identity", "_last")

    def __init__(self, uri: str, queue: str, trust_user_id: bool, identity: tuple[str, str, str] | None = None) -> None:
        self._uri = ("S", uri.encode("utf-8", "surrogateescape"))
        self._queue = ("S", queue.encode("utf-8", "surrogateescape"))
        self._trust_user_id = trust_user_id
        self._identity: dict[str, object] = {}
        if identity is not None:
            self._identity = dict(zip(("cluster-name", "vhost", "upstream-queue"), identity, strict=True))
        self._last: tuple[bytes, bool, str, str, bytes] = (b"", False, "", "", b"")

    def __call__(self, raw: bytes, redelivered: bool, exchange: str, routing_key: str) -> bytes:
        *last, stamped = self._last
        if raw and last == [raw, redelivered, exchange, routing_key]:
            return stamped
        try:
            headers = self._written(headers_of(raw), redelivered, exchange, routing_key)
            stamped = with_headers(raw, headers, self._trust_user_id)
        except MALFORMED:
            return raw
        self._last = (raw, redelivered, exchange, routing_key, stamped)
        return stamped

    def _written(self, headers: Table, redelivered: bool, exchange: str, routing_key: str) -> Table:
        """Raises MALFORMED."""
        before = headers.get(RECEIVED_FROM)
        entries = array(before)
        items: list[tuple[str, Value]] = set_aside(headers, before)
        if entries is None:
            items.append((ORIGINAL_EXCHANGE, ("S", exchange.encode("utf-8", "surrogateescape"))))
            items.append((ORIGINAL_KEY, ("S", routing_key.encode("utf-8", "surrogateescape"))))
        visits, others = self._visits(entries or [])
        entry = Table.of(
            {"uri": self._uri, "queue": self._queue, "redelivered": redelivered, "visit-count": ("l", visits + 1)}
            | self._identity
        )
        items.append((RECEIVED_FROM, ("A", [("F", entry), *others])))
        copies = headers.get(CC)
        if copies is not None:
            headers = headers.without((CC,))
            items.append((ORIGINAL_CC, copies))  # or the message would be routed by it once more
        return headers.with_items(items)

    def _visits(self, entries: list[Value]) -> tuple[int, list[Value]]:
        """How often the message came this way before, and the entries that say nothing of it. Who copies headers may
        have made several that do: the highest count is taken."""
        visits = 0
        others = []
        for entry in entries:
            fields = table(entry)
            if fields is None or fields.get("uri") != self._uri or fields.get("queue") != self._queue:
                others.append(entry)
            else:
                visits = max(visits, min(fields.integer("visit-count") or 0, VISITS_LIMIT))
        return visits, others


def set_aside(headers: Table, before: Value | None) -> list[tuple[str, Value]]:
    """What is written so that a value of x-received-from that is no array is not lost: x-invalid-headers, a table of
    headers with the values that each had, the last one first."""
    if before is None or before[0] == "A":
        return []
    kept = headers.get(INVALID_HEADERS)
    invalid = (table(kept) if kept is not None else None) or Table.EMPTY
    values: Value = ("A", [before, *(array(invalid.get(RECEIVED_FROM)) or [])])
    return [(INVALID_HEADERS, ("F", invalid.with_items([(RECEIVED_FROM, values)])))]


def with_headers(raw: bytes, headers: Table, trust_user_id: bool) -> bytes:
    """The properties with these headers, and without the user where that is not trusted. Raises MALFORMED."""
    changed = properties.replace(raw, properties.HEADERS, headers)
    if trust_user_id or not properties.has(changed, properties.USER_ID):
        return changed
    return properties.replace(changed, properties.USER_ID, None)


# What links write into bindings


def hops_left(arguments: Table, max_hops: int, cluster_name: str, vhost: str) -> int:
    """How far a binding with these arguments goes from here on, over a link with that limit to that upstream: 0 where
    it is not to be made there. It never goes further than its messages could come. What is malformed goes nowhere."""
    before = arguments.get(BOUND_FROM)
    if before is None:
        return max(max_hops, 0)
    entries = array(before)
    if entries is None:
        return 0
    if not entries:
        return max(max_hops, 0)
    newest = table(entries[0])
    left = newest.integer("hops") if newest is not None else None
    if left is None or any(is_identity(entry, cluster_name, vhost) for entry in entries):
        return 0
    return max(min(left - 1, max_hops), 0)


def bound_from(arguments: Table, cluster_name: str, vhost: str, exchange_letter: str, hops: int) -> Table:
    """The arguments as they are bound with at the upstream. Cluster name and virtual host are the downstream's, which
    is here; `exchange_letter` is the local exchange with the letter in use, such as `logs B`."""
    entry = Table.of(
        {
            "cluster-name": cluster_name,
            "vhost": vhost,
            "exchange": f"{vhost}:{exchange_letter}",
            "hops": ("s", min(hops, HOPS_LIMIT)),
        }
    )
    before = array(arguments.get(BOUND_FROM)) or []
    return arguments.with_items([(BOUND_FROM, ("A", [("F", entry), *before]))])
