"""The defaults of new virtual hosts in the configuration: limits, operator policies and users, by patterns of names.

RabbitMQ's keys `default_limits.vhosts`, `default_policies.operator` and `default_users`. A user who exists keeps
password and tags, and gets the permissions.
"""

import os
from collections.abc import Mapping
from typing import Any

from ..amqp.errors import OperatorError
from ..config.config import Config
from ..core.access.passwords import hash_password
from ..core.metadata.patterns import Pattern, SearchTime
from ..core.node.node import Node
from .default_user import SALT_BYTES, Report

EVERYTHING = ".*"
RIGHTS = ("configure", "write", "read")

Default = tuple[str, Pattern, dict[str, Any]]
"""The name of a default, the pattern of names of virtual hosts, and its other values by key."""


class VHostDefaults:
    """The defaults of new virtual hosts."""

    def __init__(self, config: Config, node: Node, report: Report) -> None:
        limits, policies, users = config.default_limits, config.default_policies, config.default_users
        self._limits = defaults_of(
            limits.pattern, {"max-connections": limits.max_connections, "max-queues": limits.max_queues}
        )
        self._policies = defaults_of(
            policies.vhost_pattern,
            {
                "pattern": policies.queue_pattern,
                "expires": policies.expires,
                "message-ttl": policies.message_ttl,
                "max-length": policies.max_length,
                "max-length-bytes": policies.max_length_bytes,
                "max-in-memory-length": policies.max_in_memory_length,
                "max-in-memory-bytes": policies.max_in_memory_bytes,
                "delivery-limit": policies.delivery_limit,
            },
        )
        self._users = defaults_of(
            users.vhost_pattern,
            {
                "password": users.password,
                "tags": users.tags,
                "configure": users.configure,
                "write": users.write,
                "read": users.read,
            },
        )
        self._node = node
        self._report = report

    def apply(self, vhost: str) -> None:
        """Give a new virtual host the defaults whose patterns match its name; report those that are refused."""
        searches = SearchTime(self._node.clock.processor_s)
        kinds = ((self._limits, self._limit), (self._policies, self._set_policy), (self._users, self._give_user))
        for defaults, give in kinds:
            for name, pattern, values in defaults:
                if not searches.search(pattern, vhost):
                    continue
                try:
                    give(vhost, name, values)
                except OperatorError as error:
                    reason = " ".join(error.text.split())
                    self._report("vhost_default_refused", "warning", {"vhost": vhost, "name": name, "reason": reason})
                if defaults is self._limits:
                    break  # the first one counts

    def _limit(self, vhost: str, name: str, values: dict[str, Any]) -> None:
        self._node.limits.set_vhost(vhost, values)

    def _set_policy(self, vhost: str, name: str, values: dict[str, Any]) -> None:
        definition = {key: value for key, value in values.items() if key != "pattern"}
        self._node.policies.set(vhost, name, values.get("pattern", EVERYTHING), definition, operator=True)

    def _give_user(self, vhost: str, name: str, values: dict[str, Any]) -> None:
        users = self._node.users
        if users.get(name) is None:
            password = values.get("password")
            hashed = hash_password(password, os.urandom(SALT_BYTES)) if password is not None else b""
            tags = [tag.strip() for tag in values.get("tags", "").split(",")]
            users.add(name, hashed, [tag for tag in tags if tag])
        users.set_permission(name, vhost, *(values.get(right, EVERYTHING) for right in RIGHTS))


def defaults_of(patterns: Mapping[str, str], others: Mapping[str, Mapping[str, Any]]) -> list[Default]:
    """Return the defaults in the order of their names, where 10 is before 2; `others` are their other values by key."""
    values: dict[str, dict[str, Any]] = {name: {} for name in patterns}
    for key, by_name in others.items():
        for name, value in by_name.items():
            values.setdefault(name, {})[key] = value
    return [(name, Pattern(patterns.get(name, EVERYTHING)), each) for name, each in sorted(values.items())]
