"""Links over a network that is away for a while: each is back soon after it, whatever the attempts meanwhile met."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.federation import Place
from tests.support.polling import until
from tests.support.proxy import Proxy
from warren.federation.exchange_link import ExchangeLink
from warren.federation.link import Link

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

OUTAGES = 4
BACK_WITHIN_S = 10.0
Dial = Callable[..., Awaitable[Any]]


def only_link(down: Place) -> Link:
    (link,) = [link for key, link in down.site.federation.links.items() if key.vhost == down.vhost]
    return link


def test_a_link_is_back_after_each_of_many_outages_in_which_the_upstream_takes_and_does_not_answer(
    up: Place, down: Place, proxied: NewProxy
) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port, "?connection_timeout=500"))
    for number in range(OUTAGES):
        outage(proxy, down)
        up.ch.publish("fed.x", "k", b"%d" % number)
        assert down.get(here).body == b"%d" % number
    assert len(up.queues()) == 1


def outage(proxy: Proxy, down: Place) -> None:
    """The line is cut, three attempts get no answer, and the line is there again: until the link runs."""
    proxy.blink()
    proxy.silence()
    tried = proxy.accepted
    until(lambda: proxy.accepted >= tried + 3, lambda: f"attempts: {down.row()}")
    proxy.restore()
    until(lambda: down.row()["status"] == "running", lambda: f"back: {down.row()}", BACK_WITHIN_S)


def test_a_cancellation_that_nobody_asked_for_is_a_failed_attempt_and_no_end(
    up: Place, down: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial: Dial = ExchangeLink.dial
    cancelled = 0

    async def cancelled_at_first(self: Link, *args: Any) -> Any:
        nonlocal cancelled
        if cancelled < 3:
            cancelled += 1
            raise asyncio.CancelledError
        return await dial(self, *args)

    monkeypatch.setattr(ExchangeLink, "dial", cancelled_at_first)
    down.site.log.clear()
    down.linked(up, up.inside)
    assert cancelled == 3 and down.row()["status"] == "running"
    reasons = [fields["reason"] for event, _, fields in down.site.log if event == "federation_not_connected"]
    assert "the attempt was cancelled" in reasons


def test_a_link_whose_task_was_cancelled_by_somebody_else_is_started_again_and_says_so(up: Place, down: Place) -> None:
    here = down.linked(up, up.inside)
    link = only_link(down)
    down.site.log.clear()

    def cancel() -> None:
        assert link._task is not None and link._task._task is not None
        link._task._task.cancel()

    down.site.loop.call(cancel)
    lines = until(lambda: [fields for event, _, fields in down.site.log if event == "task_failed"], "a line")
    assert (lines[0]["task"], lines[0]["upstream"]) == ("federation_link", "u0")
    down.running()
    up.ch.publish("fed.x", "k", b"flows")
    assert down.get(here).body == b"flows"


def test_a_link_that_ends_is_not_started_again(up: Place, down: Place) -> None:
    down.linked(up, up.inside)
    link = only_link(down)
    down.site.log.clear()
    down.clear_policy()
    down.without_links()
    until(lambda: link.is_over, "its end")
    assert link.status.retries == 0 and not [event for event, _, _ in down.site.log if event == "task_failed"]
