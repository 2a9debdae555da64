"""A broker process that federates, configured and observed by AMQP and the HTTP API alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .broker_process import ANY_PORT, BrokerProcess
from .federation import SOON_S, Row, hyphened
from .polling import links_running, until


class FederatedBroker(BrokerProcess):
    """A broker whose name is that of its cluster. Its links are in the virtual host `/`."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self.name = name
        super().__init__(folder, "--cluster-name", name, "--http", ANY_PORT, *options, node=f"{name}@test")

    @property
    def uri(self) -> str:
        return f"amqp://127.0.0.1:{self.port}/%2f"

    def request(self, method: str, path: str, body: object = None, user: str = "guest") -> tuple[int, Any]:
        """Return the status of a response of the HTTP API and its document; `path` is what follows /api."""
        response = self.http().request(method, path, body, user)
        return response.status, response.json if response.body else None

    def metrics(self) -> str:
        response = self.http("").get("/metrics")
        assert response.status == 200, response
        return response.text

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the document of a response that must report success."""
        status, answer = self.request(method, path, body)
        assert status < 300, (method, path, status, answer)
        return answer

    def upstream(self, name: str, uri: str | list[str], **settings: Any) -> None:
        value = hyphened({"uri": uri, "reconnect_delay": SOON_S, **settings})
        self.ask("PUT", f"/parameters/federation-upstream/%2f/{quote(name, '')}", {"value": value})

    def policy(self, pattern: str, definition: Mapping[str, Any], name: str = "federate") -> None:
        self.ask("PUT", f"/policies/%2f/{name}", {"pattern": pattern, "definition": definition})

    def federate(self, pattern: str, *uris: str, **settings: Any) -> None:
        """Federate all that matches the pattern, by upstreams named u0, u1 and so on."""
        for number, uri in enumerate(uris):
            self.upstream(f"u{number}", uri, **settings)
        self.policy(pattern, {"federation-upstream-set": "all"})

    def rows(self) -> list[Row]:
        found: list[Row] = self.ask("GET", "/federation-links")
        return found

    def running(self, count: int = 1) -> list[Row]:
        """Return the links, as soon as there are `count` and all of them run."""

        def describe() -> str:
            return f"{count} links of {self.name} that run: {self.rows()}\n{self.tail()}"

        return links_running(self.rows, count, describe)

    def down(self) -> Row:
        """Return one of the links, as soon as it has failed."""
        rows = until(
            lambda: [row for row in self.rows() if row["status"] not in ("starting", "running")],
            lambda: f"a link that is down: {self.rows()}",
        )
        return rows[0]

    def keys(self, exchange: str) -> list[str]:
        """The keys of the bindings that links of federation have made, sorted."""
        bindings = self.ask("GET", f"/exchanges/%2f/{quote(exchange, '')}/bindings/source")
        found = [one["routing_key"] for one in bindings if one["destination"].startswith("federation: ")]
        return sorted(found)

    def bound(self, exchange: str, *keys: str) -> None:
        until(lambda: self.keys(exchange) == sorted(keys), lambda: f"{sorted(keys)}: {self.keys(exchange)}")

    def queues(self) -> dict[str, int]:
        """The number of messages of each queue, ready or unacknowledged."""
        listed = self.ask("GET", "/queues/%2f")
        return {queue["name"]: int(queue.get("messages", 0)) for queue in listed}

    def exchanges(self) -> list[str]:
        """The names of exchanges, without the predeclared ones."""
        names = [exchange["name"] for exchange in self.ask("GET", "/exchanges/%2f")]
        return sorted(name for name in names if name and not name.startswith("amq."))
