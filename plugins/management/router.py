"""The table of routes: what may be asked, by whom, and which function answers.

A path is cut at its slashes first and decoded afterwards, segment by segment, so that the virtual host `/` is the
segment `%2F` and no more than that. A segment in braces takes anything; `{vhost}` is a virtual host that there is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from ..http.auth import Guard
from ..http.responses import Response
from .line_stream import LineStream
from .pagination import Listing
from .request import Request

Answered = Response | Listing[Any] | LineStream
Handler = Callable[[Request], Answered | Awaitable[Answered]]
"""Runs to its end on the broker's loop, or gives what is to be waited for. Raises Refusal, AMQPError, OperatorError."""

HEALTH = ("health", "healthchecks")
READS = ("GET", "HEAD", "OPTIONS")
LIMIT_OF_BODY: int | None = None  # that of the configuration


class Route:
    """`body` is the class of the request's body, `bytes` for one that is not looked at; None where none is read.

    `changes` says that the handler changes something, as it may even for GET. `body_limit` is in bytes. `summary` is
    the first line of the handler's documentation. A route that is not `vhost_required` is also
    served where there is no virtual host of the name in its path.
    """

    __slots__ = ("method", "path", "guard", "handler", "body", "body_limit", "changes", "vhost_required", "segments")

    def __init__(
        self,
        method: str,
        path: str,
        guard: Guard,
        handler: Handler,
        body: type[msgspec.Struct] | type[bytes] | None = None,
        body_limit: int | None = LIMIT_OF_BODY,
        changes: bool = False,
        vhost_required: bool = True,
    ) -> None:
        self.method = method
        self.path = path
        self.guard = guard
        self.handler = handler
        self.body = body
        self.body_limit = body_limit
        self.vhost_required = vhost_required
        self.changes = changes or method not in READS
        self.segments = path.strip("/").split("/")

    @property
    def names(self) -> list[str]:
        """Of what varies in the path."""
        return [segment[1:-1] for segment in self.segments if segment.startswith("{")]

    @property
    def is_health(self) -> bool:
        """Whether it is a check of health, which is answered however much else is asked."""
        return self.segments[0] in HEALTH

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"


class Branch:
    """The routes of one path, and the segments that may follow: words first, then anything."""

    __slots__ = ("routes", "words", "anything")

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.words: dict[str, Branch] = {}
        self.anything: Branch | None = None

    def grow(self, segment: str) -> Branch:
        if not segment.startswith("{"):
            return self.words.setdefault(segment, Branch())
        self.anything = self.anything or Branch()
        return self.anything

    def find(self, segments: list[str], at: int) -> Branch | None:
        if at == len(segments):
            return self if self.routes else None
        for branch in (self.words.get(segments[at]), self.anything):
            found = branch.find(segments, at + 1) if branch is not None else None
            if found is not None:
                return found
        return None


class Routes:
    """All of them; of two with the same method and path the first counts, which is an error of ours."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = list(routes)
        self._root = Branch()
        for route in self.all:
            branch = self._root
            for segment in route.segments:
                branch = branch.grow(segment)
            assert route.method not in branch.routes, f"{route} is there twice"
            branch.routes[route.method] = route

    def find(self, raw_path: str) -> tuple[Mapping[str, Route], list[str]] | None:
        """The routes by method, and the decoded segments. Slashes at the end count for nothing."""
        segments = [unquote(segment, errors="surrogateescape") for segment in raw_path.strip("/").split("/")]
        branch = self._root.find(segments, 0)
        return (branch.routes, segments) if branch is not None else None


def values(route: Route, segments: list[str]) -> dict[str, str]:
    """What stands in the path for each name."""
    return {name[1:-1]: segment for name, segment in zip(route.segments, segments, strict=True) if name.startswith("{")}


def allowed(routes: Mapping[str, Route]) -> str:
    """As the header Allow says it."""
    methods = {"OPTIONS", *routes} | ({"HEAD"} if "GET" in routes else set())
    return ", ".join(sorted(methods))
