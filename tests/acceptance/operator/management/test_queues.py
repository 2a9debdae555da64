"""Queues over HTTP."""

import asyncio

import pytest

from tests.support.http import Api, asgi_scope, call_application, request
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties

NOT_FOUND = (404, "Object Not Found", "Not Found")


def test_a_queue_is_declared_once_and_found_the_same(api: Api) -> None:
    body = {"durable": "true", "auto_delete": False, "arguments": {"x-max-length": 10, "x-message-ttl": 60000}}
    assert api.put("/queues/%2F/a%2Fb", body).status == 201
    assert api.put("/queues/%2F/a%2Fb", body).status == 204
    queue = api.get("/queues/%2F/a%2Fb").json
    assert (queue["name"], queue["vhost"], queue["type"], queue["durable"]) == ("a/b", "/", "classic", True)
    assert queue["arguments"] == {"x-max-length": 10, "x-message-ttl": 60000, "x-queue-type": "classic"}
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (0, 0, 0)
    assert queue["messages_details"] == {"rate": 0.0}
    assert queue["policy"] is None and queue["effective_policy_definition"] == {}
    assert queue["consumer_details"] == [] and queue["state"] == "running"
    assert "message_stats" not in queue


def test_a_different_declaration_gets_the_difference(api: Api) -> None:
    api.put("/queues/%2F/q", {"durable": True})
    answer = api.put("/queues/%2F/q", {"durable": False})
    assert answer.status == 400 and "inequivalent arg 'durable' for queue 'q' in vhost '/'" in answer.json["reason"]


def test_a_queue_is_deleted_unless_it_is_needed(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q", durable=True)
    channel.fill("q", b"x")
    assert api.delete("/queues/%2F/q?if-empty=true").json["reason"] == "queue 'q' in vhost '/' not empty"
    assert api.delete("/queues/%2F/q/contents").status == 204
    assert api.get("/queues/%2F/q").json["messages"] == 0
    assert api.delete("/queues/%2F/q?if-empty=true&if-unused=true").status == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("DELETE", "/contents")):
        assert api.request(method, f"/queues/%2F/q{path}").error == NOT_FOUND


