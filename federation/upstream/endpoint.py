"""The endpoint of an upstream: its parsed URI.

A parsed password is a Secret, whose repr is redacted: no log, status, exception or traceback shows it.
`Endpoint.safe` is the part of the URI that may be shown.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from warren.broker.core.policies.upstream_parameters import safe_uri, uri_fault
from warren.broker.plugin import Invalid

PORT, TLS_PORT = 5672, 5671
HEARTBEAT_S = 10
TIMEOUT_MS = 10_000  # with RabbitMQ's 60 s a link would stay down that long after an outage that loses packets
CHANNEL_MAX = 2047
GUEST = "guest"  # user and password of a network URI that names none
SHORT, LONG = 65_535, 4_294_967_295  # the largest values in connection.tune-ok


class Secret:
    """A string whose repr is redacted. Secrets are equal if their strings are equal."""

    __slots__ = ("_hidden",)

    def __init__(self, hidden: str) -> None:
        self._hidden = hidden

    def reveal(self) -> str:
        """Return the string, to be sent to the peer only."""
        return self._hidden

    def __repr__(self) -> str:
        return "[redacted]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._hidden == other._hidden

    def __hash__(self) -> int:
        return hash(self._hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an upstream, with the options of its URI."""

    direct: bool  # whether the URI has no host: it leads to this broker without TCP; `host` is empty and `port` 0
    tls: bool
    host: str
    port: int
    user: str | None = None  # the user, or None for the node itself with a direct URI without credentials
    password: Secret | None = None
    vhost: str | None = None  # the virtual host, or None for that of the local object; empty is a name
    heartbeat_s: int = HEARTBEAT_S
    connection_timeout_s: float = TIMEOUT_MS / 1000
    channel_max: int = CHANNEL_MAX  # 0 is no limit, as for frame_max
    frame_max: int = 0
    mechanisms: tuple[str, ...] = ()  # in order of preference; empty for PLAIN, then AMQPLAIN
    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""
    key_password: Secret | None = None
    verify: bool = True
    server_name: str | None = None  # the name for SNI and verification; None for the host, empty for no name
    safe: str = ""  # the URI without user, password and query


def parse_endpoint(uri: str) -> Endpoint:
    """Parse the URI of an upstream. Raises Invalid, whose text has no secrets."""
    fault = uri_fault(uri)
    if fault:
        raise Invalid(f'"{safe_uri(uri)}" not a valid URI: {fault}')
    parts = urlsplit(uri)
    host = unquote(parts.hostname or "")
    tls = parts.scheme.lower() == "amqps"
    direct = not host
    user, password = credentials(parts.username, parts.password, direct)
    port = 0 if direct else parts.port or (TLS_PORT if tls else PORT)
    options = parse_qsl(parts.query, keep_blank_values=True)
    given = dict(options)
    secured = given if tls else {}  # options that plain connections ignore
    server_name = secured.get("server_name_indication")
    return Endpoint(
        direct=direct,
        tls=tls and not direct,
        host=host,
        port=port,
        user=user,
        password=password,
        vhost=unquote(parts.path[1:]) if parts.path else None,
        heartbeat_s=min(int(given.get("heartbeat", HEARTBEAT_S)), SHORT),
        connection_timeout_s=max(int(given.get("connection_timeout", TIMEOUT_MS)), 1) / 1000,
        channel_max=min(int(given.get("channel_max", CHANNEL_MAX)), SHORT),
        frame_max=min(int(given.get("frame_max", 0)), LONG),
        mechanisms=tuple(dict.fromkeys(value.lower() for name, value in options if name == "auth_mechanism")),
        cacertfile=secured.get("cacertfile", ""),
        certfile=secured.get("certfile", ""),
        keyfile=secured.get("keyfile", ""),
        key_password=Secret(secured["password"]) if "password" in secured else None,
        verify=secured.get("verify") != "verify_none",
        server_name="" if server_name == "disable" else server_name,
        safe=safe_uri(uri),
    )


def credentials(user: str | None, password: str | None, direct: bool) -> tuple[str | None, Secret | None]:
    """Return the unquoted credentials of a URI, or the default ones."""
    if user is None:
        return (None, None) if direct else (GUEST, Secret(GUEST))
    return unquote(user), Secret(GUEST if password is None else unquote(password))
