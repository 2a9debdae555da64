"""The configuration: read from one TOML file and the command line, checked as a whole, then handed out as values.

Rooms never see this class; `app` takes it apart ("configuration stops at the door").
"""

import socket
import tomllib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

NO_LOGIN = "none"  # RabbitMQ's word for an account that is switched off

MESSAGE_SIZE_LIMIT = 536_870_912  # RabbitMQ's own upper bound of max_message_size

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0)]
Mechanism = Literal["PLAIN", "AMQPLAIN", "ANONYMOUS"]
Sync = Literal["fsync", "os"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]


class ConfigError(Exception):
    """A configuration that cannot be used. Its text is one line naming the file (or the command line) and the key."""


def _default_node() -> str:
    return "warren@" + socket.gethostname().partition(".")[0]


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT` as (host, port); port 0 means any. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f"'{text}' is not HOST:PORT")
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError(f"'{text}' has no port between 0 and 65535")
    return host, int(port)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every key of the TOML file, with its default. 0 means no limit (frame_max, channel_max) or off (heartbeat_s)."""

    amqp: Annotated[tuple[str, ...], Meta(min_length=1)] = ("127.0.0.1:5672",)
    node: Annotated[str, Meta(min_length=1)] = msgspec.field(default_factory=_default_node)
    cluster_name: str = ""  # empty: the name of the node

    data_dir: Annotated[str, Meta(min_length=1)] = "./data"
    memory: bool = False  # nothing is stored, and data_dir is not looked at
    message_memory_bytes: Count | None = (
        None  # of ready messages, what is beyond is on the disk; None: 40 %, <= 1.5 GiB
    )
    disk_free_limit_bytes: Annotated[int, Meta(ge=0)] = 50_000_000  # with less left on the disk, publishers wait
    sync: Sync = "fsync"  # what a confirm waits for: the disk, or the operating system only

    # What server-properties say: clients switch features on by these two (spec/core 1.2).
    product: str = "RabbitMQ"
    version: str = "4.3.5"

    mechanisms: Annotated[tuple[Mechanism, ...], Meta(min_length=1)] = ("PLAIN", "AMQPLAIN")
    anonymous_login_user: str = NO_LOGIN
    anonymous_login_pass: str = NO_LOGIN
    default_user: Annotated[str, Meta(min_length=1)] = "guest"
    default_pass: str = "guest"
    default_vhost: Annotated[str, Meta(min_length=1)] = "/"
    loopback_users: tuple[str, ...] = ("guest",)  # may log in from a loopback address only

    channel_max: Port = 2047
    frame_max: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)] = 131_072  # bytes
    heartbeat_s: Port = 60
    initial_frame_max: Annotated[int, Meta(ge=4096)] = 8192  # bytes, until tune-ok
    handshake_timeout_s: Annotated[float, Meta(gt=0)] = 10
    max_message_size: Annotated[int, Meta(ge=0, le=MESSAGE_SIZE_LIMIT)] = 16_777_216  # bytes of body
    connection_max: Count | None = None
    consumer_max_per_channel: Count | None = None
    default_consumer_prefetch: Port = 0

    log_level: LogLevel = "info"
    log_format: Literal["auto", "human", "json"] = "auto"  # auto: human on a terminal, JSON elsewhere

    def __post_init__(self) -> None:
        for listener in self.amqp:
            try:
                parse_address(listener)
            except ValueError as error:
                raise ValueError(f"amqp: {error}") from None
        if 0 < self.frame_max < 4096:
            raise ValueError("frame_max: less than 4096, the smallest that AMQP 0-9-1 allows")
        if "ANONYMOUS" in self.mechanisms and NO_LOGIN in (self.anonymous_login_user, self.anonymous_login_pass):
            raise ValueError("mechanisms: ANONYMOUS needs anonymous_login_user and anonymous_login_pass")
        if not self.cluster_name:
            msgspec.structs.force_setattr(self, "cluster_name", self.node)

    @property
    def amqp_addresses(self) -> list[tuple[str, int]]:
        """The listeners as (host, port)."""
        return [parse_address(listener) for listener in self.amqp]


def load(path: str | None = None, flags: dict[str, Any] | None = None) -> Config:
    """The configuration of the file at `path` (None: the defaults), with the `flags` in place of what it says.

    Raises ConfigError.
    """
    values = _read(path) if path is not None else {}
    if path is not None:
        _convert(values, path)  # alone first, so that an error names the side it came from
    return _convert(values | (flags or {}), "command line")


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _convert(values: dict[str, Any], source: str) -> Config:
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        text, _, key = str(error).partition(" - at `$.")
        raise ConfigError(f"{source}: {key.rstrip('`')}: {text}" if key else f"{source}: {text}") from None
