"""A command line, and its requests to the node."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UNAVAILABLE, USAGE, APIError, CommandError, NotFound, bad_argument, missing, no_user, no_vhost

if TYPE_CHECKING:
    from .api_client import API  # imports the HTTP client, which help does not need

Item = dict[str, Any]
"""An object as the API returns it."""

Options = dict[str, str | bool]
EMPTY: Mapping[str, str] = {}


class Call:
    """A command with its arguments, and its options by their long names without dashes.

    `api`, `node` and `default_vhost` are those of the node, once it has answered; `node` is empty until then.
    `terminal`: the answer is written for a person at a terminal.

    The path of a request has `{0}` for the first argument, `{vhost}`, `{node}`, and any other `names`. Each request
    raises APIError, Unreachable, TimeoutError, and CommandError (65) if the name of its virtual host is empty.
    """

    __slots__ = ("api", "arguments", "command", "default_vhost", "node", "options", "terminal")

    api: API

    def __init__(self, command: str, arguments: list[str], options: Options) -> None:
        self.command, self.arguments, self.options = command, arguments, options
        self.node, self.default_vhost = "", "/"
        self.terminal = False

    def text(self, option: str, default: str = "") -> str:
        value = self.options.get(option, default)
        return value if isinstance(value, str) else default

    def flag(self, option: str) -> bool:
        return bool(self.options.get(option))

    def integer(self, option: str, default: int, least: int = 0) -> int:
        """Return the integer of an option. Raises CommandError (64) if it is none or below `least`."""
        text = self.text(option, str(default))
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise CommandError(USAGE, f"Invalid options for this command:\n--{option} : {text}", argument=True)
        return value

    def positive_argument(self) -> int:
        """Return the first argument, an integer above 0. Raises CommandError (65)."""
        try:
            value = int(self.arguments[0])
        except ValueError:
            value = 0
        if value < 1:
            raise bad_argument("Argument must be a positive integer")
        return value

    @property
    def folder(self) -> Path:
        """The data folder, which has the unix socket."""
        return Path(self.text("data") or os.environ.get("RABBITMQ_MNESIA_DIR") or "./data")

    @property
    def vhost_name(self) -> str:
        return self.text("vhost", self.default_vhost)

    def path(self, template: str, **names: str) -> tuple[str, ...]:
        """Return the segments of a path. Raises CommandError (65)."""
        vhost = self.vhost_name
        if not vhost and "{vhost}" in template:  # often a variable of a script that is not set
            raise no_vhost(vhost)
        names |= {"vhost": vhost, "node": self.node}
        return tuple(segment.format(*self.arguments, **names) for segment in template.split("/"))

    def get(self, path: str, query: Mapping[str, str] = EMPTY, **names: str) -> Any:
        return self.api.get(*self.path(path, **names), **query)

    def put(self, path: str, body: object = None, **names: str) -> None:
        self.api.put(*self.path(path, **names), body=body)

    def post(self, path: str, body: object = None, **names: str) -> Any:
        return self.api.post(*self.path(path, **names), body=body)

    def delete(
        self, path: str, query: Mapping[str, str] = EMPTY, headers: Mapping[str, str] = EMPTY, **names: str
    ) -> Any:
        return self.api.delete(*self.path(path, **names), query=query, headers=headers)

    def find(self, path: str, **names: str) -> Item | None:
        """Return the object at a path, or None. No object has an empty name, whose path would be that of a list."""
        segments = self.path(path, **names)
        if "" in segments:
            return None
        try:
            item: Item = self.api.get(*segments)
        except NotFound:
            return None
        return item

    def list_of(self, path: str) -> list[Item]:
        """Return the objects at a path, or [] if it does not exist."""
        try:
            items: list[Item] = self.get(path)
        except NotFound:
            return []
        return items

    def list_in_vhost(self, path: str) -> list[Item]:
        """Return the objects at a path of the virtual host. Raises CommandError (65) if that does not exist."""
        with missing(no_vhost(self.vhost_name)):
            items: list[Item] = self.get(path)
        return items

    def check_vhost(self) -> None:
        """Raises CommandError (65) if the virtual host does not exist."""
        if self.find("vhosts/{vhost}") is None:
            raise no_vhost(self.vhost_name)

    def check_health(self, check: str) -> None:
        """Raises CommandError (69) if the health check fails."""
        try:
            self.get("health/checks/{check}", check=check)
        except APIError as error:
            if error.status != 503:
                raise
            raise CommandError(UNAVAILABLE, error.reason) from None

    def user(self, name: str) -> Item:
        """Return a user. Raises CommandError (67)."""
        user = self.find("users/{name}", name=name)
        if user is None:
            raise no_user(name)
        return user

    def limits_at(self, path: str, **names: str) -> Item:
        """Return the limits of the user or virtual host at a path."""
        found = self.get(path, EMPTY, **names)
        return dict(found[0]["value"]) if found else {}

    def document(self, text: str) -> object:
        """Return the value of a JSON argument. Raises CommandError (69)."""
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommandError(UNAVAILABLE, f"JSON decoding error. Reason: {error}") from None
        return value

    def limits(self, text: str, what: str) -> dict[str, object]:
        """Return the object of a JSON argument. Raises CommandError (69)."""
        value = self.document(text)
        if not isinstance(value, dict):
            raise CommandError(UNAVAILABLE, f"Validation failed\n\n{what} should be a map\n")
        return value
