"""A command during its execution over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..answers import Answer, no_user, no_vhost
from ..api_client import API, NotFound
from ..request import Request

Item = dict[str, Any]
"""An object as the API returns it."""


class Call(Request):
    """A command with the API client. `node` is the name of the node that answered."""

    __slots__ = ("api", "_default_vhost")

    def __init__(self, api: API, node: str, default_vhost: str, request: Request) -> None:
        super().__init__(request.command, request.arguments, request.options)
        self.api = api
        self.node = node
        self._default_vhost = default_vhost

    @property
    def vhost_name(self) -> str:
        """The name in the option, or the default without one. Raises CommandError (65) for an empty name."""
        name = self.text("vhost", self._default_vhost)
        if not name:  # often a variable of a script that is not set
            raise no_vhost(name)
        return name

    @property
    def is_local(self) -> bool:
        """True if the client uses the unix socket of a Warren node."""
        return self.api.is_local

    def vhost(self) -> Item:
        """Return the virtual host of the command. Raises CommandError (65)."""
        return self.vhost_of(self.vhost_name)

    def vhost_of(self, name: str) -> Item:
        """Return a virtual host. Raises CommandError (65)."""
        vhost = self.find("vhosts", name)
        if vhost is None:
            raise no_vhost(name)
        return vhost

    def user(self, name: str) -> Item:
        """Return a user. Raises CommandError (67)."""
        user = self.find("users", name)
        if user is None:
            raise no_user(name)
        return user

    def find(self, *path: str) -> Item | None:
        """Return the object at a path, or None. No object has an empty name, whose path would be that of a list."""
        if "" in path:
            return None
        try:
            item: Item = self.api.get(*path)
        except NotFound:
            return None
        return item

    def list_of(self, *path: str) -> list[Item]:
        """Return the objects at a path, or [] if it does not exist."""
        try:
            items: list[Item] = self.api.get(*path)
        except NotFound:
            return []
        return items


Handler = Callable[[Call], Answer]
