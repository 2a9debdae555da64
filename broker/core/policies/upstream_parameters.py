"""Parameters of federation: the values of an upstream and of a set of upstreams.

All values that RabbitMQ accepts are accepted, so that its exports can be imported, even those that no link can use,
such as a negative prefetch or an empty list of URIs: the links report them. Errors show no user, password or query of a
URI.
"""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlsplit

from ..metadata.queue_types import QUEUE_TYPES
from ..metadata.validation import Rule, boolean, number, one_of, shape_errors, term, text
from .parameters import Component, Parameters

URIS_LIMIT, URI_LIMIT = 64, 8_192  # of one upstream, and characters of each
MEMBERS_LIMIT = 256  # of a set of upstreams
UPSTREAM, UPSTREAM_SET, LEGACY = "federation-upstream", "federation-upstream-set", "federation"

_NOT_IN_URI = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CREDENTIALS = re.compile(r"://.*@", re.DOTALL)
_UNCONFIGURABLE = frozenset(
    ("host", "port", "username", "virtual_host", "ssl_options", "client_properties", "socket_options")
)
_INTEGERS = frozenset(("heartbeat", "connection_timeout", "channel_max", "frame_max"))
_MECHANISMS = frozenset(("plain", "amqplain", "external", "crdemo"))
# Options of TLS with certain values only. They are ignored in an `amqp` URI.
_TLS = {
    "verify": frozenset(("verify_peer", "verify_none")),
    "fail_if_no_peer_cert": frozenset(("true", "false")),
    "customize_hostname_check": frozenset(("https",)),
}


def uri_fault(uri: str) -> str:
    """Return why it is no valid URI of an upstream, as RabbitMQ's term; empty if it is valid."""
    if _NOT_IN_URI.search(uri):
        return "invalid_character"
    if _BAD_ESCAPE.search(uri):
        return "invalid_escape"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        return "port_out_of_range" if "ort" in str(error) else "invalid_host"
    scheme = parts.scheme.lower()
    if scheme not in ("amqp", "amqps") or not uri.lower().startswith(scheme + "://"):
        return f"{{unexpected_uri_scheme,{term(scheme)}}}"
    if port == 0:
        return "port_out_of_range"
    if not parts.hostname and (port is not None or parts.netloc.endswith(":")):
        return "port_requires_host"
    if "/" in parts.path[1:]:
        return "invalid_vhost"
    if not all(is_utf8(part) for part in (parts.netloc, parts.path)):
        return "invalid_utf8"
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        fault = option_fault(name, value, scheme == "amqps")
        if fault:
            return fault
    return ""


def option_fault(name: str, value: str, tls: bool) -> str:
    """Return why an option of the query is invalid, as RabbitMQ's term; empty if it is valid or unknown."""
    if name in _UNCONFIGURABLE:
        return f"{{parameter_unconfigurable_in_query,{name}}}"
    if (name in _INTEGERS or tls and name == "depth") and not re.fullmatch("[0-9]{1,10}", value):
        return f"{{not_an_integer,{name}}}"
    if name == "auth_mechanism" and value.lower() not in _MECHANISMS:
        return "unknown_mechanism"
    allowed = _TLS.get(name) if tls else None
    return f"{{unsupported_value,{name}}}" if allowed is not None and value not in allowed else ""


def is_utf8(escaped: str) -> bool:
    try:
        unquote_to_bytes(escaped).decode("utf-8")
    except UnicodeError:
        return False
    return True


def safe_uri(uri: str) -> str:
    """Return the URI without user, password and query; little more than its scheme if the rest is ambiguous."""
    if "://" not in uri:
        return f"{uri.partition(':')[0]}:..." if "@" in uri else uri  # mistyped, and may have a password
    shown, mark, query = re.split("([?#])", uri + "?", maxsplit=1)
    return _CREDENTIALS.sub("://", f"{shown}{mark}@" if "@" in query else shown)


def one_uri(key: str, value: object) -> str:
    if not isinstance(value, str):
        return f"{key} should be list, actually was {term(value)}"
    if len(value) > URI_LIMIT:
        return f"{key} may have {URI_LIMIT} characters"
    fault = uri_fault(value)
    return f'"{safe_uri(value)}" not a valid URI: {fault}' if fault else ""


def uris(key: str, value: object) -> str:
    """Check one URI or a list; return the error of the first that is invalid."""
    if not isinstance(value, list):
        return one_uri(key, value)
    if len(value) > URIS_LIMIT:
        return f"{key} may have {URIS_LIMIT} elements"
    return next((line for line in [one_uri(key, uri) for uri in value] if line), "")


OPTIONS: dict[str, Rule] = {
    "exchange": text,
    "queue": text,
    "consumer-tag": text,
    "prefetch-count": number,
    "reconnect-delay": number,
    "max-hops": number,
    "expires": number,
    "message-ttl": number,
    "trust-user-id": boolean,
    "ack-mode": one_of("no-ack", "on-publish", "on-confirm"),
    "queue-type": one_of(*QUEUE_TYPES),
    "bind-nowait": boolean,
    "resource-cleanup-mode": one_of("default", "never"),
    "channel-use-mode": one_of("multiple", "single"),
}


def texts(key: str, value: object) -> str:
    """Check a list of texts."""
    whole = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return "" if whole else f"{key} should be a list of strings, actually was {term(value)}"


def direct_vhosts(uri: object) -> list[str]:
    """Return the virtual hosts of this broker to which a valid `uri` connects without a password."""
    all_ = [urlsplit(one) for one in (uri if isinstance(uri, list) else [str(uri)])]
    return [unquote(parts.path[1:]) for parts in all_ if not parts.hostname and parts.path]


class Upstream(Component):
    """The component of upstreams.

    `barred` returns the user who makes the current change, if that user may not connect to this virtual host, else an
    empty string. A stored URI that is not valid any more is reported by its links.
    """

    __slots__ = ("_barred",)
    keeps = True
    acts_for_user = True

    def __init__(self, name: str, barred: Callable[[str], str]) -> None:
        super().__init__(name)
        self._barred = barred

    def validate(self, name: str, value: object) -> list[str]:
        lines = shape_errors(name, value, {"uri": uris, "drain": texts, **OPTIONS}, ("uri",))
        if not lines and isinstance(value, dict):
            for vhost in direct_vhosts(value["uri"]):
                user = self._barred(vhost)
                lines += [f'user "{user}" may not connect to vhost "{vhost}"'] if user else []
        return lines


class UpstreamSet(Component):
    """The component of upstream sets. They may name unknown upstreams. A set `all` is accepted and ignored."""

    __slots__ = ()
    keeps = True

    def validate(self, name: str, value: object) -> list[str]:
        if not isinstance(value, list):
            return [f"{name} should be list, actually was {term(value)}"]
        if len(value) > MEMBERS_LIMIT:
            return [f"{name} may have {MEMBERS_LIMIT} elements"]
        rules = {"upstream": text, **OPTIONS}
        return [line for element in value for line in shape_errors(name, element, rules, ("upstream",))]


class Legacy(Component):
    """A component that RabbitMQ's user interface requests. It has no values, and none can be set."""

    __slots__ = ()

    def validate(self, name: str, value: object) -> list[str]:
        return ["name not recognised"]


def register_upstreams(parameters: Parameters, barred: Callable[[str], str]) -> None:
    for component in (Upstream(UPSTREAM, barred), UpstreamSet(UPSTREAM_SET), Legacy(LEGACY)):
        parameters.register(component)
