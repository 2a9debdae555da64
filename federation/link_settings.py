"""What one link is told to do: an upstream's definition, with what an element of a set says in its place.

The definitions were validated when they were set (the broker does that); here they become values with defaults
(spec/federation.md 1.1). A set's element overrides anything but the URIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, overload

AckMode = Literal["on-confirm", "on-publish", "no-ack"]
Kind = Literal["exchange", "queue"]

ACK_MODES: tuple[AckMode, ...] = ("on-confirm", "on-publish", "no-ack")
PREFETCH_COUNT = 1000
RECONNECT_DELAY_S = 5.0
MAX_HOPS = 1
LONG_MAX = (1 << 63) - 1
DELAY_MAX_S = 1e7  # some months: what a timer of the loop can wait for
NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """`uris` are interchangeable ways to one upstream, raw: with passwords, never to be shown.

    exchange, queue   their names at the upstream; None: as the local one
    expires_ms, message_ttl_ms  of the upstream queue; None: none
    keeps             what was made at the upstream stays there when the link is gone (resource-cleanup-mode never)
    single_channel    bindings go over the channel that consumes (channel-use-mode single)
    """

    upstream: str
    uris: tuple[str, ...]
    exchange: str | None = None
    queue: str | None = None
    consumer_tag: str = ""
    prefetch_count: int = PREFETCH_COUNT
    reconnect_delay_s: float = RECONNECT_DELAY_S
    max_hops: int = MAX_HOPS
    expires_ms: int | None = None
    message_ttl_ms: int | None = None
    trust_user_id: bool = False
    ack_mode: AckMode = "on-confirm"
    queue_type: str = "classic"
    bind_nowait: bool = False
    keeps: bool = False
    single_channel: bool = False

    def __repr__(self) -> str:
        return f"LinkSettings({self.upstream!r})"  # without the URIs

    def of_kind(self, kind: Kind) -> LinkSettings:
        """Only what means something to links of this kind, so that these alone change when that does."""
        if kind == "exchange":
            return replace(self, queue=None, consumer_tag="")
        return LinkSettings(
            upstream=self.upstream,
            uris=self.uris,
            queue=self.queue,
            consumer_tag=self.consumer_tag,
            prefetch_count=self.prefetch_count,
            reconnect_delay_s=self.reconnect_delay_s,
            trust_user_id=self.trust_user_id,
            ack_mode=self.ack_mode,
        )


def link_settings(
    upstream: str, definition: Mapping[str, object], element: Mapping[str, object] = NOTHING
) -> LinkSettings:
    """`definition` is the value of the parameter, `element` that of the set. What has a wrong type counts as absent."""
    given = {**definition, **element, "uri": definition.get("uri")}
    uri = given["uri"]
    uris = uri if isinstance(uri, list) else [uri]
    mode = given.get("ack-mode")
    return LinkSettings(
        upstream=upstream,
        uris=tuple(each for each in uris if isinstance(each, str)),
        exchange=text(given, "exchange"),
        queue=text(given, "queue"),
        consumer_tag=text(given, "consumer-tag") or f"federation-link-{upstream}",
        prefetch_count=whole(given, "prefetch-count", PREFETCH_COUNT),
        reconnect_delay_s=number(given, "reconnect-delay", RECONNECT_DELAY_S),
        max_hops=whole(given, "max-hops", MAX_HOPS),
        expires_ms=whole(given, "expires", None),
        message_ttl_ms=whole(given, "message-ttl", None),
        trust_user_id=given.get("trust-user-id") is True,
        ack_mode=next((known for known in ACK_MODES if known == mode), "on-confirm"),
        queue_type=text(given, "queue-type") or "classic",
        bind_nowait=given.get("bind-nowait") is True,
        keeps=given.get("resource-cleanup-mode") == "never",
        single_channel=given.get("channel-use-mode") == "single",
    )


def text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) else None


def number(given: Mapping[str, object], key: str, default: float) -> float:
    value = given.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return default
    return float(max(min(value, DELAY_MAX_S), 0))


@overload
def whole(given: Mapping[str, object], key: str, default: int) -> int: ...


@overload
def whole(given: Mapping[str, object], key: str, default: None) -> int | None: ...


def whole(given: Mapping[str, object], key: str, default: int | None) -> int | None:
    """An integer that a signed long holds; of a fraction the whole part."""
    value = given.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return default
    return int(max(min(value, LONG_MAX), -LONG_MAX))
