"""The overview and the node."""

from typing import Any

from tests.support.http import Api
from warren.broker.core.access.passwords import hash_password
from warren.broker.plugin import Service
from warren.plugins.management.stats.sampler import Sampler

ZERO = {"rate": 0.0}


def test_the_overview_has_all_that_tools_read(api: Api) -> None:
    body = api.get("/overview").json
    for name in (
        *("management_version", "rabbitmq_version", "product_name", "product_version", "rates_mode", "cluster_name"),
        *("sample_retention_policies", "erlang_version", "erlang_full_version", "cluster_tags", "node_tags"),
        *("disable_stats", "default_queue_type", "enable_queue_totals", "is_op_policy_updating_enabled"),
        *("churn_rates", "message_stats", "statistics_db_event_queue", "node", "listeners", "contexts"),
    ):
        assert name in body, name
    assert body["rabbitmq_version"].startswith("4.") and body["product_name"] == "Warren"
    assert {"direct", "fanout", "topic", "headers"} <= {one["name"] for one in body["exchange_types"]}
    assert all(one["enabled"] and one["description"] for one in body["exchange_types"])
    descriptions = {one["name"]: one["description"] for one in body["exchange_types"]}
    assert descriptions["topic"] == "AMQP topic exchange, as per the AMQP specification"
    assert set(body["object_totals"]) == {"consumers", "queues", "exchanges", "connections", "channels"}
    assert body["queue_totals"]["messages"] == 0 and body["queue_totals"]["messages_details"] == ZERO
    assert body["sample_retention_policies"]["global"] == [600, 3600, 28800, 86400]


def loaded(api: Api) -> None:
    """Two messages in the virtual host `/`, and one in `other`, which management users may not see."""
    api.peer.add_vhost("other")
    api.host.node.users.set_permission("guest", "other", ".*", ".*", ".*")
    for vhost, count in (("/", 2), ("other", 1)):
        channel = api.peer.connect(vhost=vhost).channel()
        channel.declare("q")
        for _ in range(count):
            channel.publish("", "q", b"body")
        channel.consume("q", no_ack=False)
    api.peer.settle()


def test_totals_are_of_all_or_of_visible_virtual_hosts(api: Api) -> None:
    loaded(api)
    api.peer.add_user("m", ("management",))
    whole, part = api.get("/overview").json, api.get("/overview", user="m").json
    assert (whole["message_stats"]["publish"], part["message_stats"]["publish"]) == (3, 2)
    assert (whole["queue_totals"]["messages"], part["queue_totals"]["messages"]) == (3, 2)
    assert (whole["object_totals"]["queues"], part["object_totals"]["queues"]) == (2, 1)
    assert (whole["object_totals"]["consumers"], part["object_totals"]["connections"]) == (2, 0)
    assert whole["churn_rates"]["queue_created"] == 2 and part["churn_rates"] == whole["churn_rates"]
    assert not {"node", "listeners", "contexts"} & set(part)
    assert part["message_stats"]["publish_details"] == ZERO == part["queue_totals"]["messages_details"]
    scoped = api.get("/overview", headers={"X-Vhost": "other"}).json
    assert (scoped["message_stats"]["publish"], scoped["object_totals"]["queues"]) == (1, 1)


def test_samples_of_several_virtual_hosts_are_added_up(api: Api) -> None:
    loaded(api)
    api.host.node.users.add("m", b"", ("management",))
    for vhost in ("/", "other"):
        api.host.node.users.set_permission("m", vhost, "", "", "")
    sampler = Sampler(api.host.node, api.state.samples, api.host.connections)
    for _ in range(3):
        for _each in sampler.sample_all(api.peer.clock.now_ms()):
            pass
        api.peer.clock.advance(5000)
    api.host.node.users.change_password("m", hash_password("m", b"salt"))
    asked = "?lengths_age=60&lengths_incr=5"
    of_all, of_two = api.get("/overview" + asked).json, api.get("/overview" + asked, user="m").json
    assert of_all["queue_totals"]["messages_details"] == of_two["queue_totals"]["messages_details"]
    samples = of_two["queue_totals"]["messages_details"]["samples"]
    assert [one["sample"] for one in samples] == [3, 3, 3]
    assert samples[0]["timestamp"] - samples[1]["timestamp"] == 5000


