"""The counters of metrics, summed and by object."""

import errno
from pathlib import Path

from tests.support.amqp_client import Channel
from tests.support.fake_federation import FakeFederation, row
from tests.support.metrics import Samples, Scraper
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.storage.journal import Journal as SegmentJournal
from warren.broker.storage.segment import Segment
from warren.plugins.prometheus.registries import BY_FAMILY

CLASSIC = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}
EVERY_FAMILY = (
    *("connection_churn_metrics", "node_coarse_metrics", "node_metrics", "node_persister_metrics"),
    *("auth_attempt_metrics", "queue_coarse_metrics", "queue_consumer_count", "queue_metrics"),
    *("queue_delivery_metrics", "exchange_metrics", "channel_metrics", "channel_exchange_metrics"),
    *("channel_process_metrics", "channel_queue_metrics", "channel_queue_exchange_metrics"),
    *("connection_coarse_metrics", "connection_metrics", "vhost_status", "exchange_bindings", "exchange_names"),
)


def used(scraper: Scraper) -> Channel:
    """A channel that has published five messages and got four: two ready, one unacknowledged, two acknowledged."""
    channel = scraper.peer.connect().channel()
    channel.declare("q", durable=True)
    channel.confirm()
    channel.publish("", "q", b"x" * 150)
    for body in (b"", b"y" * 100, b"z" * 2000, b"w"):
        channel.publish("", "q", body)
    channel.publish("", "nowhere", b"v")
    channel.confirms(range(1, 7))
    channel.publish("", "nowhere", b"v", mandatory=True)
    channel.next()  # redelivered
    channel.confirms([7])
    for _ in range(2):
        got = channel.get("q", no_ack=False)
        assert got is not None
    channel.ack(1)
    assert channel.get("q", no_ack=True) is not None
    channel.declare("empty")
    channel.get("empty", no_ack=False)
    return channel


def test_publishes_and_deliveries_are_counted_for_the_node(scraper: Scraper) -> None:
    used(scraper)
    samples = scraper.scrape()
    protocol = {"protocol": "amqp091"}
    for name, value in (
        ("received", 7), ("received_confirm", 7), ("confirmed", 7), ("routed", 5), ("unroutable_dropped", 1),
        ("unroutable_returned", 1),
    ):  # fmt: skip
        assert samples.value(f"rabbitmq_global_messages_{name}_total", **protocol) == value, name
    for name, value in (
        ("delivered", 3), ("delivered_get_manual_ack", 2), ("delivered_get_auto_ack", 1),
        ("delivered_consume_manual_ack", 0), ("delivered_consume_auto_ack", 0), ("get_empty", 1), ("redelivered", 0),
        ("acknowledged", 1),
    ):  # fmt: skip
        assert samples.value(f"rabbitmq_global_messages_{name}_total", **CLASSIC) == value, name
    assert samples.value("rabbitmq_global_publishers", **protocol) == 1
    for name, value in (
        ("queue_messages_ready", 2), ("queue_messages_unacked", 1), ("queue_messages", 3),
        ("queue_messages_published_total", 5), ("channel_messages_published_total", 7),
        ("channel_messages_unacked", 1), ("channel_get_ack_total", 2), ("connections", 1), ("channels", 1),
        ("queues", 2), ("consumers", 0), ("connection_channels", 1), ("connections_opened_total", 1),
        ("queues_declared_total", 2),
    ):  # fmt: skip
        assert samples.value(f"rabbitmq_{name}") == value, name


def test_sizes_of_messages_are_a_cumulative_histogram_with_the_bounds_that_dashboards_name(scraper: Scraper) -> None:
    used(scraper)
    samples = scraper.scrape()
    bounds = [one["le"] for one in samples.labels("rabbitmq_message_size_bytes_bucket")]
    literals = ["100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"]
    assert bounds == literals
    text = scraper.get().body.decode()
    assert all(f'rabbitmq_message_size_bytes_bucket{{le="{bound}",protocol="amqp091"}} ' in text for bound in literals)
    counts = [samples.value("rabbitmq_message_size_bytes_bucket", protocol="amqp091", le=bound) for bound in literals]
    assert counts == [5, 6, 7, 7, 7, 7, 7, 7, 7]
    assert samples.value("rabbitmq_message_size_bytes_sum", protocol="amqp091") == 2253
    assert samples.value("rabbitmq_message_size_bytes_count", protocol="amqp091") == 7


