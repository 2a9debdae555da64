"""The properties of the publishes of one channel: checked, and what they ask for."""

from __future__ import annotations

import re

from ..amqp import properties
from .names import REPLY_TO

REPLY_TO_BYTES = REPLY_TO.encode()
CHECKED_BY_MESSAGE = properties.USER_ID | properties.EXPIRATION
PATTERN_AFTER = 64  # checks of properties of one length before a pattern is made of them, which costs as much
LENGTHS_LIMIT, PATTERNS_LIMIT = 256, 16
VALUES_LIMIT = 24  # a pattern of so many values takes a millisecond or two to make


class CheckedProperties:
    """The properties that a channel checked last.

    raw          property flags and values
    persistent   delivery mode 2
    special      they ask for more than delivery to the queues of the routing key: user-id, expiration, CC, BCC, or a
                 direct reply-to

    Most publishers send properties of one structure, in which a few values change, such as an id. A pattern of all
    bytes but those values recognises them in one step, where a check reads each field.
    """

    __slots__ = ("raw", "persistent", "special", "_checks", "_patterns")

    def __init__(self) -> None:
        self.raw = b""
        self.persistent = False
        self.special = False
        self._checks: dict[int, int] = {}  # by length of the properties
        self._patterns: dict[int, tuple[re.Pattern[bytes], bool, bool]] = {}  # with persistent, and whether to reply

    def check(self, raw: bytes) -> None:
        """Check other properties than `raw`; raises SyntaxFault (502). HOT: bench L."""
        known = self._patterns.get(len(raw))
        if known is not None and known[0].fullmatch(raw):
            self.raw = raw
            self.persistent = known[1]
            self.special = known[2] and REPLY_TO_BYTES in raw
            return
        self.raw = b""
        self.persistent = properties.check(raw) == 2
        flags = raw[0] << 8 | raw[1]
        repliable = flags & properties.REPLY_TO != 0
        self.special = (
            flags & CHECKED_BY_MESSAGE != 0
            or (b"CC" in raw and flags & properties.HEADERS != 0)
            or (repliable and REPLY_TO_BYTES in raw)
        )
        self.raw = raw
        if not self.special:
            self._count(raw, repliable)

    def _count(self, raw: bytes, repliable: bool) -> None:
        """Count a check, and make a pattern after many of the same length."""
        length = len(raw)
        checks = self._checks.get(length, 0) + 1
        if checks < PATTERN_AFTER:
            if len(self._checks) >= LENGTHS_LIMIT:
                self._checks.clear()
            self._checks[length] = checks
            return
        spans = properties.value_spans(raw)
        if len(spans) > VALUES_LIMIT:
            return
        self._checks[length] = -checks  # properties of this length and another structure: the next one comes later
        if length not in self._patterns and len(self._patterns) >= PATTERNS_LIMIT:
            del self._patterns[next(iter(self._patterns))]
        self._patterns[length] = pattern_of(raw, spans), self.persistent, repliable


def pattern_of(raw: bytes, spans: list[tuple[int, int]]) -> re.Pattern[bytes]:
    """Return a pattern of properties that differ from `raw` in these values alone, whose lengths are the same."""
    pieces = []
    at = 0
    for start, end in spans:
        pieces.append(re.escape(raw[at:start]) + b".{%d}" % (end - start))
        at = end
    return re.compile(b"".join(pieces) + re.escape(raw[at:]), re.DOTALL)
