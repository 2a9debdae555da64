"""RabbitMQ's keys that Warren does not follow, and other names of keys that it follows."""

from .keys import ANY, CATEGORIES, names_in
from .rabbitmq_conf import path_of
from .setting import Path, dotted

# Prefixes of keys.
SECTIONS = (
    # clusters and Erlang
    *("advanced", "classic_queue", "cluster_formation", "cluster_partition_handling", "distribution", "erlang"),
    *("feature_flags", "inter_node", "khepri", "metadata_store", "num_acceptors", "quorum_queue", "raft", "ranch"),
    *("socket_writer", "stream_queue", "sysmon_handler", "vm_args"),
    # other protocols and plugins
    *("amqp1_0", "auth_cache", "auth_http", "auth_ldap", "auth_oauth2", "aws", "event_exchange"),
    *("jms_topic_exchange", "message_interceptors", "mqtt", "shovel", "stomp", "stream", "trust_store"),
    *("tracing", "web_dispatch", "web_mqtt", "web_stomp"),
    # not supported yet
    *("definitions.hashing", "definitions.https", "definitions.tls"),
    *("log.console.color_esc_seqs", "log.console.stdio", "log.default.rotation", "log.syslog"),
    "log.journald",
    *("management.listener.ssl", "management.oauth_client_id", "management.oauth_enabled"),
    *("management.oauth_client_secret", "management.oauth_disable_basic_auth", "management.oauth_metadata_url"),
    *("management.oauth_initiated_logon_type", "management.oauth_provider_url", "management.oauth_resource_servers"),
    *("management.oauth_response_type", "management.oauth_scopes"),
    *("deprecated_features", "permit_deprecated_features"),
)

LOG_CATEGORIES = ("channel", "connection", "federation", "mirroring", "osiris", "prelaunch", "queue", "ra", "shovel",
                  "upgrade", "user")  # fmt: skip
OF_FORMATTERS = ("json.field_map", "json.verbosity_map", "level_format", "plaintext.format", "single_line")
OF_TLS = ("bypass_pem_cache", "cacerts.$", "cert", "depth", "dh", "dhfile", "log_alert", "log_level", "psk_identity",
          "key.DSAPrivateKey", "key.PrivateKeyInfo", "key.RSAPrivateKey")  # fmt: skip
# Keys of TLS, with the value for what Warren does anyway.
ANYWAY_OF_TLS = {
    "client_renegotiation": "false", "secure_renegotiate": "true", "honor_ecc_order": "true", "reuse_sessions": "true",
    "reuse_session": "true", "crl_check": "false",
}  # fmt: skip
OF_SOCKETS = ("buffer", "delay_send", "dontroute", "exit_on_close", "fd", "high_msgq_watermark", "high_watermark",
              "linger.on", "linger.timeout", "low_msgq_watermark", "low_watermark", "port", "priority", "send_timeout",
              "send_timeout_close", "tos")  # fmt: skip

