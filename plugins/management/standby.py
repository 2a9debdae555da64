"""The HTTP API of a standby, which has no node: nearly each request is answered with 503, health checks with a reason.

Callers at the unix socket can get the name of the node, and stop the process.
"""

from typing import Any

from warren.broker.plugin_host.standby_host import StandbyHost

from ..http.asgi import Application, Incoming
from ..http.responses import Response, ok

CHECKS = "/api/health/checks/"
NODE = "/api/warren/node"
STOP = "/api/warren/shutdown"
STANDBY = "standby"


class StandbyAPI(Application):
    """The application of a standby; `local` callers are the process's own user or root."""

    def __init__(self, host: StandbyHost, local: bool = False) -> None:
        self._host = host
        self._prefix = "" if local else host.config.management.path_prefix.rstrip("/")
        self._local = local

    async def serve(self, incoming: Incoming) -> None:
        response = self.response_to(incoming.method, incoming.path.removeprefix(self._prefix))
        await incoming.respond(response, {"cache-control": "no-store"})

    def response_to(self, method: str, path: str) -> Response[Any]:
        """Return the response to a request."""
        if path.startswith(CHECKS):
            return Response(503, {"status": "failed", "reason": STANDBY})
        if self._local and (method, path) == ("POST", STOP):
            self._host.stop()
            return Response(202)
        if self._local and (method, path) == ("GET", NODE):
            config, nothing = self._host.config, list[str]()
            lists = {"known_plugins": nothing, "hashing_algorithms": nothing}
            return ok({"node": config.node, "default_vhost": config.default_vhost, **lists})
        owner = f" of {self._host.owner}" if self._local else ""
        reason = f"this node is a standby, and waits to take over the store{owner}"
        return Response(503, {"error": STANDBY, "reason": reason})