def test_objects_differ_by_labels(scraper: Scraper) -> None:
    channel = used(scraper)
    channel.qos(7)
    channel.consume("empty")
    samples = scraper.scrape("/metrics/per-object")
    queue = {"vhost": "/", "queue": "q"}
    assert samples.value("rabbitmq_queue_messages_ready", **queue) == 2
    assert samples.value("rabbitmq_queue_get_ack_total", **queue) == 2
    assert samples.value("rabbitmq_queue_messages_ready_bytes", **queue) == 2001
    assert samples.value("rabbitmq_queue_messages_ram", **queue) == 3
    assert samples.value("rabbitmq_queue_consumers", vhost="/", queue="empty") == 1
    info = {"queue_type": "rabbit_classic_queue", "membership": "leader"}
    assert samples.value("rabbitmq_queue_info", **queue, **info) == 1
    assert samples.value("rabbitmq_exchange_messages_published_total", vhost="/", exchange="") == 7
    (connection,) = scraper.host.connections()
    (own,) = samples.labels("rabbitmq_connection_incoming_bytes_total")
    assert own == {"channel": str(connection), "connection": connection.name}
    (own,) = samples.labels("rabbitmq_consumer_prefetch")
    assert own["channel"].endswith(f".{connection.id}.1>")
    assert samples.value("rabbitmq_consumer_prefetch", **own) == 7
    assert samples.value("rabbitmq_channel_messages_published_total", vhost="/", **own) == 7
    assert samples.value("rabbitmq_queue_messages_published_total", queue_vhost="/", queue="q") == 5


def test_queues_have_counters_of_their_own_but_where_all_is_summed_up(scraper: Scraper) -> None:
    used(scraper)
    assert not [name for name in scraper.scrape("/metrics").names if name.startswith("warren_queue_")]
    for path in ("/metrics/per-object", "/metrics/detailed?family=warren_queue_metrics"):
        samples = scraper.scrape(path)
        queue = {"vhost": "/", "queue": "q"}
        assert samples.value("warren_queue_published_total", **queue) == 5
        assert samples.value("warren_queue_delivered_total", **queue) == 3
        assert samples.value("warren_queue_acknowledged_total", **queue) == 1


def test_counters_include_deleted_objects(scraper: Scraper) -> None:
    channel = used(scraper)
    before = scraper.scrape().counters()
    channel.delete("q")
    channel.client.close()
    scraper.peer.add_vhost("v")
    scraper.host.node.delete_vhost("v")
    after = scraper.scrape().counters()
    own = ("warren_queue_published_total", "warren_queue_delivered_total", "warren_queue_acknowledged_total")
    kept = {key: value for key, value in before.items() if key[0] not in own}  # deleted with the queue
    assert len(kept) > 90
    assert {key: value for key, value in kept.items() if after[key] < value} == {}

    def grown(name: str) -> float:
        key = f"rabbitmq_{name}_total", frozenset[tuple[str, str]]()
        return after[key] - before[key]

    assert grown("channel_messages_published") == grown("queue_messages_published") == 0
    assert grown("connection_incoming_bytes") > 0 and grown("connection_incoming_packets") > 0
    assert grown("connections_closed") == grown("queues_deleted") == 1


def test_counters_outlive_a_virtual_host_with_its_connections(scraper: Scraper) -> None:
    scraper.peer.add_vhost("v")
    scraper.host.node.users.set_permission("guest", "v", ".*", ".*", ".*")
    channel = scraper.peer.connect(vhost="v").channel()
    channel.declare("q")
    channel.publish("", "q", b"x" * 1000)
    channel.sync()
    before = scraper.scrape().value("rabbitmq_connection_incoming_bytes_total")
    assert before > 1000
    scraper.host.node.delete_vhost("v")
    assert scraper.scrape().value("rabbitmq_connection_incoming_bytes_total") >= before
    channel.client.vanish()
    scraper.peer.wait(1)
    samples = scraper.scrape()
    assert samples.value("rabbitmq_connections") == 0
    assert samples.value("rabbitmq_connection_incoming_bytes_total") >= before
    assert samples.value("rabbitmq_channel_messages_published_total") == 1


