"""The values of the configuration, typed, with their defaults.

A field is named like its key in rabbitmq.conf, with `_` for dots, and with a unit at its end if the key has none. Only
`app`, `operator`, `plugin_host` and plugins use these classes. None means no limit or not set.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

NO_LOGIN = "none"  # RabbitMQ's value for a disabled account
ANONYMOUS = "ANONYMOUS"

DEFAULT_PASS = "guest"

MESSAGE_SIZE_LIMIT = 536_870_912  # RabbitMQ's own upper bound of max_message_size
SMALLEST_FRAME = 4096  # which every peer must accept (AMQP 0-9-1, frame-min-size)

Address = tuple[str, int]
"""Host and port; port 0 is any. The host `::` is every interface, IPv4 included."""

Mechanism = Literal["PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"]
Sync = Literal["fsync", "os"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
# RabbitMQ's levels -> ours: notice is warning; nothing is logged above critical, so that all above it mean the same.
LOG_LEVELS: dict[str, LogLevel] = {
    **{level: level for level in get_args(LogLevel)},
    "notice": "warning",
    **dict.fromkeys(("alert", "emergency", "none"), "critical"),
}
LogForm = Literal["auto", "human", "json"]
LogTime = Literal["rfc3339_space", "rfc3339_T", "epoch_secs", "epoch_usecs", "lager_default"]
TLSVersion = Literal["tlsv1.2", "tlsv1.3"]


def default_node() -> str:
    """Return the default node name in RabbitMQ's form, with the short name of the machine after the @."""
    return "warren@" + socket.gethostname().partition(".")[0]


