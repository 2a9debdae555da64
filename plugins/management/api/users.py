"""Routes for users."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, TypedDict, TypeVar, cast
from urllib.parse import quote

import msgspec

from warren.broker.core.access.passwords import ARGON2ID, SHA256, has_password
from warren.broker.core.access.permissions import Permission
from warren.broker.core.definitions.exporter import user_document
from warren.broker.core.metadata.records import StoredUser
from warren.broker.core.policies.limits import user_limits
from warren.broker.plugin import Invalid, Node, User

from ...http.auth import ADMIN
from ...http.responses import Response, bad, done, existing, ok, put
from ...http.time_slices import when
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import LONG_BODY_BYTES, route

PROTECTED_UNCHANGED = "Protected users cannot be modified via the HTTP API"
CANNOT_LOG_IN = "warren-cannot-log-in"  # a header of responses: names as in a path, separated by commas
HEADER_LIMIT = 4096  # bytes
THREAD_FROM = 512  # characters of the patterns of a permission
PATTERNS = ("configure", "write", "read")  # of a permission
PROTECTED = "protected"  # tag of users that HTTP must not change


T = TypeVar("T")


class UserView(TypedDict):
    """A user."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]


class UserBody(msgspec.Struct):
    """Without password and password hash the user cannot log in with a password."""

    tags: str | list[str] | msgspec.UnsetType = msgspec.UNSET
    password: str | msgspec.UnsetType | None = msgspec.UNSET
    password_hash: str | msgspec.UnsetType | None = msgspec.UNSET
    hashing_algorithm: str | msgspec.UnsetType | None = msgspec.UNSET
    permissions: dict[str, dict[str, str]] = {}
    limits: dict[str, Any] | None = None


class Names(msgspec.Struct):
    users: list[str]


def find_user(request: Request) -> User:
    """Return the user in the path. Raises HTTPError (404)."""
    return existing(request.node.users.get(request.path["user"]))


def check_protected(request: Request, user: User | StoredUser | None) -> None:
    """Let only callers at the unix socket change protected users. Raises HTTPError (400)."""
    if user is not None and PROTECTED in user.tags and not request.caller.is_local:
        raise bad(PROTECTED_UNCHANGED)


def user_view(user: User) -> UserView:
    return cast(UserView, user_document(user))


def name_of(user: User) -> str:
    return user.name


@route("GET", ADMIN, "/users")
def list_users(request: Request) -> Listing[UserView]:
    """List all users."""
    return Listing(request.node.users.unsorted(), user_view, name_of, name_of)


@route("GET", ADMIN, "/users/without-permissions")
def list_users_without_permissions(request: Request) -> Listing[UserView]:
    """List the users without permissions in any virtual host."""
    vhosts = request.node.vhosts.keys()
    users = [user for user in request.node.users.unsorted() if vhosts.isdisjoint(user.permissions)]
    return Listing(users, user_view, name_of, name_of)


@route("GET", ADMIN, "/users/{user}")
def get_user(request: Request) -> Response[UserView]:
    """Return one user."""
    return ok(user_view(find_user(request)))


@route("PUT", ADMIN, "/users/{user}")
async def put_user(request: Request, body: UserBody) -> Response[None]:
    """Create or change a user."""
    name = request.path["user"]
    check_protected(request, request.node.users.get(name))
    if body.tags is msgspec.UNSET:
        raise bad("tags_not_present")
    tags = body.tags.split(",") if isinstance(body.tags, str) else body.tags
    tags = [tag.strip() for tag in tags if tag.strip()]
    limits = user_limits(name, body.limits) if body.limits is not None else None
    permissions = await permissions_of(request, body)
    password_hash, algorithm = await hash_of(request, body)
    with request.acting():
        old = request.node.users.get(name)
        check_protected(request, old)  # again, after the wait for the hash
        if limits is None:
            limits = dict(old.limits) if old is not None else {}
        request.node.users.put(StoredUser(name, password_hash, tuple(tags), algorithm, limits))
    user = request.node.users.find(name)
    await request.carry_out(giving(request.node, user, permissions))
    response = put(old is not None)
    if user.password_hash and not has_password(user.password_hash, algorithm):
        request.host.report("user_cannot_log_in", "warning", {"user": name, "reason": f"no hash of {algorithm}"})
        response.headers = without_password([name])
    return response


