"""The keys that Warren follows, by RabbitMQ's names; Warren's own are below `warren`."""

from __future__ import annotations

from ..config import MESSAGE_SIZE_LIMIT, SMALLEST_FRAME
from ..key import EMPTY, LIST, MAP, NAMES, NONE, Key
from ..value_types import (
    INFINITY,
    INT_LIMIT,
    BinarySize,
    Boolean,
    Choice,
    Duration,
    FilePath,
    Fraction,
    Integer,
    Listener,
    Name,
    NodeName,
    PatientDuration,
    RegularExpression,
    Size,
    Text,
    Words,
)
from .federation import FEDERATION_KEYS
from .http import MANAGEMENT_KEYS, PROMETHEUS_KEYS
from .log import LOG
from .message_log import MESSAGE_LOG_KEYS
from .storage import STORAGE_KEYS
from .tls import tls_keys

SHORT = 65_535
LARGEST_FRAME = 0xFFFF_FFFF
FIELDS = {name: name for name in ("distinguished_name", "common_name", "subject_alternative_name")}
BACKENDS = (
    "local_filesystem",
    "local",
    *(f"{name}_definitions_import_local_filesystem" for name in ("rabbit", "rabbitmq")),
)
HASHES = {f"rabbit_password_hashing_{name}": f"rabbit_password_hashing_{name}" for name in ("sha256", "sha512", "md5")}
QUEUE_TYPES = Choice(
    {"classic": "classic", "quorum": "quorum", "rabbit_classic_queue": "classic", "rabbit_quorum_queue": "quorum"}
)

LISTENERS = (
    Key("listeners.tcp.$", Listener(), "listeners_tcp", "a port on every interface, or ADDRESS:PORT; 0 is any", LIST),
    Key("listeners.tcp", EMPTY, "listeners_tcp", "none: TLS only", NONE),
    Key("listeners.ssl.$", Listener(), "listeners_ssl", "the same, with TLS; usually 5671", LIST),
    Key("listeners.ssl", EMPTY, "listeners_ssl", "none: no TLS", NONE),
    Key(
        "handshake_timeout",
        PatientDuration(1),
        "handshake_timeout_ms",
        "ms, from accept to connection.open; infinity is a day",
    ),
    Key("ssl_handshake_timeout", Duration("ms", 1), "ssl_handshake_timeout_ms", "ms"),
    Key("tcp_listen_options.backlog", Integer(1, INT_LIMIT), "tcp_backlog", "connections that wait to be accepted"),
    Key("tcp_listen_options.nodelay", Boolean(), "tcp_nodelay", "TCP_NODELAY of connections"),
    Key("tcp_listen_options.keepalive", Boolean(), "tcp_keepalive", "SO_KEEPALIVE of connections"),
    Key("tcp_listen_options.sndbuf", Size(INT_LIMIT), "tcp_sndbuf_bytes", "SO_SNDBUF; default: the system's"),
    Key("tcp_listen_options.recbuf", Size(INT_LIMIT), "tcp_recbuf_bytes", "SO_RCVBUF; default: the system's"),
)

LIMITS = (
    Key("heartbeat", Integer(0, SHORT), "heartbeat_s", "seconds, as proposed to clients; 0 is off"),
    Key(
        "frame_max",
        BinarySize(LARGEST_FRAME),
        "frame_max",
        f"bytes, from {SMALLEST_FRAME}, or KB of 1024; 0 is no limit",
    ),
    Key(
        "initial_frame_max",
        BinarySize(LARGEST_FRAME, SMALLEST_FRAME),
        "initial_frame_max",
        "bytes, or KB of 1024, until a connection is tuned",
    ),
    Key("channel_max", Integer(0, SHORT), "channel_max", "channels of a connection; 0 is no limit"),
    Key("channel_max_per_node", Integer(none=INFINITY), "channel_max_per_node", "channels of all connections"),
    Key("connection_max", Integer(none=INFINITY), "connection_max", "connections"),
    Key("consumer_max_per_channel", Integer(none=INFINITY), "consumer_max_per_channel", "consumers of a channel"),
    Key("max_message_size", Size(MESSAGE_SIZE_LIMIT), "max_message_size", "bytes of a body"),
    Key("consumer_timeout", Duration("ms", 1, none="undefined"), "consumer_timeout_ms", "ms, for an acknowledgement"),
    Key("default_consumer_prefetch", Integer(0, SHORT), "default_consumer_prefetch", "0 is no limit"),
    Key("cluster_queue_limit", Integer(none=INFINITY), "cluster_queue_limit", "queues in all"),
    Key("cluster_exchange_limit", Integer(none=INFINITY), "cluster_exchange_limit", "exchanges in all"),
    Key("vhost_max", Integer(none=INFINITY), "vhost_max", "virtual hosts"),
    Key("runtime_parameters.limits.$", Integer(), "runtime_parameter_limits", "parameters of this component", MAP),
)

