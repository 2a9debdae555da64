"""Imports into a running broker: in slices, one at a time, to the end."""

import asyncio
import contextlib
import gc
import json
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests.support.definitions import new_node
from tests.support.polling import until_async
from warren.broker.amqp.errors import AccessRefused, Invalid, NotNow
from warren.broker.core.definitions.entry import DefinitionEntry
from warren.broker.core.definitions.importer import DefinitionsImport, Permits, begin_import
from warren.broker.core.metadata.records import StoredUser
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT, digest_of, marks_of
from warren.broker.core.node.node import Node
from warren.broker.core.telemetry.resource_alarms import MEMORY
from warren.broker.operator import definition_import
from warren.broker.operator.definition_import import Decoded, Imports, Undecoded
from warren.broker.runtime.supervisor import Supervisor

TURNS = 200  # more than any import here takes


def document(count: int = 20, vhost: str = "v") -> dict[str, Any]:
    return {"vhosts": [{"name": vhost}], "queues": [{"vhost": vhost, "name": f"q{each}"} for each in range(count)]}


def queues_of(node: Node) -> int:
    return len(node.vhosts["v"].queues) if "v" in node.vhosts else 0


@pytest.fixture(autouse=True)
def slices_of_one_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(definition_import, "SLICE_S", 0.0)
    yield


def run(work: Callable[[Node, Imports], Coroutine[Any, Any, None]]) -> Node:
    node = new_node()

    def acting(actor: str) -> AbstractContextManager[None]:
        assert actor == "alice"
        return nullcontext()

    def check_alarms() -> None:
        if MEMORY in node.alarms.on():
            raise NotNow(node.alarms.reason)

    def no_failures(event: str, level: str, fields: dict[str, object]) -> None:
        raise AssertionError(event)

    async def main() -> None:
        supervisor = Supervisor(no_failures)
        async with asyncio.timeout(60):
            await work(node, Imports(node, supervisor, acting, check_alarms))
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert not any(one["running"] for one in supervisor.status())

    asyncio.run(main())
    return node


def test_others_are_served_between_the_steps_of_an_import() -> None:
    seen: set[int] = set()

    async def work(node: Node, imports: Imports) -> None:
        task = asyncio.ensure_future(imports.run(document(), None, "alice"))
        for _ in range(TURNS):
            seen.add(queues_of(node))
            await asyncio.sleep(0)
        assert (await task).warnings == []

    assert queues_of(run(work)) == 20
    assert seen == set(range(21))


def test_a_part_of_an_import_is_never_stored_without_a_mark() -> None:
    """Slices of no time make each step of the import a batch of the journal, after which a crash may come."""

    async def work(node: Node, imports: Imports) -> None:
        task = asyncio.ensure_future(imports.run(document(), None, "alice"))
        parts = 0
        while not task.done():
            await asyncio.sleep(0)
            marked = UNFINISHED_IMPORT in node.parameters.globals()
            assert marked == imports.under_way and (marked or queues_of(node) in (0, 20))
            parts += marked
        assert parts > 10 and (await task).warnings == []
        assert not imports.under_way and UNFINISHED_IMPORT not in node.parameters.globals()

    run(work)


def test_an_import_that_has_begun_is_finished_without_its_client() -> None:
    async def work(node: Node, imports: Imports) -> None:
        task = asyncio.ensure_future(imports.run(document(), None, "alice"))
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if queues_of(node):
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queues_of(node) < 20

    assert queues_of(run(work)) == 20


def test_an_import_whose_client_leaves_during_the_check_changes_nothing() -> None:
    async def work(node: Node, imports: Imports) -> None:
        task = asyncio.ensure_future(imports.run(document(), None, "alice"))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert not run(work).vhosts


def test_a_second_import_is_checked_after_the_first_has_ended() -> None:
    async def work(node: Node, imports: Imports) -> None:
        binding = {"vhost": "v", "source": "amq.direct", "destination": "q19", "destination_type": "queue"}
        first, second = imports.run(document(), None, "alice"), imports.run({"bindings": [binding]}, None, "alice")
        assert [made.warnings for made in await asyncio.gather(first, second)] == [[], []]

    assert len(run(work).vhosts["v"].exchanges["amq.direct"].outgoing) == 1


