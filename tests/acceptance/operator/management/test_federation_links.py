"""Federation links over HTTP, from a service with prepared rows."""

import pytest

from tests.support.fake_federation import FakeFederation, row
from tests.support.http import Api

MISSING = (404, "Object Not Found", "Not Found")
BROKEN = {"status": "error", "error": "no route to host", "state": "", "reason": "", "local_connection": ""}


@pytest.fixture
def federation(api: Api) -> FakeFederation:
    api.host.services["federation"] = service = FakeFederation()
    return service


def test_without_the_service_the_routes_are_404(api: Api) -> None:
    for path in ("", "/%2F", "/state/down", "/%2F/state/down"):
        assert api.get(f"/federation-links{path}").error == MISSING
    assert api.delete(f"/federation-links/vhost/%2F/0badcafe/{api.host.node.name}/restart").error == MISSING


def test_no_links_are_an_empty_list(api: Api, federation: FakeFederation) -> None:
    assert api.get("/federation-links").json == api.get("/federation-links/%2F").json == []


def test_an_exchange_link_has_rabbitmqs_fields(api: Api, federation: FakeFederation) -> None:
    federation.rows = [row()]
    (link,) = api.get("/federation-links").json
    changes = ("node", "vhost", "type", "exchange", "upstream_exchange", "upstream", "id", "status", "uri", "timestamp")
    assert {name: link[name] for name in (*changes, "local_connection")} == {
        "node": "rabbit@here", "vhost": "/", "type": "exchange", "exchange": "x", "upstream_exchange": "x",
        "upstream": "origin", "id": "0badcafe", "status": "running", "uri": "amqp://origin:5672/%2f",
        "timestamp": "2026-11-22 5:07:09", "local_connection": "link 1",
    }  # fmt: skip
    assert link.keys().isdisjoint({"error", "queue", "upstream_queue", "consumer_tag", "next_attempt_at"})
    assert (link["state"], link["since"], link["backlog"]) == ("flowing", "1970-01-01T00:16:40.500+00:00", 7)
    assert (link["dropped_invalid"], link["degraded"]) == (4, False)
    assert link["local_channel"]["connection_details"]["name"] == "link 1"
    assert (link["local_channel"]["name"], link["local_channel"]["messages_unconfirmed"]) == ("link 1 (1)", 2)


def test_a_link_of_a_queue_has_a_consumer(api: Api, federation: FakeFederation) -> None:
    federation.rows = [row(type="queue", name="q", upstream_name="r", consumer_tag="t")]
    (link,) = api.get("/federation-links/%2F").json
    assert (link["queue"], link["upstream_queue"], link["consumer_tag"]) == ("q", "r", "t")
    assert link.keys().isdisjoint({"exchange", "upstream_exchange"})


def test_a_link_that_is_down_shows_the_error_and_the_next_attempt(api: Api, federation: FakeFederation) -> None:
    federation.rows = [row(), row(id="00000001", **BROKEN, retries=3, next_attempt_s=2.0), row(status="starting")]
    (link,) = api.get("/federation-links/state/down/").json
    assert (link["status"], link["error"], link["retries"]) == ("error", "no route to host", 3)
    assert link["next_attempt_at"] == "1970-01-01T00:00:02.000+00:00"
    assert link.keys().isdisjoint({"local_connection", "local_channel", "state", "since", "reason"})
    assert api.get("/federation-links/%2F/state/down").json == [link]


def test_the_rate_of_a_link_is_of_confirmed_messages(api: Api, federation: FakeFederation) -> None:
    for confirmed in (10, 60):
        federation.rows = [row(confirmed=confirmed)]
        api.peer.clock.advance(5000)
        api.sample()
    (link,) = api.get("/federation-links").json
    counted = link["local_channel"]["message_stats"]
    assert (counted["confirm"], counted["confirm_details"]["rate"], counted["publish"]) == (60, 10.0, 12)
    assert "message_stats" not in api.get("/federation-links?disable_stats=true").json[0]["local_channel"]


def test_links_are_listed_in_order_with_columns_and_sorting(api: Api, federation: FakeFederation) -> None:
    api.peer.add_vhost("a")
    federation.rows = [row(name="y"), row(), row(vhost="a"), row(vhost="gone")]
    listed = [(link["vhost"], link["exchange"]) for link in api.get("/federation-links").json]
    assert listed == [("/", "x"), ("/", "y"), ("a", "x")]
    assert api.get("/federation-links/a?columns=vhost,exchange").json == [{"vhost": "a", "exchange": "x"}]
    assert api.get("/federation-links?page=1&name=Y&columns=exchange").json["items"] == [{"exchange": "y"}]
    federation.rows.append(row(name="z", upstream="near"))
    assert api.get("/federation-links?page=1&name=near&columns=exchange").json["items"] == [{"exchange": "z"}]
    assert len(api.get("/federation-links", headers={"X-Vhost": "a"}).json) == 1
    assert api.get("/federation-links/none").error == MISSING


def test_monitoring_sees_links_and_policymakers_restart_them(api: Api, federation: FakeFederation) -> None:
    api.peer.add_user("watch", ("monitoring",))
    api.peer.add_user("maker", ("policymaker",))
    federation.rows = [row()]
    path = f"/federation-links/vhost/%2F/0badcafe/{api.host.node.name}/restart"
    assert len(api.get("/federation-links", user="watch").json) == 1
    assert api.get("/federation-links", user="maker").error == (401, "not_authorised", "Not monitor user")
    assert api.delete(path, user="watch").error == (401, "not_authorised", "User not authorised to access object")
    assert federation.restarted == []
    assert api.delete(path, user="maker").status == 204
    assert federation.restarted == ["0badcafe"]


@pytest.mark.parametrize("path", ["none/0badcafe/{}", "other/0badcafe/{}", "%2F/0badf00d/{}", "%2F/0badcafe/rabbit@x"])
def test_an_unknown_link_is_not_restarted(api: Api, federation: FakeFederation, path: str) -> None:
    api.peer.add_vhost("other")
    federation.rows = [row()]
    path = path.format(api.host.node.name)
    assert api.delete(f"/federation-links/vhost/{path}/restart").error == MISSING
    assert federation.restarted == []


def test_a_single_link_has_counters_while_it_is_down_and_samples(api: Api, federation: FakeFederation) -> None:
    api.peer.add_user("maker", ("policymaker",))
    federation.rows = [row(), row(id="00000001", **BROKEN)]
    link = api.get("/warren/federation/links/%2F/00000001?msg_rates_age=60&msg_rates_incr=5").json
    assert (link["status"], link["error"], link["upstream_cluster_name"]) == ("error", "no route to host", "origin")
    assert (link["message_stats"]["publish"], link["message_stats"]["confirm"]) == (12, 10)
    assert "samples" in link["message_stats"]["confirm_details"]
    assert "samples" not in api.get("/warren/federation/links/%2F/0badcafe").json["message_stats"]["confirm_details"]
    assert api.get("/warren/federation/links/%2F/0badf00d").error == MISSING
    assert api.get("/warren/federation/links/%2F/0badcafe", user="maker").status == 401
