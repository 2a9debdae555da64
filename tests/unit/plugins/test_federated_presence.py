"""x-presence between sites, without links: bindings of other sites, and the notices that links bring and receive."""

from collections.abc import Sequence

import pytest

from tests.support.session import new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import EnqueueResult
from warren.broker.core.vhost.vhost import VHost
from warren.broker.plugin import UpstreamExchange
from warren.plugins.exchanges.federated_presence import PATHS_LIMIT, TEXT_LIMIT, Presence, RemotePresences
from warren.plugins.exchanges.presence import FEDERATED, REMOVED_AT_ONCE, PresenceExchange

A, B, C = [(name, "/") for name in "abc"]
LISTENING = Table.of({FEDERATED: True})

Path = Sequence[tuple[str, str]]


@pytest.fixture
def vhost() -> VHost:
    node = new_node()
    node.registry.register("x-presence", PresenceExchange)
    vhost = node.vhosts["/"]
    vhost.declare_exchange("p", "x-presence")
    vhost.bind("p", queue(vhost, "listener"), "", Table.EMPTY)
    vhost.bind("p", queue(vhost, "link"), "", LISTENING)
    notices(vhost, "link")
    return vhost


def queue(vhost: VHost, name: str) -> Queue:
    return vhost.declare_queue(name)


def notices(vhost: VHost, name: str = "listener") -> list[str]:
    """Such as `bind p k a/`: action, queue, key, site, and in brackets the path."""
    lines = []
    while (got := vhost.queues[name].get(True)) is not None:
        fields = got[1].headers
        words = [fields.text(name) for name in ("action", "queue", "key", "cluster-name", "vhost")]
        value = fields.get("x-received-from")
        path = [entry[1].text("cluster-name") for entry in value[1]] if value else []  # type: ignore[attr-defined]
        complete = fields.flag("complete")
        lines.append(
            " ".join(
                [*filter(None, words), *([str(path)] if path else []), *([str(complete)] * (words[0] == "summary"))]
            )
        )
    return lines


def bound_from(path: Path, letter: str = "A") -> Table:
    entries = [{"cluster-name": name, "vhost": vhost, "exchange": f"{vhost}:far p {letter}"} for name, vhost in path]
    return Table.of({"x-bound-from": [Table.of(entry) for entry in entries]})


def bind(vhost: VHost, key: str, path: Path, letter: str = "A") -> None:
    """Bind as a link does, from an internal exchange of its own."""
    end = vhost.declare_exchange(f"federation: {letter}", "fanout", internal=True)
    vhost.bind("p", end, key, bound_from(path, letter))


def unbind(vhost: VHost, key: str, path: Path, letter: str = "A") -> None:
    vhost.unbind("p", vhost.exchanges[f"federation: {letter}"], key, bound_from(path, letter))


def bring(vhost: VHost, action: str, path: Path, exchange: str = "up", **more: object) -> None:
    """Bring a notice of an upstream exchange, as a link does."""
    entries = [Table.of({"uri": "amqp://u", "cluster-name": name, "vhost": vhost_}) for name, vhost_ in path]
    fields = {"action": action, "exchange": exchange, "queue": "far p", "x-received-from": entries, **more}
    message = framed(RoutingAddress("p", ""), Properties(headers=Table.of(fields)), b"")
    source = UpstreamExchange(*(path[0] if path else A), exchange)
    steps = vhost.exchanges["p"].type.on_federated(message, source)
    for _ in steps if not isinstance(steps, EnqueueResult) else ():
        pass
    vhost_pump(vhost)


def vhost_pump(vhost: VHost) -> None:
    for each in vhost.queues.values():
        each.pump()


# Bindings


def test_a_binding_of_another_sites_exchange_is_a_presence_there(vhost):
    bind(vhost, "k", [A])
    assert notices(vhost) == ["bind far p k a /"]
    unbind(vhost, "k", [A])
    assert notices(vhost) == ["unbind far p k a /"]


def test_the_site_is_where_the_binding_was_first_made(vhost):
    bind(vhost, "k", [B, A])
    assert notices(vhost) == ["bind far p k a /"]
    assert notices(vhost, "link") == ["bind far p k ['b', 'a']"]


