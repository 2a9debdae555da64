"""Limits on connections and queues in a virtual host, on connections and channels of a user, and on queues, exchanges
and virtual hosts of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...amqp.errors import Invalid, PreconditionFailed
from ..metadata.records import Change
from ..metadata.validation import Rule, as_integer, integer, shape_errors
from ..vhost.node_services import TopologyLimits
from ..vhost.observer import Observers
from .parameters import Component, Parameters

if TYPE_CHECKING:
    from ..access.users import User, Users
    from ..vhost.vhost import VHost

VHOST_LIMITS = "vhost-limits"
USER_LIMITS = "user-limits"
NAME = "limits"  # the only parameter of the component
CONNECTIONS, QUEUES, CHANNELS = "max-connections", "max-queues", "max-channels"
OF_VHOST: dict[str, Rule] = {CONNECTIONS: integer, QUEUES: integer}
OF_USER: dict[str, Rule] = {CONNECTIONS: integer, CHANNELS: integer}


class VHostLimits(Component):
    __slots__ = ()

    def validate(self, name: str, value: object) -> list[str]:
        return shape_errors(name, value, OF_VHOST) if name == NAME else ["name not recognised"]


class Limits(TopologyLimits):
    """The limits of virtual hosts and users. `queues`, `exchanges` and `vhosts` are limits of the node, or None."""

    def __init__(self, parameters: Parameters, users: Users, vhosts: dict[str, VHost], observers: Observers) -> None:
        self.queues: int | None = None
        self.exchanges: int | None = None
        self.vhosts: int | None = None
        self._parameters = parameters
        self._users = users
        self._vhosts = vhosts
        self._observers = observers
        parameters.register(VHostLimits(VHOST_LIMITS))

    # Limits, or None

    def vhost_connections(self, vhost: str) -> int | None:
        """Return the limit, or None."""
        return self._of_vhost(vhost, CONNECTIONS)

    def vhost_queues(self, vhost: str) -> int | None:
        return self._of_vhost(vhost, QUEUES)

    def user_connections(self, user: str) -> int | None:
        return self._of_user(user, CONNECTIONS)

    def user_channels(self, user: str) -> int | None:
        return self._of_user(user, CHANNELS)

    def _of_vhost(self, vhost: str, key: str) -> int | None:
        value = self._parameters.get(vhost, VHOST_LIMITS, NAME)
        return bound(value, key) if isinstance(value, dict) else None

    def _of_user(self, name: str, key: str) -> int | None:
        user = self._users.get(name)
        return bound(user.limits, key) if user is not None else None

    # Checking

    def check_queue(self, vhost: str, queues: int, name: str) -> None:
        limit = self.vhost_queues(vhost)
        if limit is not None and queues >= limit:
            text = f"queue limit in vhost '{vhost}' ({limit}) is reached"
            raise PreconditionFailed(f"cannot declare queue '{name}': {text}")
        self.check_all_queues(name)

    def check_all_queues(self, name: str, planned: int = 0) -> None:
        """Raise PreconditionFailed (406) if the node may not have one more queue, in addition to `planned` ones."""
        if self.queues is None:
            return
        if sum([len(one.queues) for one in self._vhosts.values()]) + planned >= self.queues:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in cluster ({self.queues}) is reached"
            )

    def check_exchange(self, vhost: str, name: str, planned: int = 0) -> None:
        """Raise PreconditionFailed (406) if the node may not have one more exchange. Predeclared ones count."""
        if self.exchanges is None:
            return
        if sum([len(one.exchanges) for one in self._vhosts.values()]) + planned >= self.exchanges:
            raise PreconditionFailed(
                f"cannot declare exchange '{name}' in vhost '{vhost}': exchange limit of {self.exchanges} is reached"
            )

    def check_vhost(self, name: str, planned: int = 0) -> None:
        """Raise Invalid if the node may not have one more virtual host, in addition to `planned` ones."""
        if self.vhosts is not None and len(self._vhosts) + planned >= self.vhosts:
            raise Invalid(f"cannot create vhost '{name}': vhost limit of {self.vhosts} is reached")

    # Changing

    def set_vhost(self, vhost: str, limits: Mapping[str, object]) -> None:
        """Replace the limits; a negative limit is none. Raises Unknown, Invalid."""
        self._parameters.put(vhost, VHOST_LIMITS, NAME, dict(limits))

    def clear_vhost(self, vhost: str) -> None:
        """Remove the limits, if there are any. Raises Unknown."""
        if self._parameters.get(vhost, VHOST_LIMITS, NAME) is not None:
            self._parameters.drop(vhost, VHOST_LIMITS, NAME)

    def set_user(self, user: str, limits: Mapping[str, object]) -> None:
        """Add or replace limits; a negative limit is none. Raises Unknown, Invalid."""
        found = self._users.find(user)
        self._change_user(found, found.limits | user_limits(user, limits))

    def clear_user(self, user: str, limit: str | None = None) -> None:
        """Remove one limit, or all. Raises Unknown, or Invalid for a limit that users cannot have."""
        found = self._users.find(user)
        if limit is not None and limit not in OF_USER:
            raise Invalid(f"Validation failed\n\n{limit} is no limit of a user\n")
        left = {key: value for key, value in found.limits.items() if limit not in (None, key)}
        self._change_user(found, left)

    def _change_user(self, user: User, limits: dict[str, int]) -> None:
        if limits != user.limits:
            user.limits = limits
            self._observers.configured(Change(True, user.stored()))


def user_limits(user: str, limits: Mapping[str, object]) -> dict[str, int]:
    """Return the validated limits of a user. Raises Invalid."""
    lines = shape_errors(USER_LIMITS, dict(limits), OF_USER)
    if lines:
        raise Invalid("\n".join(lines))
    return {key: as_integer(value) or 0 for key, value in limits.items()}


def bound(limits: Mapping[str, object], key: str) -> int | None:
    limit = as_integer(limits.get(key))
    return limit if limit is not None and limit >= 0 else None