# key -> the value for what Warren does anyway, empty if no value means that
KEYS_NOT_FOLLOWED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("background_gc_enabled", "background_gc_target_interval", "cluster_keepalive_interval"),
            *("collect_statistics", "credentials_obfuscation", "default_worker_pool_size", "delegate_count"),
            *("disk_monitor_interval", "hipe_compile", "memory_monitor_interval", "message_store_shutdown_timeout"),
            *("mirroring_sync_batch_size", "mirroring_sync_max_throughput", "mnesia_table_loading_retry_limit"),
            *("mnesia_table_loading_retry_timeout", "motd_file", "msg_store_file_size_limit", "net_ticktime"),
            *("queue_index_embed_msgs_below", "queue_leader_locator", "queue_master_locator"),
            *("vhost_restart_strategy", "vm_memory_calculation_strategy", "vm_memory_high_watermark_paging_ratio"),
            *("disk_free_limit.mem_relative", "tcp_listen_options"),
            *(f"default_policies.operator.$.classic_queues.{name}"
              for name in ("ha_mode", "ha_params", "ha_sync_mode", "queue_version")),
            *("link_max_per_session", "ranch_connection_max", "session_max_per_connection"),
            *(f"log.{output}.formatter.{name}" for output in ("console", "file", "exchange") for name in OF_FORMATTERS),
            *("log.console.use_colors", "log.exchange.formatter.time_format"),
            *("log.file.rotation.compress", "log.file.rotation.date"),
            *("management.db_cache_multiplier", "management.enable_uaa", "management.uaa_client_id"),
            *("management.uaa_location", "management_agent.filter_aggregated_queue_metrics_pattern"),
            *("prometheus.filter_aggregated_queue_metrics_pattern", "management.ssl.backlog"),
            *("prometheus.tcp.inactivity_timeout", "prometheus.ssl.inactivity_timeout", "prometheus.ssl.backlog"),
            *("auth_backends.$.authn", "auth_backends.$.authz"),
            *(f"tcp_listen_options.{name}" for name in OF_SOCKETS),
            *(f"log.{category}.file" for category in LOG_CATEGORIES),
            *(f"log.{category}.level" for category in LOG_CATEGORIES if category not in CATEGORIES),
            *(f"log.{category}.rotation.{name}" for category in LOG_CATEGORIES
              for name in ("compress", "count", "date", "size")),
            *(f"{prefix}.{name}" for prefix in ("ssl_options", "management.ssl", "prometheus.ssl") for name in OF_TLS),
        ),
        "",
    ),
    **{
        f"{prefix}.{name}": anyway
        for prefix in ("ssl_options", "management.ssl", "prometheus.ssl")
        for name, anyway in ANYWAY_OF_TLS.items()
    },
    "cluster_partition_handling": "ignore",
    "log.syslog": "false",
    "management.tcp.ssl_opts": "none",  # also as management.listener.ssl_opts
    "management.restrictions.quorum_queue_replica_operations.disabled": "true",  # as there are no such operations
    "proxy_protocol": "false",
    "quorum_relaxed_checks_on_redeclaration": "false",
    "reverse_dns_lookups": "false",
    "ssl_allow_poodle_attack": "false",
    "ssl_cert_login_san_index": "0",
    "ssl_cert_login_san_type": "dns",
    "ssl_options": "none",
}  # fmt: skip

# older or other name -> key
ALIASES = {
    "max_connections": "connection_max",
    "management.load_definitions": "load_definitions",
    "management.cors.allow_origins": "management.cors.allow_origins.1",
    "log.level": "log.console.level",
    "log.default.level": "log.console.level",
}
ALIASES_OF_SECTIONS = {
    "management.listener.ssl_opts": "management.ssl",
    "management.listener.server": "management.tcp",
    "management.listener": "management.tcp",
}

_SECTIONS = {path_of(section) for section in SECTIONS}
_KEYS = {path_of(key): anyway for key, anyway in KEYS_NOT_FOLLOWED.items()}
_KEYS_WITH_NAMES = {key: anyway for key, anyway in _KEYS.items() if ANY in key}
_ALIASES = {path_of(old): path_of(new) for old, new in ALIASES.items()}
_ALIASES_OF_SECTIONS = {path_of(old): path_of(new) for old, new in ALIASES_OF_SECTIONS.items()}


def canonical_path(path: Path) -> Path:
    """Return the key that `path` is another name of, else `path`."""
    new = _ALIASES.get(path)
    if new is not None:
        return new
    for end in range(len(path) - 1, 0, -1):
        new = _ALIASES_OF_SECTIONS.get(path[:end])
        if new is not None and path[:3] != ("management", "listener", "ssl"):
            return (*new, *path[end:])
    return path


def not_followed(path: Path, text: str) -> str | None:
    """Return a warning, empty for a value that Warren satisfies anyway, or None for a key unknown to RabbitMQ."""
    warning = f"{dotted(path)}: Warren does not follow this key"
    anyway = _KEYS.get(path)
    if anyway is None:
        anyway = next((anyway for key, anyway in _KEYS_WITH_NAMES.items() if names_in(key, path) is not None), None)
    if anyway is not None:
        return "" if text == anyway else warning
    return warning if any(path[:end] in _SECTIONS for end in range(1, len(path) + 1)) else None