def test_a_link_that_makes_its_bindings_anew_from_the_other_letter_is_not_told_of(vhost):
    bind(vhost, "k", [A], "A")
    bind(vhost, "k", [A], "B")
    unbind(vhost, "k", [A], "A")
    assert notices(vhost) == ["bind far p k a /"]
    vhost.delete_exchange("federation: B")
    assert notices(vhost) == ["unbind far p k a /"]


@pytest.mark.parametrize("value", [1, [], [1], [Table.of({"vhost": "/"})], [Table.of({"cluster-name": "a"})]], ids=repr)
def test_a_binding_that_says_nothing_of_where_it_comes_from_is_one_of_here(vhost, value):
    end = vhost.declare_exchange("internal", "fanout", internal=True)
    vhost.bind("p", end, "k", Table.of({"x-bound-from": value}))
    vhost.unbind("p", end, "k", Table.of({"x-bound-from": value}))
    assert notices(vhost) == ["bind internal k", "unbind internal k"]


def test_a_queue_is_here_whatever_its_binding_says(vhost):
    vhost.bind("p", queue(vhost, "q"), "k", bound_from([A]))
    assert notices(vhost) == ["bind q k"]


# Notices for links


def test_a_link_is_told_of_a_key_here_once_whoever_has_it(vhost):
    one, other = queue(vhost, "one"), queue(vhost, "other")
    vhost.bind("p", one, "k", Table.EMPTY)
    vhost.bind("p", other, "k", Table.EMPTY)
    vhost.delete_queue(one)
    assert notices(vhost, "link") == ["bind p k"]
    vhost.delete_queue(other)
    assert notices(vhost, "link") == ["unbind p k"]


def test_a_link_is_told_all_there_is_between_two_marks(vhost):
    vhost.bind("p", queue(vhost, "q"), "k", Table.EMPTY)
    bind(vhost, "l", [B, A])
    bring(vhost, "bind", [C, A], key="l")
    vhost.bind("p", queue(vhost, "late"), "", LISTENING)
    assert notices(vhost, "late") == [
        "summary False", "bind p k", "bind far p l ['b', 'a']", "bind far p l ['c', 'a']", "summary True"
    ]  # fmt: skip


def test_each_way_is_told_to_links_and_each_presence_to_listeners(vhost):
    bring(vhost, "bind", [A], key="k")
    bring(vhost, "bind", [B, A], key="k")
    bind(vhost, "k", [A])
    assert notices(vhost, "link") == ["bind up k ['a']", "bind up k ['b', 'a']"]
    assert notices(vhost) == ["bind up k a /"]
    bring(vhost, "unbind", [A], key="k")
    bring(vhost, "unbind", [B, A], key="k")
    assert (notices(vhost, "link"), notices(vhost)) == (["unbind up k ['b', 'a']"], [])
    unbind(vhost, "k", [A])
    assert (notices(vhost, "link"), notices(vhost)) == (["unbind up k ['a']"], ["unbind up k a /"])


# What links bring


def test_what_is_brought_again_is_not_told_again(vhost):
    for _ in range(2):
        bring(vhost, "bind", [A], key="k")
    assert notices(vhost) == ["bind up k a /"]
    for _ in range(2):
        bring(vhost, "unbind", [A], key="k")
    assert notices(vhost) == ["unbind up k a /"]


def test_a_new_listener_gets_remote_ones_in_its_summary(vhost):
    vhost.bind("p", queue(vhost, "q"), "k", Table.EMPTY)
    bring(vhost, "bind", [A], key="l")
    vhost.bind("p", queue(vhost, "late"), "", Table.EMPTY)
    vhost.bind("p", queue(vhost, "none"), "", Table.of({"x-presence-exchange-summary": False}))
    assert notices(vhost, "late") == ["bind q k", "bind up l a /"]
    assert notices(vhost, "none") == []