def test_a_bad_item_leaves_nothing_behind_and_its_document_is_used_up() -> None:
    async def work(node: Node, imports: Imports) -> None:
        bad = document() | {"permissions": [{"user": "nobody", "vhost": "v"}]}
        with pytest.raises(Invalid, match='User "nobody" does not exist'):
            await imports.run(bad, None, "alice")
        assert bad == {}
        no_list = {"queues": {"q": {"vhost": "v", "name": "q"}}}
        with pytest.raises(Invalid, match="queues should be a list"):
            await imports.run(no_list, None, "alice")
        assert no_list == {}
        assert (await imports.run({}, None, "alice")).warnings == []

    assert not run(work).vhosts


def test_only_an_import_of_the_same_document_into_the_same_place_clears_its_mark() -> None:
    """Each of two imports is interrupted by a bug, and leaves its mark as it would in a crash."""

    async def work(node: Node, imports: Imports) -> None:
        node.add_vhost("v")
        begin_import(node, "one", None)
        begin_import(node, "one", "v")
        begin_import(node, "two", None)
        begin_import(node, "two", None)  # tried again, and interrupted again

        def marked() -> list[tuple[object, object]]:
            marks = marks_of(node.parameters.globals().get(UNFINISHED_IMPORT))
            return [(mark["sha256"], mark["vhost"]) for mark in marks]

        assert marked() == [("one", None), ("one", "v"), ("two", None)]
        await imports.run({}, None, "alice", digest="three")
        await imports.run(document(), None, "alice", digest="four")  # of several turns, with a mark of its own
        assert marked() == [("one", None), ("one", "v"), ("two", None)]
        await imports.run(document(), None, "alice", digest="two")
        await imports.run({}, "v", "alice", digest="one")
        assert marked() == [("one", None)]
        begin_import(node, "one", "v")
        await imports.run(document(vhost="w"), None, "alice", digest="one")
        assert marked() == [("one", "v")]
        await imports.run({}, "v", "alice", digest="one")
        assert UNFINISHED_IMPORT not in node.parameters.globals()

    run(work)


def test_an_import_of_a_whole_document_clears_the_mark_of_one_into_the_only_virtual_host_that_it_names() -> None:
    def queues(*vhosts: str) -> list[dict[str, Any]]:
        return [{"vhost": vhost, "name": "q"} if vhost else {"name": "q"} for vhost in vhosts]

    permission = {"user": "bob", "vhost": "w", "configure": "", "write": "", "read": ""}
    documents: list[tuple[dict[str, Any], list[str]]] = [
        ({"queues": queues("v")}, ["w"]),
        ({"queues": queues("v"), "bindings": [], "permissions": [permission]}, ["w"]),
        ({"queues": queues("v"), "policies": queues("w")}, ["v", "w"]),
        ({"queues": queues("v", "unknown")}, ["v", "w"]),
        ({"queues": queues("v", "")}, ["v", "w"]),
        ({}, []),
    ]

    async def work(node: Node, imports: Imports) -> None:
        node.users.add("bob")
        for name in ("v", "w"):
            node.add_vhost(name)
        for given, left in documents:
            for name in ("v", "w"):
                begin_import(node, "one", name)
            await imports.run(given, None, "alice", leave_out=True, digest="one")
            assert [mark["vhost"] for mark in marks_of(node.parameters.globals().get(UNFINISHED_IMPORT))] == left

    run(work)


def test_the_digest_of_a_document_is_that_of_its_text_without_blanks() -> None:
    value = {"queues": [{"name": "q"}]}
    texts = [json.dumps(value), json.dumps(value, indent=2) + "\r\n", json.dumps(value, separators=(",", ":"))]
    assert len({digest_of(text.encode()) for text in texts}) == 1
    assert digest_of(b"{}") != digest_of(b"[]")


def test_a_mark_of_an_earlier_version_stays_until_it_is_cleared_by_hand() -> None:
    async def work(node: Node, imports: Imports) -> None:
        node.parameters.set_global(UNFINISHED_IMPORT, 1_700_000_000)
        await imports.run(document(), None, "alice", digest="one")
        assert UNFINISHED_IMPORT in node.parameters.globals()

    run(work)