class Contradiction(ValueError):
    """The error of values that cannot be used together; `field` is that of one which is set."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Values that belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSLOptions(Part):
    """TLS options of a listener. Without a `certfile` there is no TLS; an empty `keyfile` is the certfile."""

    certfile: str = ""
    keyfile: str = ""
    cacertfile: str = ""
    password: str = ""
    verify: Literal["verify_none", "verify_peer"] = "verify_none"
    fail_if_no_peer_cert: bool = False
    versions: tuple[TLSVersion, ...] = ("tlsv1.3", "tlsv1.2")
    ciphers: tuple[str, ...] = ()
    honor_cipher_order: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions(Part):
    """Permissions: regular expressions for names."""

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLevels(Part):
    """The level of each category, or None for that of the output."""

    connection: LogLevel | None = None
    channel: LogLevel | None = None
    queue: LogLevel | None = None
    federation: LogLevel | None = None
    user: LogLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Part):
    """The log and its outputs: the console (standard error), a file in `dir`, and the exchange amq.rabbitmq.log."""

    levels: LogLevels = LogLevels()
    console: bool = True
    level: LogLevel = "info"
    form: LogForm = "auto"  # human on a terminal, JSON elsewhere
    time: LogTime = "rfc3339_space"
    dir: str = ""  # empty: the working directory
    file: str = ""  # empty: none
    file_level: LogLevel = "info"
    file_form: LogForm = "human"
    file_time: LogTime = "rfc3339_space"
    file_rotation_bytes: int | None = None  # None: never; a file that is moved away is replaced
    file_rotation_count: int = 0  # of old files that are kept
    exchange: bool = False
    exchange_level: LogLevel = "info"
    exchange_form: LogForm = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPListener(Part):
    """An HTTP listener. An empty `ip` is that of the AMQP listeners. Times are in milliseconds."""

    port: int | None = None
    ip: str = ""
    compress: bool = True
    idle_timeout: int = 60_000
    inactivity_timeout: int = 300_000
    request_timeout: int = 5_000
    shutdown_timeout: int = 5_000
    max_keepalive: int = 100


class HTTPListeners(Part):
    """Listeners of the same paths: `tcp` without TLS, `ssl` with it."""

    tcp: HTTPListener
    ssl: HTTPListener

    def listener_of(self, scheme: str) -> HTTPListener:
        """Return the listener of a request with this scheme of its URL."""
        return self.ssl if scheme == "https" else self.tcp


@dataclass(frozen=True, slots=True, kw_only=True)
class Management(HTTPListeners):
    """The HTTP API."""

    tcp: HTTPListener = HTTPListener(port=15672)
    ssl: HTTPListener = HTTPListener()
    ssl_options: SSLOptions = SSLOptions()
    path_prefix: str = ""
    max_body_bytes: int = 20_000_000
    rates_mode: Literal["none", "basic", "detailed"] = "basic"
    # `global.minute` -> seconds between samples
    sample_retention_policies: Mapping[str, int] = field(default_factory=dict)
    login_session_timeout_min: int | None = None
    disable_stats: bool = False
    enable_queue_totals: bool = False
    disable_basic_auth: bool = False
    disable_metrics_collector: bool = False
    operator_policy_changes_disabled: bool = False
    cors_allow_origins: tuple[str, ...] = ()
    cors_max_age_s: int = 1800
    allowed_hosts: tuple[str, ...] = ()
    csp_policy: str = ""
    hsts_policy: str = ""
    content_type_options: str = "nosniff"
    frame_options: str = "DENY"
    xss_protection: str = ""
    http_log_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus(HTTPListeners):
    """The metrics for Prometheus. `listener` takes the place of address and port of `tcp`; an empty one is none."""

    tcp: HTTPListener = HTTPListener(port=15692)
    listener: Address | tuple[()] | None = None
    ssl: HTTPListener = HTTPListener()
    ssl_options: SSLOptions = SSLOptions()
    path: str = "/metrics"
    return_per_object_metrics: bool = False
    authentication_enabled: bool = False

    @property
    def tcp_listener(self) -> HTTPListener:
        """The listener without TLS, with the address and port in effect."""
        if self.listener is None:
            return self.tcp
        ip, port = self.listener or ("", None)
        return replace(self.tcp, ip=ip, port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Part):
    """The stop of federation links. Times are in milliseconds."""

    connection_close_timeout: int = 5000
    link_batch_size: int = 128
    shutdown_timeout: int = 180_000
    throttle_delay: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation(Part):
    """Federation: links to other brokers."""

    exchanges: Links = Links()
    queues: Links = Links()
    internal_exchange_check_interval: int = 90_000
    graceful_shutdown_cleanup: bool = False
    link_limit: int | None = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLogExport(Part):
    """The export of the events of each message."""

    enabled: bool = False
    directory: str = "./message-log"
    reports: str = "./reports"  # made by `warren analyze`, shown in the user interface
    vhosts: tuple[str, ...] = ()  # empty: all
    sample_one_in: int = 1
    headers: tuple[str, ...] = ()  # only their values are exported
    buffer_bytes: int = 64 << 20  # of records that are not written yet
    file_bytes: int = 64 << 20
    file_age_s: int = 300
    retention_days: int | None = 14  # None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage(Part):
    """A store on PostgreSQL, in place of the data folder. Without a `url` there is none, and nothing is replicated."""

    url: str = ""
    password_file: str = ""
    schema: str = "warren"
    lease_s: int = 10  # after which an owner that shows no sign of life is replaced
    quorum_requires_replication: bool = False  # new quorum queues are refused if the store is not replicated
    retry_s: int = 30  # that a server which cannot be reached is tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultUsers(Part):
    """Users of new virtual hosts, each value by the name of a user."""

    vhost_pattern: Mapping[str, str] = field(default_factory=dict)  # of names of virtual hosts; default: all
    password: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)  # several have commas between them
    configure: Mapping[str, str] = field(default_factory=dict)  # patterns of permissions, .* by default
    write: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultOperatorPolicies(Part):
    """Operator policies of new virtual hosts, each value by the name of a policy."""

    vhost_pattern: Mapping[str, str] = field(default_factory=dict)
    queue_pattern: Mapping[str, str] = field(default_factory=dict)
    expires: Mapping[str, int] = field(default_factory=dict)  # ms
    message_ttl: Mapping[str, int] = field(default_factory=dict)  # ms
    max_length: Mapping[str, int] = field(default_factory=dict)
    max_length_bytes: Mapping[str, int] = field(default_factory=dict)
    max_in_memory_length: Mapping[str, int] = field(default_factory=dict)
    max_in_memory_bytes: Mapping[str, int] = field(default_factory=dict)
    delivery_limit: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultLimits(Part):
    """Limits of new virtual hosts, each value by a name: the first one by name whose pattern matches counts."""

    pattern: Mapping[str, str] = field(default_factory=dict)
    max_connections: Mapping[str, int] = field(default_factory=dict)
    max_queues: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Part):
    """The configuration of a node. 0 means no limit (frame_max, channel_max) or off (heartbeat_s)."""

    listeners_tcp: tuple[Address, ...] = (("127.0.0.1", 5672),)
    listeners_ssl: tuple[Address, ...] = ()
    ssl_options: SSLOptions = SSLOptions()
    ssl_cert_login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = "distinguished_name"
    handshake_timeout_ms: int = 10_000  # from accept to connection.open
    ssl_handshake_timeout_ms: int = 5_000
    tcp_backlog: int = 128
    tcp_nodelay: bool = True
    tcp_keepalive: bool = False
    tcp_sndbuf_bytes: int | None = None
    tcp_recbuf_bytes: int | None = None

    heartbeat_s: int = 60
    frame_max: int = 131_072  # bytes
    initial_frame_max: int = 8192  # bytes, until tune-ok
    channel_max: int = 2047
    channel_max_per_node: int | None = None
    connection_max: int | None = None
    consumer_max_per_channel: int | None = None
    max_message_size: int = 16_777_216  # bytes of body
    consumer_timeout_ms: int | None = 1_800_000
    transaction_max_bytes: int = 134_217_728  # of publishes that are not committed; 0: no limit
    default_consumer_prefetch: int = 0

    default_vhost: str = "/"
    default_user: str = "guest"
    default_pass: str = ""  # empty: see `initial_password`
    generate_default_pass: bool = False
    default_user_tags: tuple[str, ...] = ("administrator",)
    default_permissions: Permissions = Permissions()
    loopback_users: tuple[str, ...] = ("guest",)  # may log in from a loopback address only

    auth_mechanisms: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN")
    anonymous_login_user: str = "guest"  # must exist; NO_LOGIN: nobody
    anonymous_login_pass: str = "guest"
    password_hashing: str = "argon2id"  # or one of RabbitMQ's algorithms, named as in definitions
    credential_validator: Literal["", "min_password_length", "password_regexp"] = ""  # which of the next two applies
    password_min_length: int = 0
    password_regexp: str = ""

    vm_memory_high_watermark: float = 0.6  # share of the memory
    vm_memory_high_watermark_bytes: int | None = None  # in its place
    total_memory_bytes: int | None = None  # None: the memory of the machine or container
    disk_free_limit_bytes: int = 50_000_000  # publishers are blocked with less free space
    disk_free_limit_relative: float | None = None  # in its place: share of the memory

    load_definitions: str = ""  # a file of JSON, or a folder of them; the default user and vhost are then not made
    definitions_skip_if_unchanged: bool = False
    default_queue_type: Literal["", "classic", "quorum"] = ""  # empty: not set, which means classic
    # Above all real needs: they stop a client that declares without end before the memory is used up.
    cluster_queue_limit: int | None = 250_000
    cluster_exchange_limit: int | None = 250_000
    vhost_max: int | None = None
    default_users: DefaultUsers = DefaultUsers()
    default_policies: DefaultOperatorPolicies = DefaultOperatorPolicies()
    default_limits: DefaultLimits = DefaultLimits()
    runtime_parameter_limits: Mapping[str, int] = field(default_factory=dict)  # component -> limit

    cluster_name: str = ""  # empty: the node's name, with digits if that is the default
    cluster_tags: Mapping[str, str] = field(default_factory=dict)
    node_tags: Mapping[str, str] = field(default_factory=dict)
    # Sent in server-properties; clients enable features by these two.
    product: str = "RabbitMQ"
    version: str = "4.3.5"
    collect_statistics_interval_ms: int = 5_000

    log: Log = Log()

    management: Management = Management()
    prometheus: Prometheus = Prometheus()
    federation: Federation = Federation()
    message_log: MessageLogExport = MessageLogExport()
    storage: Storage = Storage()

    # Warren's own keys: `warren.*`
    node: str = field(default_factory=default_node)
    data_dir: str = "./data"
    memory: bool = False  # nothing is stored, and data_dir is ignored
    sync: Sync = "fsync"  # what a confirm waits for: the disk, or the operating system only
    message_memory_bytes: int | None = None  # of messages in queues, the rest is on disk; None: 40 %, <= 1.5 GiB

    def __post_init__(self) -> None:
        if 0 < self.frame_max < SMALLEST_FRAME:
            reason = f"frame_max: less than {SMALLEST_FRAME}, the smallest that AMQP 0-9-1 allows"
            raise Contradiction("frame_max", reason)
        if self.storage.url and self.memory:
            raise Contradiction("storage.url", "storage.url: warren.memory is set as well, which stores nothing")
        if self.listeners_ssl and not self.ssl_options.certfile:
            raise Contradiction("listeners_ssl", "listeners.ssl: needs ssl_options.certfile in the configuration file")
        addresses = [*self.listeners_tcp, *self.listeners_ssl]
        for host, port in addresses:
            if port and addresses.count((host, port)) > 1:
                raise Contradiction("listeners_tcp", f"listeners: {host}:{port} is named twice")
        for name, part in (("management", self.management), ("prometheus", self.prometheus)):
            if part.ssl.port is not None and not part.ssl_options.certfile:
                raise Contradiction(f"{name}.ssl.port", f"{name}.ssl.port: needs {name}.ssl.certfile")

    @property
    def initial_password(self) -> str | None:
        """The password of a new default user; None for a random one."""
        return self.default_pass or (None if self.generate_default_pass else DEFAULT_PASS)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The offered mechanisms, without ANONYMOUS if it has no user."""
        off = self.anonymous_login_user == NO_LOGIN
        return tuple(name for name in self.auth_mechanisms if not (off and name == ANONYMOUS))
