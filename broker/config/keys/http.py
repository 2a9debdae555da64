"""The keys of the HTTP API and of the metrics."""

from __future__ import annotations

from ..key import LIST, MAP, Key
from ..value_types import (
    Boolean,
    Duration,
    FilePath,
    Header,
    Host,
    Integer,
    Kind,
    OneListener,
    PathPrefix,
    Size,
    Text,
    Words,
)
from .tls import tls_keys


def listener_keys(prefix: str, field: str, reads_bodies: bool = True) -> tuple[Key, ...]:
    """Return the keys of an HTTP listener."""
    kinds: tuple[tuple[str, Kind, str], ...] = (
        ("port", Integer(0, 65_535), "0 is any"),
        ("ip", Host(), "an address; default: as AMQP"),
        ("compress", Boolean(), "compress responses"),
        ("idle_timeout", Duration("ms"), "ms"),
        *([("inactivity_timeout", Duration("ms"), "ms")] if reads_bodies else []),
        ("request_timeout", Duration("ms"), "ms"),
        ("shutdown_timeout", Duration("ms"), "ms"),
        ("max_keepalive", Integer(), "requests of a connection"),
    )
    return tuple(Key(f"{prefix}.{name}", kind, f"{field}.{name}", doc) for name, kind, doc in kinds)


HEADERS = ("content_type_options", "frame_options", "xss_protection")

MANAGEMENT_KEYS: tuple[Key, ...] = (
    *listener_keys("management.tcp", "management.tcp"),
    *listener_keys("management.ssl", "management.ssl"),
    *tls_keys("management.ssl", "management.ssl_options"),
    Key("management.path_prefix", PathPrefix(), "management.path_prefix", "before each path"),
    Key("management.http.max_body_size", Size(), "management.max_body_bytes", "bytes of a request"),
    Key("management.rates_mode", Words("none", "basic", "detailed"), "management.rates_mode", "objects with rates"),
    Key(
        "management.sample_retention_policies.$.$", Duration("seconds", 1), "management.sample_retention_policies",
        "seconds between samples; as global.hour", MAP,
    ),
    Key("management.login_session_timeout", Duration("minutes", 1), "management.login_session_timeout_min", "minutes"),
    Key("management.disable_stats", Boolean(), "management.disable_stats", "no statistics"),
    Key("management.enable_queue_totals", Boolean(), "management.enable_queue_totals", "but totals of queues"),
    Key("management.disable_basic_auth", Boolean(), "management.disable_basic_auth", "no basic authentication"),
    Key(
        "management_agent.disable_metrics_collector", Boolean(), "management.disable_metrics_collector",
        "collect nothing",
    ),
    Key(
        "management.restrictions.operator_policy_changes.disabled", Boolean(),
        "management.operator_policy_changes_disabled", "operator policies change at the unix socket only",
    ),
    Key(
        "management.cors.allow_origins.$", Header(empty=False), "management.cors_allow_origins",
        "an origin, or *", LIST,
    ),
    Key("management.cors.max_age", Duration("seconds"), "management.cors_max_age_s", "seconds"),
    Key(
        "management.allowed_hosts.$", Text(empty=False), "management.allowed_hosts",
        "a name that a proxy on loopback uses", LIST,
    ),
    Key("management.csp.policy", Header(), "management.csp_policy", "Content-Security-Policy"),
    Key("management.hsts.policy", Header(), "management.hsts_policy", "Strict-Transport-Security"),
    *(Key(f"management.headers.{name}", Header(), f"management.{name}", "a header's value") for name in HEADERS),
    Key("management.http_log_dir", FilePath(), "management.http_log_dir", "a log of requests"),
)  # fmt: skip

PROMETHEUS_KEYS: tuple[Key, ...] = (
    *listener_keys("prometheus.tcp", "prometheus.tcp", reads_bodies=False),
    Key("prometheus.tcp.listener", OneListener(), "prometheus.listener", "in place of both; none: TLS only"),
    *listener_keys("prometheus.ssl", "prometheus.ssl", reads_bodies=False),
    *tls_keys("prometheus.ssl", "prometheus.ssl_options"),
    Key("prometheus.path", Text(empty=False), "prometheus.path", "of the metrics"),
    Key(
        "prometheus.return_per_object_metrics", Boolean(), "prometheus.return_per_object_metrics",
        "metrics of each object, not their sums",
    ),
    Key(
        "prometheus.authentication.enabled", Boolean(), "prometheus.authentication_enabled",
        "require a login with the tag monitoring",
    ),
)  # fmt: skip
