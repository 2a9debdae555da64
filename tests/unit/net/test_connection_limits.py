"""Connection limits: which connection is closed at a limit."""

import pytest

from warren.broker.net.connection_limits import (
    ConnectionLimits,
    Pool,
    Slot,
    connection_limit,
    login_limit,
    open_descriptors,
)
from warren.broker.runtime.source_address import network_of, source_of


class Acceptor:
    """Accepts connections: `closed` are those closed in favour of others, `lines` the logged ones."""

    def __init__(self, limit: int = 100, pool_limit: int = 100, source_limit: int = 100) -> None:
        self.closed: list[str] = []
        self.lines: list[dict[str, object]] = []
        self.limits = ConnectionLimits(limit, lambda event, level, fields: self.lines.append(fields))
        self.pool = Pool("before login", pool_limit, source_limit)

    def enter(self, name: str, address: str) -> Slot | None:
        return self.limits.enter(address, self.pool, lambda: self.closed.append(name))

    def login(self, name: str, address: str) -> Slot:
        slot = self.enter(name, address)
        assert slot is not None
        slot.logged_in()
        return slot


def test_the_oldest_of_the_address_that_has_most_makes_room() -> None:
    acceptor = Acceptor(pool_limit=3)
    for name, address in (("other", "10.0.0.9"), ("first", "10.0.0.1"), ("second", "10.0.0.1")):
        acceptor.enter(name, address)
    acceptor.enter("newcomer", "10.0.0.2")
    assert acceptor.closed == ["first"]
    assert (acceptor.pool.count, acceptor.limits.open) == (3, 3)


def test_one_address_has_a_limit_of_its_own() -> None:
    acceptor = Acceptor(source_limit=2)
    for name in ("first", "second", "third"):
        acceptor.enter(name, "10.0.0.1")
    acceptor.enter("other", "10.0.0.2")
    assert acceptor.closed == ["first"]


def test_who_has_logged_in_is_not_closed_for_others() -> None:
    acceptor = Acceptor(limit=2)
    acceptor.login("user", "10.0.0.1")
    acceptor.enter("stranger", "10.0.0.1")
    assert acceptor.enter("newcomer", "10.0.0.2") is not None
    assert acceptor.closed == ["stranger"]


def test_where_all_have_logged_in_a_newcomer_is_refused() -> None:
    acceptor = Acceptor(limit=2)
    first = acceptor.login("one", "10.0.0.1")
    acceptor.login("two", "10.0.0.1")
    assert acceptor.enter("newcomer", "10.0.0.2") is None
    first.leave()
    first.leave()
    assert acceptor.enter("newcomer", "10.0.0.2") is not None
    assert (acceptor.closed, acceptor.limits.open) == ([], 2)


def test_the_log_tells_of_many_refusals_once() -> None:
    acceptor = Acceptor(source_limit=1)
    for number in range(50):
        acceptor.enter(str(number), "10.0.0.1")
    of_address = {"limit": "connections before login of one address", "most": 1}
    assert acceptor.lines == [{**of_address, "source": "10.0.0.1", "closed": 1}]


def test_http_is_served_at_the_limit_in_place_of_who_has_not_logged_in() -> None:
    acceptor = Acceptor(limit=2)
    http = Pool("for management", 10, 10)
    acceptor.limits.before_login = acceptor.pool
    acceptor.login("user", "10.0.0.1")
    acceptor.enter("stranger", "10.0.0.2")
    assert acceptor.limits.enter("10.0.0.3", http, lambda: None) is not None
    assert acceptor.closed == ["stranger"]


@pytest.mark.parametrize(("connections", "logged_in"), [(1, 1), (15, 7), (892, 828), (260, 228), (1_000_000, 999_936)])
def test_some_connections_are_kept_for_http_and_for_refusals(connections: int, logged_in: int) -> None:
    assert login_limit(connections) == logged_in


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_source_is_an_ipv4_address_or_a_network_of_ipv6(address: str, source: str) -> None:
    assert source_of(address) == source


@pytest.mark.parametrize(
    ("source", "network"),
    [("192.0.2.7", "192.0.2"), ("2001:db8:1:2::/64", "2001:db8:1::/48"), ("", ""), ("a:socket", "a:socket")],
)
def test_a_network_is_what_one_provider_has(source: str, network: str) -> None:
    assert network_of(source) == network


def test_connections_leave_descriptors_for_the_journal() -> None:
    assert connection_limit(1 << 20) == (1 << 20) - open_descriptors() - 1024
    assert connection_limit(256) == 256 - open_descriptors() - 32
    assert connection_limit(8) == 1