ACCESS = (
    Key("default_vhost", Name(), "default_vhost", "of a new node"),
    Key("default_user", Name(), "default_user", "of a new node"),
    Key("default_pass", Text(empty=False), "default_pass", "of that user; default: guest", secret=True),
    Key("default_user_tags.$", Boolean(), "default_user_tags", "the tag is the user's", NAMES),
    Key(
        "default_permissions.configure", RegularExpression(), "default_permissions.configure",
        "of the user in the virtual host",
    ),
    Key("default_permissions.write", RegularExpression(), "default_permissions.write", "likewise"),
    Key("default_permissions.read", RegularExpression(), "default_permissions.read", "likewise"),
    Key("loopback_users.$", Boolean(), "loopback_users", "the user may log in from a loopback address only", NAMES),
    Key("loopback_users", EMPTY, "loopback_users", "none: everybody from anywhere", NONE),
    Key("auth_mechanisms.$", Words("PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"), "auth_mechanisms", "offered", LIST),
    Key("auth_backends.$", Words("internal", "rabbit_auth_backend_internal"), "", "internal: kept here", LIST),
    Key("anonymous_login_user", Name(), "anonymous_login_user", "with ANONYMOUS; none: nobody"),
    Key("anonymous_login_pass", Text(empty=False), "anonymous_login_pass", "of that user", secret=True),
    Key("password_hashing_module", Choice({"argon2id": "argon2id"} | HASHES), "password_hashing", "of new passwords"),
    Key("credential_validator.validation_backend",
        Choice({
            "rabbit_credential_validator_accept_everything": "",
            "rabbit_credential_validator_min_password_length": "min_password_length",
            "rabbit_credential_validator_password_regexp": "password_regexp",
        }), "credential_validator", "which of the two below applies"),
    Key("credential_validator.min_length", Integer(), "password_min_length", "characters of a new password"),
    Key("credential_validator.regexp", RegularExpression(), "password_regexp", "matches a new password"),
    Key("ssl_cert_login_from", Choice(FIELDS | {"subject_alt_name": "subject_alternative_name"}),
        "ssl_cert_login_from", "the field with the user's name, for EXTERNAL"),
)  # fmt: skip

RESOURCES = (
    Key("vm_memory_high_watermark.relative", Fraction(), "vm_memory_high_watermark", "share of the memory"),
    Key("vm_memory_high_watermark.absolute", Size(), "vm_memory_high_watermark_bytes", "bytes, in its place"),
    Key("total_memory_available_override_value", Size(), "total_memory_bytes", "bytes; default: machine or container"),
    Key("disk_free_limit.absolute", Size(), "disk_free_limit_bytes", "bytes; publishers wait with less free"),
    Key("disk_free_limit.relative", Fraction(), "disk_free_limit_relative", "share of the memory, in its place"),
)

OBJECTS = (
    Key("load_definitions", FilePath(), "load_definitions", "JSON, or a folder; no default user is made then"),
    Key("definitions.local.path", FilePath(), "load_definitions", "the same"),
    Key("definitions.import_backend", Words(*BACKENDS), "", "local_filesystem"),
    Key("definitions.skip_if_unchanged", Boolean(), "definitions_skip_if_unchanged", "import only what has changed"),
    Key("default_queue_type", QUEUE_TYPES, "default_queue_type", "of new virtual hosts"),
    Key("cluster_name", Name(), "cluster_name", "default: the node's name if one is given, or a unique one"),
    Key("cluster_tags.$", Text(), "cluster_tags", "a tag's value", MAP),
    Key("node_tags.$", Text(), "node_tags", "a tag's value", MAP),
    Key("product.name", Name(), "product", "clients enable features by this"),
    Key("product.version", Name(), "version", "and this"),
    Key("collect_statistics_interval", Duration("ms", 1), "collect_statistics_interval_ms", "ms"),
)  # fmt: skip

OWN = (
    Key("warren.generate_default_pass", Boolean(), "generate_default_pass",
        "true: a random default_pass, printed once, unless one is configured"),
    Key("warren.node", NodeName(), "node", "NAME@HOST; default: warren on this machine"),
    Key("warren.data_dir", FilePath(), "data_dir", "the data folder"),
    Key("warren.memory", Boolean(), "memory", "true: nothing is stored, nothing survives the process"),
    Key("warren.sync", Words("fsync", "os"), "sync", "what a confirm waits for: disk, or operating system"),
    Key("warren.transaction_max_size", Size(), "transaction_max_bytes", "uncommitted bytes; 0: no limit"),
    Key("warren.message_memory", Size(), "message_memory_bytes",
        "bytes of messages in memory; default: 40 %, at most 1.5 GiB"),
)  # fmt: skip

# Headings of the reference of all keys, and the keys below each.
SECTIONS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("Listeners", LISTENERS),
    ("TLS, for listeners.ssl", tls_keys("ssl_options", "ssl_options")),
    ("Limits", LIMITS),
    ("Users and logins", ACCESS),
    ("Memory and disk", RESOURCES),
    ("Definitions, queues, names", OBJECTS),
    ("Log", LOG),
    ("Warren's own", OWN),
    ("Storage on PostgreSQL, with the extra `postgresql`", STORAGE_KEYS),
    ("HTTP API", MANAGEMENT_KEYS),
    ("Metrics, for Prometheus", PROMETHEUS_KEYS),
    ("Federation", FEDERATION_KEYS),
    ("Message log, with the extra `analytics`", MESSAGE_LOG_KEYS),
)

KEYS: tuple[Key, ...] = tuple(key for _, keys in SECTIONS for key in keys)
