"""Exchanges over HTTP."""

import asyncio
from urllib.parse import quote, unquote

import pytest

from tests.support.http import Api
from warren.broker.amqp.field_table import Table
from warren.plugins.exchanges.presence import PresenceExchange

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


PATH = "/bindings/%2F/e/amq.topic/q/tq"


def bound(api: Api, key: str = "", arguments: object = None, path: str = PATH) -> str:
    """Create a binding and return its properties key from the header Location."""
    api.put("/queues/%2F/tq")
    answer = api.post(path, {"routing_key": key, "arguments": arguments or {}})
    assert answer.status == 201, answer.body
    destination, props = answer.headers["location"].split("/")
    assert unquote(destination) == path.rpartition("/")[2]
    return unquote(props)


@pytest.mark.parametrize(("key", "listed"), [("", "~"), ("a.b", "a.b"), ("a~b c/d", "a%7Eb+c%2Fd"), ("é", "%C3%A9")])
def test_a_binding_has_a_key_that_finds_it_quoted_once_or_twice(api: Api, key: str, listed: str) -> None:
    props = bound(api, key)
    assert props == listed
    for segment in (quote(listed, safe=""), listed):
        binding = api.get(f"{PATH}/{segment}").json
        assert (binding["routing_key"], binding["properties_key"]) == (key, listed)
    assert api.delete(f"{PATH}/{quote(listed, safe='')}").status == 204
    assert api.delete(f"{PATH}/{listed}").error == NOT_FOUND
    assert api.get(PATH).json == []


def test_arguments_make_another_key(api: Api) -> None:
    bound(api, "k")
    props = bound(api, "k", {"x": 1, "y": "z"})
    assert props.startswith("k~") and props == bound(api, "k", {"y": "z", "x": 1})
    assert props != bound(api, "k", {"x": 2})
    assert api.get(f"{PATH}/{props}").json["arguments"] == {"x": 1, "y": "z"}
    assert len(api.get(PATH).json) == 3
    assert api.delete(f"{PATH}/{props}").status == 204
    assert len(api.get(PATH).json) == 2


def test_a_location_is_quoted_once_more(api: Api) -> None:
    api.put("/queues/%2F/tq")
    answer = api.post(PATH, {"routing_key": "a~b c/d"})
    assert answer.headers["location"] == "tq/a%257Eb%2Bc%252Fd"
    assert api.post(PATH, {}).headers["location"] == "tq/~"


@pytest.mark.parametrize("key", ["a%257Eb+c%252Fd", "a%257Eb%2Bc%252Fd", "a%257Eb%20c%252Fd", "a%7Eb%20c%2Fd"])
def test_a_key_with_a_space_is_found_however_it_is_quoted(api: Api, key: str) -> None:
    """RabbitMQ finds the first three."""
    api.put("/queues/%2F/tq")
    api.post(PATH, {"routing_key": "a~b c/d"})
    assert api.get(f"{PATH}/{key}").json["routing_key"] == "a~b c/d"
    assert api.delete(f"{PATH}/{key}").status == 204


def test_every_queue_is_bound_to_the_default_exchange(api: Api) -> None:
    bound(api, "k")
    listed = api.get("/queues/%2F/tq/bindings").json
    assert [(one["source"], one["properties_key"]) for one in listed] == [("", "tq"), ("amq.topic", "k")]
    assert api.get("/bindings/%2F/e/amq.default/q/tq").json == listed[:1]
    assert api.get("/exchanges/%2F/amq.default/bindings/source").json == listed[:1]
    assert api.get("/bindings").json == api.get("/bindings/%2F").json == listed
    assert api.delete("/bindings/%2F/e/amq.default/q/tq/tq").error == REFUSED
    assert api.post("/bindings/%2F/e/amq.default/q/tq", {"routing_key": "x"}).error == REFUSED


def test_exchanges_are_bound_to_each_other(api: Api) -> None:
    path = "/bindings/%2F/e/amq.topic/e/amq.fanout"
    props = bound(api, "#", path=path)
    (binding,) = api.get(path).json
    assert (binding["destination"], binding["destination_type"]) == ("amq.fanout", "exchange")
    assert api.get("/exchanges/%2F/amq.topic/bindings/source").json == [binding]
    assert api.get("/exchanges/%2F/amq.fanout/bindings/destination").json == [binding]
    assert api.delete(f"{path}/{quote(props, safe='')}").status == 204


def test_missing_objects_cannot_be_bound(api: Api) -> None:
    api.put("/queues/%2F/tq")
    for path, what in (
        ("amq.topic/q/nope", "queue 'nope'"),
        ("nope/q/tq", "exchange 'nope'"),
        ("nope/e/amq.topic", "exchange 'nope'"),
    ):
        assert api.post(f"/bindings/%2F/e/{path}").error == (404, "not_found", f"no {what} in vhost '/'")
        assert api.get(f"/bindings/%2F/e/{path}").json == []
    assert api.get(f"{PATH}/nope").error == NOT_FOUND