@pytest.mark.parametrize(("method", "path", "body", "status", "text"), [
    ("DELETE", "/queues/%2F/q/contents", None, 204, ""),
    ("DELETE", "/queues/%2F/q", None, 204, ""),
    ("POST", "/queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}, 200, "payload"),
    ("POST", "/warren/queues/%2F/q/move", {"count": 1, "destination": {"queue": "other"}}, 200, '"moved":1'),
])  # fmt: skip
async def test_requeues_are_waited_for(api: Api, method: str, path: str, body: object, status: int, text: str) -> None:
    channel = api.peer.connect().channel()
    for name in ("q", "other"):
        channel.declare(name)
    queue = api.peer.node.vhosts["/"].queues["q"]
    queue.pause()
    asking = asyncio.ensure_future(request(api.application, method, path, body))
    for _ in range(10):
        await asyncio.sleep(0)
    channel.fill("q", b"x")
    assert not asking.done() and queue.ready == 1 and not queue.deleted
    queue.resume()
    response = await asking
    assert response.status == status and text in response.text
    assert not queue.ready


@pytest.mark.parametrize(("method", "path", "body"), [
    ("POST", "/queues/v/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    ("POST", "/warren/queues/v/q/move", {"count": 1, "destination": {"queue": "other"}}),
    ("DELETE", "/queues/v/q", None),
    ("DELETE", "/queues/v/q/contents", None),
])  # fmt: skip
@pytest.mark.parametrize("user", ["guest", "worker"])
def test_a_wait_for_a_deleted_vhost_is_404(api: Api, method: str, path: str, body: object, user: str) -> None:
    api.peer.add_user("worker", ("management",))
    for name in ("", "/other", "/q"):
        assert api.put(f"/{'queues' if name else 'vhosts'}/v{name}").status == 201
    api.peer.node.users.set_permission("worker", "v", ".*", ".*", ".*")
    queue = api.peer.node.vhosts["v"].queues["q"]
    queue.pause()

    async def ask() -> None:
        asking = call_application(api.application, *asgi_scope(method, path, body, user=user))
        response = asyncio.ensure_future(asking)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not response.done()
        assert (await request(api.application, "DELETE", "/vhosts/v")).status == 204
        queue.resume()
        assert (await response).status == 404

    asyncio.run(ask())


def test_each_column_alone_is_the_same_as_among_all(api: Api) -> None:
    body = {"pattern": ".", "definition": {"max-length": 9}, "apply-to": "queues"}
    api.put("/policies/%2F/p", body)
    api.put("/operator-policies/%2F/o", body)
    channel = api.peer.connect().channel()
    for name, arguments in (("classic", {}), ("quorum", {"x-queue-type": "quorum"})):
        channel.declare(name, durable=True, arguments=arguments)
        channel.fill(name, b"x", b"y")
        channel.get(name)
    channel.declare("own", exclusive=True)
    channel.consume("own", exclusive=True)
    api.sample()
    api.peer.clock.advance(3 * api.state.samples.interval_ms)
    whole = api.get("/queues").json
    names = {name for queue in whole for name in queue}
    assert {"idle_since", "oldest_ready_message_age", "members", "policy", "owner_pid_details"} <= names
    for name in sorted(names):
        alone = api.get(f"/queues?columns={name}").json
        assert alone == [{name: queue[name]} if name in queue else {} for queue in whole]
        assert api.get(f"/queues?columns={name},memory").status == api.get(f"/queues?sort={name}").status == 200


def test_lists_are_sorted_and_have_visible_virtual_hosts_only(api: Api) -> None:
    api.peer.add_vhost("v")
    api.peer.node.users.set_permission("guest", "v", ".*", ".*", ".*")
    for path in ("v/a", "%2F/z", "%2F/b"):
        api.put(f"/queues/{path}")
    listed = api.get("/queues?columns=vhost,name").json
    assert [(one["vhost"], one["name"]) for one in listed] == [("/", "b"), ("/", "z"), ("v", "a")]
    assert [one["name"] for one in api.get("/queues/v").json] == ["a"]
    assert [one["name"] for one in api.get("/queues", headers={"X-Vhost": "v"}).json] == ["a"]
    api.peer.add_user("m", ("management",))
    assert [one["name"] for one in api.get("/queues", user="m").json] == ["b", "z"]
    assert api.get("/queues/v", user="m").status == 401
    page = api.get("/queues/%2F?page=1&page_size=10&name=^b$&use_regex=true&pagination=false").json
    assert (page["filtered_count"], page["page_count"], page["items"][0]["name"]) == (1, 1, "b")
    assert "garbage_collection" in api.get("/queues/detailed").json[0]


def test_a_queue_has_its_messages_and_consumers(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q", durable=True)
    channel.fill("q", *[b"abcd"] * 3)
    channel.consume("q", consumer_tag="tag", exclusive=True)
    queue = api.get("/queues/%2F/q").json
    assert queue["message_stats"]["publish"] == 3 and queue["message_bytes"] == 12
    assert queue["messages"] == queue["messages_ready"] + queue["messages_unacknowledged"] == 3
    assert queue["exclusive_consumer_tag"] == "tag" and queue["consumers"] == 1
    (consumer,) = queue["consumer_details"]
    assert consumer["channel_details"]["name"].endswith(" -> 127.0.0.1:5672 (1)")
    assert api.get("/consumers/%2F").json == api.get("/consumers").json == [consumer]


def test_of_two_consumers_of_a_single_active_one_the_second_waits(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q", arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        channel.consume("q", consumer_tag=tag)
    found = {one["consumer_tag"]: (one["active"], one["activity_status"]) for one in api.get("/consumers/%2F").json}
    assert found == {"first": (True, "single_active"), "second": (False, "waiting")}


def test_a_classic_queue_has_the_timestamp_of_its_first_ready_message(api: Api) -> None:
    connection = api.peer.connect()
    channel = connection.channel()
    channel.declare("q", durable=True)
    assert "head_message_timestamp" not in api.get("/queues").json[0]
    assert api.get("/queues/%2F/q").json["head_message_timestamp"] is None
    for timestamp in (1_700_000_000, None, 1 << 63):
        headers = Table.of({"a": 1})
        properties = Properties(content_type="text/plain", headers=headers, timestamp=timestamp).encode()
        channel.publish("", "q", b"x", properties)
    channel.declare("q", durable=True)  # is answered after the publishes
    seen = []
    for _ in range(4):
        seen.append(api.get("/queues/%2F/q").json["head_message_timestamp"])
        channel.get("q", no_ack=False)
    assert seen == [1_700_000_000, None, 1 << 63, None]
    connection.close()
    assert api.get("/queues").json[0]["head_message_timestamp"] == 1_700_000_000, "it was requeued"
    assert "head_message_timestamp" not in api.get("/queues?disable_stats=true").json[0]


def test_without_statistics_a_list_has_properties_only(api: Api) -> None:
    api.put("/queues/%2F/q")
    plain = api.get("/queues?disable_stats=true").json[0]
    assert plain["durable"] is False and "messages" not in plain and "consumers" not in plain
    totals = api.get("/queues?disable_stats=true&enable_queue_totals=true").json[0]
    assert totals["messages"] == 0 and "consumers" not in totals


def test_a_policy_shows_where_it_holds(api: Api) -> None:
    api.put("/queues/%2F/q")
    assert "policy" not in api.get("/queues").json[0]
    api.peer.set_policy("p", "^q$", {"max-length": 5})
    queue = api.get("/queues").json[0]
    assert (queue["policy"], queue["effective_policy_definition"]) == ("p", {"max-length": 5})


def test_names_are_decoded_once_and_a_plus_is_a_plus(api: Api) -> None:
    assert api.put("/queues/%2F/x%20y+z").status == 201
    assert api.get("/queues/%2F/x%20y+z").json["name"] == api.get("/queues/%2F/x%20y%2Bz").json["name"] == "x y+z"
    assert api.get("/queues/%2F/x+y+z").error == api.get("/queues/%2F/x%2520y+z").error == NOT_FOUND


def test_a_counter_stays_when_the_channel_that_moved_it_is_closed(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q")
    for _ in range(1000):
        channel.publish("", "q", b"x")
    channel.close()
    assert api.get("/channels").json == []
    queue, overview = api.get("/queues/%2F/q").json, api.get("/overview").json
    assert queue["message_stats"]["publish"] == overview["message_stats"]["publish"] == 1000


def test_all_that_was_handed_out_is_the_sum_of_the_ways_it_went(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q")
    channel.fill("q", *[b"x"] * 10)
    for no_ack in (True, False, False):
        assert channel.get("q", no_ack=no_ack) is not None
    channel.consume("q", consumer_tag="auto", no_ack=True)
    api.peer.settle()
    stats = api.get("/queues/%2F/q").json["message_stats"]
    ways = ("deliver", "deliver_no_ack", "get", "get_no_ack")
    assert [stats[way] for way in ways] == [0, 7, 2, 1]
    assert stats["deliver_get"] == sum(stats[way] for way in ways) == 10


def test_samples_have_the_requested_interval_newest_first(api: Api) -> None:
    channel = api.peer.connect().channel()
    channel.declare("q")
    for _ in range(4):
        channel.fill("q", *[b"x"] * 10)
        api.sample()
        api.peer.wait(5000)
    details = api.get("/queues/%2F/q?lengths_age=60&lengths_incr=5").json["messages_details"]
    assert [one["sample"] for one in details["samples"]] == [40, 30, 20, 10]
    times = [one["timestamp"] for one in details["samples"]]
    assert times == [times[0] - 5000 * step for step in range(4)] and times[0] % 5000 == 0
    assert (details["rate"], details["avg_rate"], details["avg"]) == (2.0, 2.0, 25.0)


def test_a_quorum_queue_has_the_fields_of_its_replicas(api: Api) -> None:
    api.put("/queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    queue, node = api.get("/queues/%2F/q").json, api.host.node.name
    assert (queue["leader"], queue["members"], queue["online"]) == (node, [node], [node])
    assert (queue["type"], queue["arguments"], queue["delivery_limit"]) == ("quorum", {"x-queue-type": "quorum"}, 20)
    assert (queue["messages_ready_normal"], queue["open_files"]) == (0, {node: 0})
    assert (queue["replicated"], queue["guarantee"]) == (False, "no disk")


def test_a_queue_is_transient_unless_it_is_asked_to_be_durable(api: Api) -> None:
    for path in ("/queues/%2F/q", "/exchanges/%2F/x"):
        assert api.put(path, {"arguments": {}}).status == 201
        assert api.get(path).json["durable"] is False


def test_a_detailed_list_leaves_consumers_and_breakdowns_to_a_single_queue(api: Api) -> None:
    api.put("/queues/%2F/q", {"durable": True})
    (listed,), single = api.get("/queues/detailed").json, api.get("/queues/%2F/q").json
    assert single.keys() - listed.keys() == {"consumer_details", "deliveries", "incoming"}
    assert listed["policy"] is None and "garbage_collection" in listed


def test_null_is_refused_at_any_depth_of_arguments(api: Api) -> None:
    for arguments in ({"x": None}, {"x": {"y": [1, None]}}, {"x": [{"y": None}]}):
        assert api.put("/queues/%2F/q", {"arguments": arguments}).error == (400, "bad_request", "null_not_allowed")


def test_columns_choose_among_the_fields_of_consumers(api: Api) -> None:
    api.put("/queues/%2F/q", {})
    channel = api.peer.connect().channel()
    for tag in ("one", "two"):
        channel.consume("q", consumer_tag=tag)
    assert api.get("/queues/%2F/q?columns=name").json == {"name": "q"}
    tags = [{"consumer_tag": "one"}, {"consumer_tag": "two"}]
    assert api.get("/queues/%2F/q?columns=consumer_details.consumer_tag").json == {"consumer_details": tags}
    chosen = api.get("/queues/%2F/q?columns=name,consumer_details.consumer_tag").json
    assert chosen == {"name": "q", "consumer_details": tags}
