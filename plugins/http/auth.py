"""Who asks, and what they may.

Four tags of users open the API: administrator, monitoring, policymaker and management. Each route has a guard, which
looks at the tags and at the virtual host that the path names. What a user may do to objects is left to the permissions
that channels look at too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable

from warren.broker.core.metadata.records import StoredUser
from warren.broker.plugin import Host, Peer, User, VHost
from warren.broker.session.events import http_login

from .responses import NOT_YOURS, REALM, HTTPError, bad, not_authorised, not_now

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
TAGS = frozenset((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT))


class Caller:
    """A user, with what the tags say."""

    __slots__ = ("user", "administers", "monitors", "makes_policies", "manages", "is_local")

    def __init__(self, user: User, is_local: bool = False) -> None:
        """`is_local`: the uid of the caller's process was checked at the node's unix socket."""
        self.user = user
        self.is_local = is_local
        tags = TAGS.intersection(user.tags)
        self.administers = ADMINISTRATOR in tags
        self.monitors = self.administers or MONITORING in tags
        self.makes_policies = self.administers or POLICYMAKER in tags
        self.manages = bool(tags)

    def enters(self, vhost: VHost) -> bool:
        """Whether what is in it may be named to this user."""
        return self.administers or vhost.name in self.user.permissions

    def sees(self, vhost: VHost) -> bool:
        """Whether lists hold what is in it."""
        return self.monitors or vhost.name in self.user.permissions


LOCAL_NAME = "rmq-cli"  # the name under which events show what was done at the unix socket

LOCAL_CALLER = Caller(User(StoredUser(LOCAL_NAME, b"", (ADMINISTRATOR,))), is_local=True)
NOBODY = Caller(User(StoredUser("", b"", ())))  # whoever asks for what needs no password


class Guard:
    """What a route asks of its caller. `text` says it to who reads the API's document."""

    __slots__ = ("name", "text", "_check")

    def __init__(self, name: str, text: str, check: Callable[[Caller, VHost | None], None]) -> None:
        self.name = name
        self.text = text
        self._check = check

    def check(self, caller: Caller, vhost: VHost | None) -> None:
        """Raises HTTPError (401). `vhost` is the one that the path names."""
        self._check(caller, vhost)

    def __repr__(self) -> str:
        return self.name


def check_none(caller: Caller, vhost: VHost | None) -> None: ...


def check_any(caller: Caller, vhost: VHost | None) -> None:
    if not caller.manages:
        raise not_authorised("Not management user")


def check_vhost(caller: Caller, vhost: VHost | None) -> None:
    check_any(caller, vhost)
    if vhost is not None and not caller.enters(vhost):
        raise not_authorised("User not authorised to access virtual host")


def check_visible(caller: Caller, vhost: VHost | None) -> None:
    check_any(caller, vhost)
    if vhost is not None and not caller.sees(vhost):
        raise not_authorised("User not authorised to access virtual host")


def check_monitor(caller: Caller, vhost: VHost | None) -> None:
    check_any(caller, vhost)
    if not caller.monitors:
        raise not_authorised("Not monitor user")


def check_policymaker(caller: Caller, vhost: VHost | None) -> None:
    check_any(caller, vhost)
    if not caller.makes_policies or (vhost is not None and not caller.enters(vhost)):
        raise not_authorised(NOT_YOURS)


def check_administrator(caller: Caller, vhost: VHost | None) -> None:
    check_any(caller, vhost)
    if not caller.administers:
        raise not_authorised("Not administrator user")


def check_local(caller: Caller, vhost: VHost | None) -> None:
    if not caller.is_local:
        raise not_authorised("Only at the unix socket of the node")


NONE = Guard("none", "everybody, without a password", check_none)
ANY = Guard("any", "users with one of the four tags", check_any)
VHOST = Guard("vh", "as `any`, with access to the virtual host", check_vhost)
VISIBLE = Guard("vh", "as `any`, with access to the virtual host; monitoring has it to all", check_visible)
MONITOR = Guard("mon", "monitoring, administrator", check_monitor)
POLICIES = Guard("pol", "administrator; policymaker with access to the virtual host", check_policymaker)
ADMIN = Guard("adm", "administrator", check_administrator)
LOCAL = Guard("local", "callers at the node's unix socket", check_local)
# The handler knows whose the object is, and asks `Request.check_own`.
OWN = Guard("own", "monitoring to look, administrator to change; and whose it is", check_any)


def credentials(header: str | None) -> tuple[str, bytes]:
    """Name and password of basic authentication; raises HTTPError (401), and 400 for a header that is malformed."""
    if not header:
        raise HTTPError(401, "not_authorized", "Not_Authorized", REALM)
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":  # no OAuth 2.0 here
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    if scheme.lower() != "basic":
        raise bad("the header Authorization is not of the scheme Basic")
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except binascii.Error:
        colon = b""
    if not colon:
        raise bad("the header Authorization has no name and password in base64")
    return name.decode("utf-8", "surrogateescape"), password


def report_refused(host: Host, name: str, peer: Peer, reason: str) -> None:
    said = f"user '{name}' - {reason}"
    host.report("http_login_refused", "warning", {"user": name, "reason": said})
    http_login(host.node.events, name, peer, said)


def present(host: Host, caller: Caller) -> Caller:
    """The same as of now. Raises HTTPError (401) if the user is gone."""
    if caller.is_local:
        return caller
    if host.node.users.get(caller.user.name) is not caller.user:
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    return Caller(caller.user)


async def authenticated(host: Host, header: str | None, peer: Peer) -> Caller:
    """The caller that a header Authorization names. Raises HTTPError (400, 401)."""
    return await logged_in(host, *credentials(header), peer)


async def logged_in(host: Host, name: str, password: bytes, peer: Peer) -> Caller:
    """The caller with this name and password. Raises HTTPError (401)."""
    loopback = peer.loopback
    told: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

    def tell(user: User | None) -> None:
        if not told.done():  # the client may have left meanwhile
            told.set_result(user)

    def postpone() -> None:
        if not told.done():
            told.set_exception(not_now("too many logins wait for an answer: try again"))

    forget = host.node.users.authenticate(name, password, loopback, tell, peer.host, postpone)
    try:
        user = await told
    finally:
        forget()  # where the client has left meanwhile
    host.node.attempts["http"].count(user is not None)
    if user is not None:
        http_login(host.node.events, name, peer)
        return Caller(user)
    known = host.node.users.get(name)
    if not loopback and known is not None and host.node.users.admitted(name, loopback) is None:
        report_refused(host, name, peer, "can only log in via localhost")
        raise not_authorised("User can only log in via localhost")
    report_refused(host, name, peer, "invalid credentials")
    raise HTTPError(401, "not_authorized", "Not_Authorized")