def test_columns_choose_of_the_overview_too(api: Api) -> None:
    body = api.get("/overview?columns=rabbitmq_version,queue_totals.messages,object_totals.queues,nope").json
    assert set(body) == {"rabbitmq_version", "queue_totals", "object_totals"}
    assert body["queue_totals"]["messages"] == 0 and body["object_totals"] == {"queues": 0}


def node_of(api: Api, query: str = "") -> dict[str, Any]:
    (node,) = api.get("/nodes" + query).json
    assert isinstance(node, dict)
    return node


def test_a_node_has_all_that_tools_read(api: Api) -> None:
    node = node_of(api)
    for name in (
        *("name", "type", "running", "being_drained", "os_pid", "fd_used", "fd_total", "sockets_used", "sockets_total"),
        *("proc_used", "proc_total", "mem_used", "mem_limit", "mem_alarm", "mem_calculation_strategy", "disk_free"),
        *("disk_free_limit", "disk_free_alarm", "gc_num", "gc_bytes_reclaimed", "context_switches", "io_read_count"),
        *("msg_store_read_count", "queue_index_read_count", "mnesia_disk_tx_count", "run_queue", "processors"),
        *("uptime", "exchange_types", "auth_mechanisms", "applications", "contexts", "enabled_plugins", "rates_mode"),
        *("partitions", "cluster_links", "net_ticktime", "log_files", "config_files", "db_dir"),
        *("metrics_gc_queue_length", "connection_created", "queue_deleted_details", "mem_used_details"),
        "ra_open_file_metrics",
    ):
        assert name in node, name
    assert {"longest_turn_ms", "longest_turn_since_start_ms", "tasks"} <= node["event_loop"].keys()
    assert node["type"] == "disc" and node["running"] is True and node["os_pid"].isdigit()
    assert {"rabbitmq_event_exchange", "rabbitmq_auth_mechanism_ssl"} <= set(node["enabled_plugins"])
    assert {"PLAIN", "AMQPLAIN"} <= {one["name"] for one in node["auth_mechanisms"] if one["enabled"]}
    one = api.get(f"/nodes/{node['name']}").json
    assert set(one) == set(node)
    assert api.get("/nodes/other@host").error == (404, "Object Not Found", "Not Found")


def test_a_node_shows_its_alarms(api: Api) -> None:
    assert not node_of(api)["mem_alarm"] and not node_of(api)["disk_free_alarm"]
    api.host.node.alarms.set("memory")
    assert node_of(api)["mem_alarm"] and not node_of(api)["disk_free_alarm"]


def test_the_uses_of_memory_add_up(api: Api) -> None:
    name = node_of(api)["name"]
    memory = api.get(f"/nodes/{name}/memory").json["memory"]
    assert memory["strategy"] == "rss" and memory["total"]["rss"] == 1 << 20
    assert sum(value for value in memory.values() if isinstance(value, int)) == 1 << 20
    assert node_of(api, "?memory=true")["memory"] == memory
    relative = api.get(f"/nodes/{name}/memory/relative").json["memory"]
    assert relative.pop("total") == 100 and sum(relative.values()) in range(100, 104)


def test_plugins_are_those_that_the_node_runs(api: Api) -> None:
    (node,) = api.get("/nodes").json
    assert node["enabled_plugins"] == api.host.plugins()
    assert "rabbitmq_federation" not in node["enabled_plugins"]
    api.host.services["federation"] = Service()
    (node,) = api.get("/nodes").json
    assert {"rabbitmq_federation", "rabbitmq_event_exchange"} <= set(node["enabled_plugins"])
