"""Users, their authentication and permissions.

Observers are notified of every change, except when stored users are restored. Passwords are passed as hashes, which
`Users.hash_password` computes.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial

from ...amqp.errors import Invalid, Unknown, unknown_vhost
from ...amqp.limits import SHORT_STRING
from ..metadata.records import Change, ChangeObserver, Record, StoredPermission, StoredTopicPermission, StoredUser
from ..metadata.validation import check_text
from .passwords import ARGON2ID, DIGESTS, NOBODY, SHA256, Hashing, PasswordRules, check_hash, verify_password
from .permissions import Permission, TopicPermission

TAGS_LIMIT = 32
INTERNAL_NAME = "none"  # the name that RabbitMQ shows; a user of this name is another one


class User:
    """A user with password hash, tags, limits and permissions.

    `tags` are RabbitMQ's (administrator, monitoring, policymaker, management, impersonator) or an operator's own.

    `permissions` are by virtual host, `topic_permissions` by virtual host and then by exchange. `limits` are
    `max-connections` and `max-channels`, where they are set.
    """

    __slots__ = ("name", "password_hash", "hashing_algorithm", "tags", "limits", "permissions", "topic_permissions")

    def __init__(self, stored: StoredUser) -> None:
        self.name = stored.name
        self.password_hash = stored.password_hash
        self.hashing_algorithm = stored.hashing_algorithm
        self.tags = stored.tags
        self.limits = dict(stored.limits)
        self.permissions: dict[str, Permission] = {}
        self.topic_permissions: dict[str, dict[str, TopicPermission]] = {}

    @property
    def account(self) -> str:
        """The name that limits and changes of users refer to; empty for an internal user."""
        return self.name

    def become(self, stored: StoredUser) -> bool:
        """Replace all stored properties. Returns whether anything has changed."""
        before = (self.password_hash, self.hashing_algorithm, self.tags, self.limits)
        after = (stored.password_hash, stored.hashing_algorithm, stored.tags, dict(stored.limits))
        self.password_hash, self.hashing_algorithm, self.tags, self.limits = after
        return before != after

    def stored(self) -> StoredUser:
        """The record of the user in the metadata."""
        return StoredUser(self.name, self.password_hash, self.tags, self.hashing_algorithm, dict(self.limits))


class InternalUser(User):
    """Internal user with full permissions in one virtual host; cannot log in."""

    def __init__(self, vhost: str) -> None:
        super().__init__(StoredUser(INTERNAL_NAME, b"", ("administrator", "impersonator")))
        self.permissions[vhost] = Permission(".*", ".*", ".*")

    @property
    def account(self) -> str:
        return ""


class RouteCaches:
    """The routes that virtual hosts cache, each after a check of the publisher's permissions."""

    def clear(self, vhost: str) -> None:
        """Drop the routes cached in this virtual host, because a permission has changed. It may be deleted already."""

    def drop_user(self, user: str) -> None:
        """Drop the routes of a deleted user in all virtual hosts."""


