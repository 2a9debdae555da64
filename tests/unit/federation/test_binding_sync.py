"""Binding synchronisation: which binds and unbinds a link sends, and in which order."""

import time
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.observer import Observer
from warren.federation import binding_set, binding_sync
from warren.federation.binding_set import ExchangeBindings
from warren.federation.binding_sync import BindingSync
from warren.federation.hop_headers import as_array, as_table
from warren.federation.link_settings import link_settings
from warren.federation.link_spec import LinkKey, LinkSpec
from warren.federation.link_status import LinkStatus
from warren.federation.upstream.turns import COMPARED

Sent = list[tuple[str, str, str, str]]
Items = Iterable[tuple[str, Table] | int]


class RecordingChannel:
    """A channel to an upstream that only notes what it is to send. `meanwhile` is called once, when it is to wait."""

    def __init__(self) -> None:
        self.sent: Sent = []
        self.arguments: list[Table] = []
        self.meanwhile: Callable[[], None] | None = None

    async def bind_many(self, to: str, source: str, items: Items, nowait: bool = False, unbind: bool = False) -> None:
        self._note("unbind" if unbind else "bind", to, source, items)

    def _note(self, what: str, to: str, source: str, items: Items) -> None:
        for item in items:
            if isinstance(item, int):
                self._wait()
                continue
            key, arguments = item
            self.sent.append((what, source, to, key))
            self.arguments.append(arguments)

    def _wait(self) -> None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()

    def take(self) -> list[tuple[str, str]]:
        sent, self.sent = self.sent, []
        return [(what, key) for what, _, _, key in sent]


class Scene:
    """The exchange x with two queues, and the channel and status of its link."""

    def __init__(self) -> None:
        self.vhost = new_node(SlowJournal()).vhosts["/"]
        self.vhost.declare_exchange("x", "topic", durable=True)
        for name in ("q1", "q2"):
            self.vhost.declare_queue(name, durable=True)
        self.channel = RecordingChannel()
        self.status = LinkStatus(time.time, lambda: None)

    def synchronise(self, max_hops: int = 1) -> BindingSync:
        """Return a synchronisation that follows the exchange x."""
        bindings = ExchangeBindings(self.vhost.exchanges["x"])
        for _ in bindings.read():
            pass
        settings = link_settings("up", {"uri": "amqp://there", "max-hops": max_hops})
        spec = LinkSpec(LinkKey("/", "exchange", "x", "up", "there.x"), settings, "")
        upstream, internal = ("up-cluster", "/"), ("federation: x B", "B")
        channel = cast(Any, self.channel)
        sync = BindingSync(bindings, spec, "here", self.status, channel, upstream, internal, False)

        class Follower(Observer):
            def binding_added(self, _: str, binding: Any) -> None:
                bindings.change(binding, True)

            def binding_removed(self, _: str, binding: Any) -> None:
                bindings.change(binding, False)

        self.vhost._observers.add(Follower())  # those of its node
        return sync

    async def synchronised(self) -> BindingSync:
        """Return a synchronisation that has sent all present bindings."""
        sync = self.synchronise()
        await sync.send()
        self.channel.take()
        return sync

    def bind(self, key: str, queue: str = "q1", arguments: Table = Table.EMPTY) -> None:
        self.vhost.bind("x", self.vhost.queues[queue], key, arguments)

    def unbind(self, key: str, queue: str = "q1") -> None:
        self.vhost.unbind("x", self.vhost.queues[queue], key, Table.EMPTY)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_the_present_bindings_are_sent_first_equal_ones_once(scene: Scene) -> None:
    scene.bind("a")
    scene.bind("a", "q2")
    scene.bind("b")
    await scene.synchronise().send()
    assert scene.channel.sent == [("bind", "there.x", "federation: x B", key) for key in "ab"]
    assert scene.status.bindings == 2


async def test_changes_are_sent_and_new_bindings_before_deleted_ones(scene: Scene) -> None:
    scene.bind("old")
    sync = await scene.synchronised()
    scene.unbind("old")
    scene.bind("new")
    await sync.send()
    assert scene.channel.take() == [("bind", "new"), ("unbind", "old")]
    assert scene.status.bindings == 1


async def test_a_binding_that_is_deleted_before_it_is_sent_is_not_sent(scene: Scene) -> None:
    scene.bind("kept")
    sync = await scene.synchronised()
    scene.bind("short")
    scene.unbind("short")
    scene.unbind("kept")
    scene.bind("kept")
    await sync.send()
    assert scene.channel.take() == []


