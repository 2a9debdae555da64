"""The keys of federation."""

from pathlib import Path

import pytest

from warren.broker.config import ConfigError

from .loading import sources


@pytest.mark.parametrize("kind", ["exchanges", "queues"])
def test_links_are_given_five_seconds_to_end_at_most(conf: Path, kind: str) -> None:
    key = f"federation.{kind}.connection_close_timeout"
    conf.write_text(f"{key} = 5000\n")
    federation = sources(conf).load().federation
    assert (federation.exchanges if kind == "exchanges" else federation.queues).connection_close_timeout == 5000
    for wrong in ("5001", "-1", "soon"):
        conf.write_text(f"{key} = {wrong}\n")
        with pytest.raises(ConfigError, match="is not a number from 0 to 5000"):
            sources(conf).load()


def test_the_pace_at_which_links_end_can_be_said(conf: Path) -> None:
    conf.write_text(
        "federation.exchanges.shutdown.link_batch_size = 16\n"
        "federation.exchanges.shutdown.timeout = 1000\n"
        "federation.queues.shutdown.throttle_delay = 0\n"
        "federation.graceful_shutdown_cleanup = true\n"
        "federation.internal_exchange_check_interval = 500\n"
    )
    given = sources(conf)
    federation = given.load().federation
    assert (federation.exchanges.link_batch_size, federation.exchanges.shutdown_timeout) == (16, 1000)
    assert (federation.queues.link_batch_size, federation.queues.throttle_delay) == (128, 0)
    assert federation.queues.shutdown_timeout == 180_000 and federation.exchanges.throttle_delay == 50
    assert federation.graceful_shutdown_cleanup and federation.internal_exchange_check_interval == 500
    assert given.warnings == []


def test_what_is_upstream_is_kept_at_a_stop_unless_somebody_asks(conf: Path) -> None:
    conf.write_text("")
    federation = sources(conf).load().federation
    assert not federation.graceful_shutdown_cleanup and federation.internal_exchange_check_interval == 90_000
