"""Authentication and authorization of HTTP requests.

Four tags of users give access to the API: administrator, monitoring, policymaker and management. Each route has a
guard, which checks the tags and the virtual host in the path. Operations on objects check the same permissions as
channels do.
"""

import asyncio
import base64
from collections.abc import Callable

from warren.broker.core.metadata.records import StoredUser
from warren.broker.plugin import Host, Peer, User, VHost
from warren.broker.session.channel_host import ChannelHost
from warren.broker.session.events import http_login

from .responses import NOT_OWNER, REALM, HTTPError, bad, not_authorised, not_now

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
TAGS = frozenset((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT))


class Caller:
    """The user of a request, with the rights of `tags`, which are the user's tags that the API knows."""

    __slots__ = ("user", "tags", "administers", "monitors", "makes_policies", "manages", "is_local")

    def __init__(self, user: User, is_local: bool = False) -> None:
        """`is_local`: the request came by the unix socket, whose peer's uid has been checked."""
        self.user = user
        self.is_local = is_local
        self.tags = tags = TAGS.intersection(user.tags)
        self.administers = ADMINISTRATOR in tags
        self.monitors = self.administers or MONITORING in tags
        self.makes_policies = self.administers or POLICYMAKER in tags
        self.manages = bool(tags)

    def enters(self, vhost: VHost) -> bool:
        """True if the user may name objects of this virtual host."""
        return self.administers or vhost.name in self.user.permissions

    def sees(self, vhost: VHost) -> bool:
        """True if lists contain objects of this virtual host."""
        return self.monitors or vhost.name in self.user.permissions

    def sees_connection(self, connection: ChannelHost) -> bool:
        """True if the user may see name, user and address of a connection: its own ones, or all with monitoring."""
        return self.monitors or connection.user is self.user


LOCAL_NAME = "rmq-cli"  # the user name in events of the unix socket

LOCAL_CALLER = Caller(User(StoredUser(LOCAL_NAME, b"", (ADMINISTRATOR,))), is_local=True)
NOBODY = Caller(User(StoredUser("", b"", ())))  # for routes without a password


Rule = tuple[Callable[[Caller, VHost | None], bool], str]
"""A condition, and the reason for callers who do not meet it."""


class Guard:
    """The check that a route makes of its caller. `text` describes it in the API's document."""

    __slots__ = ("name", "text", "_rules")

    def __init__(self, name: str, text: str, *rules: Rule) -> None:
        self.name = name
        self.text = text
        self._rules = rules

    def check(self, caller: Caller, vhost: VHost | None) -> None:
        """Raises HTTPError (401). `vhost` is the one in the path, or None."""
        for passes, reason in self._rules:
            if not passes(caller, vhost):
                raise not_authorised(reason)

    def __repr__(self) -> str:
        return self.name


NO_ENTRY = "User not authorised to access virtual host"
MANAGES: Rule = (lambda caller, vhost: caller.manages, "Not management user")
ENTERS: Rule = (lambda caller, vhost: vhost is None or caller.enters(vhost), NO_ENTRY)
SEES: Rule = (lambda caller, vhost: vhost is None or caller.sees(vhost), NO_ENTRY)
MONITORS: Rule = (lambda caller, vhost: caller.monitors, "Not monitor user")
MAKES_POLICIES: Rule = (lambda caller, vhost: caller.makes_policies, NOT_OWNER)
OWNS: Rule = (ENTERS[0], NOT_OWNER)
ADMINISTERS: Rule = (lambda caller, vhost: caller.administers, "Not administrator user")
IS_LOCAL: Rule = (lambda caller, vhost: caller.is_local, "Only at the unix socket of the node")

NONE = Guard("none", "everybody, without a password")
ANY = Guard("any", "users with one of the four tags", MANAGES)
VHOST = Guard("vh", "as `any`, with access to the virtual host", MANAGES, ENTERS)
VISIBLE = Guard("vh", "as `any`, with access to the virtual host; monitoring has it to all", MANAGES, SEES)
MONITOR = Guard("mon", "monitoring, administrator", MANAGES, MONITORS)
POLICIES = Guard("pol", "administrator; policymaker with access to the virtual host", MANAGES, MAKES_POLICIES, OWNS)
ADMIN = Guard("adm", "administrator", MANAGES, ADMINISTERS)
LOCAL = Guard("local", "callers at the node's unix socket", IS_LOCAL)
# The handler knows the owner of the object and calls `Request.check_owner`.
OWN = Guard("own", "the owner; monitoring to read, administrator to change", MANAGES)


def credentials(header: str | None) -> tuple[str, bytes]:
    """Return user name and password of basic authentication. Raises HTTPError (401; 400 if the header is malformed)."""
    if not header:
        raise HTTPError(401, "not_authorized", "Not_Authorized", REALM)
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":  # OAuth 2.0 is not supported
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    if scheme.lower() != "basic":
        raise bad("the header Authorization is not of the scheme Basic")
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except ValueError:  # including binascii.Error; for a text that is not ASCII it is another one
        colon = b""
    if not colon:
        raise bad("the header Authorization has no name and password in base64")
    return name.decode("utf-8", "surrogateescape"), password


def report_failed_login(host: Host, name: str, peer: Peer, reason: str) -> None:
    text = f"user '{name}' - {reason}"
    host.report("http_login_refused", "warning", {"user": name, "reason": text})
    http_login(host.node.events, name, peer, text)


def refresh(host: Host, caller: Caller) -> Caller:
    """Return the caller with its current tags and permissions. Raises HTTPError (401) if the user was deleted."""
    if caller.is_local:
        return caller
    if host.node.users.get(caller.user.name) is not caller.user:
        raise HTTPError(401, "not_authorized", "Not_Authorized")
    return Caller(caller.user)


async def authenticate(host: Host, header: str | None, peer: Peer) -> Caller:
    """Return the caller that a header Authorization names. Raises HTTPError (400, 401)."""
    return await log_in(host, *credentials(header), peer)


async def verify_password(host: Host, name: str, password: bytes, loopback: bool, source: str = "") -> User | None:
    """Return the user if the password is right, or None. Raises HTTPError (503) if too many logins wait."""
    answer: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

    def set_answer(user: User | None) -> None:
        if not answer.done():  # cancelled if the client has disconnected
            answer.set_result(user)

    postponed = False  # an error in the future would keep this frame, and be kept by it

    def postpone() -> None:
        nonlocal postponed
        postponed = not answer.done()
        set_answer(None)

    cancel = host.node.users.authenticate(name, password, loopback, set_answer, source, postpone)
    try:
        user = await answer
    finally:
        cancel()  # without effect after an answer
    if postponed:
        raise not_now("too many logins wait for an answer: try again")
    return user


async def log_in(host: Host, name: str, password: bytes, peer: Peer) -> Caller:
    """Return the caller with this name and password. Raises HTTPError (401)."""
    loopback = peer.loopback
    user = await verify_password(host, name, password, loopback, peer.host)
    host.node.attempts["http"].count(user is not None)
    if user is not None:
        http_login(host.node.events, name, peer)
        return Caller(user)
    known = host.node.users.get(name)
    if not loopback and known is not None and host.node.users.admitted(name, loopback) is None:
        report_failed_login(host, name, peer, "can only log in via localhost")
        raise not_authorised("User can only log in via localhost")
    report_failed_login(host, name, peer, "invalid credentials")
    raise HTTPError(401, "not_authorized", "Not_Authorized")