def test_details_are_of_the_requested_families_virtual_hosts_and_queues(scraper: Scraper) -> None:
    scraper.peer.add_vhost("v")
    scraper.host.node.users.set_permission("guest", "v", ".*", ".*", ".*")
    for vhost in ("/", "v"):
        channel = scraper.peer.connect(vhost=vhost).channel()
        for queue in ("a1", "a2", "b"):
            channel.declare(queue)

    def queues(query: str) -> list[tuple[str, str]]:
        path = f"/metrics/detailed?family=queue_coarse_metrics{query}"
        labels = scraper.scrape(path).labels("rabbitmq_detailed_queue_messages")
        return [(one["vhost"], one["queue"]) for one in labels]

    assert queues("&vhost=v&queue=^a") == [("v", "a1"), ("v", "a2")]
    assert len(queues("")) == 6 and len(queues("&vhost=v&vhost=%2F")) == 6
    assert queues("&vhost=nope") == []
    assert queues("&queue=1$") == [("/", "a1"), ("v", "a1")]
    samples = scraper.scrape("/metrics/detailed?family=queue_coarse_metrics&vhost=v&queue=b")
    assert [one["queue"] for one in samples.labels("rabbitmq_detailed_queue_info")] == ["b"]


def test_an_invalid_pattern_is_refused(scraper: Scraper) -> None:
    path = "/metrics/detailed?family=queue_coarse_metrics"
    scraper.peer.connect().channel().declare("a" * 60 + "b")
    for pattern, reason in (
        ("(", "Invalid 'queue' regex: "),
        ("x" * 1025, "'queue' regex too long"),
        ("a&queue=b", "Only one 'queue' query parameter is allowed"),
        ("^(a|aa)%2B$", "'queue' regex takes too long"),
        ("((a{1000}){1000}){1000}", "Invalid 'queue' regex: "),
    ):
        refused = scraper.get(f"{path}&queue={pattern}")
        assert (refused.status, refused.body.decode()[: len(reason)]) == (400, reason)


def test_every_family_can_be_requested_and_appears_once(scraper: Scraper) -> None:
    used(scraper)
    for family in EVERY_FAMILY:
        names = scraper.scrape(f"/metrics/detailed?family={family}").names
        own = {name for name in names if name.startswith(("rabbitmq_detailed_", "rabbitmq_cluster_"))}
        assert own, family
    path = "/metrics/detailed?" + "&".join(f"family={family}" for family in EVERY_FAMILY)
    samples = scraper.scrape(path)
    assert samples.value("rabbitmq_cluster_vhost_status", vhost="/") == 1
    assert samples.value("rabbitmq_cluster_exchange_bindings", vhost="/", exchange="amq.topic", type="topic") == 0
    assert "" not in {one["exchange"] for one in samples.labels("rabbitmq_cluster_exchange_name")}


def test_memory_is_broken_down_by_use(scraper: Scraper) -> None:
    samples = scraper.scrape("/metrics/memory-breakdown")
    uses = {name for name in samples.names if name.startswith("rabbitmq_memory_")}
    assert len(uses) == 26 and all(name.endswith("_bytes") for name in uses)
    assert sum(samples.value(name) for name in uses) == 1 << 20


def test_alarms_are_metrics(scraper: Scraper) -> None:
    scraper.host.node.alarms.set("memory")
    samples = scraper.scrape()
    assert samples.value("rabbitmq_alarms_memory_used_watermark") == 1
    assert samples.value("rabbitmq_alarms_free_disk_space_watermark") == 0
    assert samples.kinds["rabbitmq_alarms_memory_used_watermark"] == "unknown"


def test_dead_letters_are_counted_by_type_strategy_and_reason(scraper: Scraper) -> None:
    channel = scraper.peer.connect().channel()
    channel.declare("q", arguments={"x-max-length": 1})
    for _ in range(3):
        channel.publish("", "q")
    channel.sync()
    labels = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": "disabled"}
    samples = scraper.scrape()
    assert samples.value("rabbitmq_global_messages_dead_lettered_maxlen_total", **labels) == 2
    assert samples.sum("rabbitmq_global_messages_dead_lettered_maxlen_total") == 2
    quorum = {"queue_type": "rabbit_quorum_queue", "dead_letter_strategy": "at_most_once"}
    assert samples.value("rabbitmq_global_messages_dead_lettered_rejected_total", **quorum) == 0


def test_failed_reads_of_the_disk_are_counted(scraper: Scraper, tmp_path: Path) -> None:
    names = ("warren_journal_read_errors_total", "warren_journal_damaged_records_total")
    samples = scraper.scrape()
    assert [samples.value(name) for name in names] == [0, 0]
    store = Store(Config(data_dir=str(tmp_path)))
    assert isinstance(store.journal, SegmentJournal)
    for _ in range(3):
        store.journal.reader.report_failure(Segment(1, 1, 0), 17, OSError(errno.EIO, "Input/output error"))
    store.journal.reader.report_damage(Segment(1, 1, 0), 17)
    scraper.host.node.journal = store.journal
    samples = scraper.scrape()
    assert [samples.value(name) for name in names] == [3, 1]
    store.close()


