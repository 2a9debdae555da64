"""The settings of one link: an upstream's definition with the overrides of a set's element; pure.

An element of an upstream set may override everything but the URIs. The broker validated the definitions when they were
set; this module turns them into values with defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

AckMode = Literal["on-confirm", "on-publish", "no-ack"]
Kind = Literal["exchange", "queue"]

ACK_MODES: tuple[AckMode, ...] = ("on-confirm", "on-publish", "no-ack")
PREFETCH_COUNT = 1000
RECONNECT_DELAY_S = 5.0
MAX_HOPS = 1
LONG_MAX = (1 << 63) - 1
DELAY_MAX_S = 1e7  # some months: the longest timer of the loop
NOTHING: Mapping[str, object] = {}
Default = TypeVar("Default", int, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The settings of a link. `uris` lead to the same upstream and have passwords, so they must not be shown."""

    upstream: str
    uris: tuple[str, ...]
    exchange: str | None = None  # upstream, or None for the local name
    queue: str | None = None  # likewise
    consumer_tag: str = ""
    prefetch_count: int = PREFETCH_COUNT
    reconnect_delay_s: float = RECONNECT_DELAY_S
    max_hops: int = MAX_HOPS
    expires_ms: int | None = None  # of the upstream queue
    message_ttl_ms: int | None = None  # likewise
    trust_user_id: bool = False
    ack_mode: AckMode = "on-confirm"
    queue_type: str = "classic"
    bind_nowait: bool = False
    keeps: bool = False  # the objects upstream when the link is removed (resource-cleanup-mode never)
    single_channel: bool = False  # makes bindings on the channel that consumes (channel-use-mode single)
    drain: bool = False  # takes all messages of the upstream queue, unchanged and without any demand

    def __repr__(self) -> str:
        return f"LinkSettings({self.upstream!r})"  # without the URIs

    def of_kind(self, kind: Kind) -> LinkSettings:
        """Return the settings that links of this kind use, so that a link is not restarted for any other."""
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
            ack_mode="on-confirm" if self.drain else self.ack_mode,
            drain=self.drain,
        )


def link_settings(
    upstream: str, definition: Mapping[str, object], element: Mapping[str, object] = NOTHING
) -> LinkSettings:
    """Make settings from a parameter's value and an element of a set. A value of a wrong type counts as absent."""
    values = {**definition, **element, "uri": definition.get("uri")}
    uri = values["uri"]
    uris = uri if isinstance(uri, list) else [uri]
    mode = values.get("ack-mode")
    return LinkSettings(
        upstream=upstream,
        uris=tuple(each for each in uris if isinstance(each, str)),
        exchange=text(values, "exchange"),
        queue=text(values, "queue"),
        consumer_tag=text(values, "consumer-tag") or f"federation-link-{upstream}",
        prefetch_count=integer(values, "prefetch-count", PREFETCH_COUNT),
        reconnect_delay_s=number(values, "reconnect-delay", RECONNECT_DELAY_S),
        max_hops=integer(values, "max-hops", MAX_HOPS),
        expires_ms=integer(values, "expires", None),
        message_ttl_ms=integer(values, "message-ttl", None),
        trust_user_id=values.get("trust-user-id") is True,
        ack_mode=next((known for known in ACK_MODES if known == mode), "on-confirm"),
        queue_type=text(values, "queue-type") or "classic",
        bind_nowait=values.get("bind-nowait") is True,
        keeps=values.get("resource-cleanup-mode") == "never",
        single_channel=values.get("channel-use-mode") == "single",
    )


def text(values: Mapping[str, object], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


def number(values: Mapping[str, object], key: str, default: float) -> float:
    value = values.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return default
    return float(max(min(value, DELAY_MAX_S), 0))


def integer(values: Mapping[str, object], key: str, default: Default) -> int | Default:
    """Return an integer within the range of a signed long; fractions are cut off."""
    value = values.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return default
    return int(max(min(value, LONG_MAX), -LONG_MAX))
