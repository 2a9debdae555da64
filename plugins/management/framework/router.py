"""The table of routes, and the search for the route of a path.

A path is split at its slashes before its segments are decoded, so the virtual host `/` is the segment `%2F`. A
segment in braces matches any text; `{vhost}` must be an existing virtual host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import msgspec

from ...http.asgi import Incoming
from ...http.auth import NONE, Guard
from ...http.limits import Quota
from ...http.responses import HTTPError, Response, missing
from . import bodies
from .line_stream import Stream
from .pagination import Listing
from .state import ManagementState

Answered = Response[Any] | Listing[Any] | Stream
Handler = Callable[..., Answered | Awaitable[Answered]]
"""A function of the Request, and of the body if it has a parameter of this name: a struct, or `bytes` if undecoded.

It runs in one turn of the loop, or returns an awaitable. Raises HTTPError, AMQPError, OperatorError.
"""

HEALTH = ("health", "healthchecks")
READS = ("GET", "HEAD", "OPTIONS")
BODY_BYTES = 64 << 10  # of a body; decoding it takes some milliseconds
LONG_BODY_BYTES = 1 << 20  # of a policy or a parameter, which are decoded in a thread
CONFIGURED = None  # the limit of the configuration, for definitions


@dataclass(slots=True, eq=False)
class Route:
    """A route of the API, described by the first line of its handler's docstring.

    The answer to a change says that it is on the disk, unless `durable` is False: for a get another answer would lose
    the messages that it has taken.
    """

    method: str
    path: str
    guard: Guard
    handler: Handler
    body_limit: int | None = BODY_BYTES  # the configured limit is never exceeded
    changes: bool = False  # True if the handler changes something, even for GET
    vhost_required: bool = True  # False if the virtual host in the path need not exist
    durable: bool = True
    body: type[msgspec.Struct] | type[bytes] | None = field(init=False)  # of the handler's parameter `body`
    segments: list[str] = field(init=False)
    is_limited: bool = field(init=False)  # by the number of requests in progress

    def __post_init__(self) -> None:
        self.changes = self.changes or self.method not in READS
        self.durable = self.durable and self.method not in READS
        self.body = self.handler.__annotations__.get("body")
        self.segments = self.path.strip("/").split("/")
        self.is_limited = self.guard is not NONE and self.segments[0] not in HEALTH

    @property
    def names(self) -> list[str]:
        """The names of the variable segments."""
        return [segment[1:-1] for segment in self.segments if segment.startswith("{")]

    @property
    def answer(self) -> tuple[type, Any]:
        """The kind of the handler's answer (Response, Listing or Stream), and the type of its JSON."""
        answer = get_type_hints(self.handler)["return"]
        return get_origin(answer) or answer, next(iter(get_args(answer)), None)

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    async def read(self, incoming: Incoming, quota: Quota, state: ManagementState) -> msgspec.Struct | bytes:
        """Return the body of a request, decoded. Raises HTTPError (400, 408, 503)."""
        config, body = state.config, self.body
        assert body is not None, "the route takes none"
        limit, too_long = config.max_body_bytes, bodies.TOO_LONG
        if self.body_limit is not None and self.body_limit < limit:
            limit, too_long = self.body_limit, bodies.TOO_LONG_HERE
        idle_s = config.listener_of(incoming.scheme).inactivity_timeout / 1000
        data = await bodies.read(incoming, quota, limit, too_long, idle_s)
        return await bodies.parse(data, body, state.bodies) if issubclass(body, msgspec.Struct) else data

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"


ROUTES: list[Route] = []  # of all modules that were imported
H = TypeVar("H", bound=Handler)


def route(
    method: str, guard: Guard, *paths: str, body_limit: int | None = BODY_BYTES, **flags: bool
) -> Callable[[H], H]:
    """Return a decorator that makes a function the handler of routes with these paths; `flags` are those of Route."""

    def add(handler: H) -> H:
        ROUTES.extend(Route(method, path, guard, handler, body_limit, **flags) for path in paths)
        return handler

    return add


@dataclass(slots=True, eq=False)
class Branch:
    """A node of the tree of paths: its routes, and the next segments, literal ones before variables."""

    routes: dict[str, Route] = field(default_factory=dict)
    words: dict[str, Branch] = field(default_factory=dict)
    anything: Branch | None = None

    def child(self, segment: str) -> Branch:
        if not segment.startswith("{"):
            return self.words.setdefault(segment, Branch())
        self.anything = self.anything or Branch()
        return self.anything

    def find(self, segments: list[str], at: int) -> Branch | None:
        if at == len(segments):
            return self if self.routes else None
        for branch in (self.words.get(segments[at]), self.anything):
            target = branch.find(segments, at + 1) if branch is not None else None
            if target is not None:
                return target
        return None


class Routes:
    """All routes. If two have the same method and path, the first wins."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = list(routes)
        self._root = Branch()
        for route in self.all:
            branch = self._root
            for segment in route.segments:
                branch = branch.child(segment)
            assert route.method not in branch.routes, f"{route} is there twice"
            branch.routes[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request, and the decoded segments of its path by name. Raises HTTPError (404, 405)."""
        routes, segments = self._at(path)
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise HTTPError(405, "method_not_allowed", "Method Not Allowed", self.allow(path))
        pairs = zip(route.segments, segments, strict=True)
        return route, {name[1:-1]: segment for name, segment in pairs if name.startswith("{")}

    def allow(self, path: str) -> Mapping[str, str]:
        """Return the header Allow of a path. Raises HTTPError (404)."""
        routes, _ = self._at(path)
        return {"allow": ", ".join(sorted({"OPTIONS", *routes} | ({"HEAD"} if "GET" in routes else set())))}

    def _at(self, path: str) -> tuple[Mapping[str, Route], list[str]]:
        """Return the routes at a path by method, and its decoded segments. Slashes at the end are ignored."""
        segments = [unquote(segment, errors="surrogateescape") for segment in path.strip("/").split("/")]
        branch = self._root.find(segments, 0)
        if branch is None:
            raise missing()
        return branch.routes, segments
