"""Objects that are deleted while a list of them is made: the list is returned nevertheless."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import asgi_scope
from tests.support.metrics import Scraper
from tests.turns.crowd import path_of, readable, stay
from warren.plugins.http import slices
from warren.plugins.management.framework.router import Route
from warren.plugins.prometheus import exposition

EACH = 3  # objects of each kind
TURNS = (1, 2, 3, 4, 6, 9, 13)  # turns of the loop after which all objects are deleted
SCRAPES = (
    "/metrics",
    "/metrics/per-object",
    "/metrics/detailed?family=connection_metrics&family=connection_churn_metrics&family=channel_metrics"
    "&family=queue_coarse_metrics&family=queue_metrics&family=queue_consumer_count&family=queue_delivery_metrics"
    "&family=channel_exchange_metrics&family=channel_queue_metrics&family=channel_queue_exchange_metrics"
    "&family=exchange_metrics&family=vhost_status&family=exchange_names&family=exchange_bindings",
)


@pytest.fixture(autouse=True)
def one_object_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", -1.0)
    monkeypatch.setattr(exposition, "SLICE_S", -1.0)


class Populated(Scraper):
    """A broker with some objects of each kind, which can all be deleted at once."""

    def __init__(self) -> None:
        super().__init__()
        node = self.peer.node
        self.vhost = node.vhosts["/"]
        for number in range(EACH):
            node.add_vhost(f"v{number}")
            self.peer.add_user(f"u{number}")
            self.vhost.declare_exchange(f"x{number}", "topic")
            client = self.peer.connect(f"u{number}", f"u{number}")
            channel = client.channel()
            channel.declare(f"q{number}")
            channel.bind(f"q{number}", f"x{number}", "key")
            channel.consume(f"q{number}")
            channel.publish(f"x{number}", "key", b"message")
            self.peer.set_policy(f"p{number}", "^q", {"max-length": 10})
        self.peer.settle()

    def end_all(self) -> None:
        node = self.peer.node
        self.host.close_connections(lambda connection: True, "the end")
        self.peer.settle()
        for number in range(EACH):
            self.peer.clear_policy(f"p{number}")
            node.users.delete(f"u{number}")
            node.delete_vhost(f"v{number}")
        for queue in list(self.vhost.queues.values()):
            self.vhost.delete_queue(queue)
        for number in range(EACH):
            self.vhost.delete_exchange(f"x{number}")
        self.peer.settle()

    async def answer_while_all_ends(self, application: Any, scope: dict[str, Any], turns: int) -> tuple[int, bytes]:
        """Return status and body of a response; all objects are deleted after some turns of the loop."""
        status, body = 0, b""

        async def send(event: Any) -> None:
            nonlocal status, body
            status = event.get("status", status)
            body += event.get("body", b"")

        answering = asyncio.ensure_future(application(scope, stay, send))
        for _ in range(turns):
            await asyncio.sleep(0)
        self.end_all()
        await answering
        return status, body


@pytest.fixture
def populated() -> Iterator[list[Populated]]:
    made: list[Populated] = []
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize("route", readable(), ids=lambda route: "/" + "/".join(route.segments))
def test_no_request_fails_because_of_what_ended_while_it_was_answered(populated: list[Populated], route: Route) -> None:
    for turns in TURNS:
        broker = Populated()
        populated.append(broker)
        scope, _ = asgi_scope("GET", path_of(route))
        status, body = asyncio.run(broker.answer_while_all_ends(broker.api.application, scope, turns))
        assert status in (200, 204, 400, 401, 404, 503), body
        if status == 200 and body.startswith((b"[", b"{")):
            json.loads(body)


@pytest.mark.parametrize("path", SCRAPES)
def test_no_scrape_fails_because_of_what_ended_while_it_was_made(populated: list[Populated], path: str) -> None:
    for turns in TURNS:
        broker = Populated()
        populated.append(broker)
        scope, _ = asgi_scope("GET", path)
        scope["raw_path"] = path.partition("?")[0].encode()
        status, body = asyncio.run(broker.answer_while_all_ends(broker._application, scope, turns))
        assert status == 200 and b"rabbitmq_build_info" in body and body.endswith(b"\n")
