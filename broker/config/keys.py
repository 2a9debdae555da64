"""The keys that Warren follows, by RabbitMQ's names; Warren's own are below `warren`."""

from .config import LOG_LEVELS, MESSAGE_SIZE_LIMIT, SMALLEST_FRAME
from .setting import Path
from .value_types import (
    INFINITY,
    INT_LIMIT,
    BinarySize,
    Boolean,
    Choice,
    Duration,
    DurationWithUnits,
    FileName,
    FilePath,
    Fraction,
    Header,
    Host,
    Integer,
    Kind,
    Listener,
    Name,
    NodeName,
    OneListener,
    PathPrefix,
    PatientDuration,
    RegularExpression,
    Size,
    StoreUrl,
    Text,
    Words,
)  # fmt: skip

ANY = "$"  # a free element: a number or a name

ONE = "one"  # the value of the field
LIST = "list"  # a value for each number or name, in their order
NAMES = "names"  # the names whose value is true
MAP = "map"  # name -> value
NONE = "none"  # the word none: the field is empty, whatever other settings it has

EMPTY = Choice({"none": None})


class Key:
    """A key of the configuration, with its comment (`doc`) in the reference of all keys. A `secret` value is not shown.

    Its field in Config, or in a part of it as `ssl_options.verify`, is that of the same name unless given, and empty if
    the value is only checked.
    """

    __slots__ = ("path", "kind", "field", "shape", "doc", "secret")

    def __init__(
        self, key: str, kind: Kind, doc: str, shape: str = ONE, field: str | None = None, secret: bool = False
    ) -> None:
        self.path: Path = tuple(key.split("."))
        self.kind = kind
        self.field = key.removesuffix(f".{ANY}") if field is None else field
        self.shape = shape
        self.doc = doc
        self.secret = secret

    def names(self, path: Path) -> str | None:
        """Return the names in place of the free elements, empty if there are none; None for a path of another key."""
        return names_in(self.path, path)


def names_in(key: Path, path: Path) -> str | None:
    """Return the names in a path in place of the free elements of a key; None for a path of another key."""
    if len(path) != len(key):
        return None
    free = []
    for ours, theirs in zip(key, path, strict=True):
        if ours == ANY:
            free.append(theirs)
        elif ours != theirs:
            return None
    return ".".join(free)


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
LEVELS = Choice(LOG_LEVELS)
FORMS = Choice({"plaintext": "human", "json": "json"})
TIMES = Words("rfc3339_space", "rfc3339_T", "epoch_secs", "epoch_usecs", "lager_default")
CATEGORIES = ("connection", "channel", "queue", "federation", "user")
HEADERS = ("content_type_options", "frame_options", "xss_protection")
CLOSE_MOST_MS = 5000


def listener_keys(prefix: str, reads_bodies: bool = True) -> tuple[Key, ...]:
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
    return tuple(Key(f"{prefix}.{name}", kind, doc) for name, kind, doc in kinds)


def tls_keys(prefix: str, field: str) -> tuple[Key, ...]:
    """Return the keys of a TLS listener, with their fields in the part of Config that `field` names.

    The files are read again when they change, but not their names.
    """
    kinds: tuple[tuple[str, Kind, str, str], ...] = (
        ("certfile", FilePath(), "PEM, the whole chain", ONE),
        ("keyfile", FilePath(), "PEM; default: in the certfile", ONE),
        ("cacertfile", FilePath(), "PEM, authorities for clients", ONE),
        ("password", Text(), "of the keyfile", ONE),
        ("verify", Words("verify_none", "verify_peer"), "request clients' certificates", ONE),
        ("fail_if_no_peer_cert", Boolean(), "refuse clients without one", ONE),
        ("versions", Words("tlsv1.3", "tlsv1.2"), "of TLS; no older ones", LIST),
        ("ciphers", Text(empty=False), "of TLS 1.2, by OpenSSL's names", LIST),
        ("honor_cipher_order", Boolean(), "the broker's order, not the client's", ONE),
    )
    return tuple(
        Key(f"{prefix}.{name}{f'.{ANY}' * (shape == LIST)}", kind, doc, shape, f"{field}.{name}", name == "password")
        for name, kind, doc, shape in kinds
    )


