"""Binding synchronisation: which binds and unbinds a link sends, and in which order."""

import time
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.observer import Observer
from warren.broker.core.vhost.vhost import VHost
from warren.federation import binding_set, binding_sync
from warren.federation.binding_set import ExchangeBindings
from warren.federation.binding_sync import BindingSync
from warren.federation.hop_headers import as_array, as_table
from warren.federation.link_settings import link_settings
from warren.federation.link_spec import LinkKey, LinkSpec
from warren.federation.link_status import LinkStatus
from warren.federation.upstream.turns import COMPARED

pytestmark = pytest.mark.asyncio

Sent = list[tuple[str, str, str, str]]
Items = Iterable[tuple[str, Table] | int]


class RecordingChannel:
    """A channel to an upstream that only notes what it is to send. `meanwhile` is called once, when it is to wait."""

    def __init__(self) -> None:
        self.sent: Sent = []
        self.arguments: list[Table] = []
        self.meanwhile: Callable[[], None] | None = None

    async def bind_many(self, to: str, source: str, items: Items, nowait: bool = False) -> None:
        self._note("bind", to, source, items)

    async def unbind_many(self, to: str, source: str, items: Items, nowait: bool = False) -> None:
        self._note("unbind", to, source, items)

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


@pytest.fixture
def vhost() -> VHost:
    vhost = new_node(SlowJournal()).vhosts["/"]
    vhost.declare_exchange("x", "topic", durable=True)
    for name in ("q1", "q2"):
        vhost.declare_queue(name, durable=True)
    return vhost


@pytest.fixture
def channel() -> RecordingChannel:
    return RecordingChannel()


@pytest.fixture
def status() -> LinkStatus:
    return LinkStatus(time.time, lambda: None)


def synchronise(vhost: VHost, channel: RecordingChannel, status: LinkStatus, max_hops: int = 1) -> BindingSync:
    """A synchronisation that follows the exchange x."""
    bindings = ExchangeBindings(vhost.exchanges["x"])
    for _ in bindings.read():
        pass
    settings = link_settings("up", {"uri": "amqp://there", "max-hops": max_hops})
    spec = LinkSpec(LinkKey("/", "exchange", "x", "up", "there.x"), settings, "")
    upstream, internal = ("up-cluster", "/"), ("federation: x B", "B")
    sync = BindingSync(bindings, spec, "here", status, cast(Any, channel), upstream, internal, False)

    class Follower(Observer):
        def binding_added(self, _: str, binding: Any) -> None:
            bindings.change(binding, True)

        def binding_removed(self, _: str, binding: Any) -> None:
            bindings.change(binding, False)

    vhost._observers.add(Follower())  # those of its node
    return sync


def bind(vhost: VHost, key: str, queue: str = "q1", arguments: Table = Table.EMPTY) -> None:
    vhost.bind("x", vhost.queues[queue], key, arguments)


def unbind(vhost: VHost, key: str, queue: str = "q1") -> None:
    vhost.unbind("x", vhost.queues[queue], key, Table.EMPTY)


