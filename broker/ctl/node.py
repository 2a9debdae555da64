"""Nodes as `warrenctl` sees them: by unix socket or by URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .answers import Answer, CommandError, Rows
from .api_client import API, APIError, LocalAPI
from .command import ANY_NODE
from .commands.call import Call
from .commands.table import COMMANDS, LOCAL_ONLY
from .exit_status import UNAVAILABLE, USAGE, ExitError, Unreachable
from .request import Request


class Node:
    """A node that has answered. `name` is its own name, or ANY_NODE if the user lacks the tag monitoring."""

    name: str

    def __init__(self, api: API, default_vhost: str = "/") -> None:
        self._api = api
        self._default_vhost = default_vhost

    def run(self, request: Request) -> Answer:
        """Run a command on the node. Raises CommandError, Unreachable, TimeoutError."""
        try:
            answer = COMMANDS[request.command](Call(self._api, self.name, self._default_vhost, request))
            return Rows(answer.columns, list(answer.rows)) if isinstance(answer, Rows) else answer
        except APIError as error:
            raise CommandError(UNAVAILABLE, reason_of(error)) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"the answer is not one of RabbitMQ's HTTP API: {type(error).__name__}"
            raise CommandError(UNAVAILABLE, text) from None

    def wait_for_end(self) -> None:
        """Wait until the node has stopped. Raises TimeoutError."""
        self._api.wait_for_end()

    def close(self) -> None:
        self._api.close()


class LocalNode(Node):
    """A node at the unix socket in its data folder."""

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        """Raises Unreachable, TimeoutError."""
        api = LocalAPI(folder, timeout_s)
        try:
            node = api.get("warren", "node")
            super().__init__(api, str(node["default_vhost"]))
            self.name = str(node["node"])
        except (APIError, LookupError, TypeError) as error:
            api.close()
            raise Unreachable(f"{api.address}: {error}") from None
        except (Unreachable, TimeoutError):
            api.close()
            raise


class HTTPNode(Node):
    """A node of Warren or RabbitMQ at the URL of its HTTP API."""

    def __init__(self, url: str, command: str, timeout_s: float | None, password_file: str = "") -> None:
        """Raises ExitError, Unreachable, TimeoutError."""
        if command in LOCAL_ONLY:
            raise ExitError(USAGE, f"warrenctl: {command} goes by the control socket, not by --url")
        api = API(url, timeout_s, password_file)
        super().__init__(api)
        try:
            overview: Any = api.get("overview", columns="node")
        except APIError as error:
            self.close()
            text = f"Error: unable to perform an operation on node '{ANY_NODE}': {api.address}"
            raise ExitError(UNAVAILABLE, f"{text}: {reason_of(error)}") from None
        except (Unreachable, TimeoutError):
            self.close()
            raise
        if not isinstance(overview, dict):
            self.close()
            raise Unreachable(f"{api.address}: not the HTTP API of RabbitMQ")
        self.name = str(overview.get("node") or ANY_NODE)


def reason_of(error: APIError) -> str:
    """Return the reason as text; a failed login does not name the user."""
    if error.status != 401:
        return error.reason
    return "user or password is wrong" if error.error == "not_authorized" else f"access refused: {error.reason}"