def link_keys(kind: str) -> tuple[Key, ...]:
    """Return the keys of the stop of links of exchanges or of queues."""
    own, stop = f"federation.{kind}", f"federation.{kind}.shutdown"
    return (
        Key(f"{own}.connection_close_timeout", Integer(0, CLOSE_MOST_MS), "ms, to close the connection to an upstream"),
        Key(f"{stop}.link_batch_size", Integer(1), "links that stop at a time", field=f"{own}.link_batch_size"),
        Key(f"{stop}.timeout", Duration("ms", 1), "ms, for all of them", field=f"{own}.shutdown_timeout"),
        Key(f"{stop}.throttle_delay", Duration("ms"), "ms, between batches", field=f"{own}.throttle_delay"),
    )


LISTENERS = (
    Key("listeners.tcp.$", Listener(),
        "a port on every interface, or ADDRESS:PORT; 0 is any", LIST, field="listeners_tcp"),
    Key("listeners.tcp", EMPTY, "none: TLS only", NONE, field="listeners_tcp"),
    Key("listeners.ssl.$", Listener(), "the same, with TLS; usually 5671", LIST, field="listeners_ssl"),
    Key("listeners.ssl", EMPTY, "none: no TLS", NONE, field="listeners_ssl"),
    Key("handshake_timeout", PatientDuration(1),
        "ms, from accept to connection.open; infinity is a day", field="handshake_timeout_ms"),
    Key("ssl_handshake_timeout", Duration("ms", 1), "ms", field="ssl_handshake_timeout_ms"),
    Key("tcp_listen_options.backlog", Integer(1, INT_LIMIT),
        "connections that wait to be accepted", field="tcp_backlog"),
    Key("tcp_listen_options.nodelay", Boolean(), "TCP_NODELAY of connections", field="tcp_nodelay"),
    Key("tcp_listen_options.keepalive", Boolean(), "SO_KEEPALIVE of connections", field="tcp_keepalive"),
    Key("tcp_listen_options.sndbuf", Size(INT_LIMIT), "SO_SNDBUF; default: the system's", field="tcp_sndbuf_bytes"),
    Key("tcp_listen_options.recbuf", Size(INT_LIMIT), "SO_RCVBUF; default: the system's", field="tcp_recbuf_bytes"),
)  # fmt: skip

LIMITS = (
    Key("heartbeat", Integer(0, SHORT), "seconds, as proposed to clients; 0 is off", field="heartbeat_s"),
    Key("frame_max", BinarySize(LARGEST_FRAME), f"bytes, from {SMALLEST_FRAME}, or KB of 1024; 0 is no limit"),
    Key("initial_frame_max", BinarySize(LARGEST_FRAME, SMALLEST_FRAME),
        "bytes, or KB of 1024, until a connection is tuned"),
    Key("channel_max", Integer(0, SHORT), "channels of a connection; 0 is no limit"),
    Key("channel_max_per_node", Integer(none=INFINITY), "channels of all connections"),
    Key("connection_max", Integer(none=INFINITY), "connections"),
    Key("consumer_max_per_channel", Integer(none=INFINITY), "consumers of a channel"),
    Key("max_message_size", Size(MESSAGE_SIZE_LIMIT), "bytes of a body"),
    Key("consumer_timeout", Duration("ms", 1, none="undefined"),
        "ms, for an acknowledgement", field="consumer_timeout_ms"),
    Key("default_consumer_prefetch", Integer(0, SHORT), "0 is no limit"),
    Key("cluster_queue_limit", Integer(none=INFINITY), "queues in all"),
    Key("cluster_exchange_limit", Integer(none=INFINITY), "exchanges in all"),
    Key("vhost_max", Integer(none=INFINITY), "virtual hosts"),
    Key("runtime_parameters.limits.$", Integer(),
        "parameters of this component", MAP, field="runtime_parameter_limits"),
)  # fmt: skip