def test_what_a_summary_leaves_out_is_gone(vhost):
    bring(vhost, "bind", [A], key="k")
    bring(vhost, "bind", [A], key="l")
    bring(vhost, "bind", [B], key="m")
    notices(vhost)
    bring(vhost, "summary", [A], complete=False)
    bring(vhost, "bind", [A], key="k")
    assert notices(vhost) == []
    bring(vhost, "summary", [A], complete=True)
    assert notices(vhost) == ["unbind up l a /"]


def test_the_end_of_a_summary_without_its_beginning_says_nothing(vhost):
    bring(vhost, "bind", [A], key="k")
    bring(vhost, "summary", [A], complete=True)
    assert notices(vhost) == ["bind up k a /"]


def test_what_was_brought_from_a_site_goes_with_the_link_to_it(vhost):
    bring(vhost, "bind", [A], key="k")
    bring(vhost, "bind", [A, B], key="l")
    bring(vhost, "bind", [A], "other", key="m")
    bring(vhost, "bind", [C], key="n")
    notices(vhost)
    vhost.exchanges["p"].type.on_upstream_detached(UpstreamExchange("a", "/", "up"))
    assert notices(vhost) == ["unbind up k a /", "unbind far p l b /"]


def test_two_exchanges_of_one_site_hold_a_presence_together(vhost):
    bring(vhost, "bind", [A], "one", key="k")
    bring(vhost, "bind", [A], "other", key="k")
    bring(vhost, "unbind", [A], "one", key="k")
    assert notices(vhost) == ["bind one k a /"]
    bring(vhost, "unbind", [A], "other", key="k")
    assert notices(vhost) == ["unbind one k a /"]


@pytest.mark.parametrize(
    ("action", "path", "more"),
    [
        ("bind", [], {"key": "k"}),
        ("bind", [A], {}),
        ("bind", [A], {"key": ""}),
        ("bind", [A], {"key": 1}),
        ("bind", [A], {"key": "k" * (TEXT_LIMIT + 1)}),
        ("bind", [("a" * (TEXT_LIMIT + 1), "/")], {"key": "k"}),
        ("bind", [A], {"key": "k", "x-received-from": 1}),
        ("bind", [A], {"key": "k", "x-received-from": [1]}),
        ("dance", [A], {"key": "k"}),
        ("unbind", [A], {"key": "unknown"}),
        ("message", [A], {"key": "k"}),
    ],
    ids=repr,
)
def test_what_is_no_notice_is_dropped(vhost, action, path, more):
    vhost.exchanges["p"].type.on_upstream_detached(UpstreamExchange("a", "/", "up"))  # which is nothing new
    bring(vhost, action, path, **more)
    assert (notices(vhost), notices(vhost, "link")) == ([], [])


# After a restart


def restored(vhost: VHost) -> None:
    """A broker that starts has this binding of the listener, and asks for no notices."""
    exchange = vhost.exchanges["p"]
    (binding,) = [one for one in exchange.outgoing.values() if one.destination is vhost.queues["listener"]]
    exchange.type.on_unbind(binding)
    exchange.type.on_bind(binding)


def test_who_listens_since_before_a_restart_is_not_told_again_of_what_was_there(vhost):
    restored(vhost)
    vhost.bind("p", queue(vhost, "late"), "", Table.EMPTY)
    bring(vhost, "unbind", [A], key="gone meanwhile")
    bring(vhost, "bind", [A], key="come meanwhile")
    bring(vhost, "summary", [A], complete=False)
    bring(vhost, "bind", [A], key="there")
    bring(vhost, "bind", [A], key="come meanwhile")
    bring(vhost, "summary", [A], complete=True)
    assert notices(vhost) == ["unbind up gone meanwhile a /", "bind up come meanwhile a /"]
    assert notices(vhost, "late") == ["bind up come meanwhile a /", "bind up there a /"]
    bring(vhost, "unbind", [A], key="there")
    bring(vhost, "unbind", [A], key="never")
    assert notices(vhost) == ["unbind up there a /"]


def test_all_of_a_site_that_is_new_is_told_after_a_restart_too(vhost):
    restored(vhost)
    vhost.exchanges["p"].type.on_upstream_detached(UpstreamExchange("a", "/", "up"))
    bring(vhost, "summary", [A], complete=False)
    bring(vhost, "bind", [A], key="k")
    bring(vhost, "summary", [A], complete=True)
    assert notices(vhost) == ["bind up k a /"]