def test_an_import_that_has_begun_is_completed_although_memory_gets_low() -> None:
    async def work(node: Node, imports: Imports) -> None:
        task = asyncio.ensure_future(imports.run(document(), None, "alice"))
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if queues_of(node) == 10:
                break
        node.alarms.set(MEMORY)
        assert imports.under_way and (await task).warnings == []

    assert queues_of(run(work)) == 20


def test_an_import_behind_another_one_checks_the_rights_of_its_user_again() -> None:
    async def work(node: Node, imports: Imports) -> None:
        allowed = True

        def check_actor() -> None:
            if not allowed:
                raise AccessRefused("the user is gone")

        first = asyncio.ensure_future(imports.run(document(), None, "alice"))
        users = {"users": [{"name": "bob", "password_hash": "", "tags": ""}]}
        second = asyncio.ensure_future(imports.run(users, None, "alice", check_actor=check_actor))
        await asyncio.sleep(0)
        allowed = False
        await first
        with pytest.raises(AccessRefused):
            await second
        assert node.users.get("bob") is None

    run(work)


def test_an_import_of_new_objects_is_refused_for_now_while_memory_is_low() -> None:
    async def work(node: Node, imports: Imports) -> None:
        await imports.run(document(), None, "alice")
        node.alarms.set(MEMORY)
        with pytest.raises(NotNow, match="low on memory"):
            await imports.run(document(21), None, "alice")
        binding = {"vhost": "v", "source": "amq.direct", "destination": "q1", "destination_type": "queue"}
        with pytest.raises(NotNow):
            await imports.run({"bindings": [dict(binding)]}, None, "alice")
        node.alarms.clear(MEMORY)
        await imports.run({"bindings": [dict(binding)]}, None, "alice")
        node.alarms.set(MEMORY)
        user = {"name": "bob", "password_hash": "", "tags": ""}
        await imports.run(document() | {"bindings": [dict(binding)], "users": [user]}, None, "alice")
        assert node.users.get("bob") is not None, "nothing but what exists is declared"

    run(work)


