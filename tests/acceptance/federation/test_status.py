"""Scenarios 95 to 102: what operators are shown of links, and how they restart them."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.support.federated_broker import FederatedBroker
from tests.support.federation import Place, headers, text
from tests.support.polling import until
from tests.support.warrenctl import Warrenctl, commanded

pytestmark = pytest.mark.sockets

COLUMNS = {
    *("exchange", "upstream_exchange", "queue", "upstream_queue", "consumer_tag", "type", "vhost", "upstream", "id"),
    *("status", "local_connection", "uri", "error", "last_changed"),
    *("policy", "state", "reason", "degraded", "backlog", "lag_ms", "retries", "reconnects", "next_attempt_at"),
    *("forwarded", "unconfirmed", "nacked", "dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings"),
}


@pytest.fixture(scope="module")
def warren(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FederatedBroker]:
    """A broker with an exchange, for which each test has upstreams of its own."""
    warren = FederatedBroker(tmp_path_factory.mktemp("status"), "only")
    warren.start()
    warren.ask("PUT", "/vhosts/up", {})
    warren.connect().channel().exchange("fed.x", "fanout", durable=True)
    yield warren
    warren.close()


@pytest.fixture
def clean(warren: FederatedBroker) -> Iterator[FederatedBroker]:
    yield warren
    for policy in warren.ask("GET", "/policies/%2f"):
        warren.ask("DELETE", f"/policies/%2f/{policy['name']}")
    for upstream in warren.ask("GET", "/parameters/federation-upstream/%2f"):
        warren.ask("DELETE", f"/parameters/federation-upstream/%2f/{upstream['name']}")
    until(lambda: not warren.rows(), lambda: str(warren.rows()))


def links(place: Place, more: str = "") -> list[dict[str, object]]:
    listed: list[dict[str, object]] = place.site.request("GET", f"/federation-links/{place.vhost}{more}").json
    return listed


def exchange_link(up: Place, down: Place, uri: str = "") -> None:
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", uri or up.through(up.site.port, "?heartbeat=5"), exchange="other")


def test_a_link_of_an_exchange_is_shown_with_all_that_rabbitmq_shows(up: Place, down: Place) -> None:
    exchange_link(up, down)
    (row,) = links(down)
    assert re.fullmatch("[0-9a-f]{8}", str(row.pop("id")))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d{1,2}:\d\d:\d\d", str(row.pop("timestamp")))
    channel = row.pop("local_channel")
    assert isinstance(channel, dict) and channel["message_stats"]["confirm"] == 0
    name = "Federation link (upstream: u0, policy: federate)"
    assert channel["connection_details"] == {"name": name, "peer_host": "undefined", "peer_port": "undefined"}
    assert (channel["name"], channel["number"], channel["state"]) == (f"{name} (1)", 1, "running")
    assert (channel["confirm"], channel["transactional"], channel["user"]) == (True, False, "none")
    assert (channel["consumer_count"], channel["messages_unconfirmed"]) == (0, 0)
    assert "rate" in channel["message_stats"]["confirm_details"]
    shown = {
        "node": "a@test",
        "exchange": "fed.x",
        "upstream_exchange": "other",
        "type": "exchange",
        "vhost": down.vhost,
        "upstream": "u0",
        "status": "running",
        "local_connection": "Federation link (upstream: u0, policy: federate)",
        "uri": f"amqp://127.0.0.1:{up.site.port}/{up.vhost}",
    }
    assert row.items() >= shown.items() and "error" not in row
    ours = {"state", "since", "retries", "backlog", "reconnects", "forwarded", "policy"}
    assert row.keys() >= ours and not row.keys() & {"queue", "upstream_queue", "consumer_tag"}


def test_a_link_of_a_queue_is_shown_by_its_queues_and_its_tag(up: Place, down: Place) -> None:
    down.ch.declare("fed.q")
    down.link("^fed", up.inside, queue="other", consumer_tag="tag")
    (row,) = links(down)
    shown = {"queue": "fed.q", "upstream_queue": "other", "consumer_tag": "tag", "type": "queue", "uri": up.inside}
    assert row.items() >= shown.items() and not row.keys() & {"exchange", "upstream_exchange"}


def test_the_id_of_a_link_stays_the_same(up: Place, down: Place) -> None:
    exchange_link(up, down)
    (before,) = links(down)
    down.clear_policy()
    down.without_links()
    down.policy("^fed", {"federation-upstream": "u0"})
    down.running()
    (after,) = links(down)
    assert (after["id"], after["node"]) == (before["id"], before["node"])


def test_the_removal_of_a_link_is_an_event_that_names_it(up: Place, down: Place) -> None:
    default = down.site.place("/")
    queue = default.listener("amq.rabbitmq.event", "warren.federation.link.removed")
    exchange_link(up, down)
    (row,) = down.rows()
    down.clear_policy()
    while text((event := headers(default.get(queue)))["vhost"]) != down.vhost:
        pass  # of a test before this one
    default.ch.delete(queue)
    named = {"vhost": down.vhost, "type": "exchange", "name": "fed.x", "upstream": "u0", "upstream_name": "other"}
    assert {key: text(event[key]) for key in (*named, "id")} == named | {"id": row["id"]}


def test_links_of_virtual_hosts_are_listed_for_who_may_see_them(up: Place, down: Place) -> None:
    exchange_link(up, down)
    site = down.site
    assert [row["vhost"] for row in site.request("GET", "/federation-links").json] == [down.vhost]
    assert links(up) == []
    assert site.request("GET", "/federation-links/nowhere").status == 404
    user = f"viewer-{down.vhost}"
    site.add_user(user, {up.vhost: (".*", ".*", ".*")}, ("management",))
    assert site.request("GET", "/federation-links", user=user).status == 401


def test_links_that_are_down_are_listed_until_they_are_not(up: Place, down: Place) -> None:
    user = f"later-{up.vhost}"
    for number in range(3):
        down.ch.exchange(f"fed.{number}", "fanout")
    down.upstream("good", up.inside)
    down.upstream("bad", up.through(up.site.port, user=f"{user}:{user}"), reconnect_delay=3600)
    down.policy("^fed.0$", {"federation-upstream": "good"}, "good")
    down.policy("^fed.[12]$", {"federation-upstream": "bad"}, "bad")
    for path in ("/state/down", "/state/down/"):
        until(lambda path=path: len(links(down, path)) == 2, lambda: str(links(down)))  # type: ignore[misc]
    failing = links(down, "/state/down")
    assert {row["exchange"] for row in failing} == {"fed.1", "fed.2"} and all(row["error"] for row in failing)
    everywhere = down.site.request("GET", "/federation-links/state/down").json
    assert {row["id"] for row in everywhere} == {row["id"] for row in failing}
    up.site.add_user(user, {up.vhost: (".*", ".*", ".*")})
    for row in failing:
        path = f"/federation-links/vhost/{down.vhost}/{row['id']}/{row['node']}/restart"
        assert down.site.request("DELETE", path).status == 204
    until(lambda: links(down, "/state/down") == [], lambda: str(links(down)))
    down.running(3)


def test_who_makes_policies_may_restart_links(up: Place, down: Place) -> None:
    exchange_link(up, down)
    site = down.site
    (row,) = links(down)
    watcher, maker = f"watcher-{down.vhost}", f"maker-{down.vhost}"
    site.add_user(watcher, {down.vhost: (".*", ".*", ".*")}, ("monitoring",))
    site.add_user(maker, {down.vhost: (".*", ".*", ".*")}, ("policymaker",))

    def restart(user: str, id_: object = row["id"], node: object = row["node"], vhost: str = down.vhost) -> int:
        return site.request("DELETE", f"/federation-links/vhost/{vhost}/{id_}/{node}/restart", user=user).status

    assert restart(watcher) == 401
    assert (restart(maker, "ffffffff"), restart(maker, node="nobody@nowhere")) == (404, 404)
    assert restart("guest", vhost="nowhere") == 404
    changed_s = down.row()["changed_s"]
    assert restart(maker) == 204
    until(lambda: down.row()["changed_s"] > changed_s, "a change")
    down.running()


# Commands; in tests/acceptance/operator/ctl/test_federation.py there is more of them


@pytest.fixture
def warrenctl(clean: FederatedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Warrenctl:
    return commanded(monkeypatch, capsys, "--data", str(clean.data))


def test_the_command_line_tells_of_links_in_columns_that_may_be_blank(
    clean: FederatedBroker, warrenctl: Warrenctl
) -> None:
    status, out, _ = warrenctl("federation_status --formatter json")
    assert (status, json.loads(out)) == (0, [])
    clean.upstream("good", "amqp:///up")
    clean.upstream("bad", "amqp://127.0.0.1:1")
    clean.policy("^fed", {"federation-upstream-set": "all"})
    until(lambda: {row["status"] for row in clean.rows()} == {"running", "error"}, lambda: str(clean.rows()))
    _, out, _ = warrenctl("federation_status --formatter json")
    rows = {row["upstream"]: row for row in json.loads(out)}
    for row in rows.values():
        assert row.keys() == COLUMNS
        assert (row["queue"], row["upstream_queue"], row["consumer_tag"]) == ("", "", "")
        changed = datetime.strptime(row["last_changed"], "%Y-%m-%d %H:%M:%S")
        assert abs(changed.timestamp() - time.time()) < 3600 and len(row["last_changed"]) == 19
    assert rows["good"]["status"] == "running" and rows["good"]["error"] == "" and rows["good"]["local_connection"]
    assert rows["bad"]["status"] == "error" and rows["bad"]["error"] and rows["bad"]["local_connection"] == ""
    _, out, _ = warrenctl("federation_status --only-down --formatter json")
    assert [row["upstream"] for row in json.loads(out)] == ["bad"]
    _, out, _ = warrenctl("federation_status --only-down")
    assert out.startswith("Listing federation links which are down on node only@test...\n")


def test_a_link_is_restarted_by_the_command_line(clean: FederatedBroker, warrenctl: Warrenctl) -> None:
    clean.federate("^fed", "amqp:///up")
    (row,) = clean.running()
    status, out, err = warrenctl(f"restart_federation_link {row['id']}")
    assert (status, out, err) == (0, f"Restarting federation link {row['id']} on node only@test\n", "")

    def restarted() -> bool:
        """Whether it shows; again and again, as times are shown in seconds."""
        warrenctl(f"restart_federation_link {row['id']}")
        return clean.running()[0]["timestamp"] != row["timestamp"]

    until(restarted, lambda: str(clean.rows()))
    status, _, err = warrenctl("restart_federation_link ffffffff")
    assert status != 0 and "Link with the given ID was not found" in err
    assert warrenctl("restart_federation_link")[0] == 64
    assert warrenctl("restart_federation_link a b")[0] == 64


def test_links_are_counted_by_status(clean: FederatedBroker) -> None:
    def samples() -> dict[str, int]:
        found = re.findall(r'^rabbitmq_federation_links\{status="(\w+)"\} (\d+)', clean.metrics(), re.MULTILINE)
        return {status: int(count) for status, count in found}

    assert samples() == {}
    clean.upstream("one", "amqp:///up")
    clean.policy("^fed", {"federation-upstream-set": "all"})
    until(lambda: samples() == {"running": 1}, lambda: str(samples()))
    clean.upstream("two", "amqp:///up", exchange="other")
    until(lambda: samples() == {"running": 2}, lambda: str(samples()))
    clean.upstream("three", "amqp://127.0.0.1:1")
    until(lambda: samples() == {"running": 2, "error": 1}, lambda: str(samples()))


def test_the_connections_of_a_link_say_whose_they_are(up: Place, down: Place) -> None:
    exchange_link(up, down)
    name = "Federation link (upstream: u0, policy: federate)"
    assert down.row()["local_connection"] == name
    listed = up.site.request("GET", f"/vhosts/{up.vhost}/connections").json
    named = [one["client_properties"] for one in listed if one["client_properties"].get("connection_name") == name]
    assert len(named) == 1 and named[0]["capabilities"]["consumer_cancel_notify"] is True