def test_delays_are_histograms(scraper: Scraper) -> None:
    scraper.state.host.turns.lag.count(0.0001)
    scraper.state.host.turns.lag.count(0.003)
    scraper.host.node.commits.count(1.0)
    samples = scraper.scrape()
    lag = "warren_event_loop_lag_seconds"
    assert (samples.value(lag + "_count"), samples.value(lag + "_sum")) == (2, 0.0031)
    assert samples.value(lag + "_bucket", le="0.000128") == 1
    assert samples.value(lag + "_bucket", le="0.004096") == 2
    assert samples.value("warren_journal_sync_seconds_bucket", le="1.048576") == 1
    assert samples.value("rabbitmq_io_sync_time_seconds_total") == 1.0
    assert samples.value("rabbitmq_io_sync_ops_total") == 1


def test_a_new_broker_counts_from_zero(scraper: Scraper) -> None:
    samples: Samples = scraper.scrape()
    here = ("rabbitmq_erlang_", "rabbitmq_auth_")  # values of Python itself, and anonymous logins
    counted = {name for (name, _), value in samples.counters().items() if value and name.startswith("rabbitmq_")}
    assert {name for name in counted if not name.startswith(here)} == set()


def test_no_metric_has_a_word_of_users_policies_keys_or_messages(scraper: Scraper) -> None:
    channel = used(scraper)
    scraper.peer.node.users.add("private-user")
    scraper.peer.set_policy("private-policy", "^private-pattern$", {"max-length": 1})
    channel.bind("q", "amq.topic", "private-binding-key")
    headers = {"headers": {"private-header": "private-value"}}
    channel.publish("amq.topic", "private-binding-key", b"private-body", headers)
    channel.consume("q", consumer_tag="private-tag")
    families = "&".join(f"family={name}" for name in BY_FAMILY)
    for page in ("/metrics", "/metrics/per-object", f"/metrics/detailed?{families}"):
        assert b"private" not in scraper.get(page).body


LINK = row(forwarded=7, confirmed=6, unconfirmed=1, dropped_max_hops=2, dropped_seen=3, reconnects=4, lag_ms=250)
LABELS = {name: str(LINK[name]) for name in ("vhost", "type", "name", "upstream", "upstream_name", "id")}


def test_each_link_has_its_state_and_counters(scraper: Scraper) -> None:
    scraper.host.services["federation"] = FakeFederation(LINK)
    for path in ("/metrics", "/metrics/per-object"):
        samples = scraper.scrape(path)
        for name, value in (
            ("up", 1), ("forwarded_total", 7), ("confirmed_total", 6), ("unconfirmed", 1), ("nacked_total", 0),
            ("reconnects_total", 4), ("retries", 0), ("backlog", 7), ("lag_seconds", 0.25),
        ):  # fmt: skip
            assert samples.value(f"warren_federation_link_{name}", **LABELS) == value, name
        for reason, value in (("max_hops", 2), ("seen", 3)):
            assert samples.value("warren_federation_link_dropped_total", **LABELS, reason=reason) == value


def test_links_are_counted_by_the_statuses_that_there_are(scraper: Scraper) -> None:
    assert scraper.scrape().labels("rabbitmq_federation_links") == []
    scraper.host.services["federation"] = FakeFederation()
    assert scraper.scrape().labels("rabbitmq_federation_links") == []
    down = LINK | {"id": "00000001", "status": "error", "backlog": None, "lag_ms": None}
    scraper.host.services["federation"] = FakeFederation(LINK, down, LINK | {"id": "00000002"})
    samples = scraper.scrape()
    assert samples.value("rabbitmq_federation_links", status="running") == 2
    assert samples.value("rabbitmq_federation_links", status="error") == 1
    assert len(samples.labels("rabbitmq_federation_links")) == 2
    assert samples.value("warren_federation_link_up", **(LABELS | {"id": "00000001"})) == 0


def test_links_that_are_refused_are_counted(scraper: Scraper) -> None:
    assert not scraper.scrape().labels("warren_federation_links_refused")
    for count in (0, 7):
        scraper.host.services["federation"] = FakeFederation(LINK, refused=count)
        assert scraper.scrape().value("warren_federation_links_refused") == count


def test_unknown_values_of_a_link_are_left_out(scraper: Scraper) -> None:
    scraper.host.services["federation"] = FakeFederation(LINK | {"backlog": None, "lag_ms": None})
    samples = scraper.scrape()
    assert not {"warren_federation_link_backlog", "warren_federation_link_lag_seconds"} & samples.names