def without_password(names: list[str]) -> Mapping[str, str]:
    """Return the header that names users whose hash is not that of a password, cut at HEADER_LIMIT bytes."""
    shown = names[: HEADER_LIMIT // 2]  # a name with its comma takes two bytes or more
    text = ", ".join(quote(name, "", errors="surrogateescape") for name in shown)
    if len(text) > HEADER_LIMIT:
        text = text[:HEADER_LIMIT].rpartition(", ")[0]
    return {CANNOT_LOG_IN: text} if names else {}


def giving(node: Node, user: User, permissions: Mapping[str, Permission]) -> Iterator[None]:
    """Give a user permissions by virtual host in steps, while both exist."""
    for vhost, permission in permissions.items():
        if vhost in node.vhosts and node.users.get(user.name) is user:
            node.users.give(user.name, vhost, permission)
        yield


async def permissions_of(request: Request, body: UserBody) -> Mapping[str, Permission]:
    """Return the permissions in the body by virtual host. Raises HTTPError (400), Invalid."""
    permissions: dict[str, Permission] = {}
    async for vhost, patterns in request.in_slices(body.permissions.items()):
        if vhost not in request.node.vhosts:
            raise bad("vhost_or_user_not_found")
        for key in PATTERNS:
            if key not in patterns:
                raise bad(f"[{{key_missing,{key}}}]")
        permissions[vhost] = await compiled(request, Permission, *(patterns[key] for key in PATTERNS))
    return permissions


async def compiled(request: Request, kind: Callable[..., T], *arguments: str) -> T:
    """Return a permission; in a thread if its patterns are long: one may take 20 ms to compile. Raises Invalid."""
    if sum(map(len, arguments)) < THREAD_FROM:
        return kind(*arguments)
    return await request.wait(asyncio.to_thread(kind, *arguments))


async def hash_of(request: Request, body: UserBody) -> tuple[bytes, str]:
    """Return the hash in the body, or that of the password in it. Raises HTTPError (400), Invalid."""
    if isinstance(body.password, str) and isinstance(body.password_hash, str):
        raise bad("both_password_and_password_hash_are_provided")
    if isinstance(body.password, str):
        hashed: tuple[bytes, str] = await request.wait(when(partial(request.node.users.hash_password, body.password)))
        return hashed
    password_hash = body.password_hash if isinstance(body.password_hash, str) else ""
    if not password_hash.isascii():
        raise Invalid("invalid password hash: not base64")
    own = ARGON2ID if password_hash.startswith("$argon2id$") else SHA256
    return password_hash.encode("ascii"), body.hashing_algorithm if isinstance(body.hashing_algorithm, str) else own


@route("DELETE", ADMIN, "/users/{user}")
async def delete_user(request: Request) -> Response[None]:
    """Delete a user with all permissions and close the user's connections."""
    await delete_in_slices(request, [find_user(request)])
    return done()


@route("POST", ADMIN, "/users/bulk-delete", body_limit=LONG_BODY_BYTES)
async def delete_users(request: Request, body: Names) -> Response[None]:
    """Delete several users, or none if one is protected; unknown names are ignored."""
    users = [user for name in body.users if (user := request.node.users.get(name)) is not None]
    await delete_in_slices(request, users)
    return done()


async def delete_in_slices(request: Request, users: list[User]) -> None:
    """Delete users with all their permissions, in slices. Raises HTTPError (400) before anything is deleted."""
    for user in users:
        check_protected(request, user)
    await request.carry_out(chain.from_iterable(map(request.node.users.deletion, users)))
