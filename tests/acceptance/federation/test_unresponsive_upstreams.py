"""Upstreams that are there, send heartbeats, and do not answer: a link gives them up and tries again."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue

from tests.support.federation import Place
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.unresponsive_upstream import UnresponsiveUpstream
from warren.federation import exchange_link, link
from warren.federation.exchange_link import ExchangeLink
from warren.federation.upstream import transport

pytestmark = pytest.mark.sockets

UNANSWERED = "the upstream has not answered a request within 30 s"


@pytest.fixture
def upstream(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnresponsiveUpstream]:
    """An unresponsive upstream. Links make the usual number of checks for answers, with less time between them."""
    monkeypatch.setattr(transport, "DEADLINE_CHECK_S", 0.02)
    upstream = UnresponsiveUpstream(loop)
    yield upstream
    upstream.close()


def uri(upstream: UnresponsiveUpstream) -> str:
    return f"amqp://127.0.0.1:{upstream.port}?heartbeat=1"


MUTES = (Channel.Open, Queue.Declare, Basic.Consume, Exchange.Bind, Exchange.Declare)


@pytest.mark.parametrize(("kind", "mute"), [("queue", Queue.Declare), *[("exchange", mute) for mute in MUTES]])
def test_a_link_that_starts_gives_an_upstream_up_that_answers_nothing_but_heartbeats(
    here: Any, upstream: UnresponsiveUpstream, kind: str, mute: type[Any]
) -> None:
    down: Place = here(1)[0]
    upstream.mute = mute
    if kind == "exchange":
        down.ch.exchange("fed.x", "direct")
        down.listener("fed.x", "k")
    else:
        down.ch.declare("fed.q")
    down.federate("^fed", uri(upstream))
    until(lambda: down.row()["error"] == UNANSWERED, lambda: str(down.row()))
    assert upstream.beats
    until(lambda: down.row()["retries"] >= 2, lambda: str(down.row()))
    upstream.mute = None
    down.running()


def test_a_link_that_runs_gives_an_upstream_up_that_answers_no_more(
    here: Any, upstream: UnresponsiveUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_link, "BACKLOG_S", 0.02)
    down: Place = here(1)[0]
    down.ch.exchange("fed.x", "direct")
    down.link("^fed", uri(upstream))
    upstream.mute = Queue.Declare
    until(lambda: down.row()["error"] == UNANSWERED, lambda: str(down.row()))
    upstream.mute = None
    down.running()


def test_a_link_is_not_in_its_start_for_ever_though_each_of_its_requests_is_answered(
    here: Any, upstream: UnresponsiveUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_on(self: ExchangeLink, connection: Any) -> None:
        while True:
            await (await connection.channel()).close()
            await asyncio.sleep(0)

    monkeypatch.setattr(ExchangeLink, "set_up", ask_on)
    monkeypatch.setattr(link, "SET_UP_S", 3)
    down: Place = here(1)[0]
    down.ch.exchange("fed.x", "direct")
    down.federate("^fed", uri(upstream))
    reason = "the upstream has not declared all objects of the link within 3 s"
    until(lambda: down.row()["error"] == reason, lambda: str(down.row()))
