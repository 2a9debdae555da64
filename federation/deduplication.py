"""Which messages an exchange has had, so that none comes twice by two ways (`federation-deduplicate`); pure.

In a graph of brokers with several ways from one to another a message comes over each of them that max-hops allows.
Where the policy of an exchange says `federation-deduplicate`, it gets each message once. The policy has to say so at
every broker of the graph.

Identity. All copies of a message descend from one publish, and only the broker of that publish knows which do. So the
internal exchanges that links declare there (x-federation-upstream, with the argument x-deduplicate) give the message an
identity on its way into the upstream queues, the same one in all of them: the header x-federation-id, 40 hex digits.
The first 16 octets are the broker's (8 for this run of it, 8 to count); the last 4 are the CRC-32 of the body, so that
what an application publishes under headers that it was sent does not pass for that message. A message that has an
identity keeps it on all hops.

Where the broker of the publish does nothing of the kind (RabbitMQ), the first Warren on each way makes the identity
from what all copies have: message-id, routing key and body. Without a message-id a message has no identity: it is never
dropped here, and max-hops limits it as ever.

Window. Each exchange remembers what it was sent for the last GENERATION to 2 * GENERATION messages, or for AGE_MS to
2 * AGE_MS where fewer came; some 20 MB at most. A link drops a repeat, and acknowledges it when all that the journal
has by then is safe: the first copy may still be on its way to the disk. What a queue refuses has to be forgotten, since
it comes again.

Hops. max-hops does not end the way of a message with an identity, unless it is 0: were hops counted, the copy that
happens to come first might have taken the longer way and go no further, and the one that could be dropped as a repeat,
so that a broker behind got none at all. The message ends where it has been: by its identity, and by x-received-from,
whatever became of the window. How far bindings go is limited as ever.

Limits: what returns, over a way that was cut, after the window has forgotten it comes twice. A restart of the broker
forgets. Two publishes with the same message-id, routing key and body at a RabbitMQ count as one, as does a message that
an application publishes anew with headers and body as it was sent them.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable
from hashlib import blake2b
from os import urandom

from warren.broker.plugin import Message, properties

from .hop_headers import MALFORMED, headers_of

HEADER = "x-federation-id"
GENERATION = 100_000  # identities, of 100 octets with their place in the set
AGE_MS = 3_600_000
NO_LIMIT = 1 << 62  # of hops
OCTETS = 20
NO_IDENTITY = b""
FRAME_HEAD, FRAME_END = 7, 1  # octets around the payload of a frame

_HEADER = HEADER.encode()


class DuplicateWindow:
    """The window of one exchange, for all its links."""

    __slots__ = ("_old", "_new", "_since_ms")

    def __init__(self) -> None:
        self._old: set[bytes] = set()
        self._new: set[bytes] = set()
        self._since_ms = 0

    def is_repeat(self, identity: bytes, now_ms: int) -> bool:
        """Whether it was here; it has been from now on. Without an identity it never was."""
        if not identity:
            return False
        if len(self._new) >= GENERATION or now_ms - self._since_ms >= AGE_MS:
            # Nothing that old is in the new generation, where nothing came for two ages.
            self._old = self._new if now_ms - self._since_ms < 2 * AGE_MS else set()
            self._new = set()
            self._since_ms = now_ms
        if identity in self._new or identity in self._old:
            return True
        self._new.add(identity)
        return False

    def forget(self, identity: bytes) -> None:
        """It was not taken after all, and comes again."""
        self._new.discard(identity)
        self._old.discard(identity)

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


def carried(raw: bytes, checksum: int) -> bytes:
    """The identity in these properties; empty where there is none, or one of another body."""
    if _HEADER not in raw:
        return NO_IDENTITY
    try:
        text = headers_of(raw).text(HEADER)
    except MALFORMED:
        return NO_IDENTITY
    if text is None or len(text) != 2 * OCTETS:
        return NO_IDENTITY
    try:
        identity = bytes.fromhex(text)
    except ValueError:
        return NO_IDENTITY
    return identity if identity[-4:] == checksum.to_bytes(4, "big") else NO_IDENTITY


def derived(raw: bytes, routing_key: bytes, checksum: int, digest: bytes) -> bytes:
    """From the message-id, for all who have the same message before them; empty without one."""
    try:
        message_id = properties.text(raw, properties.MESSAGE_ID)
    except MALFORMED:
        return NO_IDENTITY
    if not message_id:
        return NO_IDENTITY
    named = message_id.encode("utf-8", "surrogateescape")
    hashed = blake2b(bytes((len(named),)) + named + bytes((len(routing_key),)) + routing_key + digest, digest_size=16)
    return hashed.digest() + checksum.to_bytes(4, "big")


def identified(raw: bytes, routing_key: bytes, body_frames: bytes) -> tuple[bytes, bytes]:
    """The identity of a message that a link was delivered, empty where it has none, and its properties with it.

    `body_frames` are whole frames, none for an empty body; `routing_key` is that of the delivery.
    """
    body = payload(body_frames)
    checksum = crc32(body)
    identity = carried(raw, checksum)
    if identity:
        return identity, raw
    identity = derived(raw, routing_key, checksum, blake2b(body, digest_size=16).digest())
    return (identity, with_identity(raw, identity)) if identity else (NO_IDENTITY, raw)


def payload(body_frames: bytes) -> bytes:
    """What frames carry, in one piece."""
    pieces = []
    at = 0
    while at < len(body_frames):
        end = at + FRAME_HEAD + int.from_bytes(body_frames[at + 3 : at + FRAME_HEAD], "big")
        pieces.append(body_frames[at + FRAME_HEAD : end])
        at = end + FRAME_END
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def with_identity(raw: bytes, identity: bytes) -> bytes:
    """These properties with that identity in place of any other."""
    try:
        headers = headers_of(raw).with_items([(HEADER, ("S", identity.hex().encode()))])
        return properties.replace(raw, properties.HEADERS, headers)
    except MALFORMED:
        return raw


def reach(max_hops: int, identity: bytes) -> int:
    """How many hops a message may make over a link with that limit that deduplicates."""
    return NO_LIMIT if identity and max_hops > 0 else max_hops


class Identities:
    """Gives out identities, one for each publish, however often it is asked for one.

    A publish is recognised by its Message objects: all destinations of a route are given the same ones, before anything
    else is published. They are held until `forget`, which is due once a turn of the loop.
    """

    __slots__ = ("_origin", "_count", "_messages", "_given")

    def __init__(self, origin: Callable[[int], bytes] = urandom) -> None:
        self._origin = origin(8)
        self._count = 0
        self._messages: list[Message] = []
        self._given: list[bytes] = []

    def of(self, messages: list[Message]) -> list[bytes]:
        """Of these, which were published together and have none yet."""
        last = self._messages
        if len(messages) != len(last) or any(one is not other for one, other in zip(messages, last, strict=True)):
            self._messages = list(messages)
            self._given = [self._next(message) for message in messages]
        return self._given

    def forget(self) -> None:
        """Hold the messages of the last publish no longer: it is over."""
        self._messages, self._given = [], []

    def _next(self, message: Message) -> bytes:
        self._count += 1
        return self._origin + self._count.to_bytes(8, "big") + crc32(message.body).to_bytes(4, "big")
