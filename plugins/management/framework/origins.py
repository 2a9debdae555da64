"""Protection against cross-site requests: pages of other sites must not use a browser's credentials.

A browser adds stored credentials to any request of a page, so a page of another site could change the broker. Current
browsers say where a request comes from (`Sec-Fetch-Site`, `Origin`) and pages cannot change these headers; scripts and
tools send neither. With DNS rebinding a page's own name resolves to a loopback address, which makes it the same origin;
that is detected by the name in `Host`.
"""

import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from warren.broker.plugin import Peer

from ...http.asgi import is_loopback
from ...http.responses import HTTPError

OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: pages of the API, and addresses that a person typed
DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_ORIGIN = "*"
JSON, FORM = "application/json", "multipart/form-data"

Authority = tuple[str, int | None]


class Origins:
    """The web origins that may change the broker, and the host names accepted on loopback listeners.

    `allowed` are the origins of `management.cors.allow_origins`; `hosts` are further names of this machine.
    """

    def __init__(self, allowed: Collection[str], hosts: Collection[str], node_name: str) -> None:
        self._allowed = {origin.lower().rstrip("/") for origin in allowed}
        machine = socket.gethostname().lower()
        own = {"localhost", machine, machine.partition(".")[0], node_name.partition("@")[2].lower()}
        self._hosts = (own | {host.lower().rstrip(".") for host in hosts}) - {""}  # a node's name may have no host

    def check_host(self, headers: Mapping[str, str], peer: Peer) -> None:
        """Raises HTTPError (403) for a request to a loopback address with a Host that is not a name of this machine."""
        host = headers.get("host")
        if host is None or not is_loopback(peer.local_host):
            return
        name = authority_of(host)[0]
        if name in self._hosts or name.endswith(".localhost") or is_address(name):
            return
        raise forbidden(f"Host {name} is not a name of this node; management.allowed_hosts can allow it")

    def check_change(self, method: str, headers: Mapping[str, str], takes_form: bool) -> None:
        """Raises HTTPError (403, 415) for a changing request that a page of another site could have made.

        A browser's body must have the content type JSON, which pages of other sites may not send without this node's
        consent; a route that `takes_form` also accepts a form with a file from the node's own pages.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        source = origin if origin is not None else headers.get("referer")
        if site is None and source is None:
            return  # not a browser
        own = site in OWN_SITES if site is not None else is_same(source, headers.get("host"))
        allowed = origin is not None and (ANY_ORIGIN in self._allowed or origin.lower() in self._allowed)
        if not own and not allowed:
            raise forbidden(f"requests that change something are not taken from pages of {origin or 'other sites'}")
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if not has_body and (own or method != "POST"):
            return
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != JSON and not (own and takes_form and media_type == FORM):
            raise HTTPError(415, "unsupported_media_type", f"the body of a browser's request has to be {JSON}")


def forbidden(reason: str) -> HTTPError:
    return HTTPError(403, "forbidden", reason)


def is_same(source: str | None, host: str | None) -> bool:
    """True if a URL names the host that the request was sent to.

    Schemes are not compared, as a proxy may terminate TLS in front of this node.
    """
    if source is None or host is None:
        return False
    try:
        url = urlsplit(source)
    except ValueError:
        return False
    default = DEFAULT_PORTS.get(url.scheme)
    (name, port), (own_name, own_port) = authority_of(url.netloc), authority_of(host)
    return bool(name) and (name, port or default) == (own_name, own_port or default)


def authority_of(text: str) -> Authority:
    """Return the host in lower case without brackets, and the port or None."""
    text = text.strip().rpartition("@")[2].lower()
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        name, _, port = text.partition(":")
    return name.rstrip("."), int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else None


def is_address(name: str) -> bool:
    """True for an IPv4 or IPv6 address, which DNS rebinding cannot use."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, name)
        except OSError:
            continue
        return True
    return False
