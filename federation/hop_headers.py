"""The headers x-received-from and x-bound-from, which limit the hops of messages and bindings; pure.

All functions work on encoded properties: a message without the header costs one search for its name, and everything
that is not changed keeps its bytes and types. Malformed properties pass unchanged; the broker refuses them when they
are published.
"""

from warren.broker.amqp import properties
from warren.broker.amqp.federation_headers import BOUND_FROM, RECEIVED_FROM
from warren.broker.plugin import AMQPError, Table, Value

INVALID_HEADERS = "x-invalid-headers"
ORIGINAL_EXCHANGE, ORIGINAL_KEY = "x-original-exchange", "x-original-routing-key"
CC, ORIGINAL_CC = "CC", "x-original-cc"
MAX, SEEN, STRANGE = "max_hops", "seen", "strange"
HOPS_LIMIT = 32_767  # the largest value of `hops`, which has 16 bits
PATH_LIMIT = 100  # entries of x-received-from, whatever `max_hops` is
INVALID_LIMIT = 8  # values in x-invalid-headers
VISITS_LIMIT = (1 << 63) - 2  # one less than the largest value of `visit-count`

_RECEIVED_FROM = RECEIVED_FROM.encode()
MALFORMED = (AMQPError, IndexError)  # raised by decoding bytes that are not checked yet


def drop_reason(raw: bytes, max_hops: int, cluster_name: str | None, vhost: str | None) -> str:
    """Return why a link drops a message for this cluster name and virtual host: MAX, SEEN, or "" to keep it.

    MAX: it has made `max_hops` or PATH_LIMIT hops; without a usable header it has made none. SEEN: its header has an
    entry with this cluster name and virtual host, neither of which is None.
    """
    if _RECEIVED_FROM not in raw:
        return "" if max_hops > 0 else MAX
    entries: list[Value] = []
    try:
        entries = as_array(headers_of(raw).get(RECEIVED_FROM)) or []
    except MALFORMED:
        pass
    if len(entries) >= min(max_hops, PATH_LIMIT):
        return MAX
    if cluster_name is None or vhost is None:
        return ""
    return SEEN if any(is_identity(entry, cluster_name, vhost) for entry in entries) else ""


def headers_of(raw: bytes) -> Table:
    """Return the headers, or an empty table. Decoding them later raises MALFORMED if they are no valid table."""
    return properties.headers(raw) or Table.EMPTY


def as_array(value: Value | None) -> list[Value] | None:
    """Return the elements of an array, or None for a value of another type."""
    if value is None or value[0] != "A":
        return None
    assert isinstance(value[1], list)
    return value[1]


def as_table(value: Value) -> Table | None:
    """Return the table in a value, or None for a value of another type or a malformed table."""
    if value[0] != "F":
        return None
    assert isinstance(value[1], Table)
    try:
        value[1].items()
    except MALFORMED:
        return None
    return value[1]


def is_identity(entry: Value, cluster_name: str, vhost: str) -> bool:
    """Whether an entry of x-received-from or x-bound-from has this cluster name and virtual host."""
    if entry[0] != "F" or not isinstance(entry[1], Table):
        return False
    if cluster_name.encode("utf-8", "surrogateescape") not in entry[1].raw:
        return False  # the usual case, without decoding
    fields = as_table(entry)
    return fields is not None and fields.text("cluster-name") == cluster_name and fields.text("vhost") == vhost


# What links write into messages


class ExchangeStamp:
    """The writer of x-received-from into messages of a federated exchange; `exchange` is the local name.

    A call takes properties and the upstream's redelivered flag, and returns the new properties. Successive messages
    often have equal properties, so the last result is kept.
    """

    __slots__ = ("_entries", "_alone", "_trust_user_id", "_last")

    def __init__(self, uri: str, exchange: str, cluster_name: str | None, vhost: str, trust_user_id: bool) -> None:
        """Prepare the entry. `cluster_name` and `vhost` are the upstream's; `cluster_name` is None if it has none."""
        named: dict[str, object] = {} if cluster_name is None else {"cluster-name": cluster_name}
        self._entries: tuple[Value, Value] = (
            ("F", Table.of({"uri": uri, "exchange": exchange, "redelivered": False, **named, "vhost": vhost})),
            ("F", Table.of({"uri": uri, "exchange": exchange, "redelivered": True, **named, "vhost": vhost})),
        )
        # The whole header of a message that had none, encoded
        self._alone = [Table.encode_items([(RECEIVED_FROM, ("A", [entry]))]) for entry in self._entries]
        self._trust_user_id = trust_user_id
        self._last: tuple[bytes, bool, bytes] = (b"", False, b"")

    def __call__(self, raw: bytes, redelivered: bool) -> bytes:
        last, again, stamped = self._last
        if raw == last and redelivered == again and raw:
            return stamped
        try:
            stamped = with_headers(raw, self._stamp(headers_of(raw), redelivered), self._trust_user_id)
        except MALFORMED:
            return raw
        self._last = (raw, redelivered, stamped)
        return stamped

    def _stamp(self, headers: Table, redelivered: bool) -> Table:
        """Return the headers with the new entry. Raises MALFORMED."""
        if _RECEIVED_FROM not in headers.raw:
            return Table(headers.raw + self._alone[redelivered])
        before = headers.get(RECEIVED_FROM)
        came_from: Value = ("A", [self._entries[redelivered], *(as_array(before) or [])])
        return headers.with_items([*set_aside(headers, before), (RECEIVED_FROM, came_from)])


