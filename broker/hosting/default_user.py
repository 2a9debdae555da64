"""The default user: the only user of a new node and of one that was reset."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

from ..config.config import Config
from ..core.access.passwords import hash_password
from ..core.metadata.records import StoredUser

SALT_BYTES = 4  # of RabbitMQ's hashes
PASSWORD_BYTES = 18  # of randomness: 24 characters

Report = Callable[[str, str, dict[str, object]], None]


def default_user(config: Config, report: Report) -> StoredUser:
    """Make the user that the configuration names. A generated password is logged once."""
    password = config.initial_password
    if password is None:
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        report("default_user_generated", "warning", {"user": config.default_user, "shown_once": password})
    return StoredUser(config.default_user, hash_password(password, os.urandom(SALT_BYTES)), config.default_user_tags)
