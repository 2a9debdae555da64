"""One command line that is carried out over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..answers import Answer, no_user, no_vhost
from ..api_client import API, Missing
from ..question import Options, Question

Item = dict[str, Any]
"""An object, as the API tells it."""


class Call(Question):
    """`node` is the name of the node that answers."""

    __slots__ = ("api", "node", "vhost_name")

    def __init__(self, api: API, node: str, vhost: str, command: str, arguments: list[str], options: Options) -> None:
        super().__init__(command, arguments, options)
        self.api = api
        self.node = node
        self.vhost_name = vhost

    @property
    def is_local(self) -> bool:
        """Whether the node is Warren, and asked at its unix socket."""
        return self.api.is_local

    def vhost(self) -> Item:
        """Raises Refused (65)."""
        return self.vhost_of(self.vhost_name)

    def vhost_of(self, name: str) -> Item:
        """Raises Refused (65)."""
        try:
            found: Item = self.api.get("vhosts", name)
        except Missing:
            raise no_vhost(name) from None
        return found

    def user(self, name: str) -> Item:
        """Raises Refused (67)."""
        try:
            found: Item = self.api.get("users", name)
        except Missing:
            raise no_user(name) from None
        return found

    def there(self, *path: str) -> Item | None:
        """The object of this path, None where there is none."""
        try:
            found: Item = self.api.get(*path)
        except Missing:
            return None
        return found

    def listed(self, *path: str) -> list[Item]:
        """The objects of this path; none where it leads nowhere."""
        try:
            found: list[Item] = self.api.get(*path)
        except Missing:
            return []
        return found


Handler = Callable[[Call], Answer]
