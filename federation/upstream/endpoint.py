"""The URI of an upstream, taken apart (spec/federation.md 2). Nothing is connected to here.

A password lives in a Secret from here on: no log, status, exception or traceback shows it, as its repr is redacted.
What may be shown of a URI is `Endpoint.safe`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from warren.broker.plugin import Invalid, safe_uri, uri_fault

PORT, TLS_PORT = 5672, 5671
HEARTBEAT_S = 10
TIMEOUT_MS = 10_000  # RabbitMQ waits 60 s, for which a link would stay down after each outage that swallows an attempt
CHANNEL_MAX = 2047
GUEST = "guest"  # user and password of a network URI that names none
SHORT, LONG = 65_535, 4_294_967_295  # what connection.tune-ok has room for


class Secret:
    """Something that must not be shown. Equal where what it hides is."""

    __slots__ = ("_hidden",)

    def __init__(self, hidden: str) -> None:
        self._hidden = hidden

    def reveal(self) -> str:
        """For the peer that it is meant for, and nobody else."""
        return self._hidden

    def __repr__(self) -> str:
        return "[redacted]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._hidden == other._hidden

    def __hash__(self) -> int:
        return hash(self._hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how to connect.

    direct       no host: this very broker, without TCP; `host` is empty and `port` 0 then. Without a user, as itself
    vhost        None: the path names none, so it is that of the local object; empty is a name
    user         None on a direct URI without credentials alone
    channel_max  0 is no limit, as of frame_max
    mechanisms   in the order in which they are preferred; empty: what is usual, PLAIN before AMQPLAIN
    server_name  for SNI and verification; None: the host, empty: neither
    wildcard     names of certificates may have wildcards, as HTTPS has them
    safe         the URI without user, password and query
    """

    direct: bool
    tls: bool
    host: str
    port: int
    user: str | None = None
    password: Secret | None = None
    vhost: str | None = None
    heartbeat_s: int = HEARTBEAT_S
    connection_timeout_s: float = TIMEOUT_MS / 1000
    channel_max: int = CHANNEL_MAX
    frame_max: int = 0
    mechanisms: tuple[str, ...] = ()
    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""
    key_password: Secret | None = None
    verify: bool = True
    server_name: str | None = None
    wildcard: bool = False
    safe: str = ""


def endpoint(uri: str) -> Endpoint:
    """Raises Invalid, with a text that has no secret in it."""
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
    secured = given if tls else {}  # what says nothing about a plain connection
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
        wildcard="customize_hostname_check" in secured,
        safe=safe_uri(uri),
    )


def credentials(user: str | None, password: str | None, direct: bool) -> tuple[str | None, Secret | None]:
    """Of the part before the @, which may be missing or have no password."""
    if user is None:
        return (None, None) if direct else (GUEST, Secret(GUEST))
    return unquote(user), Secret(GUEST if password is None else unquote(password))
