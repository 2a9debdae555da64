"""Patterns of policies and permissions hold no turn of the loop, however costly they are to search or compile."""

import asyncio
import threading
import time
from typing import Any

import pytest
from pamqp.commands import Queue

from tests.support import codec
from tests.support.http import Api, request
from tests.support.polling import until_async
from tests.support.speed import within
from warren.broker.core.metadata import patterns
from warren.broker.core.metadata.records import StoredParameter
from warren.broker.core.policies.policies import POLICIES_LIMIT

from .broker import Prompter, StepMeter
from .meter import LIMIT_MS, MANY, TURN_MS, Meter, attempts_within

COSTLY = "^(a|aa|aaa)+N$"
RIGHTS = ("configure", "write", "read")
NAME = "a" * 230 + "!"
PUTS = 24  # more than are kept of those that were compiled last
LONG = "^(" + "|".join([f"name-of-a-queue-{number:04}" for number in range(300)]) + ")$"


@pytest.mark.parametrize("pattern", [COSTLY, "^none$"])
@pytest.mark.parametrize("operator", [False, True])
def test_a_declaration_beside_very_many_policies(api: Api, pattern: str, operator: bool) -> None:
    node, vhost = api.peer.node, api.peer.node.vhosts["/"]
    for number in range(50 if pattern == COSTLY else POLICIES_LIMIT):
        node.policies.set("/", f"p{number}", pattern, {"max-length": 1}, operator=operator)
    if operator and pattern == COSTLY:
        with pytest.raises(Exception, match="takes too long"):
            vhost.declare_queue(NAME)
        return
    for attempt, took_ms in enumerate(attempts_within(TURN_MS)):
        begun_s = time.thread_time()
        vhost.declare_queue(f"{NAME}{attempt}")
        took_ms.append((time.thread_time() - begun_s) * 1000)


def test_a_policy_with_a_costly_pattern_is_applied_in_short_turns(api: Api, meter: Meter) -> None:
    for number in range(200):
        api.peer.node.vhosts["/"].declare_queue(f"{NAME}{number}")
    policy = {"pattern": COSTLY, "definition": {"max-length": 1}}
    assert within(put(api, meter, "/policies/%2F/p", policy), TURN_MS)


def test_a_long_pattern_is_compiled_on_no_turn_of_the_loop(api: Api, meter: Meter) -> None:
    for number, took_ms in enumerate(attempts_within(TURN_MS)):  # each time another one, as the last ones are kept
        policy = {"pattern": LONG.replace("name", f"name{number}"), "definition": {"max-length": 1}}
        took_ms.append(put(api, meter, "/policies/%2F/p", policy))


INVALID = "a|" * 4_000 + r"\g<nope>"  # which the library finds at its end


@pytest.mark.parametrize("pattern", [INVALID, LONG])
@pytest.mark.parametrize("path", ["/policies/%2F/", "/parameters/operator_policy/%2F/"])
def test_a_pattern_that_threads_have_compiled_is_not_compiled_in_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, pattern: str
) -> None:
    """All are compiled before the first of them is handled, and each is refused or set with what was kept of it."""
    compiled: list[str] = []
    compile_pattern = patterns.compile_pattern

    def counted(*arguments: Any) -> Any:
        compiled.append(threading.current_thread().name)
        return compile_pattern(*arguments)

    monkeypatch.setattr(patterns, "compile_pattern", counted)

    async def put_one(number: int) -> int:
        value = {"pattern": f"{path}{number}|{pattern}", "definition": {"max-length": 1}, "priority": 0}
        body = {"value": value} if "parameters" in path else value
        return (await request(api.application, "PUT", f"{path}{number}", body)).status

    async def put_all() -> list[int]:
        async with api.state.bodies:  # which are handled after it
            asking = [asyncio.create_task(put_one(number)) for number in range(PUTS)]
            await until_async(lambda: len(compiled) == PUTS)
        return await asyncio.gather(*asking)

    assert set(asyncio.run(put_all())) == {400 if pattern is INVALID else 201}
    assert len(compiled) == PUTS and threading.main_thread().name not in compiled


@pytest.mark.parametrize("path", ["/permissions/%2F/u", "/topic-permissions/%2F/u", "/users/u"])
def test_long_patterns_of_a_permission_are_compiled_on_no_turn_of_the_loop(api: Api, meter: Meter, path: str) -> None:
    api.peer.node.users.add("u")
    for number, took_ms in enumerate(attempts_within(TURN_MS)):
        given: dict[str, object] = {key: LONG.replace("name", f"{key}{number}") for key in RIGHTS}
        if path == "/users/u":
            given = {"tags": "", "permissions": {"/": given}}
        took_ms.append(put(api, meter, path, {"exchange": "x", **given}))
    user = api.peer.node.users.find("u")
    assert user.topic_permissions["/"]["x"] if "topic" in path else user.permissions["/"]


def test_one_of_very_many_parameters_is_read_and_a_virtual_host_with_all_is_deleted_in_short_turns(
    meter: Meter,
) -> None:
    path = "/parameters/shovel/v/"
    requests = [("GET", f"{path}none", 404), ("DELETE", f"{path}none", 404), ("GET", f"{path}s1", 200)]
    requests.append(("DELETE", "/vhosts/v", 204))

    async def work(api: Api) -> None:
        for method, path, status in requests:
            assert (await request(api.application, method, path)).status == status

    for took_ms in attempts_within(LIMIT_MS):
        api = Api()
        parameters = api.peer.node.parameters
        api.peer.node.add_vhost("v")
        for number in range(MANY):
            parameters.restore(StoredParameter("v", "shovel", f"s{number}", "1"))
        meter.run(work(api))
        took_ms.append(meter.longest_s * 1000)
        assert not parameters.unsorted()


def put(api: Api, meter: Meter, path: str, body: object) -> float:
    response = meter.run(request(api.application, "PUT", path, body))
    assert response.status in (201, 204), response.body
    return meter.longest_s * 1000


def test_declarations_in_one_write_beside_very_many_policies(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        for number in range(POLICIES_LIMIT):
            peer.node.policies.set("/", f"p{number}", f"^none{number}$", {"max-length": 1})
        prompter = Prompter(peer)
        declares = [codec.method_frame(1, Queue.Declare, {"queue": f"q{number}"}) for number in range(60)]
        step_meter.begin()
        prompter.socket.incoming += b"".join(declares)
        peer.settle()
        peer.wait(0)
        assert len(peer.node.vhosts["/"].queues) == 60
