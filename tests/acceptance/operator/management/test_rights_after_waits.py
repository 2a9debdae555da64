"""Rights that are taken away, and users that become protected, while a request waits."""

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any

import pytest

from tests.support.hashing import FakeHashing
from tests.support.http import Api, Response, asgi_scope, call_application
from tests.support.polling import until_async
from tests.support.prepared import STREAMS, path_of, readable
from tests.support.users import set_tags
from warren.broker.core.access.passwords import ARGON2ID
from warren.broker.session.move_messages import Move, MoveStep
from warren.plugins.http.auth import NONE
from warren.plugins.http.time_slices import Turn
from warren.plugins.management.api import connections, messages
from warren.plugins.management.framework.http_api import HTTPAPI
from warren.plugins.management.framework.request import Request

Change = Callable[[], object]
TURNS = 30  # of the loop, until a request waits
GET = "/queues/%2F/q/get"
GONE = (401, "not_authorized", "Not_Authorized")
NO_TAG = (401, "not_authorised", "Not management user")
NO_VHOST = (401, "not_authorised", "User not authorised to access virtual host")


@pytest.fixture
def worker(api: Api) -> Api:
    """The API of a broker with a queue, and with the user `worker`, who has all permissions in the virtual host."""
    api.peer.add_user("worker", ("management",))
    assert api.put("/queues/%2F/q").status == 201
    return api


def losses(api: Api) -> dict[str, Change]:
    """The ways in which the user worker loses its rights."""
    users = api.peer.node.users
    return {
        "user": lambda: users.delete("worker"),
        "tag": lambda: set_tags(api.peer.node.users, "worker", ()),
        "permission": lambda: users.clear_permission("worker", "/"),
        "write": lambda: users.set_permission("worker", "/", ".*", "", ".*"),
    }


def asked(web: HTTPAPI, method: str, path: str, body: object, user: str, change: Change,
          begun: Callable[[], bool] = lambda: True, turns: int = TURNS,
          held: AbstractAsyncContextManager[Any] | None = None) -> Response:  # fmt: skip
    """Return the answer to a request during which something changes, after `begun` and some turns of the loop.

    Until then a lock may be `held`.
    """

    async def visit() -> Response:
        async with held or nullcontext():
            asking = asyncio.ensure_future(call_application(web, *asgi_scope(method, path, body, user=user)))
            await until_async(begun, every_s=0)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert not asking.done()
            change()
        return await asking

    return asyncio.run(visit())


@pytest.fixture
def hashing(api: Api) -> FakeHashing:
    """Hashing that waits for `answer`."""
    users = api.host.node.users
    hashing = FakeHashing()
    users.hashing, users.algorithm = hashing, ARGON2ID
    api.peer.add_user("boss", ("administrator",))
    hashing.slow = True
    return hashing


@pytest.mark.parametrize("loses", ["user", "tag"])
def test_a_former_administrator_creates_no_user(api: Api, web_of: HTTPAPI, hashing: FakeHashing, loses: str) -> None:
    def lose() -> None:
        users = api.peer.node.users
        _ = users.delete("boss") if loses == "user" else set_tags(api.peer.node.users, "boss", ["management"])
        hashing.answer()

    body = {"password": "p", "tags": "administrator"}
    answer = asked(web_of, "PUT", "/users/new", body, "boss", lose, lambda: bool(hashing.waiting))
    assert answer.status == 401 and api.peer.node.users.get("new") is None