def test_missing_objects_have_no_bindings(api: Api) -> None:
    for path in (
        "/queues/%2F/nope/bindings",
        "/queues/nowhere/nope/bindings",
        "/exchanges/%2F/nope/bindings/source",
        "/exchanges/nowhere/nope/bindings/destination",
        "/bindings/nowhere/e/x/q/y",
    ):
        assert (api.get(path).status, api.get(path).json) == (200, [])
    assert api.get("/bindings/nowhere").error == NOT_FOUND


def test_bindings_are_listed_in_pages_if_asked_filtered_by_names_and_key(api: Api) -> None:
    for key in ("b", "a", "c"):
        bound(api, f"page.{key}")
    page = api.get("/queues/%2F/tq/bindings?page=1&page_size=2&name=PAGE.").json
    assert [one["routing_key"] for one in page["items"]] == ["page.a", "page.b"]
    assert (page["filtered_count"], page["page_count"], page["total_count"]) == (3, 2, 4)
    page = api.get("/exchanges/%2F/amq.topic/bindings/source?page=2&page_size=2&sort=routing_key").json
    assert [one["routing_key"] for one in page["items"]] == ["page.c"]


def test_a_message_emitted_by_an_exchange_type_is_enqueued_before_the_response(api: Api) -> None:
    vhost = api.peer.node.vhosts["/"]
    api.peer.node.registry.register("x-presence", PresenceExchange)
    vhost.declare_exchange("p", "x-presence")
    present, listener = vhost.declare_queue("present"), vhost.declare_queue("listener")
    for number in range(10_000):
        vhost.bind("p", present, f"k{number}", Table.EMPTY)

    def turn() -> None:
        api.peer.settle()
        asyncio.get_running_loop().call_soon(turn)

    api.while_waiting(turn)
    assert api.post("/bindings/%2F/e/p/q/listener").status == 201
    assert listener.ready == 10_000
    vhost.delete_queue(present)
    assert vhost.unbinding_jobs
    api.while_waiting(turn)
    assert api.put("/queues/%2F/present").status == 201
    assert not vhost.unbinding_jobs
    assert listener.ready == 20_000


def test_an_object_stored_under_a_name_with_line_ends_can_be_deleted(api: Api) -> None:
    vhost = api.peer.node.vhosts["/"]
    for name in ("q\n1", "q1"):
        queue = vhost.declare_queue(name)
        vhost.declare_exchange(name, "fanout")
        vhost.bind(name, queue, "k", Table.EMPTY)
    assert api.delete("/bindings/%2F/e/q%0A1/q/q%0A1/k").status == 204
    assert not vhost.exchanges["q\n1"].outgoing and vhost.exchanges["q1"].outgoing
    for path in ("/queues/%2F/q%0A1/contents", "/queues/%2F/q%0A1", "/exchanges/%2F/q%0A1"):
        assert api.delete(path).status == 204
    assert list(vhost.queues) == ["q1"] and "q1" in vhost.exchanges and "q\n1" not in vhost.exchanges


def test_line_ends_in_names_are_dropped_as_in_methods(api: Api) -> None:
    """A name of only line ends is empty; for a queue one is generated."""
    for path, body in (("/queues/%2F/q%0A", {}), ("/exchanges/%2F/x%0D%0A", {"type": "fanout"})):
        assert [api.put(path, body).status for _ in range(2)] == [201, 204]
    for end, location in (("q/q%0A", "q/k"), ("e/amq.fanout%0A", "amq.fanout/k")):
        path = f"/bindings/%2F/e/x%0A/{end}"
        answer = api.post(path, {"routing_key": "k"})
        assert (answer.status, answer.headers["location"]) == (201, location)
        assert api.get(path.replace("%0A", "") + "/k").status == 200
    for path in ("/queues/%2F/q%0A", "/exchanges/%2F/x%0A"):
        assert api.get(path).status == api.delete(path).status == 404, "another object is not deleted"
    assert api.put("/exchanges/%2F/%0A").status == api.put("/exchanges/%2F/amq.default").status == 401
    assert api.post("/bindings/%2F/e/x/q/%0A").status == 404
    move = {"destination": {"exchange": "x\n"}, "count": 1}
    assert api.post("/warren/queues/%2F/q/move", move).status == 404, "those of basic.publish are not dropped"
    assert api.put("/queues/%2F/%0A").status == 201
    assert sorted(api.peer.node.vhosts["/"].queues)[0].startswith("amq.gen-")
