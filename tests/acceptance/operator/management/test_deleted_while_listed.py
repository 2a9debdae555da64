"""Objects that are deleted while requests about them are answered: no request fails."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import Response, asgi_scope, call_application
from tests.support.metrics import Samples, Scraper
from tests.support.prepared import IT, path_of, prepare, readable, right_status
from warren.plugins.http import time_slices
from warren.plugins.prometheus import exposition

EACH = 3  # objects of each kind
# Turns of the loop after which all objects are deleted: a login takes 7, most lists 8 to 40, a scrape 300 to 430.
TURNS = (1, 7, 8, 10, 13, 17, 24, 33, 60)
SCRAPE_TURNS = (1, 5, 21, 55, 130, 280)
# The routes of one object, which are 404 when it is deleted; those of a list are 200 even then.
OF_ONE_OBJECT = """
/bindings/{vhost}/e/{exchange}/q/{queue}/{props} /bindings/{vhost}/e/{source}/e/{destination}/{props}
/channels/{channel} /connections/{name}/channels /connections/{name} /exchanges/{vhost}/{exchange}
/warren/federation/links/{vhost}/{id} /global-parameters/{name} /user-limits/{user}
/parameters/{component}/{vhost}/{name} /permissions/{vhost}/{user} /users/{user}/permissions
/policies/{vhost}/{name} /operator-policies/{vhost}/{name} /warren/access/{vhost}/{user}
/warren/queues/{vhost}/{queue}/unacked /queues/{vhost}/{queue} /topic-permissions/{vhost}/{user}
/users/{user}/topic-permissions /users/{user} /warren/matching-policies/{vhost}/{kind}/{name}
"""
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
    monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
    monkeypatch.setattr(exposition, "SLICE_S", -1.0)


class Populated(Scraper):
    """A broker with an object for each route and some more of each kind, which can all be deleted at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        prepare(self.api, folder)
        node, vhost = self.peer.node, self.peer.node.vhosts["/"]
        for number in range(EACH):
            node.add_vhost(f"v{number}")
            self.peer.add_user(f"u{number}")
            vhost.declare_exchange(f"x{number}", "topic")
            channel = self.peer.connect(f"u{number}", f"u{number}").channel()
            channel.declare(f"q{number}")
            channel.bind(f"q{number}", f"x{number}", "key")
            channel.consume(f"q{number}")
            channel.publish(f"x{number}", "key", b"message")
            self.peer.set_policy(f"p{number}", "^q", {"max-length": 10})
        self.peer.settle()

    def delete_all(self) -> None:
        """Delete everything but the virtual host `/` and what each broker has."""
        node, vhost = self.peer.node, self.peer.node.vhosts["/"]
        self.host.close_connections(lambda connection: True, "the end")
        self.peer.settle()
        for number in range(EACH):
            node.delete_vhost(f"v{number}")
        for policy in (IT, *(f"p{number}" for number in range(EACH))):
            node.policies.clear("/", policy)
        node.policies.clear("/", IT, operator=True)
        node.parameters.clear("/", "federation-upstream", IT)
        node.parameters.clear_global(IT)
        del self.host.services["federation"].rows[:]  # type: ignore[attr-defined]
        for user in (IT, *(f"u{number}" for number in range(EACH))):
            node.users.delete(user)
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        for exchange in (IT, *(f"x{number}" for number in range(EACH))):
            vhost.delete_exchange(exchange)
        self.peer.settle()

    async def responses(self, application: Any, scopes: list[dict[str, Any]], turns: int) -> list[Response]:
        """Return the responses to requests that begin together; everything is deleted after some turns of the loop."""
        requests = [asyncio.ensure_future(call_application(application, scope, b"")) for scope in scopes]
        for _ in range(turns):
            await asyncio.sleep(0)
        self.delete_all()
        return await asyncio.gather(*requests)


@contextmanager
def populated(folder: Path) -> Iterator[Populated]:
    broker = Populated(folder)
    yield broker
    broker.close()
    assert not [fields for event, _, fields in broker.peer.log if event == "internal_error"]


def is_valid(response: Response) -> bool:
    """Return True if a body of JSON can be parsed."""
    if response.headers.get("content-type") == "application/json":
        json.loads(response.body)
    return True


@pytest.mark.parametrize("turns", TURNS)
def test_a_request_is_answered_as_before_the_deletion_or_as_after_it(tmp_path: Path, turns: int) -> None:
    with populated(tmp_path) as broker:
        wrong = []
        routes = readable()
        paths = [path_of(broker.api, route) for route in routes]
        # Each from an address of its own, as the requests in progress from one address are limited.
        scopes = [asgi_scope("GET", path, address=f"127.0.1.{number}")[0] for number, path in enumerate(paths)]
        responses = asyncio.run(broker.responses(broker.api.application, scopes, turns))
        for route, path, response in zip(routes, paths, responses, strict=True):
            later = 404 if route.path in OF_ONE_OBJECT.split() else right_status(route)
            assert broker.api.get(path).status == later, route
            if response.status not in (right_status(route), later) or not is_valid(response):
                wrong.append(f"{route}: {response}")
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("turns", SCRAPE_TURNS)
def test_a_scrape_is_complete_whatever_is_deleted_while_it_is_made(tmp_path: Path, turns: int) -> None:
    with populated(tmp_path) as broker:
        wrong = []
        scopes = [asgi_scope("GET", path)[0] | {"raw_path": path.partition("?")[0].encode()} for path in SCRAPES]
        responses = asyncio.run(broker.responses(broker._application, scopes, turns))
        for path, response in zip(SCRAPES, responses, strict=True):
            Samples(response.text)
            if response.status != 200 or b"rabbitmq_build_info" not in response.body:
                wrong.append(f"{path}: {response}")
        assert not wrong, "\n".join(wrong)