class Document(dict[str, Any]):
    """A document that can be referred to weakly."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """References to the plans, and to what else the test adds, while the garbage collector is off."""
    found: list[weakref.ref[Any]] = []

    class Watched(DefinitionsImport):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(weakref.ref(self))

    monkeypatch.setattr(definition_import, "DefinitionsImport", Watched)
    gc.collect()
    gc.disable()
    yield found
    gc.enable()


async def are_freed(kept: list[weakref.ref[Any]]) -> bool:
    for _ in range(TURNS):
        await asyncio.sleep(0)
    return all(ref() is None for ref in kept)


class Refusing(Permits):
    def check_user(self, old: StoredUser, new: StoredUser) -> None:
        raise AccessRefused("another may")


def test_a_refused_import_is_freed_without_the_garbage_collector(kept: list[weakref.ref[Any]]) -> None:
    def refuse() -> None:
        raise AccessRefused("the user is gone")

    async def refused(imports: Imports, error: type[Exception], more: dict[str, Any], **checks: Any) -> None:
        given = Document(document() | more)
        kept.append(weakref.ref(given))
        with contextlib.suppress(error):  # pytest.raises keeps the error
            await imports.run(given, None, "alice", **checks)
            raise AssertionError(error)

    async def work(node: Node, imports: Imports) -> None:
        await refused(imports, AccessRefused, {}, check_actor=refuse)
        users = {"users": [{"name": "bob", "password_hash": "", "tags": ""}] * 2}
        await refused(imports, AccessRefused, users, permits=Refusing())
        await refused(imports, Invalid, {"bindings": [{"vhost": "v"}]})
        node.alarms.set(MEMORY)
        await refused(imports, NotNow, {})
        assert len(kept) == 8 and await are_freed(kept)

    run(work)


@pytest.mark.parametrize(("checked_only", "turns"), [(False, 2), (False, 10), *((True, turns) for turns in range(30))])
def test_an_import_or_a_check_that_is_cancelled_is_freed_without_the_garbage_collector(
    kept: list[weakref.ref[Any]], checked_only: bool, turns: int
) -> None:
    async def work(node: Node, imports: Imports) -> None:
        given, waiting = Document(document()), Document(document())
        kept.extend([weakref.ref(given), weakref.ref(waiting)])
        tasks = [
            asyncio.ensure_future(imports.check(one, None) if checked_only else imports.run(one, None, "alice"))
            for one in (given, waiting)
        ]
        sections = [*given.values(), *waiting.values()]
        del given, waiting
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        del task, tasks
        assert await are_freed(kept)
        assert turns == 0 or sections == [[]] * 4, "in steps, if their tasks have begun"

    assert not run(work).vhosts


def test_an_import_that_fails_by_a_bug_is_freed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    given = document()

    def fail(plan: DefinitionsImport, item: DefinitionEntry) -> None:
        if item.fields["name"] == "q9":
            raise ZeroDivisionError

    monkeypatch.setattr(DefinitionsImport, "_queue", fail)

    async def work() -> None:
        reports: list[str] = []
        supervisor = Supervisor(lambda event, level, fields: reports.append(event))
        imports = Imports(new_node(), supervisor, lambda actor: nullcontext(), lambda: None)
        with pytest.raises(ZeroDivisionError):
            await imports.run(given, None, "alice")
        assert reports == ["task_failed"]

    asyncio.run(work())
    assert given == {}


def test_texts_whose_clients_have_left_are_not_decoded_and_none_is_before_the_one_before_it_is_freed() -> None:
    begun, free = threading.Event(), threading.Event()
    first: dict[str, Any] = {"queues": [{} for _ in range(2_000)]}
    decodings: list[int] = []

    def decode_first() -> Decoded:
        begun.set()
        assert free.wait(60)
        return first, ""

    def decode() -> Decoded:
        decodings.append(len(first))
        return document(), ""

    async def work(node: Node, imports: Imports) -> None:
        asking = [asyncio.ensure_future(imports.check(Undecoded(decode_first, 1), None))]
        await until_async(begun.is_set)
        assert imports.has_document()
        asking += [asyncio.ensure_future(imports.check(Undecoded(decode, 1), None)) for _ in range(9)]
        await asyncio.sleep(0)
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)
        last = asyncio.ensure_future(imports.run(Undecoded(decode, 1), None, "alice"))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert not decodings
        free.set()
        assert (await last).warnings == []
        assert not imports.has_document()

    assert queues_of(run(work)) == 20
    assert decodings == [0], "when the first document was freed"


def test_texts_wait_up_to_a_number_of_bytes_and_a_longer_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition_import, "WAITING_BYTES", 100)
    begun, free = threading.Event(), threading.Event()

    def decode() -> Decoded:
        begun.set()
        assert free.wait(60)
        return {}, ""

    async def work(node: Node, imports: Imports) -> None:
        first = asyncio.ensure_future(imports.check(Undecoded(decode, 60), None))
        await until_async(begun.is_set)
        left = asyncio.ensure_future(imports.check(Undecoded(decode, 40), None))
        await asyncio.sleep(0)
        with pytest.raises(NotNow, match="wait to be imported"):
            await imports.check(Undecoded(decode, 1), None)
        left.cancel()
        await asyncio.wait([left])
        small = asyncio.ensure_future(imports.check({}, None))
        waiting = asyncio.ensure_future(imports.check(Undecoded(decode, 40), None))
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(first, waiting, small)
        assert (await imports.check(Undecoded(decode, 101), None)).warnings == []

    run(work)


def test_a_user_who_loses_the_right_while_a_text_is_decoded_is_refused() -> None:
    def refuse() -> None:
        raise AccessRefused("the user is gone")

    given = document()

    async def work(node: Node, imports: Imports) -> None:
        for call in (imports.check, imports.run):
            more = ("alice",) if call == imports.run else ()
            with pytest.raises(AccessRefused):
                await call(Undecoded(lambda: (given, ""), 1), None, *more, check_actor=refuse)  # type: ignore[operator]
            assert not given

    run(work)
