"""Exchanges over HTTP."""

from tests.support.http import Api

NOT_FOUND = (404, "Object Not Found", "Not Found")
REFUSED = (401, "not_authorised", "Access refused.")


def test_the_default_exchange_comes_first(api: Api) -> None:
    listed = api.get("/exchanges/%2F").json
    assert (listed[0]["name"], listed[0]["type"], listed[0]["durable"]) == ("", "direct", True)
    assert [one["name"] for one in listed] == sorted(one["name"] for one in listed)
    assert api.get("/exchanges").json == listed
    assert api.get("/exchanges/%2F/amq.default").json["name"] == ""
    page = api.get("/exchanges?page=1&page_size=2&name=TOPIC").json
    assert "amq.topic" in [one["name"] for one in page["items"]]


def test_an_exchange_is_declared_once_and_found_the_same(api: Api) -> None:
    body = {"type": "topic", "durable": True, "internal": "true", "arguments": {"alternate-exchange": "x"}}
    assert api.put("/exchanges/%2F/e", body).status == 201
    assert api.put("/exchanges/%2F/e", body).status == 204
    exchange = api.get("/exchanges/%2F/e").json
    assert exchange == {
        "name": "e", "vhost": "/", "type": "topic", "durable": True, "auto_delete": False, "internal": True,
        "arguments": {"alternate-exchange": "x"}, "user_who_performed_action": "guest", "incoming": [],
        "outgoing": [],
    }  # fmt: skip
    answer = api.put("/exchanges/%2F/e", body | {"type": "fanout"})
    assert answer.status == 400 and "inequivalent arg 'type' for exchange 'e'" in answer.json["reason"]
    assert api.put("/exchanges/%2F/n", {"type": "nope"}).status == 400
    assert api.put("/exchanges/%2F/amq.new", {}).error == REFUSED
    assert api.put("/exchanges/%2F/amq.default", {}).error == REFUSED


def test_an_exchange_is_deleted_unless_it_is_used(api: Api) -> None:
    api.put("/exchanges/%2F/e", {"type": "fanout"})
    api.put("/queues/%2F/q")
    api.post("/bindings/%2F/e/e/q/q")
    assert api.delete("/exchanges/%2F/e?if-unused=true").json["reason"] == "exchange 'e' in vhost '/' in use"
    assert api.delete("/exchanges/%2F/e").status == 204
    assert api.delete("/exchanges/%2F/e").error == api.get("/exchanges/%2F/e").error == NOT_FOUND
    assert api.delete("/exchanges/%2F/amq.topic").error == REFUSED


def test_an_exchange_counts_publishes_in_and_out(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q")
    channel.bind("q", "amq.fanout")
    channel.publish("amq.fanout", "", b"x")
    channel.sync()
    stats = api.get("/exchanges/%2F/amq.fanout").json["message_stats"]
    assert (stats["publish_in"], stats["publish_out"]) == (1, 1)
    assert "message_stats" not in api.get("/exchanges/%2F/amq.fanout?disable_stats=true").json


def test_a_policy_shows_where_it_holds(api: Api) -> None:
    api.peer.set_policy("p", "^amq.topic$", {"alternate-exchange": "x"})
    assert api.get("/exchanges/%2F/amq.topic").json["policy"] == "p"


def test_an_exchange_names_its_declarer(api: Api) -> None:
    api.peer.add_user("app", ("management",))
    client = api.peer.connect("app", "app").channel()
    client.exchange("by.amqp", "fanout", durable=True)
    api.put("/exchanges/%2F/by.http", user="app")
    exchange = {"vhost": "/", "name": "by.import", "type": "direct", "durable": True, "auto_delete": False}
    api.post("/definitions", {"exchanges": [exchange]})
    client.exchange("by.amqp", "fanout", durable=True)  # the first declaration counts
    shown = {one["name"]: one["user_who_performed_action"] for one in api.get("/exchanges").json}
    assert [shown[f"by.{way}"] for way in ("amqp", "http", "import")] == ["app", "app", "guest"]
    assert {shown[name] for name in ("", "amq.direct", "amq.rabbitmq.event")} == {"rmq-internal"}
    assert api.get("/exchanges/%2F/by.amqp").json["user_who_performed_action"] == "app"
