"""What was configured: one typed value for each thing that can be, and its default.

A field is called as its key in rabbitmq.conf, with `_` for the dots and the unit last where the key has none. Rooms
never see these classes; `app` takes them apart ("configuration stops at the door"). `None` is no limit, or not given.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NO_LOGIN = "none"  # RabbitMQ's word for an account that is switched off
ANONYMOUS = "ANONYMOUS"

DEFAULT_PASS = "guest"

MESSAGE_SIZE_LIMIT = 536_870_912  # RabbitMQ's own upper bound of max_message_size
SMALLEST_FRAME = 4096  # that every peer has to take (AMQP 0-9-1, frame-min-size)

Address = tuple[str, int]
"""Host and port; port 0 is any. The host `::` is every interface, of IPv4 too."""

Mechanism = Literal["PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"]
Sync = Literal["fsync", "os"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogForm = Literal["auto", "human", "json"]
LogTime = Literal["rfc3339_space", "rfc3339_T", "epoch_secs", "epoch_usecs", "lager_default"]
TLSVersion = Literal["tlsv1.2", "tlsv1.3"]


def default_node() -> str:
    """RabbitMQ's form: the node is one of a machine, whose short name comes after the @."""
    return "warren@" + socket.gethostname().partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Values that belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSLOptions(Part):
    """Of one listener. Without a `certfile` there is no TLS. `keyfile` empty: in the certfile."""

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
    """Regular expressions for names."""

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLevels(Part):
    """Of one category each, in place of an output's; None: the output's."""

    connection: LogLevel | None = None
    channel: LogLevel | None = None
    queue: LogLevel | None = None
    federation: LogLevel | None = None
    user: LogLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Part):
    """Three outputs: the console, which is standard error, a file in `dir`, and the exchange amq.rabbitmq.log."""

    levels: LogLevels = LogLevels()
    console: bool = True
    level: LogLevel = "info"
    form: LogForm = "auto"  # human on a terminal, JSON elsewhere
    time: LogTime = "rfc3339_space"
    dir: str = ""  # empty: where the broker was started
    file: str = ""  # empty: none
    file_level: LogLevel = "info"
    file_form: LogForm = "human"
    file_time: LogTime = "rfc3339_space"
    file_rotation_bytes: int | None = None  # None: never; who moves the file away gets a new one
    file_rotation_count: int = 0  # of old files that are kept
    exchange: bool = False
    exchange_level: LogLevel = "info"
    exchange_form: LogForm = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPListener(Part):
    """`ip` empty: that of the AMQP listeners. Times in milliseconds."""

    port: int | None = None
    ip: str = ""
    compress: bool = True
    idle_timeout: int = 60_000
    inactivity_timeout: int = 300_000
    request_timeout: int = 5_000
    shutdown_timeout: int = 5_000
    max_keepalive: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Management(Part):
    """The HTTP API and the user interface (issue of the operator's surface)."""

    tcp: HTTPListener = HTTPListener(port=15672)
    ssl: HTTPListener = HTTPListener()
    ssl_options: SSLOptions = SSLOptions()
    path_prefix: str = ""
    max_body_bytes: int = 20_000_000
    rates_mode: Literal["none", "basic", "detailed"] = "basic"
    sample_retention_policies: Mapping[str, int] = field(
        default_factory=dict
    )  # `global.minute` -> seconds between samples
    login_session_timeout_min: int | None = None
    disable_stats: bool = False
    enable_queue_totals: bool = False
    disable_basic_auth: bool = False
    disable_metrics_collector: bool = False
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
class Prometheus(Part):
    """The metrics."""

    tcp: HTTPListener = HTTPListener(port=15692)
    ssl: HTTPListener = HTTPListener()
    ssl_options: SSLOptions = SSLOptions()
    path: str = "/metrics"
    return_per_object_metrics: bool = False
    authentication_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Part):
    """How links of federation end. Times are in ms."""

    connection_close_timeout: int = 5000
    link_batch_size: int = 128
    shutdown_timeout: int = 180_000
    throttle_delay: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation(Part):
    """Links to other brokers."""

    exchanges: Links = Links()
    queues: Links = Links()
    internal_exchange_check_interval: int = 90_000
    graceful_shutdown_cleanup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(Part):
    """The export of what becomes of every message."""

    enabled: bool = False
    directory: str = "./throughput"
    vhosts: tuple[str, ...] = ()  # empty: all
    sample_one_in: int = 1
    headers: tuple[str, ...] = ()  # whose values are exported; no other's are
    buffer_bytes: int = 64 << 20  # of what was not written yet
    file_bytes: int = 64 << 20
    file_age_s: int = 300
    retention_days: int | None = 14  # None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Part):
    """0 means no limit (frame_max, channel_max) or off (heartbeat_s)."""

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
    frame_max: int = 131_072  # octets
    initial_frame_max: int = 8192  # octets, until tune-ok
    channel_max: int = 2047
    channel_max_per_node: int | None = None
    connection_max: int | None = None
    consumer_max_per_channel: int | None = None
    max_message_size: int = 16_777_216  # octets of body
    consumer_timeout_ms: int | None = 1_800_000
    transaction_max_bytes: int = 134_217_728  # of publishes that are not committed; 0: no limit
    default_consumer_prefetch: int = 0

    default_vhost: str = "/"
    default_user: str = "guest"
    default_pass: str = ""  # empty: `initial_password` says which
    generate_default_pass: bool = False
    default_user_tags: tuple[str, ...] = ("administrator",)
    default_permissions: Permissions = Permissions()
    loopback_users: tuple[str, ...] = ("guest",)  # may log in from a loopback address only

    auth_mechanisms: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN")
    anonymous_login_user: str = "guest"  # it has to be there; NO_LOGIN: nobody
    anonymous_login_pass: str = "guest"
    password_hashing: str = "argon2id"  # or one of RabbitMQ's, by the names it has in definitions
    credential_validator: Literal["", "min_password_length", "password_regexp"] = ""  # which of the next two counts
    password_min_length: int = 0
    password_regexp: str = ""

    vm_memory_high_watermark: float = 0.6  # of what memory there is
    vm_memory_high_watermark_bytes: int | None = None  # in its place
    total_memory_bytes: int | None = None  # None: what the machine has, or the container may have
    disk_free_limit_bytes: int = 50_000_000  # with less left on the disk, publishers wait
    disk_free_limit_relative: float | None = None  # in its place: of the memory there is

    load_definitions: str = ""  # a file of JSON, or a folder of them; the default user and vhost are then not made
    definitions_skip_if_unchanged: bool = False
    default_queue_type: Literal["", "classic", "quorum"] = ""  # empty: not chosen, which is classic
    # Higher than anybody needs, so that a client that declares without end is stopped before the memory is gone.
    cluster_queue_limit: int | None = 250_000
    cluster_exchange_limit: int | None = 250_000
    vhost_max: int | None = None
    runtime_parameter_limits: Mapping[str, int] = field(default_factory=dict)  # component -> how many

    cluster_name: str = ""  # empty: that of the node, with digits where the node has its default name
    cluster_tags: Mapping[str, str] = field(default_factory=dict)
    node_tags: Mapping[str, str] = field(default_factory=dict)
    # What server-properties say: clients switch features on by these two.
    product: str = "RabbitMQ"
    version: str = "4.3.5"
    collect_statistics_interval_ms: int = 5_000

    log: Log = Log()

    management: Management = Management()
    prometheus: Prometheus = Prometheus()
    federation: Federation = Federation()
    throughput: Throughput = Throughput()

    # Our own, which RabbitMQ has not: `warren.*`
    node: str = field(default_factory=default_node)
    data_dir: str = "./data"
    memory: bool = False  # nothing is stored, and data_dir is not looked at
    sync: Sync = "fsync"  # what a confirm waits for: the disk, or the operating system only
    message_memory_bytes: int | None = None  # of ready messages, the rest is on disk; None: 40 %, <= 1.5 GiB

    def __post_init__(self) -> None:
        if 0 < self.frame_max < SMALLEST_FRAME:
            raise ValueError(f"frame_max: less than {SMALLEST_FRAME}, the smallest that AMQP 0-9-1 allows")
        if self.listeners_ssl and not self.ssl_options.certfile:
            raise ValueError("listeners.ssl: needs ssl_options.certfile")

    @property
    def initial_password(self) -> str | None:
        """The default user's, when that user is made; None: a random one."""
        return self.default_pass or (None if self.generate_default_pass else DEFAULT_PASS)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What is offered: ANONYMOUS only where it has somebody to log in as."""
        off = self.anonymous_login_user == NO_LOGIN
        return tuple(name for name in self.auth_mechanisms if not (off and name == ANONYMOUS))
