"""`warren migrate` from a RabbitMQ and to one: nothing that was confirmed is lost, all that both can have is kept."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.broker_process import environment_of, run
from tests.support.http import HTTPClient
from tests.support.peer import SocketPeer
from tools.migration_faults.rounds import Side, migrate

from .conftest import Urls

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]

VHOSTS = ("/", "ä b", "a/b%2f")
ODD_QUEUE = "ä b/c?d=1#%2f"
HASH = "5jfNzdKkL5ukGpsQmyXQyKpWO0xUI0yDLcGBJwNPc+VcHLbA"
WAITING = 5  # messages of each kind
BIG = 5 << 20  # bytes
SECTIONS = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings",
)  # fmt: skip
PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 3, "correlation_id": "c",
    "reply_to": "answers", "expiration": "3600000", "message_id": "m", "timestamp": 1_700_000_000, "type": "t",
    "user_id": "guest", "app_id": "a",
    "headers": {"big": 1 << 40, "n": -1, "s": "ä", "t": {"deep": [1, True, None, 1.5]}, "x-received-from": ["far"]},
}  # fmt: skip


class Ends:
    """A migration from `source` to `target`; one of them is a RabbitMQ."""

    def __init__(self, source: Side, target: Side, folder: Path) -> None:
        self.source = source
        self.target = target
        self.folder = folder

    def migrate(self, *options: str) -> subprocess.CompletedProcess[str]:
        words = ("--from", self.source.http, "--to", self.target.http, "--timeout", "50", *options)
        return run("migrate", *words, PYTHONPATH=environment_of(self.folder)["PYTHONPATH"])


def ask(side: Side, method: str, path: str, body: object = None) -> Any:
    response = HTTPClient(side.http.rpartition("@")[2]).request(method, path, body)
    assert response.status < 300, (method, path, response)
    return response.json if response.body else None


def channel_at(side: Side, vhost: str = "/") -> Channel:
    parts = urlsplit(side.amqp)
    return SocketPeer(f"{parts.hostname}:{parts.port}").connect(vhost=vhost).channel()


@pytest.fixture
def peer(rabbitmq: Urls) -> Iterator[Side]:
    """The RabbitMQ, emptied after the test."""
    side = Side("rabbitmq", Path(), rabbitmq)
    clear(side)
    yield side
    clear(side)


def clear(side: Side) -> None:
    """Delete all objects of a RabbitMQ that it does not have at its first start."""
    for user in ask(side, "GET", "/users"):
        if user["name"] != "guest":
            ask(side, "DELETE", f"/users/{quote(user['name'], '')}")
    for vhost in ask(side, "GET", "/vhosts"):
        ask(side, "DELETE", f"/vhosts/{quote(vhost['name'], '')}")
    ask(side, "PUT", "/vhosts/%2f")
    ask(side, "PUT", "/permissions/%2f/guest", {"configure": ".*", "write": ".*", "read": ".*"})


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Side]:
    side = Side("warren", tmp_path)
    yield side
    side.close()


@pytest.fixture
def moving_in(peer: Side, ours: Side, tmp_path: Path) -> Ends:
    return Ends(peer, ours, tmp_path)


@pytest.fixture
def moving_out(peer: Side, ours: Side, tmp_path: Path) -> Ends:
    return Ends(ours, peer, tmp_path)


@pytest.fixture(params=["moving_in", "moving_out"])
def ends(request: pytest.FixtureRequest) -> Ends:
    found: Ends = request.getfixturevalue(request.param)
    return found


def definitions() -> dict[str, Any]:
    """Return a document with all that both brokers can have, in three virtual hosts with odd names."""
    user = {"name": "clerk", "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["monitoring"], "limits": {"max-connections": 7}}  # fmt: skip
    sections: dict[str, list[Any]] = {}
    for vhost in VHOSTS:
        for section, rows in definitions_of_vhost().items():
            sections.setdefault(section, []).extend({"vhost": vhost, **row} for row in rows)
    return {"users": [user], "vhosts": [{"name": name} for name in VHOSTS], **sections}


def definitions_of_vhost() -> dict[str, list[dict[str, Any]]]:
    plain = {"durable": True, "auto_delete": False, "arguments": {}}
    anything = {"configure": ".*", "write": ".*", "read": ".*"}
    operator = {"pattern": "^orders", "apply-to": "queues", "priority": 1, "definition": {"max-length": 10_000}}
    policy = {"pattern": "^orders", "apply-to": "queues", "priority": 2}
    queues: dict[str, dict[str, Any]] = {
        "orders": {"x-message-ttl": 3_600_000, "x-dead-letter-exchange": "t"},
        "urgent": {"x-max-priority": 5},
        "safe": {"x-queue-type": "quorum", "x-delivery-limit": 7},
        ODD_QUEUE: {"x-single-active-consumer": True},
    }
    to = {"destination_type": "queue", "routing_key": "a.#", "arguments": {}}
    return {
        "permissions": [
            {"user": "guest", **anything},
            {"user": "clerk", "configure": "", "write": "", "read": "^orders"},
        ],
        "topic_permissions": [{"user": "clerk", "exchange": "t", "write": "^a", "read": ".*"}],
        "parameters": [
            {"component": "operator_policy", "name": "few", "value": operator},
            {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 100}},
        ],
        "policies": [{**policy, "name": "ä ttl", "definition": {"expires": 3_600_000, "max-length-bytes": 1 << 30}}],
        "queues": [{**plain, "name": name, "arguments": arguments} for name, arguments in queues.items()],
        "exchanges": [
            {**plain, "name": "t", "type": "topic", "internal": False},
            {**plain, "name": "h", "type": "headers", "internal": False, "arguments": {"alternate-exchange": "t"}},
        ],
        "bindings": [
            {**to, "source": "t", "destination": ODD_QUEUE},
            {**to, "source": "h", "destination": "orders", "arguments": {"x-match": "any", "n": 5}},
            {**to, "source": "h", "destination": "t", "destination_type": "exchange"},
        ],
    }


def comparable(side: Side) -> dict[str, list[str]]:
    """Return the definitions without what each product adds to them."""
    document = ask(side, "GET", "/definitions")
    document["users"] = [user for user in document["users"] if user["name"] != "guest"]
    document["vhosts"] = [{"name": vhost["name"]} for vhost in document["vhosts"]]
    for queue in document["queues"]:
        queue["type"] = queue["arguments"].pop("x-queue-type", queue.get("type", "classic"))
    return {section: sorted(json.dumps(row, sort_keys=True) for row in document[section]) for section in SECTIONS}


def test_nothing_is_lost_under_load_when_the_command_is_killed(ends: Ends, tmp_path: Path) -> None:
    work = migrate(tmp_path, ends.source, ends.target, 16, {0: 3000, 5: 500}, ("command",))
    outcome, _ = asyncio.run(work)
    assert outcome.confirmed > 4000
    assert (outcome.lost, outcome.duplicates, outcome.disordered) == (0, 0, 0), str(outcome)
    assert comparable(ends.target) == comparable(ends.source)


def test_definitions_and_messages_of_every_kind_are_unchanged(ends: Ends) -> None:
    ask(ends.source, "POST", "/definitions", definitions())
    for vhost in VHOSTS:
        channel = channel_at(ends.source, vhost)
        channel.confirm()
        for number in range(WAITING):
            channel.publish("t", "a.b", b"%d" % number, PROPERTIES)
            channel.publish("h", "k", b"%d" % number, {**PROPERTIES, "headers": {"n": 5}})
            channel.publish("", "urgent", b"%d" % number, {"delivery_mode": 2, "priority": number})
            channel.publish("", "safe", b"%d" % number, {"headers": {"x-delivery-count": 3}})
        channel.publish("", "urgent", bytes(BIG))
        channel.confirms(range(1, 4 * WAITING + 2))
        channel.client.close()
    done = ends.migrate()
    assert (done.returncode, done.stderr) == (0, ""), done
    assert comparable(ends.target) == comparable(ends.source)
    out = ends.source.process is not None
    for vhost in VHOSTS:
        channel = channel_at(ends.target, vhost)
        odd, orders, urgent, safe = (channel.get_all(name) for name in (ODD_QUEUE, "orders", "urgent", "safe"))
        channel.client.close()
        assert len(urgent.pop().body) == BIG
        assert [message.body for message in urgent] == [b"4", b"3", b"2", b"1", b"0"]
        for messages, queue, exchange, key in ((odd, ODD_QUEUE, "t", "a.b"), (orders, "orders", "h", "k"),
                                               (safe, "safe", "", "safe")):  # fmt: skip
            assert [message.body for message in messages] == [b"%d" % number for number in range(WAITING)]
            addresses = {(message.method.exchange, message.method.routing_key) for message in messages}
            assert addresses == ({("", queue)} if out else {(exchange, key)})
        assert {message.property_bytes for message in odd} == {codec.property_bytes(PROPERTIES)}
    assert not ask(ends.target, "GET", "/parameters/federation-upstream")


def test_queues_and_exchanges_that_are_others_at_the_target_stop_the_command_before_it_does_anything(
    ends: Ends,
) -> None:
    for side, limit, type_ in ((ends.source, 10, "topic"), (ends.target, 20, "fanout")):
        channel = channel_at(side)
        channel.declare("orders", durable=True, arguments={"x-max-length": limit})
        channel.declare("same", durable=True)
        channel.exchange("events", type_, durable=True)
        channel.client.close()
    channel = channel_at(ends.source)
    channel.fill("orders", b"order", delivery_mode=2)
    before = comparable(ends.target)
    done = ends.migrate()
    assert done.returncode == 65, done
    assert done.stderr.splitlines()[1:] == [
        "  queue 'orders' in vhost '/': exists there with x-max-length 20, not 10",
        "  exchange 'events' in vhost '/': exists there with type fanout, not topic",
    ]
    assert comparable(ends.target) == before
    assert channel.count("orders") == 1
    channel.client.close()
    done = ends.migrate("--leave-out")
    assert done.returncode == 0, done
    assert comparable(ends.target) == before
    channel = channel_at(ends.target)
    assert channel.drain("orders") == [b"order"]
    channel.client.close()
