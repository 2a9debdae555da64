"""Users, their passwords, and what they may do in a virtual host (spec/core.md 20)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

UNKNOWN = "no such user"  # stands in for a user who is not there, so that both answers take the same time


class Permission:
    """Regular expressions on names, searched for, not matched whole; the empty one matches the empty name alone."""

    __slots__ = ("configure", "write", "read", "_compiled")

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure = configure
        self.write = write
        self.read = read
        self._compiled = {
            what: re.compile(pattern or "^$")
            for what, pattern in (("configure", configure), ("write", write), ("read", read))
        }

    def allows(self, what: str, name: str) -> bool:
        """`what` is configure, write or read."""
        return self._compiled[what].search(name) is not None


class User:
    """`tags` are RabbitMQ's: administrator, monitoring, policymaker, management, impersonator, or one's own."""

    __slots__ = ("name", "password_hash", "tags", "permissions")

    def __init__(self, name: str, password_hash: bytes, tags: frozenset[str]) -> None:
        self.name = name
        self.password_hash = password_hash
        self.tags = tags
        self.permissions: dict[str, Permission] = {}  # by virtual host


class Users:
    """`salt` makes the four octets that RabbitMQ puts in front of a password before it hashes it."""

    def __init__(self, loopback_only: frozenset[str]) -> None:
        self._users: dict[str, User] = {}
        self._loopback_only = loopback_only
        self._nobody = User(UNKNOWN, hash_password("", b"\0\0\0\0"), frozenset())

    def add(self, user: User) -> None:
        self._users[user.name] = user

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def authenticate(self, name: str, password: bytes, loopback: bool) -> User | None:
        """The user, or None: unknown, wrong or blank password, or only allowed from this machine (spec/core.md 1.4)."""
        user = self._users.get(name)
        right = verify_password((user or self._nobody).password_hash, password)
        return self.admitted(name, loopback) if right and password else None

    def admitted(self, name: str, loopback: bool) -> User | None:
        """The user, no password asked, or None: unknown, or only allowed from this machine."""
        if not loopback and name in self._loopback_only:
            return None
        return self._users.get(name)


def hash_password(password: str, salt: bytes) -> bytes:
    """RabbitMQ's hash, base64 of salt and SHA-256 of salt and password."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest())


def verify_password(password_hash: bytes, password: bytes) -> bool:
    decoded = base64.b64decode(password_hash)
    return hmac.compare_digest(decoded[4:], hashlib.sha256(decoded[:4] + password).digest())