async def test_the_present_bindings_are_sent_first_equal_ones_once(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    bind(vhost, "a")
    bind(vhost, "a", "q2")
    bind(vhost, "b")
    await synchronise(vhost, channel, status).send()
    assert channel.sent == [("bind", "there.x", "federation: x B", key) for key in "ab"]
    assert status.bindings == 2


async def test_changes_are_sent_and_new_bindings_before_deleted_ones(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    bind(vhost, "old")
    sync = synchronise(vhost, channel, status)
    await sync.send()
    channel.take()
    unbind(vhost, "old")
    bind(vhost, "new")
    await sync.send()
    assert channel.take() == [("bind", "new"), ("unbind", "old")]
    assert status.bindings == 1


async def test_a_binding_that_is_deleted_before_it_is_sent_is_not_sent(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    bind(vhost, "kept")
    sync = synchronise(vhost, channel, status)
    await sync.send()
    channel.take()
    bind(vhost, "short")
    unbind(vhost, "short")
    unbind(vhost, "kept")
    bind(vhost, "kept")
    await sync.send()
    assert channel.take() == []


async def test_an_upstream_binding_stays_while_another_queue_has_it(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    bind(vhost, "k", "q1")
    bind(vhost, "k", "q2")
    sync = synchronise(vhost, channel, status)
    await sync.send()
    channel.take()
    unbind(vhost, "k", "q1")
    await sync.send()
    assert channel.take() == []
    unbind(vhost, "k", "q2")
    await sync.send()
    assert channel.take() == [("unbind", "k")]


async def test_bindings_are_sent_again_in_rounds_without_those_deleted_meanwhile(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_sync, "RESEND_LIMIT", 2)
    for key in "abc":
        bind(vhost, key)
    sync = synchronise(vhost, channel, status)
    await sync.send()
    rounds = []
    for _ in range(3):
        channel.take()
        sync.resend_some()
        await sync.send()
        rounds.append(channel.take())
    assert rounds == [[("bind", "a"), ("bind", "b")], [("bind", "c")], [("bind", "a"), ("bind", "b")]]
    assert status.bindings == 3
    sync.resend_some()
    unbind(vhost, "c")
    await sync.send()
    assert channel.take() == [("unbind", "c")]


async def test_bindings_carry_where_they_come_from_and_stop_where_hops_end(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    bind(vhost, "near")
    await synchronise(vhost, channel, status, max_hops=0).send()
    assert channel.take() == [] and status.bindings == 0
    await synchronise(vhost, channel, status, max_hops=2).send()
    assert channel.take() == [("bind", "near")]
    (entry,) = as_array(channel.arguments[-1].get("x-bound-from")) or []
    fields = as_table(entry)
    assert fields is not None
    assert (fields.text("cluster-name"), fields.text("exchange"), fields.integer("hops")) == ("here", "/:x B", 2)


async def test_a_link_that_missed_too_many_changes_compares_all_bindings(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_set, "CHANGES_BYTES", 1_000)
    for key in "abc":
        bind(vhost, key)
    sync = synchronise(vhost, channel, status)
    await sync.send()
    channel.take()
    unbind(vhost, "b")
    for number in range(10):
        bind(vhost, f"{number}")
    await sync.send()
    assert channel.take() == [*(("bind", f"{number}") for number in range(10)), ("unbind", "b")]
    assert status.bindings == 12


async def test_changes_while_bindings_are_sent_are_merged_with_those_still_to_be_sent(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    keys = [f"{number}" for number in range(COMPARED + 3)]
    for key in keys:
        bind(vhost, key)
    sync = synchronise(vhost, channel, status)
    sent, unsent = keys[0], keys[COMPARED]

    def meanwhile() -> None:
        assert len(channel.sent) == COMPARED - 1
        unbind(vhost, sent)
        unbind(vhost, unsent)
        bind(vhost, "new")
        unbind(vhost, keys[1])
        bind(vhost, keys[1])  # as it was

    channel.meanwhile = meanwhile
    await sync.send()
    assert channel.take() == [("bind", key) for key in keys if key != unsent]
    await sync.send()
    assert channel.take() == [("bind", "new"), ("unbind", sent)]
    await sync.send()
    assert channel.take() == [] and status.bindings == len(keys) - 1


async def test_a_binding_that_changes_while_it_waits_for_its_turn_changes_upstream_in_the_same_order(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    large = Table.of({"a": "b" * 200})  # for which it waits
    queue = vhost.queues["q1"]
    sync = synchronise(vhost, channel, status)
    bind(vhost, "k", "q1", large)
    channel.meanwhile = lambda: vhost.unbind("x", queue, "k", large)
    await sync.send()
    await sync.send()
    assert channel.take() == [("bind", "k"), ("unbind", "k")]
    bind(vhost, "k", "q1", large)
    await sync.send()
    channel.take()
    vhost.unbind("x", queue, "k", large)
    channel.meanwhile = lambda: bind(vhost, "k", "q1", large)
    await sync.send()
    await sync.send()
    assert channel.take() == [("unbind", "k"), ("bind", "k")]
    assert status.bindings == 1


async def test_what_is_decoded_of_a_binding_is_not_kept(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    passed_on = Table.of({"x-bound-from": [{"cluster-name": "far", "vhost": "/", "exchange": "/:y A", "hops": 2}]})
    bind(vhost, "k", "q1", passed_on)
    (binding,) = vhost.exchanges["x"].outgoing.values()
    binding.arguments = Table(passed_on.raw)  # one that nobody has read
    await synchronise(vhost, channel, status).send()
    assert channel.take() == [("bind", "k")]
    assert binding.arguments.read_cost == 0


async def test_a_change_is_expected_once_until_it_is_sent(
    vhost: VHost, channel: RecordingChannel, status: LinkStatus
) -> None:
    sync = synchronise(vhost, channel, status)
    assert sync.expect() and not sync.expect()
    sync.changed()
    assert not sync.expect()
    await sync.send()
    assert sync.expect()