async def test_bindings_are_sent_again_without_deleted_ones(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding_sync, "RESEND_LIMIT", 2)
    for key in "abc":
        scene.bind(key)
    sync = scene.synchronise()
    await sync.send()
    rounds = []
    for _ in range(3):
        scene.channel.take()
        sync.resend_some()
        await sync.send()
        rounds.append(scene.channel.take())
    assert rounds == [[("bind", "a"), ("bind", "b")], [("bind", "c")], [("bind", "a"), ("bind", "b")]]
    assert scene.status.bindings == 3
    sync.resend_some()
    scene.unbind("c")
    await sync.send()
    assert scene.channel.take() == [("unbind", "c")]


async def test_bindings_carry_where_they_come_from_and_stop_where_hops_end(scene: Scene) -> None:
    scene.bind("near")
    await scene.synchronise(max_hops=0).send()
    assert scene.channel.take() == [] and scene.status.bindings == 0
    await scene.synchronise(max_hops=2).send()
    assert scene.channel.take() == [("bind", "near")]
    (entry,) = as_array(scene.channel.arguments[-1].get("x-bound-from")) or []
    fields = as_table(entry)
    assert fields is not None
    assert (fields.text("cluster-name"), fields.text("exchange"), fields.integer("hops")) == ("here", "/:x B", 2)


async def test_a_link_that_missed_too_many_changes_compares_all_bindings(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_set, "CHANGES_BYTES", 1_000)
    for key in "abc":
        scene.bind(key)
    sync = await scene.synchronised()
    scene.unbind("b")
    for number in range(10):
        scene.bind(f"{number}")
    await sync.send()
    assert scene.channel.take() == [*(("bind", f"{number}") for number in range(10)), ("unbind", "b")]
    assert scene.status.bindings == 12


async def test_changes_during_a_send_are_merged_with_unsent_ones(scene: Scene) -> None:
    keys = [f"{number}" for number in range(COMPARED + 3)]
    for key in keys:
        scene.bind(key)
    sync = scene.synchronise()
    sent, unsent = keys[0], keys[COMPARED]

    def meanwhile() -> None:
        assert len(scene.channel.sent) == COMPARED - 1
        scene.unbind(sent)
        scene.unbind(unsent)
        scene.bind("new")
        scene.unbind(keys[1])
        scene.bind(keys[1])  # as it was

    scene.channel.meanwhile = meanwhile
    await sync.send()
    assert scene.channel.take() == [("bind", key) for key in keys if key != unsent]
    await sync.send()
    assert scene.channel.take() == [("bind", "new"), ("unbind", sent)]
    await sync.send()
    assert scene.channel.take() == [] and scene.status.bindings == len(keys) - 1


async def test_a_binding_that_changes_while_it_waits_changes_upstream_in_order(scene: Scene) -> None:
    large = Table.of({"a": "b" * 200})  # for which it waits
    queue = scene.vhost.queues["q1"]
    sync = scene.synchronise()
    scene.bind("k", "q1", large)
    scene.channel.meanwhile = lambda: scene.vhost.unbind("x", queue, "k", large)
    await sync.send()
    await sync.send()
    assert scene.channel.take() == [("bind", "k"), ("unbind", "k")]
    scene.bind("k", "q1", large)
    await sync.send()
    scene.channel.take()
    scene.vhost.unbind("x", queue, "k", large)
    scene.channel.meanwhile = lambda: scene.bind("k", "q1", large)
    await sync.send()
    await sync.send()
    assert scene.channel.take() == [("unbind", "k"), ("bind", "k")]
    assert scene.status.bindings == 1


async def test_what_is_decoded_of_a_binding_is_not_kept(scene: Scene) -> None:
    passed_on = Table.of({"x-bound-from": [{"cluster-name": "far", "vhost": "/", "exchange": "/:y A", "hops": 2}]})
    scene.bind("k", "q1", passed_on)
    (binding,) = scene.vhost.exchanges["x"].outgoing.values()
    binding.arguments = Table(passed_on.raw)  # one that nobody has read
    await scene.synchronise().send()
    assert scene.channel.take() == [("bind", "k")]
    assert binding.arguments.read_cost == 0


async def test_a_change_is_expected_once_until_it_is_sent(scene: Scene) -> None:
    sync = scene.synchronise()
    assert sync.expect() and not sync.expect()
    sync.changed()
    assert not sync.expect()
    await sync.send()
    assert sync.expect()