VHOST_DEFAULTS = (
    Key("default_users.$.vhost_pattern", RegularExpression(), "new virtual hosts that the user gets; default: all", MAP,
        field="default_users.vhost_pattern"),
    Key("default_users.$.password", Text(empty=False), "of the user, if it is new", MAP,
        field="default_users.password", secret=True),
    Key("default_users.$.tags", Text(), "likewise, with commas between them", MAP, field="default_users.tags"),
    *(Key(f"default_users.$.{right}", RegularExpression(), "of the user there; default: .*", MAP,
          field=f"default_users.{right}") for right in ("configure", "write", "read")),
    *(Key(f"default_policies.operator.$.{name}_pattern", RegularExpression(), f"{what}; default: all", MAP,
          field=f"default_policies.{name}_pattern")
      for name, what in (("vhost", "new virtual hosts that the operator policy gets"), ("queue", "of its queues"))),
    *(Key(f"default_policies.operator.$.{name}", kind, what, MAP, field=f"default_policies.{name}")
      for kind, what, names in (
          (DurationWithUnits(1), "such as 1h30m", ("expires", "message_ttl")),
          (Integer(1), "of each queue", ("max_length", "max_in_memory_length", "delivery_limit")),
          (BinarySize(least=1), "of each queue", ("max_length_bytes", "max_in_memory_bytes")),
      ) for name in names),
    Key("default_limits.vhosts.$.pattern", RegularExpression(), "the first by NAME for new virtual hosts; default: all",
        MAP, field="default_limits.pattern"),
    *(Key(f"default_limits.vhosts.$.{name}", Integer(1), "of such a virtual host", MAP, field=f"default_limits.{name}")
      for name in ("max_connections", "max_queues")),
)  # fmt: skip

ACCESS = (
    Key("default_vhost", Name(), "of a new node"),
    Key("default_user", Name(), "of a new node"),
    Key("default_pass", Text(empty=False), "of that user; default: guest", secret=True),
    Key("default_user_tags.$", Boolean(), "the tag is the user's", NAMES),
    Key("default_permissions.configure", RegularExpression(), "of the user in the virtual host"),
    Key("default_permissions.write", RegularExpression(), "likewise"),
    Key("default_permissions.read", RegularExpression(), "likewise"),
    Key("loopback_users.$", Boolean(), "the user may log in from a loopback address only", NAMES),
    Key("loopback_users", EMPTY, "none: everybody from anywhere", NONE),
    Key("auth_mechanisms.$", Words("PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"), "offered", LIST),
    Key("auth_backends.$", Words("internal", "rabbit_auth_backend_internal"), "internal: kept here", LIST, field=""),
    Key("anonymous_login_user", Name(), "with ANONYMOUS; none: nobody"),
    Key("anonymous_login_pass", Text(empty=False), "of that user", secret=True),
    Key("password_hashing_module", Choice({"argon2id": "argon2id"} | HASHES),
        "of new passwords", field="password_hashing"),
    Key("credential_validator.validation_backend", Choice({
            "rabbit_credential_validator_accept_everything": "",
            "rabbit_credential_validator_min_password_length": "min_password_length",
            "rabbit_credential_validator_password_regexp": "password_regexp",
        }), "which of the two below applies", field="credential_validator"),
    Key("credential_validator.min_length", Integer(), "characters of a new password", field="password_min_length"),
    Key("credential_validator.regexp", RegularExpression(), "matches a new password", field="password_regexp"),
    Key("ssl_cert_login_from", Choice(FIELDS | {"subject_alt_name": "subject_alternative_name"}),
        "the field with the user's name, for EXTERNAL"),
)  # fmt: skip

RESOURCES = (
    Key("vm_memory_high_watermark.relative", Fraction(), "share of the memory", field="vm_memory_high_watermark"),
    Key("vm_memory_high_watermark.absolute", Size(), "bytes, in its place", field="vm_memory_high_watermark_bytes"),
    Key("total_memory_available_override_value", Size(),
        "bytes; default: machine or container", field="total_memory_bytes"),
    Key("disk_free_limit.absolute", Size(), "bytes; publishers wait with less free", field="disk_free_limit_bytes"),
    Key("disk_free_limit.relative", Fraction(), "share of the memory, in its place", field="disk_free_limit_relative"),
)  # fmt: skip

