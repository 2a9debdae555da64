"""Hashes of passwords.

RabbitMQ's are base64 of four bytes of salt and one round of a digest over salt and password: quick to verify, and
quick to guess. Our own is argon2id, which takes tens of milliseconds and is therefore left to the `Hashing` port.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Protocol

from ...amqp.errors import Invalid
from ..metadata.patterns import Pattern

SHA256 = "rabbit_password_hashing_sha256"
ARGON2ID = "argon2id"
# Names of algorithms in the definitions of RabbitMQ and LavinMQ -> the digest.
DIGESTS = {
    SHA256: "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
    "SHA256": "sha256",
    "SHA512": "sha512",
    "MD5": "md5",
}
SALT_BYTES = 4

# The hash that is verified for an unknown user, so that a refusal takes as long as for a known one.
NOBODY = b"$argon2id$v=19$m=19456,t=2,p=1$" + b"A" * 22 + b"$" + b"A" * 43
_ENCODED = re.compile(
    rb"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,2}),p=(\d{1,2})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,172}"
)
MEMORY_LIMIT_KIB = 262_144  # the most that a hash may require, so that no definitions file exhausts the machine
PASSES_LIMIT = 16
LANES_LIMIT = 16


class Hashing(Protocol):
    """Password hashing outside the event loop, with argon2id, and salts.

    Callbacks are called on the event loop, at once if the result is computed quickly.
    """

    def verify(
        self,
        password_hash: bytes,
        password: bytes,
        then: Callable[[bool | None], None],
        name: str = "",
        source: str = "",
    ) -> Callable[[], None]:
        """Call `then` with whether the password is right, or with None if too many verifications wait.

        `name` and `source` are the user and the address of the client. The returned function cancels the call.
        """

    def hash(self, password: bytes, algorithm: str, then: Callable[[bytes], None]) -> None:
        """Call `then` with a hash of the password with a new salt, by argon2id or one of RabbitMQ's algorithms."""


class PasswordRules:
    """The conditions of RabbitMQ's credential validators: a minimum length and a regular expression."""

    __slots__ = ("min_length", "_pattern")

    def __init__(self, min_length: int = 0, regexp: str = "") -> None:
        """Raises Invalid."""
        self.min_length = min_length
        self._pattern = Pattern(regexp or ".*")

    def check(self, password: str) -> None:
        """Raise Invalid if a password breaks the rules."""
        if len(password) < self.min_length:
            raise Invalid(f"minimum required password length is set to {self.min_length}")
        found = self._pattern.search(password)
        if found is None:
            raise Invalid("provided password is too long, or takes too long, for the validator regular expression")
        if not found:
            raise Invalid("provided password does not match the validator regular expression")


def hash_password(password: str | bytes, salt: bytes, algorithm: str = SHA256) -> bytes:
    """Return RabbitMQ's hash of a password, by one of its algorithms."""
    data = password.encode("utf-8", "surrogateescape") if isinstance(password, str) else password
    return base64.b64encode(salt + _digest(algorithm, salt + data))


def verify_password(password_hash: bytes, password: bytes, algorithm: str = SHA256) -> bool:
    """Return whether the password is right, for a hash by one of RabbitMQ's algorithms."""
    try:
        decoded = base64.b64decode(password_hash, validate=True)
    except binascii.Error:
        return False
    return hmac.compare_digest(decoded[SALT_BYTES:], _digest(algorithm, decoded[:SALT_BYTES] + password))


def check_hash(password_hash: bytes, algorithm: str) -> bytes:
    """Return the hash without white space; it may be one that no password has, see `has_password`.

    Raises Invalid if it is not base64, or not an argon2id hash that is verified within the limits.
    """
    password_hash = b"".join(password_hash.split())
    if algorithm == ARGON2ID and password_hash:
        found = _ENCODED.fullmatch(password_hash)
        if found is None:
            raise Invalid("invalid password hash: not one of argon2id")
        if int(found[1]) > MEMORY_LIMIT_KIB or int(found[2]) > PASSES_LIMIT or int(found[3]) > LANES_LIMIT:
            raise Invalid("invalid password hash: it would take too much memory or time to verify")
    else:
        try:
            base64.b64decode(password_hash, validate=True)
        except binascii.Error:
            raise Invalid("invalid password hash: not base64") from None
    return password_hash


def has_password(password_hash: bytes, algorithm: str) -> bool:
    """Return whether a checked hash can be that of a password: its algorithm is known, and its length right."""
    if algorithm == ARGON2ID:
        return password_hash != b""
    digest = DIGESTS.get(algorithm)
    expected = SALT_BYTES + hashlib.new(digest, usedforsecurity=False).digest_size if digest else -1
    return len(base64.b64decode(password_hash)) == expected


def _digest(algorithm: str, data: bytes) -> bytes:
    return hashlib.new(DIGESTS[algorithm], data, usedforsecurity=False).digest()
