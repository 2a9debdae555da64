"""Changes to users that several tests make."""

from collections.abc import Sequence
from dataclasses import replace

from warren.broker.core.access.users import Users


def set_tags(users: Users, name: str, tags: Sequence[str]) -> None:
    """Replace the tags of a user. Raises Unknown, Invalid."""
    users.put(replace(users.find(name).stored(), tags=tuple(tags)))