class QueueStamp:
    """The writer of x-received-from into messages of a federated queue; `queue` is the local name.

    The first link also writes the message's exchange and routing key, in headers of their own. Unlike RabbitMQ's, an
    entry also has `identity` if given: cluster name, virtual host and name of the upstream queue.
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
            headers = self._stamp(headers_of(raw), redelivered, exchange, routing_key)
            stamped = with_headers(raw, headers, self._trust_user_id)
        except MALFORMED:
            return raw
        self._last = (raw, redelivered, exchange, routing_key, stamped)
        return stamped

    def _stamp(self, headers: Table, redelivered: bool, exchange: str, routing_key: str) -> Table:
        """Return the headers with the new entry. Raises MALFORMED."""
        before = headers.get(RECEIVED_FROM)
        entries = as_array(before)
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
            items.append((ORIGINAL_CC, copies))  # renamed, as CC would be routed by again
        return headers.with_items(items)

    def _visits(self, entries: list[Value]) -> tuple[int, list[Value]]:
        """Return how often the message came over this link before, and the entries of other links.

        A client that copies headers may have made several entries of this link; the highest count is used.
        """
        visits = 0
        others = []
        for entry in entries:
            fields = as_table(entry)
            if fields is None or fields.get("uri") != self._uri or fields.get("queue") != self._queue:
                others.append(entry)
            else:
                visits = max(visits, min(fields.integer("visit-count") or 0, VISITS_LIMIT))
        return visits, others[: PATH_LIMIT - 1]


def set_aside(headers: Table, before: Value | None) -> list[tuple[str, Value]]:
    """Return the header x-invalid-headers with a value of x-received-from that is no array, or no header if it is one.

    x-invalid-headers is a table of headers, each with the array of its invalid values, newest first.
    """
    if before is None or before[0] == "A":
        return []
    kept = headers.get(INVALID_HEADERS)
    invalid = (as_table(kept) if kept is not None else None) or Table.EMPTY
    values: Value = ("A", [before, *(as_array(invalid.get(RECEIVED_FROM)) or [])[: INVALID_LIMIT - 1]])
    return [(INVALID_HEADERS, ("F", invalid.with_items([(RECEIVED_FROM, values)])))]


def with_headers(raw: bytes, headers: Table, trust_user_id: bool) -> bytes:
    """Return properties with these headers, and without an untrusted user-id. Raises MALFORMED."""
    changed = properties.replace(raw, properties.HEADERS, headers)
    if trust_user_id or not properties.has(changed, properties.USER_ID):
        return changed
    return properties.replace(changed, properties.USER_ID, None)


# What links write into bindings


def hops_left(arguments: Table, max_hops: int, cluster_name: str, vhost: str) -> int:
    """Return how many hops a binding has left at this upstream over a link with this limit; without any it is not made.

    A binding is passed on no farther than its messages could return, and not at all with a malformed header.
    """
    before = arguments.get(BOUND_FROM)
    if before is None:
        return max(max_hops, 0)
    entries = as_array(before)
    if entries is None:
        return 0
    if not entries:
        return max(max_hops, 0)
    newest = as_table(entries[0])
    left = newest.integer("hops") if newest is not None else None
    if left is None or any(is_identity(entry, cluster_name, vhost) for entry in entries):
        return 0
    return max(min(left - 1, max_hops), 0)


def bound_from(arguments: Table, cluster_name: str, vhost: str, exchange_generation: str, hops: int) -> Table:
    """Return the arguments of a binding upstream. `cluster_name` and `vhost` are those of this broker.

    `exchange_generation` is the local exchange and the generation in use, such as `logs B`.
    """
    entry = Table.of(
        {
            "cluster-name": cluster_name,
            "vhost": vhost,
            "exchange": f"{vhost}:{exchange_generation}",
            "hops": ("s", min(hops, HOPS_LIMIT)),
        }
    )
    before = as_array(arguments.get(BOUND_FROM)) or []
    return arguments.with_items([(BOUND_FROM, ("A", [("F", entry), *before]))])