OBJECTS = (
    Key("load_definitions", FilePath(), "JSON, or a folder; no default user is made then"),
    Key("definitions.local.path", FilePath(), "the same", field="load_definitions"),
    Key("definitions.import_backend", Words(*BACKENDS), "local_filesystem", field=""),
    Key("definitions.skip_if_unchanged", Boolean(),
        "import only what has changed", field="definitions_skip_if_unchanged"),
    Key("default_queue_type", QUEUE_TYPES, "of new virtual hosts"),
    Key("cluster_name", Name(), "default: the node's name if one is given, or a unique one"),
    Key("cluster_tags.$", Text(), "a tag's value", MAP),
    Key("node_tags.$", Text(), "a tag's value", MAP),
    Key("product.name", Name(), "clients enable features by this", field="product"),
    Key("product.version", Name(), "and this", field="version"),
    Key("collect_statistics_interval", Duration("ms", 1), "ms", field="collect_statistics_interval_ms"),
)  # fmt: skip

# All of these can change while the broker runs, except log.exchange.
LOG = (
    Key("log.console", Boolean(), "standard error"),
    Key("log.console.level", LEVELS, "debug, info, notice, warning, error, critical, none", field="log.level"),
    Key("log.console.formatter", FORMS, "plaintext or json; default: plaintext on a terminal", field="log.form"),
    Key("log.console.formatter.time_format", TIMES, f"or {', '.join(list(TIMES.words)[1:])}", field="log.time"),
    Key("log.dir", FilePath(), "folder of the file; default: the working directory"),
    Key("log.file", FileName(), "a name, or false: no file"),
    Key("log.file.level", LEVELS, "as of the console", field="log.file_level"),
    Key("log.file.formatter", FORMS, "plaintext or json", field="log.file_form"),
    Key("log.file.formatter.time_format", TIMES, "as of the console", field="log.file_time"),
    Key("log.file.rotation.size", Size(), "bytes; the next line begins a new file", field="log.file_rotation_bytes"),
    Key("log.file.rotation.count", Integer(), "old files that are kept", field="log.file_rotation_count"),
    Key("log.exchange", Boolean(), "amq.rabbitmq.log of the default virtual host"),
    Key("log.exchange.level", LEVELS, "as of the console", field="log.exchange_level"),
    Key("log.exchange.formatter", FORMS, "plaintext or json", field="log.exchange_form"),
    *(Key(f"log.{category}.level", LEVELS, "of these lines, in every output", field=f"log.levels.{category}")
      for category in CATEGORIES),
)  # fmt: skip

OWN = (
    Key("warren.generate_default_pass", Boolean(),
        "true: a random default_pass, printed once, unless one is configured", field="generate_default_pass"),
    Key("warren.node", NodeName(), "NAME@HOST; default: warren on this machine", field="node"),
    Key("warren.data_dir", FilePath(), "the data folder", field="data_dir"),
    Key("warren.memory", Boolean(), "true: nothing is stored, nothing survives the process", field="memory"),
    Key("warren.sync", Words("fsync", "os"), "what a confirm waits for: disk, or operating system", field="sync"),
    Key("warren.transaction_max_size", Size(), "uncommitted bytes; 0: no limit", field="transaction_max_bytes"),
    Key("warren.message_memory", Size(),
        "bytes of messages in memory; default: 40 %, at most 1.5 GiB", field="message_memory_bytes"),
)  # fmt: skip

STORAGE_KEYS = (
    Key("storage.url", StoreUrl(empty=False),
        "postgresql://USER@HOST1,HOST2/DATABASE, in place of the data folder", secret=True),
    Key("storage.password_file", FilePath(), "a file with the password of that user"),
    Key("storage.schema", Text(empty=False, longest_bytes=63), "the schema with the tables of this broker"),
    Key("storage.lease_s", Duration("seconds", 3), "seconds, until a silent owner is replaced by a standby"),
    Key("storage.retry_s", Duration("seconds"), "seconds, for which an unreachable server is tried again"),
    Key("storage.quorum_requires_replication", Boolean(),
        "refuse new quorum queues while no standby server is waited for"),
)  # fmt: skip

