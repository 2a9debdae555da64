"""Connections, channels and consumers over HTTP."""

from urllib.parse import quote

import pytest

from tests.support.http import Api

NOT_FOUND = (404, "Object Not Found", "Not Found")
FOREIGN = (401, "not_authorised", "User not authorised to access object")
NAME = "127.0.0.1:50000 -> 127.0.0.1:5672"
PATH = f"/connections/{quote(NAME, safe='')}"


def test_a_connection_has_its_identity_and_counters(api: Api) -> None:
    client = api.peer.connect(heartbeat=30)
    client.channel()
    connection = api.get(PATH).json
    of_tls = [key for key in connection if key.startswith(("ssl_", "peer_cert_"))]
    assert len(of_tls) == 7 and {connection[key] for key in of_tls} == {""}
    listed = connection | dict.fromkeys(of_tls)
    assert api.get("/connections").json == api.get("/vhosts/%2F/connections").json == [listed]
    assert (connection["name"], connection["user"], connection["vhost"]) == (NAME, "guest", "/")
    assert (connection["protocol"], connection["auth_mechanism"]) == ("AMQP 0-9-1", "PLAIN")
    assert (connection["channels"], connection["timeout"], connection["ssl"]) == (1, 30, False)
    assert connection["state"] == "running" and connection["recv_oct"] > 0
    assert connection["recv_oct_details"] == connection["reductions_details"] == {"rate": 0.0}
    assert connection["garbage_collection"]["minor_gcs"] == 0
    assert api.get("/connections?page=1&page_size=5").json["filtered_count"] == 1
    assert "recv_oct" not in api.get("/connections?disable_stats=true").json[0]


@pytest.mark.parametrize(("headers", "reason"), [({}, "Closed via management plugin"), ({"X-Reason": "go"}, "go")])
def test_a_connection_closed_by_an_operator_gets_the_reason(api: Api, headers: dict[str, str], reason: str) -> None:
    client = api.peer.connect()
    assert api.delete(PATH, headers=headers).status == 204
    assert client.expect_close(320).reply_text == f"CONNECTION_FORCED - {reason}"
    client.close()
    assert api.delete(PATH).error == api.get(PATH).error == NOT_FOUND


def test_a_user_sees_and_closes_own_connections_only_as_its_tags_allow(api: Api) -> None:
    client = api.peer.connect()
    client.channel()
    api.peer.add_user("m", ("management",))
    api.peer.add_user("watch", ("monitoring",))
    channel = f"/channels/{quote(NAME + ' (1)', safe='')}"
    assert api.get("/connections", user="m").json == api.get("/channels", user="m").json == []
    for path in (PATH, f"{PATH}/channels", channel, "/connections/username/guest"):
        assert api.get(path, user="m").error == FOREIGN
        assert api.get(path, user="watch").status == 200
    assert api.delete(PATH, user="watch").error == FOREIGN


def test_connections_are_found_and_closed_by_their_user(api: Api) -> None:
    client = api.peer.connect()
    (connection,) = api.get("/connections/username/guest").json
    assert set(connection) == {"name", "vhost", "user", "node"}
    assert api.delete("/connections/username/guest").status == 204
    client.expect_close(320)
    assert api.delete("/connections/username/guest").status == 204
    assert api.get("/connections/username/nobody").json == []


def test_a_channel_has_its_mode_and_counters(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.confirm()
    channel.qos(5)
    channel.declare("q")
    channel.publish("", "q", b"x")
    channel.confirms([1])
    channel.consume("q", consumer_tag="tag")
    answer = api.get(f"/channels/{quote(NAME + ' (1)', safe='')}").json
    assert (answer["name"], answer["number"], answer["confirm"]) == (f"{NAME} (1)", 1, True)
    assert (answer["prefetch_count"], answer["consumer_count"], answer["messages_unacknowledged"]) == (5, 1, 1)
    assert (answer["message_stats"]["publish"], answer["message_stats"]["deliver"]) == (1, 1)
    (consumer,) = answer.pop("consumer_details")
    assert (consumer["consumer_tag"], consumer["prefetch_count"], consumer["queue"]["name"]) == ("tag", 5, "q")
    del answer["publishes"], answer["deliveries"]
    for path in ("/channels", f"{PATH}/channels", "/vhosts/%2F/channels"):
        assert api.get(path).json == [answer]
    assert api.get("/channels/nope").error == NOT_FOUND
