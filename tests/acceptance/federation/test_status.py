"""Scenarios 95 to 102: what operators are shown of links."""

import json
import re
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.federated_broker import FederatedBroker
from tests.support.federation import Place, headers, text
from tests.support.polling import until
from tests.support.warrenctl import commanded

pytestmark = pytest.mark.sockets

COLUMNS = {
    *("exchange", "upstream_exchange", "queue", "upstream_queue", "consumer_tag", "type", "vhost", "upstream", "id"),
    *("status", "local_connection", "uri", "error", "last_changed"),
    *("policy", "state", "reason", "degraded", "backlog", "lag_ms", "retries", "reconnects", "next_attempt_at"),
    *("forwarded", "unconfirmed", "nacked", "dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings"),
}


def links(place: Place) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = place.site.request("GET", f"/federation-links/{place.vhost}").json
    return listed


def exchange_link(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.through(up.site.port, "?heartbeat=5"), exchange="other")


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


# More about the command is in tests/acceptance/operator/ctl/test_federation.py


def test_the_command_line_tells_of_links_in_columns_that_may_be_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(FederatedBroker(tmp_path, "only")) as warren:
        warren.start()
        warren.ask("PUT", "/vhosts/up", {})
        warren.connect().channel().exchange("fed.x", "fanout", durable=True)
        warrenctl = commanded(monkeypatch, capsys, "--data", str(warren.data))
        status, out, _ = warrenctl("federation_status --formatter json")
        assert (status, json.loads(out)) == (0, [])
        warren.upstream("good", "amqp:///up")
        warren.upstream("bad", "amqp://127.0.0.1:1")
        warren.policy("^fed", {"federation-upstream-set": "all"})
        until(lambda: {row["status"] for row in warren.rows()} == {"running", "error"}, lambda: str(warren.rows()))
        _, out, _ = warrenctl("federation_status --formatter json")
        rows = {row["upstream"]: row for row in json.loads(out)}
        for row in rows.values():
            assert row.keys() == COLUMNS
            assert (row["queue"], row["upstream_queue"], row["consumer_tag"]) == ("", "", "")
            changed = datetime.strptime(row["last_changed"], "%Y-%m-%d %H:%M:%S")
            assert abs(changed.timestamp() - time.time()) < 3600 and len(row["last_changed"]) == 19
        good, bad = rows["good"], rows["bad"]
        assert good["status"] == "running" and good["error"] == "" and good["local_connection"]
        assert bad["status"] == "error" and bad["error"] and bad["local_connection"] == ""
        _, out, _ = warrenctl("federation_status --only-down --formatter json")
        assert [row["upstream"] for row in json.loads(out)] == ["bad"]
        assert warrenctl(f"restart_federation_link {good['id']}")[0] == 0
        assert warrenctl("restart_federation_link ffffffff")[0] != 0
