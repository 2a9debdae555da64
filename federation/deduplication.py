"""Deduplication of messages that reach an exchange by several ways (`federation-deduplicate`); pure.

In a graph of brokers a message comes over each way that max-hops allows. An exchange whose policy has
`federation-deduplicate` gets each message once, if the policy has the key at every broker of the graph.

Identity. All copies of a message descend from one publish, and only the broker of that publish knows which do. So the
internal exchanges that links declare there (x-federation-upstream, with the argument x-deduplicate) give the message an
identity on its way into the upstream queues, the same one in all of them: the header x-federation-id, 40 hex digits.
The first 16 bytes are the broker's (8 for this run of it, 8 to count); the last 4 are the CRC-32 of the body, so that a
message which an application publishes with headers that it received does not pass for the received one. A message that
has an identity keeps it on all hops.

If the broker of the publish gives no identity (RabbitMQ), the first Warren on each way makes it from what all copies
have: message-id, routing key and body. Without a message-id a message has no identity: it is never dropped here, and
max-hops limits it as ever.

Window. Each exchange remembers the last HALF_SIZE to 2 * HALF_SIZE messages, or those of the last AGE_MS to 2 * AGE_MS
if they are fewer; some 20 MB at most. A link drops a repeat, and acknowledges it when all that the journal has by then
is durable, as the first copy may still be on its way to the disk. A message that a queue refuses is forgotten, since it
comes again.

Hops. max-hops does not limit a message with an identity, unless it is 0: if hops counted, the copy that comes first
might have taken the longer way and go no further, and the other copy would be dropped as a repeat, so that a broker
behind got none at all. The message stops where it has been: by its identity, and by x-received-from, also if the window
has forgotten it. How far bindings go is limited as ever.

Limits: a message that returns, over a way that was cut, after the window has forgotten it comes twice. A restart of the
broker forgets. Two publishes with the same message-id, routing key and body at a RabbitMQ count as one, as does a
message that an application publishes again with the headers and body that it received.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable
from hashlib import blake2b
from os import urandom

from warren.broker.amqp import properties
from warren.broker.plugin import Message

from .hop_headers import MALFORMED, headers_of

HEADER = "x-federation-id"
HALF_SIZE = 100_000  # identities, of 100 bytes each with their place in the set
AGE_MS = 3_600_000
NO_LIMIT = 1 << 62  # of hops
IDENTITY_BYTES = 20
NO_IDENTITY = b""
FRAME_HEAD, FRAME_END = 7, 1  # bytes around the payload of a frame

_HEADER = HEADER.encode()


class DuplicateWindow:
    """The identities of the messages that one exchange had lately, shared by all its links."""

    __slots__ = ("_old", "_new", "_since_ms")

    def __init__(self) -> None:
        self._old: set[bytes] = set()
        self._new: set[bytes] = set()
        self._since_ms = 0

    def is_repeat(self, identity: bytes, now_ms: int) -> bool:
        """Whether the identity is in the window; adds it if not. An empty one never is."""
        if not identity:
            return False
        if len(self._new) >= HALF_SIZE or now_ms - self._since_ms >= AGE_MS:
            # If no message came for two ages, the newer half is too old as well.
            self._old = self._new if now_ms - self._since_ms < 2 * AGE_MS else set()
            self._new = set()
            self._since_ms = now_ms
        if identity in self._new or identity in self._old:
            return True
        self._new.add(identity)
        return False

    def forget(self, identity: bytes) -> None:
        """Remove an identity: its message was not published after all, and comes again."""
        self._new.discard(identity)
        self._old.discard(identity)

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


def identity_from_header(raw: bytes, checksum: int) -> bytes:
    """Return the identity in the headers; empty if there is none, or one of another body."""
    if _HEADER not in raw:
        return NO_IDENTITY
    try:
        text = headers_of(raw).text(HEADER)
    except MALFORMED:
        return NO_IDENTITY
    if text is None or len(text) != 2 * IDENTITY_BYTES:
        return NO_IDENTITY
    try:
        identity = bytes.fromhex(text)
    except ValueError:
        return NO_IDENTITY
    return identity if identity[-4:] == checksum.to_bytes(4, "big") else NO_IDENTITY


def identity_from_message_id(raw: bytes, routing_key: bytes, checksum: int, digest: bytes) -> bytes:
    """Return an identity made of message-id, routing key and body, the same at each broker; empty without message-id.

    `checksum` is the CRC-32 of the body, `digest` its hash.
    """
    try:
        message_id = properties.text(raw, properties.MESSAGE_ID)
    except MALFORMED:
        return NO_IDENTITY
    if not message_id:
        return NO_IDENTITY
    named = message_id.encode("utf-8", "surrogateescape")
    hashed = blake2b(bytes((len(named),)) + named + bytes((len(routing_key),)) + routing_key + digest, digest_size=16)
    return hashed.digest() + checksum.to_bytes(4, "big")


def identify(raw: bytes, routing_key: bytes, body_frames: bytes) -> tuple[bytes, bytes]:
    """Return the identity of a delivery, or an empty one, and its properties with the identity in them.

    `body_frames` are whole frames, none for an empty body; `routing_key` is that of the delivery.
    """
    body = join_payloads(body_frames)
    checksum = crc32(body)
    identity = identity_from_header(raw, checksum)
    if identity:
        return identity, raw
    identity = identity_from_message_id(raw, routing_key, checksum, blake2b(body, digest_size=16).digest())
    return (identity, with_identity(raw, identity)) if identity else (NO_IDENTITY, raw)


def join_payloads(body_frames: bytes) -> bytes:
    """Join the payloads of frames."""
    pieces = []
    at = 0
    while at < len(body_frames):
        end = at + FRAME_HEAD + int.from_bytes(body_frames[at + 3 : at + FRAME_HEAD], "big")
        pieces.append(body_frames[at + FRAME_HEAD : end])
        at = end + FRAME_END
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def with_identity(raw: bytes, identity: bytes) -> bytes:
    """Return properties with that identity in place of any other."""
    try:
        headers = headers_of(raw).with_items([(HEADER, ("S", identity.hex().encode()))])
        return properties.replace(raw, properties.HEADERS, headers)
    except MALFORMED:
        return raw


def effective_max_hops(max_hops: int, identity: bytes) -> int:
    """Return max-hops, lifted for messages that have an identity."""
    return NO_LIMIT if identity and max_hops > 0 else max_hops


class Identities:
    """Makes identities, one for each publish, however many internal exchanges ask for it.

    A publish is recognised by its Message objects: all destinations of a route get the same ones, before anything else
    is published. They are kept until `forget`, which has to be called once a turn of the loop.
    """

    __slots__ = ("_origin", "_count", "_messages", "_identities")

    def __init__(self, origin: Callable[[int], bytes] = urandom) -> None:
        self._origin = origin(8)
        self._count = 0
        self._messages: list[Message] = []
        self._identities: list[bytes] = []

    def of(self, messages: list[Message]) -> list[bytes]:
        """Return the identities of messages that were published together and have none yet."""
        last = self._messages
        if len(messages) != len(last) or any(one is not other for one, other in zip(messages, last, strict=True)):
            self._messages = list(messages)
            self._identities = [self._make(message) for message in messages]
        return self._identities

    def forget(self) -> None:
        """Release the messages of the last publish."""
        self._messages, self._identities = [], []

    def _make(self, message: Message) -> bytes:
        self._count += 1
        return self._origin + self._count.to_bytes(8, "big") + crc32(message.body).to_bytes(4, "big")
