"""Deduplication of messages that reach an exchange by several paths (`federation-deduplicate`); pure.

In a graph of brokers a message arrives by each path that max-hops allows. An exchange whose policy has
`federation-deduplicate` gets each message once, if the policy has the key at every broker of the graph.

Identity. Only the broker that received a publish knows all copies of its message. So the internal exchanges that links
declare there (x-federation-upstream, with the argument x-deduplicate) add the same identity to all copies that enter
the upstream queues: the header x-federation-id, 40 hex digits. The first 16 bytes are unique to the publish: 8 for this
run of the broker and a counter of 8. The last 4 are the CRC-32 of the body, so that a new message which an application
publishes with received headers does not count as the received one. A message keeps its identity on all hops.

If the broker of the publish adds no identity (RabbitMQ), the first Warren on each path derives it from properties that
all copies share: message-id, routing key and body. A message without a message-id then has no identity: it is never
dropped as a repeat, and max-hops limits it as usual.

Window. Each exchange remembers the last HALF_SIZE to 2 * HALF_SIZE identities, or those of the last AGE_MS to 2 *
AGE_MS if they are fewer; some 20 MB at most. A link drops a repeat and acknowledges it once everything that is in the
journal by then is durable, since the first copy may still be in an unsynced batch. A message that a queue refuses is
removed from the window, since the link publishes it again.

Hops. Unless max-hops is 0, it does not limit messages that have an identity. If it did, the copy that arrives first
might have taken a longer path and have no hops left; the second copy would be dropped as a repeat, and brokers farther
downstream would get neither. Such a message is stopped where it has been before: by its identity in the window, and by
x-received-from. The hops of bindings are limited as usual.

Limits: a message that returns after the window has forgotten it is published twice. A restart of the broker empties the
window. Two publishes with equal message-id, routing key and body at a RabbitMQ count as one, as does a message that an
application publishes again with the headers and body that it received.
"""

from binascii import crc32
from collections.abc import Callable
from hashlib import blake2b
from os import urandom

from warren.broker.amqp import properties
from warren.broker.plugin import Message

from .hop_headers import MALFORMED, headers_of

HEADER = "x-federation-id"
HALF_SIZE = 100_000  # identities; each takes 100 bytes, its entry in the set included
AGE_MS = 3_600_000
NO_LIMIT = 1 << 62  # of hops
IDENTITY_BYTES = 20
NO_IDENTITY = b""
FRAME_HEAD, FRAME_END = 7, 1  # bytes around the payload of a frame

_HEADER = HEADER.encode()


class DuplicateWindow:
    """The identities of the latest messages of one exchange, shared by all its links."""

    def __init__(self) -> None:
        self._old: set[bytes] = set()
        self._new: set[bytes] = set()
        self._since_ms = 0

    def is_repeat(self, identity: bytes, now_ms: int) -> bool:
        """Whether the identity is in the window; adds it if it is not. An empty identity is never a repeat."""
        if not identity:
            return False
        if len(self._new) >= HALF_SIZE or now_ms - self._since_ms >= AGE_MS:
            # If no message arrived for 2 * AGE_MS, the newer half is too old as well.
            self._old = self._new if now_ms - self._since_ms < 2 * AGE_MS else set()
            self._new = set()
            self._since_ms = now_ms
        if identity in self._new or identity in self._old:
            return True
        self._new.add(identity)
        return False

    def forget(self, identity: bytes) -> None:
        """Remove the identity of a message that was not published and will be tried again."""
        self._new.discard(identity)
        self._old.discard(identity)

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


def identity_from_header(raw: bytes, checksum: int) -> bytes:
    """Return the identity in the headers; empty if there is none, or if its checksum is that of another body."""
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
    """Derive an identity from message-id, routing key and body, equal at all brokers; empty without message-id.

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
    """Return the identity of a delivery, or an empty one, and its properties with the identity added.

    `body_frames` are complete frames, none for an empty body; `routing_key` is that of the delivery.
    """
    body = join_payloads(body_frames)
    checksum = crc32(body)
    identity = identity_from_header(raw, checksum)
    if identity:
        return identity, raw
    identity = identity_from_message_id(raw, routing_key, checksum, blake2b(body, digest_size=16).digest())
    return (identity, with_identity(raw, identity)) if identity else (NO_IDENTITY, raw)


def join_payloads(body_frames: bytes) -> bytes:
    """Return the payloads of frames, joined."""
    pieces = []
    at = 0
    while at < len(body_frames):
        end = at + FRAME_HEAD + int.from_bytes(body_frames[at + 3 : at + FRAME_HEAD], "big")
        pieces.append(body_frames[at + FRAME_HEAD : end])
        at = end + FRAME_END
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def with_identity(raw: bytes, identity: bytes) -> bytes:
    """Return properties with this identity in place of any other."""
    try:
        headers = headers_of(raw).with_items([(HEADER, ("S", identity.hex().encode()))])
        return properties.replace(raw, properties.HEADERS, headers)
    except MALFORMED:
        return raw


def effective_max_hops(max_hops: int, identity: bytes) -> int:
    """Return max-hops, or NO_LIMIT for messages that have an identity unless max-hops is 0."""
    return NO_LIMIT if identity and max_hops > 0 else max_hops


class Identities:
    """The source of identities: one for each publish, even if several internal exchanges ask for it.

    All destinations of one publish receive the same Message objects before the next publish, so object identity
    recognises the publish. The objects are kept until `forget`, which has to be called in each turn of the loop.
    """

    def __init__(self, origin: Callable[[int], bytes] = urandom) -> None:
        self._origin = origin(8)
        self._count = 0
        self._messages: list[Message] = []
        self._identities: list[bytes] = []

    def of(self, messages: list[Message]) -> list[bytes]:
        """Return identities for messages that were published together and have none yet."""
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