# Limits


def test_more_ways_than_count_are_left_out_and_the_presence_stays():
    remote, presence = RemotePresences(), Presence("a", "/", "k")
    sources = [UpstreamExchange(f"s{number}", "/", "up") for number in range(PATHS_LIMIT + 1)]
    changes = [remote.announce(one, presence, "up", (one[:2], A)) for one in sources]
    assert [change is not None for change in changes] == [True] * PATHS_LIMIT + [False]
    assert remote.withdraw(sources[-1], presence, (sources[-1][:2], A)) is None
    assert remote.announce(sources[-1], presence, "up", (sources[-1][:2], A)) is None
    changes = [remote.withdraw(one, presence, (one[:2], A)) for one in sources[:-1]]
    assert [change.whole for change in changes if change] == [False] * (PATHS_LIMIT - 1) + [True]
    assert presence not in remote
    assert remote.announce(sources[-1], presence, "up", (sources[-1][:2], A)) is not None


def test_sources_announce_no_more_bytes_than_the_limit_and_those_of_an_ended_link_are_free_again(monkeypatch):
    monkeypatch.setattr("warren.plugins.exchanges.federated_presence.ANNOUNCED_LIMIT", 2_000)
    remote, source, other = RemotePresences(), UpstreamExchange("a", "/", "up"), UpstreamExchange("a", "/", "other")

    def announce(source: UpstreamExchange, key: str) -> bool:
        return remote.announce(source, Presence("a", "/", key), "up", (A,)) is not None

    assert [announce(source, "k"), announce(source, "l"), announce(other, "m")] == [True, True, False]
    remote.detach(source)
    assert not announce(other, "m") and remote.removes
    assert len(remote.remove_some(1)) == 1 and announce(other, "m")
    assert len(remote.remove_some(10)) == 1 and not remote.removes


def test_a_source_that_returns_before_its_presences_are_removed_keeps_them():
    remote, source = RemotePresences(), UpstreamExchange("a", "/", "up")
    for key in "kl":
        remote.announce(source, Presence("a", "/", key), "up", (A,))
    remote.detach(source)
    assert remote.announce(source, Presence("a", "/", "k"), "up", (A,)) is None, "it is known"
    assert [change.presence.key for change in remote.remove_some(10)] == ["l"]
    assert [change.presence.key for change in remote.all()] == ["k"]


def test_what_a_notice_says_of_its_exchange_makes_no_source(vhost):
    """An upstream that invents exchanges neither evades the limit nor leaves presences when its link ends."""
    source = UpstreamExchange("a", "/", "up")
    for number in range(50):
        entries = [Table.of({"uri": "amqp://u", "cluster-name": "a", "vhost": "/"})]
        fields = {"action": "bind", "exchange": f"invented {number}", "key": f"k{number}", "x-received-from": entries}
        message = framed(RoutingAddress("p", ""), Properties(headers=Table.of(fields)), b"")
        vhost.exchanges["p"].type.on_federated(message, source)
    vhost_pump(vhost)
    assert len(notices(vhost)) == 50
    vhost.exchanges["p"].type.on_upstream_detached(source)
    assert len(notices(vhost)) == 50 and not list(vhost.exchanges["p"].type.remote.all())


def test_very_many_presences_of_an_ended_link_are_removed_in_slices(vhost):
    source = UpstreamExchange("a", "/", "up")
    count = 3 * REMOVED_AT_ONCE
    for number in range(count):
        bring(vhost, "bind", [A], key=f"k{number}")
    assert len(notices(vhost)) == count
    vhost.exchanges["p"].type.on_upstream_detached(source)
    first = len(notices(vhost))
    assert 0 < first <= REMOVED_AT_ONCE
    bring(vhost, "bind", [A], key=f"k{count - 1}")
    for _ in range(10):
        vhost.clock.advance(0)
    assert len(notices(vhost)) == count - first - 1
    vhost.exchanges["p"].type.on_upstream_detached(source)
    assert notices(vhost) == [f"unbind up k{count - 1} a /"]
