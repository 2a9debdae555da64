"""Recording of the durable topology and its restoring at a restart."""

import json
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from tests.support.clock import FakeClock
from tests.support.queues import routed
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.access.users import Users
from warren.broker.core.definitions.definition_recorder import COUNTED, DefinitionRecorder
from warren.broker.core.definitions.restore import Restored, restore
from warren.broker.core.exchanges.exchange_context import Emission
from warren.broker.core.exchanges.fanout import FanoutExchange
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.metadata.records import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
    first_definitions,
)
from warren.broker.core.metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT
from warren.broker.core.node.node import Node
from warren.broker.core.policies.policies import OPERATOR_POLICY
from warren.broker.core.vhost.vhost import EVENT, PREDECLARED, VHost
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

HEADERS = Table.of({"x-match": "any", "colour": "red"})


class RecordingJournal(Journal):
    """A journal that keeps changes in the order in which they were recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []

    def change(self, change: Change) -> None:
        self.changes.append(change)

    def take(self) -> list[tuple[object, ...]]:
        """Return the changes since the last call."""
        changes, self.changes = self.changes, []
        return [("+" if change.put else "-", *shown(change.record)) for change in changes]


class Presence(FanoutExchange):
    """An exchange type that publishes new bindings, and refuses one of them."""

    __slots__ = ()

    def on_bind(self, binding):  # type: ignore[no-untyped-def]
        super().on_bind(binding)
        return [Emission([binding.destination], [framed(RoutingAddress(self.name, "bound"), Properties(), b"")])]


def shown(record: Record) -> tuple[object, ...]:
    """Return kind and names, as in `exchange, /, e`."""
    names = [value for value in (getattr(record, slot) for slot in record.__slots__) if isinstance(value, (str, int))]
    return (type(record).__name__.removeprefix("Stored").lower(), *names)


def empty_node() -> tuple[Node, RecordingJournal]:
    journal = RecordingJournal()
    return Node("n", "n", FakeClock(), journal, Users(frozenset())), journal


@pytest.fixture
def node() -> Node:
    made, _ = empty_node()
    made.add_vhost("/")
    made.observers.add(DefinitionRecorder(made, []))
    return made


@pytest.fixture
def vhost(node: Node) -> VHost:
    return node.vhosts["/"]


@pytest.fixture
def journal(node: Node) -> RecordingJournal:
    assert isinstance(node.journal, RecordingJournal)
    return node.journal


def declare(vhost: VHost, name: str, durable: bool = True, exclusive: bool = False) -> None:
    vhost.declare_queue(name, durable=durable, exclusive=exclusive, owner=object() if exclusive else None)


def exchange(vhost: VHost, name: str, type_: str = "fanout", durable: bool = True, auto_delete: bool = False) -> None:
    vhost.declare_exchange(name, type_, durable=durable, auto_delete=auto_delete)


def bind(vhost: VHost, source: str, queue: str, key: str = "", arguments: Table = Table.EMPTY) -> None:
    vhost.bind(source, vhost.queues[queue], key, arguments)


# Recording


def test_each_kind_of_record_counts_on_a_full_disk_unless_only_administrators_create_it() -> None:
    of_administrators = {StoredVHost, StoredUser, StoredPermission, StoredTopicPermission}
    assert set(get_args(Record)) - set(COUNTED) == of_administrators


def test_durable_objects_are_recorded_once_and_others_never(vhost: VHost, journal: RecordingJournal) -> None:
    for _ in range(2):
        exchange(vhost, "e")
        exchange(vhost, "passing", durable=False)
        declare(vhost, "q")
        declare(vhost, "passing", durable=False)
        bind(vhost, "e", "q", "k")
    declare(vhost, "mine", exclusive=True)
    assert journal.take() == [
        ("+", "exchange", "/", "e", "fanout", True, False, False, 0, ""),
        ("+", "queue", "/", "q", 1, False),
        ("+", "binding", "/", "e", "queue", "q", "k"),
    ]
    for _ in range(2):
        vhost.unbind("e", vhost.queues["q"], "k", Table.EMPTY)
    for name in ("mine", "passing", "q"):
        vhost.delete_queue(vhost.queues[name])
    vhost.delete_exchange("e")
    vhost.delete_exchange("passing")
    vhost.delete_exchange("missing")
    assert journal.take() == [
        ("-", "binding", "/", "e", "queue", "q", "k"),
        ("-", "queue", "/", "q", 1, False),
        ("-", "exchange", "/", "e", "fanout", True, False, False, 0, ""),
    ]


def test_deleting_a_queue_or_exchange_deletes_its_bindings(vhost: VHost, journal: RecordingJournal) -> None:
    for name in ("q", "other"):
        declare(vhost, name)
    exchange(vhost, "auto", auto_delete=True)
    exchange(vhost, "e")
    bind(vhost, "auto", "q", "a")
    bind(vhost, "e", "q", "b")
    bind(vhost, "e", "other", "c")
    vhost.bind("amq.topic", vhost.exchanges["e"], "d", Table.EMPTY)
    journal.take()
    vhost.delete_queue(vhost.queues["q"])
    assert journal.take() == [
        ("-", "binding", "/", "auto", "queue", "q", "a"),
        ("-", "binding", "/", "e", "queue", "q", "b"),
        ("-", "exchange", "/", "auto", "fanout", True, True, False, 0, ""),
        ("-", "queue", "/", "q", 1, False),
    ]
    vhost.delete_exchange("e")
    assert journal.take() == [
        ("-", "binding", "/", "e", "queue", "other", "c"),
        ("-", "binding", "/", "amq.topic", "exchange", "e", "d"),
        ("-", "exchange", "/", "e", "fanout", True, False, False, 0, ""),
    ]


# Restoring


Topology = set[tuple[object, ...]]


def topology(node: Node, durable_only: bool) -> Topology:
    """Return all objects, except for predeclared exchanges."""
    found: Topology = set()
    predeclared = {EVENT, *(name for name, _, _ in PREDECLARED)}
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            if queue.durable or not durable_only:
                found.add((vhost.name, queue.name, queue.number, queue.auto_delete, queue.arguments, queue.owner))
        for made in vhost.exchanges.values():
            if made.name not in predeclared and (made.durable or not durable_only):
                flags = (made.durable, made.auto_delete, made.internal)
                found.add((vhost.name, made.name, made.type_name, flags, made.arguments))
            for key, binding in made.outgoing.items():
                end = binding.destination
                there = vhost.queues if end.kind == "queue" else vhost.exchanges
                assert there[end.name] is end and end.incoming[key] is binding  # type: ignore[attr-defined]
                if (made.durable and end.durable) or not durable_only:  # type: ignore[attr-defined]
                    found.add((vhost.name, key, binding.routing_key, binding.arguments))
    return found


class Deeds:
    """Random changes of a topology, durable and transient."""

    def __init__(self, node: Node, random: Random) -> None:
        self.node = node
        self.random = random

    def do(self) -> None:
        random = self.random
        vhost = self.node.vhosts[random.choice(sorted(self.node.vhosts))]
        name = f"{random.choice('abcdef')}\udcff\0"
        fresh = f"{name}{random.choice('12')}"
        end = random.choice([*vhost.queues.values(), *vhost.exchanges.values()])
        source = random.choice([one for one in vhost.exchanges if one])
        arguments = random.choice((Table.EMPTY, HEADERS))
        key = random.choice(("", "a.b", "#"))
        match random.randrange(6):
            case 0 if name not in vhost.queues:
                owner = random.choice((None, None, self))
                vhost.declare_queue(
                    name,
                    durable=random.random() < 0.7,
                    exclusive=owner is not None,
                    auto_delete=key == "",
                    arguments=arguments,
                    owner=owner,
                )
            case 1 if fresh not in vhost.exchanges:
                type_ = random.choice(("direct", "fanout", "topic", "headers"))
                durable, auto_delete, internal = (random.random() < chance for chance in (0.7, 0.3, 0.3))
                vhost.declare_exchange(
                    fresh, type_, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
                )
            case 2 | 3 if end.name not in ("", "amq.rabbitmq.trace"):
                vhost.bind(source, end, key, arguments)
            case 4 if random.random() < 0.3 and end is vhost.queues.get(end.name):
                vhost.delete_queue(vhost.queues[end.name])
            case 4 if random.random() < 0.3 and not end.name.startswith("amq.") and end.name:
                vhost.delete_exchange(end.name)
            case 5:
                vhost.unbind(source, end, key, arguments)


@pytest.mark.parametrize("seed", range(15))
def test_durable_objects_exist_after_each_restart_and_no_others(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    metadata = SQLiteMetadata(tmp_path / "meta.sqlite", False)
    metadata.apply(first_definitions("/", [StoredUser("guest", b"hash", ("administrator", "a"))]).changes())
    metadata.apply([Change(True, StoredVHost("other\udcff"))])
    expected: Topology = set()
    highest = 1
    for _ in range(3):
        node, journal = empty_node()
        restored = restore(node, metadata.load())
        assert not restored.lost and not restored.orphans and not journal.take()
        assert topology(node, False) == expected
        assert {queue.number for queue in restored.queues} == {part[2] for part in expected if len(part) == 6}
        assert list(node.vhosts) == ["/", "other\udcff"] and node.numbering.next == highest
        node.observers.add(DefinitionRecorder(node, restored.orphans))
        deeds = Deeds(node, random)
        for _ in range(random.choice((5, 150))):
            deeds.do()
        expected, highest = topology(node, True), node.numbering.next
        metadata.apply(journal.changes)
    metadata.close()


def test_a_restored_binding_routes_and_a_restored_user_may_do_what_was_allowed() -> None:
    node, _ = empty_node()
    definitions = first_definitions("/", [StoredUser("guest", b"hash", ("administrator", "a"))])
    definitions.queues.append(StoredQueue("/", "q", 5, False, b""))
    definitions.bindings.append(StoredBinding("/", "amq.topic", "queue", "q", "a.*", b""))
    definitions.next_queue = 9
    restore(node, definitions)
    vhost = node.vhosts["/"]
    assert routed(vhost, vhost.exchanges["amq.topic"], ("a.b",), None).targets == (vhost.queues["q"],)
    declare(vhost, "new")
    assert (vhost.queues["q"].number, vhost.queues["new"].number) == (5, 9)
    user = node.users.get("guest")
    assert user is not None and user.password_hash == b"hash" and user.tags == ("administrator", "a")
    assert user.permissions["/"].allows("configure", "anything") and list(user.permissions) == ["/"]


def broken() -> Definitions:
    """Return definitions of each kind that cannot be restored, and some that can."""
    definitions = first_definitions("/", [StoredUser("guest", b"hash", ())])
    definitions.permissions += [
        StoredPermission("nobody", "/", "", "", ""),
        StoredPermission("guest", "other", "(", "", ""),
    ]
    for name, vhost, type_ in (("lost", "/", "x-gone"), ("astray", "none", "fanout"), ("kept", "/", "fanout")):
        definitions.exchanges.append(StoredExchange(vhost, name, type_, True, False, False, b""))
    wrong = Table.of({"x-expires": "soon"}).raw
    for number, (name, raw) in enumerate((("bad", wrong), ("torn", b"\x05ab"), ("kept", b"")), 1):
        definitions.queues.append(StoredQueue("/", name, number, False, raw))
    for source, queue in (("lost", "kept"), ("kept", "bad"), ("kept", "kept"), ("amq.topic", "kept")):
        definitions.bindings.append(StoredBinding("/", source, "queue", queue, "k", b""))
    definitions.next_queue = 4
    return definitions


def restored_broken() -> tuple[Node, RecordingJournal, Restored]:
    node, journal = empty_node()
    return node, journal, restore(node, broken())


def test_definitions_that_cannot_be_restored_are_reported_and_all_others_restored() -> None:
    node, journal, restored = restored_broken()
    vhost = node.vhosts["/"]
    assert [loss.text.partition(":")[0] for loss in restored.lost] == [
        "permission of user 'nobody' in vhost '/'",
        "permission of user 'guest' in vhost 'other'",
        "exchange 'lost' in vhost '/'",
        "exchange 'astray' in vhost 'none'",
        "queue 'bad' in vhost '/'",
        "queue 'torn' in vhost '/'",
        "binding of exchange 'lost' to queue 'kept' in vhost '/'",
        "binding of exchange 'kept' to queue 'bad' in vhost '/'",
    ]
    assert restored.lost[2].text.endswith(": unknown exchange type 'x-gone'")
    assert list(vhost.queues) == ["kept"] and vhost.queues["kept"].number == 3
    assert [queue.name for queue in restored.queues] == ["kept"]
    assert len(vhost.queues["kept"].incoming) == 2 and "kept" in vhost.exchanges
    assert not journal.take(), "a lost definition may be restorable at another start"


def operator_policy(pattern: str) -> Definitions:
    """Return a stored operator policy, and a queue to which it applies."""
    definitions = first_definitions("/", [StoredUser("guest", b"hash", ())])
    value = {"pattern": pattern, "definition": {"max-length": 5}, "priority": 0, "apply-to": "queues"}
    definitions.parameters.append(StoredParameter("/", OPERATOR_POLICY, "short", json.dumps(value)))
    definitions.queues.append(StoredQueue("/", "tenant.q", 1, False, b""))
    return definitions


@pytest.mark.parametrize("pattern", ["(?x)(?:(?:(?:ab){200}) {200}) {200}", "(?a)^tenant\\.+"])
def test_losses_are_reported_until_the_object_exists_again(pattern: str) -> None:
    node, _ = empty_node()
    restore(node, operator_policy(pattern))
    (line,) = node.not_restored()
    assert line.startswith("operator_policy 'short' in vhost '/': ") and "is invalid" in line
    vhost = node.vhosts["/"]
    assert "tenant.q" in vhost.queues
    with pytest.raises(PreconditionFailed, match=r"'short' could not be restored .* has to be set anew"):
        declare(vhost, "new")
    node.policies.set("/", "short", "^tenant\\.", {"max-length": 6}, 0, "queues", operator=True)
    assert not node.not_restored()
    declare(vhost, "new")


def test_a_recreated_vhost_has_no_lost_policies() -> None:
    node, _ = empty_node()
    restore(node, operator_policy("(?x)(?:(?:(?:ab){200}) {200}) {200}"))
    node.delete_vhost("/")
    declare(node.add_vhost("/"), "new")


def test_each_kind_of_loss_ends_when_the_object_is_created_again() -> None:
    node, _, restored = restored_broken()
    assert len(restored.lost) == 8 and len(node.not_restored()) == 5, "three need a deleted user or vhost"
    vhost = node.vhosts["/"]
    exchange(vhost, "lost")
    declare(vhost, "bad")
    declare(vhost, "torn")
    assert not node.not_restored()


def test_an_object_with_the_name_of_a_lost_one_does_not_get_its_bindings() -> None:
    node, journal, restored = restored_broken()
    node.observers.add(DefinitionRecorder(node, restored.orphans))
    vhost = node.vhosts["/"]
    exchange(vhost, "lost")
    declare(vhost, "bad")
    assert journal.take() == [
        ("-", "binding", "/", "lost", "queue", "kept", "k"),
        ("+", "exchange", "/", "lost", "fanout", True, False, False, 0, ""),
        ("-", "binding", "/", "kept", "queue", "bad", "k"),
        ("+", "queue", "/", "bad", 4, False),
    ]
    bind(vhost, "lost", "kept", "k")
    vhost.delete_exchange("lost")
    exchange(vhost, "lost")
    assert [change[:2] for change in journal.take()] == [
        ("+", "binding"), ("-", "binding"), ("-", "exchange"), ("+", "exchange"),
    ]  # fmt: skip


def test_a_binding_of_a_lost_object_is_deleted_with_its_other_end() -> None:
    node, journal, restored = restored_broken()
    node.observers.add(DefinitionRecorder(node, restored.orphans))
    vhost = node.vhosts["/"]
    vhost.delete_queue(vhost.queues["kept"])
    assert ("-", "binding", "/", "lost", "queue", "kept", "k") in journal.take()


def test_restoring_notifies_no_observer() -> None:
    node, journal = empty_node()
    node.registry.register("x-presence", Presence)
    definitions = first_definitions("/", [])
    definitions.exchanges.append(StoredExchange("/", "here", "x-presence", True, False, False, b""))
    definitions.queues.append(StoredQueue("/", "q", 1, False, b""))
    definitions.bindings.append(StoredBinding("/", "here", "queue", "q", "", b""))
    assert not restore(node, definitions).lost
    assert not node.vhosts["/"].queues["q"].ready and not journal.take()
    assert len(node.vhosts["/"].queues["q"].incoming) == 1


def test_an_interrupted_import_is_reported_until_its_mark_is_cleared() -> None:
    node, _ = empty_node()
    definitions = operator_policy("^tenant")
    definitions.global_parameters.append(StoredGlobalParameter(UNFINISHED_IMPORT, "1700000000"))
    restore(node, definitions)
    (line,) = node.not_restored()
    assert line == f"the rest of an import of definitions, which a crash has interrupted: {ADVICE}"
    node.parameters.clear_global(UNFINISHED_IMPORT)
    assert not node.not_restored()
