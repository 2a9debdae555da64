"""Links during operator commands, alarms, and deletions of exchanges, queues and virtual hosts."""

from contextlib import closing

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady
from warren.broker.config.config import Federation
from warren.federation import exchange_link

pytestmark = pytest.mark.sockets


def test_a_link_whose_exchange_has_just_gone_is_not_restarted(up: Place, down: Place) -> None:
    down.linked(up)
    service, id_ = down.site.federation, down.row()["id"]

    def delete_and_restart() -> bool:
        with down.site.host.acting("guest"):
            down.site.node.vhosts[down.vhost].delete_exchange("fed.x")
        return service.restart(id_)

    assert down.site.loop.call(delete_and_restart) is False
    down.without_links()
    until(lambda: not up.queues(), lambda: str(up.queues()))


def test_what_an_exchange_had_is_forgotten_with_it(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "k")
    down.upstream("u", up.inside)
    down.policy("^fed", {"federation-upstream": "u", "federation-deduplicate": True})
    down.running()
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"once")
    assert down.get(here).body == b"once"
    place = (down.vhost, "fed.x")
    service = down.site.federation
    assert len(service._windows[place]) == 1
    down.clear_upstream("u")
    down.without_links()
    assert len(service._windows[place]) == 1  # an upstream that comes again finds it
    down.ch.delete_exchange("fed.x")
    until(lambda: place not in service._windows, "forgotten")


@pytest.mark.parametrize("delay_s", [1e6, 1e-6, 0])
def test_any_delay_that_may_be_set_is_one(up: Place, down: Place, delay_s: float) -> None:
    down.ch.exchange("fed.x", "direct")
    down.upstream("u", "amqp://127.0.0.1:1", reconnect_delay=delay_s)
    down.policy("^fed", {"federation-upstream": "u"})
    assert down.down()["status"] == "error"
    until_steady(lambda: None, 1.0)
    assert down.row()["retries"] <= 40 and down.row()["status"] == "error"
    assert not [event for event in down.site.log if event[0] == "internal_error"]
    assert down.site.request("GET", f"/federation-links/{down.vhost}").status == 200
    down.upstream("u", up.inside)
    down.running()


def test_after_an_alarm_a_queue_that_wants_nothing_is_paused_again(up: Place, down: Place) -> None:
    down.ch.declare("fed.q")
    down.link("^fed", up.inside)
    alarms = down.site.node.alarms
    down.site.loop.call(alarms.set, "disk")
    try:
        until(lambda: down.row()["state"] == "blocked", lambda: str(down.row()))
    finally:
        down.site.loop.call(alarms.clear, "disk")
    until(lambda: down.row()["state"] == "paused" and down.row()["reason"], lambda: str(down.row()))


def test_what_one_queue_refuses_another_gets_once(up: Place, down: Place) -> None:
    full = down.linked(up)
    other = down.listener("fed.x", "k")
    down.policy(f"^{full}$", {"max-length": 2, "overflow": "reject-publish"}, "full", apply_to="queues")
    for number in range(10):
        up.ch.publish("fed.x", "k", b"%d" % number)
    down.counted(full, 2)
    first = until(lambda: down.row()["nacked"], "a refusal")  # of one message or of all, as they came
    until(lambda: down.row()["nacked"] >= first + 2, "two more attempts, of one message each")
    assert down.ready(other) == 2
    down.clear_policy("full")
    for queue in (full, other):
        assert down.bodies(queue, 10) == [b"%d" % number for number in range(10)]


def test_a_virtual_host_that_is_deleted_takes_nothing_along_that_it_was_not_given(up: Place, down: Place) -> None:
    up.ch.declare("fed.q")
    down.ch.declare("fed.q")
    down.link("^fed", up.inside)
    wanting = down.channel()
    wanting.qos(10)
    wanting.consume("fed.q")
    until(lambda: down.row()["state"] == "flowing", lambda: str(down.row()))

    def delete() -> None:
        """The link does not know yet when the messages come."""
        with down.site.host.acting("guest"):
            down.site.node.delete_vhost(down.vhost)

    down.site.loop.call(delete)
    up.ch.fill("fed.q", *(b"%d" % number for number in range(5)))
    up.counted("fed.q", 5)


def test_a_virtual_host_that_goes_while_its_links_start_is_no_fault_of_ours(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "direct")
    down.ch.declare("fed.q")
    service = down.site.federation

    def federate_and_delete() -> None:
        with down.site.host.acting("guest"):
            node = down.site.node
            node.parameters.set(down.vhost, "federation-upstream", "u", {"uri": up.inside})
            node.policies.set(down.vhost, "p", "^fed", {"federation-upstream": "u"}, 0, "all")
            service._tick()
            started = [link for key, link in service.links.items() if key.vhost == down.vhost]
            assert len(started) == 2
            node.delete_vhost(down.vhost)

    down.site.log.clear()
    down.site.loop.call(federate_and_delete)
    until(lambda: not down.rows(), lambda: str(down.rows()))
    until_steady(lambda: len(down.site.log))
    assert not [event for event in down.site.log if event[0] == "internal_error"]


def test_an_upstream_exchange_that_is_declared_again_at_a_warren_is_bound_soon(
    loop: LoopThread, up: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link checks a Warren every BACKLOG_S, a RabbitMQ every 90 s."""
    monkeypatch.setattr(exchange_link, "BACKLOG_S", 0.1)
    with closing(Site(loop, "patient", federation=Federation())) as site, closing(site.place()) as down:
        here = down.linked(up, up.uri)
        up.ch.delete_exchange("fed.x")
        up.ch.exchange("fed.x", "direct")
        up.bound("fed.x", "k")
        up.ch.publish("fed.x", "k", b"seen")
        assert down.get(here).body == b"seen"


def test_a_virtual_host_upstream_that_is_deleted_is_found_when_it_is_back(up: Place, down: Place) -> None:
    here = down.linked(up)
    up.act(up.site.node.delete_vhost, up.vhost)
    down.down()
    again = up.site.place(up.vhost)
    down.running()
    again.bound("fed.x", "k")
    again.ch.publish("fed.x", "k", b"back")
    assert down.get(here).body == b"back"
    again.close()


def test_of_uris_that_differ_by_user_alone_the_one_that_may_log_in_serves_throughout(up: Place, down: Place) -> None:
    refused = up.through(up.site.port, user="nobody:wrong")
    here = down.linked(up)
    down.upstream("u0", [refused, refused + "?heartbeat=5", up.uri])
    until(lambda: down.row()["uri"] == f"amqp://127.0.0.1:{up.site.port}/{up.vhost}", lambda: str(down.row()))
    down.running()
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"came")
    assert down.get(here).body == b"came"
