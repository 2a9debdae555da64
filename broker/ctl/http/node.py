"""A node that is asked over HTTP. What it answers are the frames of the control socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...control.answers import UNAVAILABLE, Answer, Refused, Report, Rows
from ..exit_status import USAGE_STATUS, Failed
from ..socket_client import ANY_NODE, Frame, Unreachable
from .client import API, Refusal
from .commands import COMMANDS
from .request import HTTPCall


class HTTPNode:
    """`name` is what the node calls itself, if the user may know, who has to monitor."""

    def __init__(self, url: str, command: str, timeout_s: float | None, password_file: str = "") -> None:
        """Raises Failed, Unreachable, TimeoutError."""
        if command not in COMMANDS and command != "report":
            raise Failed(USAGE_STATUS, f"warrenctl: {command} goes by the control socket, not by --url")
        self._api = API(url, timeout_s, password_file)
        try:
            overview: Any = self._api.get("overview", columns="node")
        except Refusal as error:
            self.close()
            text = f"Error: unable to perform an operation on node '{ANY_NODE}': {self._api.host}:{self._api.port}"
            raise Failed(UNAVAILABLE, f"{text}: {why(error)}") from None
        except (Unreachable, TimeoutError):
            self.close()
            raise
        if not isinstance(overview, dict):
            self.close()
            raise Unreachable(f"{self._api.host}:{self._api.port}: not the HTTP API of RabbitMQ")
        self.name = str(overview.get("node") or ANY_NODE)

    def ask(self, request: Frame) -> Iterator[Frame]:
        """All frames of the answer, the last one too. Raises Unreachable, TimeoutError."""
        try:
            yield from frames(self._answer(request))
        except Refused as error:
            yield {"error": error.text, "status": error.status, "bare": error.bare, "argument": error.argument}
        except Refusal as error:
            yield {"error": why(error), "status": UNAVAILABLE}
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"the answer is not one of RabbitMQ's HTTP API: {type(error).__name__}"
            yield {"error": text, "status": UNAVAILABLE}
        else:
            yield {"end": True}

    def _answer(self, request: Frame) -> Answer:
        """Raises Refused, Refusal, Unreachable, TimeoutError."""
        command, arguments, options = request["command"], request["arguments"], request["options"]
        assert isinstance(command, str) and isinstance(arguments, list) and isinstance(options, dict)
        return COMMANDS[command](HTTPCall(self._api, self.name, command, arguments, options))

    def wait_for_end(self) -> None:
        """No command over HTTP ends a node."""

    def close(self) -> None:
        self._api.close()


def frames(answer: Answer) -> Iterator[Frame]:
    if isinstance(answer, Rows):
        yield {"columns": answer.columns}
        yield {"rows": list(answer.rows)}
    elif isinstance(answer, Report):
        yield {"value": answer.value, "text": answer.text}
    elif answer is not None:
        yield {"value": answer}


def why(error: Refusal) -> str:
    """As one text; who may not is told so, and not who that was."""
    if error.status != 401:
        return error.reason
    return "user or password is wrong" if error.error == "not_authorized" else f"access refused: {error.reason}"
