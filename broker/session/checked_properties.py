"""The check of the properties of publishes on one channel, with patterns for repeated structures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..amqp import properties
from ..core.queues.reply_queue import REPLY_TO

REPLY_TO_BYTES: Final = REPLY_TO.encode()
NOT_REPLY_TO: Final = b"(?!" + re.escape(REPLY_TO_BYTES) + b")"
CHECKED_BY_MESSAGE: Final = properties.USER_ID | properties.EXPIRATION
PATTERN_AFTER: Final = 64  # checks, also of one length, before a pattern is made, which costs as much
PATTERN_COST: Final = 400  # of making one (`jobs.scheduler`)
LENGTHS_LIMIT: Final = 256  # lengths of properties that are counted
PATTERNS_LIMIT: Final = 16
PATTERNS_BYTES: Final = 4 << 10  # of the properties that the patterns of a channel match; they keep 11 for each byte
RAW_BYTES: Final = 1 << 10  # of properties that a channel keeps, or makes a pattern of
UNKNOWN: Final = -2  # of `ttl_ms`
VALUES_LIMIT: Final = 24  # a pattern with this many values takes a millisecond or two to make


class CheckedProperties:
    """The last checked properties of a channel.

    raw          property flags and values; empty if they are long, because each channel keeps them
    persistent   delivery mode 2
    special      they require more than delivery to the queues of the routing key: user-id, expiration, CC, BCC or
                 direct reply-to
    ttl_ms       the time to live of special messages if it is known, NO_TTL without one, and nothing else is special

    Most publishers send properties with the same structure and a few changing values, such as an id. A pattern of all
    bytes except these values matches them in one step; a check reads each field. No pattern matches special properties.
    """

    __slots__ = ("raw", "persistent", "special", "ttl_ms", "_charge", "_checks", "_patterns", "_wait")

    def __init__(self, charge: Callable[[int], None] = lambda cost: None) -> None:
        """`charge` is called with the cost of a new pattern."""
        self._charge = charge
        self.raw = b""
        self.persistent = False
        self.special = False
        self.ttl_ms = UNKNOWN
        self._wait = 0  # checks before the next pattern
        self._checks: dict[int, int] = {}  # by length of the properties
        self._patterns: dict[int, tuple[re.Pattern[bytes], bool]] = {}  # with `persistent`, by length

    def check(self, raw: bytes) -> None:
        """Check other properties than `raw`; raises SyntaxFault (502). HOT: bench L."""
        known = self._patterns.get(len(raw))
        if known is not None and known[0].fullmatch(raw):
            self.raw = raw  # which is short
            self.persistent = known[1]
            self.special = False
            return
        self.raw = b""
        self.ttl_ms = UNKNOWN
        self.persistent = properties.check(raw) == 2
        flags = raw[0] << 8 | raw[1]
        self.special = (
            flags & CHECKED_BY_MESSAGE != 0
            or (flags & properties.HEADERS != 0 and raw.find(b"CC") >= 0)  # `in` tries a number first
            or (flags & properties.REPLY_TO != 0 and raw.find(REPLY_TO_BYTES) >= 0)
        )
        if len(raw) <= RAW_BYTES:
            self.raw = raw
            if not self.special:
                self._count(raw)

    def _count(self, raw: bytes) -> None:
        """Count a check, and make a pattern after many checks of the same length."""
        length = len(raw)
        checks = self._checks.get(length, 0) + 1
        self._wait -= 1
        if checks < PATTERN_AFTER or self._wait > 0:
            if len(self._checks) >= LENGTHS_LIMIT:
                self._checks.clear()
            self._checks[length] = checks
            return
        self._checks[length] = -checks  # the next attempt at this length comes after twice as many checks
        self._wait = PATTERN_AFTER
        self._charge(PATTERN_COST)
        spans = properties.value_spans(raw)
        if len(spans) > VALUES_LIMIT:
            return
        self._patterns.pop(length, None)
        while len(self._patterns) >= PATTERNS_LIMIT or sum(self._patterns) + length > PATTERNS_BYTES:
            del self._patterns[next(iter(self._patterns))]
        self._patterns[length] = pattern_of(raw, spans), self.persistent


def pattern_of(raw: bytes, spans: list[tuple[int, int]]) -> re.Pattern[bytes]:
    """Return a pattern of properties that differ from `raw` only in these values, with the same lengths.

    No value may be the name of direct reply-to.
    """
    pieces = []
    at = 0
    for start, end in spans:
        pieces.append(re.escape(raw[at:start]))
        if end - start == len(REPLY_TO_BYTES):
            pieces.append(NOT_REPLY_TO)
        pieces.append(b".{%d}" % (end - start))
        at = end
    return re.compile(b"".join(pieces) + re.escape(raw[at:]), re.DOTALL)