MANAGEMENT_KEYS = (
    *listener_keys("management.tcp"),
    *listener_keys("management.ssl"),
    *tls_keys("management.ssl", "management.ssl_options"),
    Key("management.path_prefix", PathPrefix(), "before each path"),
    Key("management.http.max_body_size", Size(), "bytes of a request", field="management.max_body_bytes"),
    Key("management.rates_mode", Words("none", "basic", "detailed"), "objects with rates"),
    Key("management.sample_retention_policies.$.$", Duration("seconds", 1),
        "seconds between samples; as global.hour", MAP, field="management.sample_retention_policies"),
    Key("management.login_session_timeout", Duration("minutes", 1),
        "minutes", field="management.login_session_timeout_min"),
    Key("management.disable_stats", Boolean(), "no statistics"),
    Key("management.enable_queue_totals", Boolean(), "but totals of queues"),
    Key("management.disable_basic_auth", Boolean(), "no basic authentication"),
    Key("management_agent.disable_metrics_collector", Boolean(),
        "collect nothing", field="management.disable_metrics_collector"),
    Key("management.restrictions.operator_policy_changes.disabled", Boolean(),
        "operator policies change at the unix socket only", field="management.operator_policy_changes_disabled"),
    Key("management.cors.allow_origins.$", Header(empty=False),
        "an origin, or *", LIST, field="management.cors_allow_origins"),
    Key("management.cors.max_age", Duration("seconds"), "seconds", field="management.cors_max_age_s"),
    Key("management.allowed_hosts.$", Text(empty=False), "a name that a proxy on loopback uses", LIST),
    Key("management.csp.policy", Header(), "Content-Security-Policy", field="management.csp_policy"),
    Key("management.hsts.policy", Header(), "Strict-Transport-Security", field="management.hsts_policy"),
    *(Key(f"management.headers.{name}", Header(), "a header's value", field=f"management.{name}") for name in HEADERS),
    Key("management.http_log_dir", FilePath(), "a log of requests"),
)  # fmt: skip

PROMETHEUS_KEYS = (
    *listener_keys("prometheus.tcp", reads_bodies=False),
    Key("prometheus.tcp.listener", OneListener(), "in place of both; none: TLS only", field="prometheus.listener"),
    *listener_keys("prometheus.ssl", reads_bodies=False),
    *tls_keys("prometheus.ssl", "prometheus.ssl_options"),
    Key("prometheus.path", Text(empty=False), "of the metrics"),
    Key("prometheus.return_per_object_metrics", Boolean(), "metrics of each object, not their sums"),
    Key("prometheus.authentication.enabled", Boolean(),
        "require a login with the tag monitoring", field="prometheus.authentication_enabled"),
)  # fmt: skip

FEDERATION_KEYS = (
    *link_keys("exchanges"),
    *link_keys("queues"),
    Key("federation.internal_exchange_check_interval", Duration("ms", 1),
        "ms, between checks of the objects of an exchange's link upstream"),
    Key("federation.graceful_shutdown_cleanup", Boolean(),
        "delete upstream queues, with their messages, when this broker stops, as RabbitMQ does"),
    Key("warren.federation_link_limit", Integer(none=INFINITY),
        "links of the node in all", field="federation.link_limit"),
)  # fmt: skip

MESSAGE_LOG_KEYS = (
    Key("message_log.enabled", Boolean(), "write the events of each message to Parquet"),
    Key("message_log.directory", FilePath(), "folder of the files; nodes may share it"),
    Key("message_log.reports", FilePath(), "folder whose reports the user interface shows"),
    Key("message_log.vhosts.$", Text(empty=False), "one that is exported; default: all", LIST),
    Key("message_log.sample_one_in", Integer(1), "one message of this many is logged"),
    Key("message_log.headers.$", Text(empty=False), "a header whose values are exported", LIST),
    Key("message_log.buffer", Size(),
        "bytes; records beyond it are dropped and counted", field="message_log.buffer_bytes"),
    Key("message_log.file.size", Size(), "bytes, about, until the next file", field="message_log.file_bytes"),
    Key("message_log.file.age", Duration("seconds", 1), "seconds, until the next file", field="message_log.file_age_s"),
    Key("message_log.retention", Duration("days", 1, none="infinity"),
        "days to keep", field="message_log.retention_days"),
)  # fmt: skip

# Headings of the reference of all keys, and the keys below each.
SECTIONS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("Listeners", LISTENERS),
    ("TLS, for listeners.ssl", tls_keys("ssl_options", "ssl_options")),
    ("Limits", LIMITS),
    ("Users and logins", ACCESS),
    ("Defaults of new virtual hosts", VHOST_DEFAULTS),
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