def test_a_user_that_becomes_protected_is_not_changed(api: Api, web_of: HTTPAPI, hashing: FakeHashing) -> None:
    users = api.peer.node.users
    api.peer.add_user("other")

    def protect() -> None:
        set_tags(api.peer.node.users, "other", ["protected"])
        hashing.answer()

    body = {"password": "p", "tags": "administrator"}
    answer = asked(web_of, "PUT", "/users/other", body, "boss", protect, lambda: bool(hashing.waiting))
    assert answer.error == (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    assert users.find("other").tags == ("protected",)


@pytest.mark.parametrize(("method", "path", "body"), [
    ("PUT", "/queues/%2F/new", {}), ("PUT", "/exchanges/%2F/new", {"type": "fanout"}),
    ("DELETE", "/queues/%2F/q", None),
])  # fmt: skip
def test_a_former_user_changes_nothing_after_a_wait(
    worker: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: object
) -> None:
    vhost = worker.peer.node.vhosts["/"]
    queue = vhost.queues["q"]
    waiting: list[Change] = [lambda: worker.peer.node.users.delete("worker"), queue.resume]
    monkeypatch.setattr(vhost, "unbinding_jobs", {("queue", "new"): None, ("exchange", "new"): None})
    monkeypatch.setattr(vhost, "when_unbound", lambda kind, name, call: waiting.append(call))
    queue.pause()
    assert asked(web_of, method, path, body, "worker", lambda: [call() for call in waiting]).status == 401
    assert "new" not in vhost.queues and "new" not in vhost.exchanges and "q" in vhost.queues


# Imports


def behind_another(api: Api, web: HTTPAPI, body: object, change: Change) -> Response:
    """Return the answer to an import of guest that waits behind another one."""
    return asked(web, "POST", "/definitions", body, "guest", change, held=api.host.imports._lock)


def test_an_import_does_not_change_a_user_that_becomes_protected(api: Api, web_of: HTTPAPI) -> None:
    api.peer.add_user("other")
    body = {"users": [{"name": "other", "password_hash": "", "tags": "administrator"}]}
    answer = behind_another(api, web_of, body, lambda: set_tags(api.peer.node.users, "other", ["protected"]))
    assert answer.error == (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    assert api.peer.node.users.find("other").tags == ("protected",)


def test_an_import_of_a_former_administrator_is_refused(api: Api, web_of: HTTPAPI) -> None:
    body = {"users": [{"name": "new", "password_hash": "", "tags": ""}]}
    answer = behind_another(api, web_of, body, lambda: set_tags(api.peer.node.users, "guest", ["management"]))
    assert answer.error == (401, "not_authorised", "Not administrator user")
    assert api.peer.node.users.get("new") is None


def test_users_are_protected_between_two_steps_of_an_import(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    users = api.peer.node.users
    put = users.put
    for name in ("one", "two"):
        api.peer.add_user(name)

    def put_and_protect(stored: Any) -> None:
        put(stored)
        if users.find("two").tags == ():
            put(dataclasses.replace(users.find("two").stored(), tags=("protected",)))

    monkeypatch.setattr(users, "put", put_and_protect)
    body = {"users": [{"name": name, "password_hash": "", "tags": "management"} for name in ("one", "two")]}
    answer = api.post("/definitions", body)
    assert answer.status == 400 and "Protected users cannot be modified" in answer.json["reason"]
    assert users.find("one").tags == ("management",) and users.find("two").tags == ("protected",)


# Messages


@pytest.mark.parametrize("loses", ["user", "tag", "permission"])
@pytest.mark.parametrize(("ackmode", "taken"), [("ack_requeue_false", 1), ("reject_requeue_false", 0)])
def test_messages_of_before_a_loss_return(worker: Api, web_of: HTTPAPI, loses: str, ackmode: str, taken: int) -> None:
    worker.publish("q", *["x" * 2 * messages.SLICE_BYTES] * 3)
    queue = worker.peer.node.vhosts["/"].queues["q"]

    def begun() -> bool:
        if queue.ready == 3:
            return False
        queue.pause()
        return True

    def lose() -> None:
        losses(worker)[loses]()
        queue.resume()

    body = {"ackmode": ackmode, "count": 3, "encoding": "auto"}
    answer = asked(web_of, "POST", GET, body, "worker", lose, begun)
    if taken:
        assert answer.status == 200 and len(answer.json) == 1
    else:
        assert answer.status == 401
    assert queue.ready == 3 - taken


def test_a_get_that_is_too_long_ends(worker: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "GET_S", 0.05)
    worker.publish("q", *["x" * 2 * messages.SLICE_BYTES] * 3)
    queue = worker.peer.node.vhosts["/"].queues["q"]

    def begun() -> bool:
        return queue.ready == 2

    body = {"ackmode": "ack_requeue_false", "count": 3, "encoding": "auto"}
    answer = asked(web_of, "POST", GET, body, "worker", queue.pause, begun, turns=0)
    assert answer.status == 200 and len(answer.json) == 1 and queue.ready == 2


@pytest.mark.parametrize("ackmode", ["ack_requeue_true", "ack_requeue_false"])
def test_a_get_ends_with_its_virtual_host(api: Api, web_of: HTTPAPI, ackmode: str) -> None:
    assert api.put("/vhosts/v").status == api.put("/queues/v/q").status == 201
    channel = api.peer.connect(vhost="v").channel()
    channel.fill("q", *[b"x"] * 3 * messages.SLICE_MESSAGES)
    queue = api.peer.node.vhosts["v"].queues["q"]
    body = {"ackmode": ackmode, "count": 1000, "encoding": "auto"}
    change: Change = lambda: api.peer.node.delete_vhost("v")  # noqa: E731
    ready = queue.ready
    answer = asked(web_of, "POST", "/queues/v/q/get", body, "guest", change, lambda: queue.ready < ready, turns=0)
    if ackmode == "ack_requeue_false":
        assert answer.status == 200 and len(answer.json) == messages.SLICE_MESSAGES
    else:
        assert answer.status == 404


@pytest.mark.parametrize(("loses", "problem"), [
    ("user", GONE[2]), ("tag", NO_TAG[2]), ("permission", NO_VHOST[2]), ("write", "write access to exchange"),
])  # fmt: skip
def test_a_move_without_the_right_ends(worker: Api, loses: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.put("/queues/%2F/other")
    worker.publish("q", "1", "2", "3")
    step = Move.step

    def one_step(self: Move, limit: int) -> MoveStep:
        result = step(self, 1)
        losses(worker)[loses]()
        return result

    monkeypatch.setattr(Move, "step", one_step)
    body = {"destination": {"queue": "other"}, "count": 3}
    answer = worker.post("/warren/queues/%2F/q/move", body, user="worker").json
    assert (answer["moved"], answer["messages_ready"]) == (1, 2) and problem in answer["problem"]


# Work in slices


def test_a_binding_stays_after_the_right_is_lost(worker: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_over", lambda self: True)
    for key in range(2 * TURNS):
        assert worker.post("/bindings/%2F/e/amq.direct/q/q", {"routing_key": f"{key}"}).status == 201
    last = f"/bindings/%2F/e/amq.direct/q/q/{2 * TURNS - 1}"
    answer = asked(web_of, "DELETE", last, None, "worker", losses(worker)["tag"])
    assert answer.error == NO_TAG and worker.get(last).status == 200


def test_unacked_messages_need_the_right(worker: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_over", lambda self: True)
    worker.publish("q", *[str(number) for number in range(2 * TURNS)])
    channel = worker.peer.connect().channel()
    for _ in range(2 * TURNS):
        channel.get("q", no_ack=False)
    users = worker.peer.node.users
    change = partial(users.set_permission, "worker", "/", ".*", ".*", "")
    answer = asked(web_of, "GET", "/warren/queues/%2F/q/unacked", None, "worker", change)
    assert answer.error == (401, "not_authorised", "Access refused.")


def test_all_connections_of_a_user_are_closed(api: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSED_AT_ONCE", 1)
    api.peer.add_user("boss", ("administrator",))
    for _ in range(3):
        api.peer.connect()
    close = api.host.close_connection
    closed = []

    def close_and_demote(*arguments: Any) -> None:
        close(*arguments)
        closed.append(arguments)
        set_tags(api.peer.node.users, "boss", ["management"])

    monkeypatch.setattr(api.host, "close_connection", close_and_demote)
    assert api.delete("/connections/username/guest", user="boss").status == 204 and len(closed) == 3
    assert api.delete("/connections/username/guest", user="boss").status == 401


# Lists


def answers_with_loss(
    api: Api, web: HTTPAPI, monkeypatch: pytest.MonkeyPatch, restore: Change, lose: Change, by: str
) -> dict[str, int]:
    """Return the status of each route that reads whose user loses a right before the response is made, in a turn after
    `by`, a method of HTTPAPI or Request. Each slice of work is a turn.
    """
    monkeypatch.setattr(Turn, "is_over", lambda self: True)
    lost = False
    found: dict[str, int] = {}

    def lose_once() -> None:
        nonlocal lost
        lost = lost or bool(lose()) or True

    owner = HTTPAPI if by == "_handle" else Request
    begin, handle = getattr(owner, by), HTTPAPI._handle

    def and_lose(*arguments: Any) -> Any:
        asyncio.get_running_loop().call_soon(lose_once)
        return begin(*arguments)

    monkeypatch.setattr(owner, by, and_lose)
    inner = and_lose if by == "_handle" else handle
    in_time = False

    async def noted(*arguments: Any) -> Any:
        nonlocal in_time
        try:
            return await inner(*arguments)
        finally:
            in_time = lost

    monkeypatch.setattr(HTTPAPI, "_handle", noted)
    for route in readable():
        if route.path in STREAMS or route.guard is NONE:
            continue
        restore()
        lost = in_time = False
        answer = asyncio.run(call_application(web, *asgi_scope("GET", path_of(api, route), user="worker")))
        if in_time:
            found[route.path] = answer.status
    return found


LISTS = {"/queues", "/queues/detailed", "/bindings", "/exchanges", "/policies", "/operator-policies", "/parameters"}


@pytest.mark.parametrize("tag", ["policymaker", "monitoring"])
def test_no_list_has_a_lost_vhost(prepared: Api, web_of: HTTPAPI, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.peer.add_user("worker", (tag,))
    users = prepared.peer.node.users
    restore = partial(users.set_permission, "worker", "/", ".*", ".*", ".*")
    lose = partial(users.clear_permission, "worker", "/")
    found = answers_with_loss(prepared, web_of, monkeypatch, restore, lose, "_vhosts")
    if tag == "policymaker":
        assert set(found) >= LISTS | {"/consumers", "/consumers/{vhost}", "/vhosts", "/vhost-limits", "/overview"}
        assert {path for path, status in found.items() if status not in (401, 503)} == set()
    else:  # lists of all virtual hosts are not concerned
        assert {found[path] for path in LISTS - {"/parameters"}} == {503} and found["/vhosts"] == 200


def test_no_response_is_of_a_former_tag(prepared: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.peer.add_user("worker")
    users = prepared.peer.node.users
    restore, lose = (partial(set_tags, users, "worker", [tag]) for tag in ("monitoring", "management"))
    found = answers_with_loss(prepared, web_of, monkeypatch, restore, lose, "_handle")
    assert set(found) >= LISTS - {"/parameters"} | {"/connections", "/channels", "/consumers", "/vhosts", "/overview"}
    assert {path for path, status in found.items() if status not in (401, 503)} == set()


def test_a_list_may_have_parts_of_a_lost_vhost(worker: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_over", lambda self: True)
    node = worker.peer.node
    node.add_vhost("v")
    node.users.set_permission("worker", "v", ".*", ".*", ".*")
    answer = asked(web_of, "GET", "/exchanges", None, "worker", lambda: node.delete_vhost("v"), turns=5)
    assert answer.status == 200