class Users:
    """The users of a node.

    `algorithm` hashes new passwords; if it is argon2id, a hash of RabbitMQ's algorithms is replaced at the first login.
    Without `hashing`, users with an argon2id hash cannot log in, and refusals are immediate.
    """

    def __init__(
        self,
        loopback_only: frozenset[str],
        hashing: Hashing | None = None,
        rules: PasswordRules | None = None,
        algorithm: str = ARGON2ID,
    ) -> None:
        self.hashing = hashing
        self.rules = rules or PasswordRules()
        self.algorithm = algorithm
        self._users: dict[str, User] = {}
        self._hashed: set[str] = set()  # users whose new hash is being computed
        self.loopback_only = loopback_only
        self._vhosts: Container[str] = ()
        self._observers = ChangeObserver()
        self._routes = RouteCaches()

    def attach(self, vhosts: Container[str], observers: ChangeObserver, routes: RouteCaches) -> None:
        """Take the node's virtual hosts by name, its observers, and the routes cached with users' permissions."""
        self._vhosts = vhosts
        self._observers = observers
        self._routes = routes

    # Looking up

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def find(self, name: str) -> User:
        """Return the user. Raises Unknown."""
        user = self._users.get(name)
        if user is None:
            raise Unknown(f'User "{name}" does not exist')
        return user

    def all(self) -> list[User]:
        """Return all users, sorted by name."""
        return [self._users[name] for name in sorted(self._users)]

    def unsorted(self) -> list[User]:
        """Return all users in any order, for callers that sort very many in slices."""
        return list(self._users.values())

    # Logging in

    def authenticate(
        self,
        name: str,
        password: bytes,
        loopback: bool,
        then: Callable[[User | None], None],
        source: str = "",
        busy: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Verify a password, and call `then` with the user, or None if refused: now or later.

        Every refusal takes the time of one argon2id hash, whatever the reason. `busy` is called instead of `then` if
        too many logins wait. `source` is the client's address. The returned function cancels the login.
        """
        user = self.admitted(name, loopback)
        if user is not None and self._is_right(user, password):
            then(user)
            self._hash_anew(user, password)
            return cancel_nothing
        if self.hashing is None:
            then(None)
            return cancel_nothing
        password_hash, known = NOBODY, None
        if user is not None and user.hashing_algorithm == ARGON2ID and user.password_hash and password:
            password_hash, known = user.password_hash, user

        def verified(right: bool | None) -> None:
            if right is None and busy is not None:
                busy()
            elif right and known is not None and self._is_still(known, password_hash):
                then(known)
            else:
                then(None)

        return self.hashing.verify(password_hash, password, verified, name, source)

    def admitted(self, name: str, loopback: bool) -> User | None:
        """Return the user without checking a password; None if unknown, or barred as it is not `loopback`."""
        if not loopback and name in self.loopback_only:
            return None
        return self._users.get(name)

    def _is_right(self, user: User, password: bytes) -> bool:
        """Check the password against a hash of RabbitMQ's algorithms. A blank password is always wrong."""
        if not password or not user.password_hash or user.hashing_algorithm not in DIGESTS:
            return False
        return verify_password(user.password_hash, password, user.hashing_algorithm)

    def _is_still(self, user: User, password_hash: bytes) -> bool:
        return self._users.get(user.name) is user and user.password_hash == password_hash

    def _hash_anew(self, user: User, password: bytes) -> None:
        if self.hashing is not None and self.algorithm == ARGON2ID and user.name not in self._hashed:
            self._hashed.add(user.name)
            self.hashing.hash(password, ARGON2ID, partial(self._hashed_anew, user, user.password_hash))

    def _hashed_anew(self, user: User, old: bytes, new: bytes) -> None:
        self._hashed.remove(user.name)
        if self._is_still(user, old):
            self._set_password(user, new, ARGON2ID)

    # Changing

    def hash_password(self, password: str, then: Callable[[bytes, str], None]) -> None:
        """Hash a password, and call `then` with the hash and its algorithm, for `add` or `change_password`.

        Raises Invalid for a password that the rules refuse.
        """
        assert self.hashing is not None, "every node that operators can reach has it"
        self.rules.check(password)
        data = password.encode("utf-8", "surrogateescape")
        self.hashing.hash(data, self.algorithm, lambda password_hash: then(password_hash, self.algorithm))

    def restore(self, stored: StoredUser) -> None:
        """Add a stored user at the start, without notifying observers."""
        self._users[stored.name] = User(stored)

    def add(
        self,
        name: str,
        password_hash: bytes = b"",
        tags: Sequence[str] = (),
        hashing_algorithm: str = SHA256,
        limits: dict[str, int] | None = None,
    ) -> User:
        """Create a user; with an empty hash, no password is accepted. Raises Invalid, also if the user exists."""
        if name in self._users:
            raise Invalid(f'User "{name}" already exists')
        stored = StoredUser(name, password_hash, tuple(tags), hashing_algorithm, limits or {})
        self.put(stored)
        return self._users[name]

    def put(self, stored: StoredUser) -> None:
        """Create or replace a user; permissions of an existing user are kept. Raises Invalid."""
        stored = validate_user(stored)
        user = self._users.get(stored.name)
        if user is None:
            self._users[stored.name] = user = User(stored)
        elif not user.become(stored):
            return
        self._put(user)

    def delete(self, name: str) -> None:
        """Delete the user with all permissions. Raises Unknown."""
        finish(self.deletion(self.find(name)))

    def deletion(self, user: User) -> Iterator[bool]:
        """Delete the user with all permissions in steps, as `drop_vhost`, unless the user is deleted meanwhile.

        Topic permissions are the last, because they only restrict.
        """
        while user.permissions or user.topic_permissions:  # others may be given meanwhile
            for vhost in list(user.permissions):
                yield self._drop_permission(user, vhost)
            for vhost in list(user.topic_permissions):
                yield from self.drop_topic_permissions(user, vhost)
        if self._users.get(user.name) is user:
            del self._users[user.name]
            self._notify(False, user.stored())
            self._routes.drop_user(user.name)
        yield True

    def change_password(self, name: str, password_hash: bytes, hashing_algorithm: str = SHA256) -> None:
        """Set the hash of a new password. Raises Unknown, Invalid."""
        user = self.find(name)
        password_hash = check_hash(password_hash, hashing_algorithm)
        self._set_password(user, password_hash, hashing_algorithm)

    def clear_password(self, name: str) -> None:
        """Clear the password, so that none is accepted. Raises Unknown."""
        user = self.find(name)
        self._set_password(user, b"", user.hashing_algorithm)

    def _set_password(self, user: User, password_hash: bytes, hashing_algorithm: str) -> None:
        user.password_hash = password_hash
        user.hashing_algorithm = hashing_algorithm
        self._put(user)

    def _put(self, user: User) -> None:
        self._notify(True, user.stored())

    def _notify(self, put: bool, record: Record) -> None:
        change = Change(put, record)
        self._observers.configured(change)

    # Permissions

    def restore_permission(self, stored: StoredPermission) -> None:
        """Add a stored permission, without notifying observers. Raises Unknown, Invalid."""
        permission = Permission(stored.configure, stored.write, stored.read)
        self.find(stored.user).permissions[stored.vhost] = permission

    def restore_topic_permission(self, stored: StoredTopicPermission) -> None:
        """Add a stored topic permission, without notifying observers. Raises Unknown, Invalid."""
        permission = TopicPermission(stored.user, stored.vhost, stored.write, stored.read)
        self.find(stored.user).topic_permissions.setdefault(stored.vhost, {})[stored.exchange] = permission

    def set_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set the permission in a virtual host. Raises Unknown, Invalid."""
        self._check_vhost(vhost)
        self.find(user)
        self.give(user, vhost, Permission(configure, write, read))

    def give(self, user: str, vhost: str, permission: Permission) -> None:
        """Set a permission that is compiled already, as `set_permission`. Raises Unknown."""
        self._check_vhost(vhost)
        self.find(user).permissions[vhost] = permission
        self._routes.clear(vhost)
        self._notify(True, StoredPermission(user, vhost, permission.configure, permission.write, permission.read))

    def clear_permission(self, user: str, vhost: str) -> None:
        """Delete the permission, if there is one. Raises Unknown."""
        self._check_vhost(vhost)
        self._drop_permission(self.find(user), vhost)

    def set_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        """Set the permission on an exchange, which need not exist. Raises Unknown, Invalid."""
        self._check_vhost(vhost)
        self.find(user)
        self.give_topic(user, vhost, exchange, TopicPermission(user, vhost, write, read))

    def give_topic(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        """Set a topic permission that is compiled already, as `set_topic_permission`. Raises Unknown, Invalid."""
        self._check_vhost(vhost)
        found = self.find(user)
        check_text("the name of an exchange", exchange, SHORT_STRING)
        found.topic_permissions.setdefault(vhost, {})[exchange] = permission
        self._routes.clear(vhost)
        self._notify(True, StoredTopicPermission(user, vhost, exchange, permission.write, permission.read))

    def clear_topic_permission(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Delete the permission on one exchange, or on all, if there is any. Raises Unknown."""
        self._check_vhost(vhost)
        found = self.find(user)
        if exchange is None:
            finish(self.drop_topic_permissions(found, vhost))
        else:
            self._drop_topic_permission(found, vhost, exchange)

    def drop_vhost(self, vhost: str) -> Iterator[bool]:
        """Delete all permissions in a deleted virtual host in steps, which return whether they have deleted one."""
        for user in self.unsorted():
            yield self._drop_permission(user, vhost)
            yield from self.drop_topic_permissions(user, vhost)

    def drop_topic_permissions(self, user: User, vhost: str) -> Iterator[bool]:
        """Delete the topic permissions of a user in a virtual host, as `drop_vhost`."""
        for exchange in list(user.topic_permissions.get(vhost, ())):
            yield self._drop_topic_permission(user, vhost, exchange)

    def _drop_permission(self, user: User, vhost: str) -> bool:
        """Delete the permission, and return whether there was one."""
        permission = user.permissions.pop(vhost, None)
        if permission is None:
            return False
        self._routes.clear(vhost)
        self._notify(False, StoredPermission(user.name, vhost, permission.configure, permission.write, permission.read))
        return True

    def _drop_topic_permission(self, user: User, vhost: str, exchange: str) -> bool:
        """Delete the topic permission, and return whether there was one."""
        there = user.topic_permissions.get(vhost, {})
        permission = there.pop(exchange, None)
        if permission is None:
            return False
        if not there:
            del user.topic_permissions[vhost]
        self._routes.clear(vhost)
        self._notify(False, StoredTopicPermission(user.name, vhost, exchange, permission.write, permission.read))
        return True

    def _check_vhost(self, name: str) -> None:
        if name not in self._vhosts:
            raise unknown_vhost(name)


def finish(steps: Iterable[object]) -> None:
    """Do all steps at once."""
    for _ in steps:
        pass


def validate_user(stored: StoredUser) -> StoredUser:
    """Validate a record, and remove duplicate tags. Raises Invalid."""
    check_text("the name of a user", stored.name, SHORT_STRING, 1)
    check_text("the hashing algorithm of a user", stored.hashing_algorithm, SHORT_STRING)
    password_hash = check_hash(stored.password_hash, stored.hashing_algorithm)
    tags = validate_tags(stored.tags)
    return StoredUser(stored.name, password_hash, tags, stored.hashing_algorithm, stored.limits)


def validate_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Validate tags, and remove duplicates. Raises Invalid."""
    once = tuple(dict.fromkeys(tags))
    if len(once) > TAGS_LIMIT:
        raise Invalid(f"a user has at most {TAGS_LIMIT} tags")
    for tag in once:
        check_text("a tag of a user", tag, SHORT_STRING)
    return once


def cancel_nothing() -> None:
    """Cancel nothing: the login was answered at once."""
