"""The demands of `make failover`, with few rounds, short outages and little load."""

import pytest

from tests.support.postgresql import missing
from tools.failover import figures, losses, refusals
from tools.failover.load import PUBLISHERS
from tools.failover.outcome import Outcome

pytestmark = [pytest.mark.sockets, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]


def holds(outcome: Outcome) -> None:
    assert outcome.holds, outcome.text


def test_a_killed_broker_loses_nothing_that_was_confirmed() -> None:
    holds(losses.killed_broker(rounds=2, backlog=1000, within_s=60.0))


def test_a_lost_primary_loses_nothing_that_its_synchronous_standby_has() -> None:
    holds(losses.killed_primary(rounds=1))


def test_with_an_asynchronous_standby_status_says_that_messages_may_be_lost() -> None:
    holds(losses.killed_primary_of_asynchronous_standby())


def test_a_stopped_broker_commits_nothing_when_it_goes_on_and_ends() -> None:
    holds(losses.stopped_broker(rounds=1, lease_s=3, late=PUBLISHERS))


def test_a_server_that_cannot_be_reached_holds_publishers() -> None:
    holds(losses.unreachable_server(4.0))


def test_a_full_disk_of_the_server_holds_publishers() -> None:
    outcome = losses.full_disk(1.0)
    if outcome.holds is None:
        pytest.skip(outcome.text)
    holds(outcome)


def test_load_d_and_the_latency_of_confirms_are_measured() -> None:
    assert "received" in figures.rate(1, 0.2, None).text
    assert "p99" in figures.latency(1, 0.2, None).text


def test_a_backlog_is_recovered_and_the_size_of_the_database_is_measured() -> None:
    assert "served 5,000 messages" in figures.recovery(5000).text
    assert "tables of segments" in figures.size(0.02).text


def test_a_store_that_cannot_be_used_is_refused_with_one_line() -> None:
    holds(refusals.refusals())
