"""The default user: the only user of a new node and of one that was reset."""

import os
import secrets
from collections.abc import Callable

from ..config.config import DEFAULT_PASS, Config
from ..core.access.passwords import ARGON2ID, hash_password, verify_password
from ..core.access.users import User
from ..core.metadata.records import StoredUser

SALT_BYTES = 4  # of RabbitMQ's hashes
PASSWORD_BYTES = 18  # of randomness: 36 characters

Report = Callable[[str, str, dict[str, object]], None]


def default_user(config: Config, report: Report) -> StoredUser:
    """Make the user that the configuration names. A generated password is printed once, on the standard output."""
    password = config.initial_password
    if password is None:
        password = secrets.token_hex(PASSWORD_BYTES)  # no dash begins it, as one begins an option
        # Not in the log, as files, exchanges and collectors keep its lines for readers who are no administrators.
        text = f"The new user '{config.default_user}' has this password, which is shown only once: {password}"
        print(text, flush=True)
        report("default_user_generated", "warning", {"user": config.default_user})
    return StoredUser(config.default_user, hash_password(password, os.urandom(SALT_BYTES)), config.default_user_tags)


def has_default_password(user: User) -> bool:
    """Return whether the password is known to be `guest`; not known after the first login, which renews the hash."""
    algorithm = user.hashing_algorithm
    return algorithm != ARGON2ID and verify_password(user.password_hash, DEFAULT_PASS.encode(), algorithm)
