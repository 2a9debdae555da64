"""The series that RabbitMQ's dashboard "RabbitMQ-Overview" queries, with their labels."""

import pytest

from tests.support.metrics import Samples, Scraper

# By the labels that its panels use. A counter that appears later has no rate at first.
ALONE: frozenset[str] = frozenset()
PROTOCOL = frozenset({"protocol"})
BY_TYPE = frozenset({"protocol", "queue_type"})
GAUGES = {
    ALONE: (
        *("rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked", "rabbitmq_connections"),
        *("rabbitmq_channels", "rabbitmq_queues", "rabbitmq_resident_memory_limit_bytes"),
        *("rabbitmq_process_resident_memory_bytes", "rabbitmq_disk_space_available_bytes"),
        *("rabbitmq_disk_space_available_limit_bytes", "rabbitmq_process_max_fds", "rabbitmq_process_open_fds"),
        "rabbitmq_erlang_uptime_seconds",
    ),
    PROTOCOL: ("rabbitmq_global_publishers", "rabbitmq_global_consumers"),
}
COUNTERS = {
    ALONE: (
        *("rabbitmq_connections_opened_total", "rabbitmq_connections_closed_total"),
        *("rabbitmq_channels_opened_total", "rabbitmq_channels_closed_total", "rabbitmq_queues_declared_total"),
        *("rabbitmq_queues_created_total", "rabbitmq_queues_deleted_total"),
    ),
    PROTOCOL: tuple(
        f"rabbitmq_global_messages_{what}_total"
        for what in (
            *("received", "received_confirm", "confirmed", "routed", "unroutable_dropped", "unroutable_returned"),
        )
    ),
    BY_TYPE: tuple(
        f"rabbitmq_global_messages_{what}_total"
        for what in (
            *("delivered", "delivered_consume_manual_ack", "delivered_consume_auto_ack", "delivered_get_manual_ack"),
            *("delivered_get_auto_ack", "get_empty", "redelivered", "acknowledged"),
        )
    ),
}
SERIES = [(name, "gauge", labels) for labels, names in GAUGES.items() for name in names]
SERIES += [(name, "counter", labels) for labels, names in COUNTERS.items() for name in names]
ADDED_UP = "rabbitmq_global_messages_delivered_consume_{}_ack_total"  # the panel of deliveries adds both series


@pytest.fixture(scope="module")
def fresh() -> Samples:
    """The metrics of a broker that has not been used."""
    scraper = Scraper()
    samples = scraper.scrape()
    scraper.close()
    return samples


@pytest.mark.parametrize(("name", "kind", "labels"), SERIES)
def test_a_series_is_there_from_the_start(fresh: Samples, name: str, kind: str, labels: frozenset[str]) -> None:
    assert fresh.kinds[name] == kind
    assert {frozenset(one) for one in fresh.labels(name)} == {labels}
    if kind == "counter":
        assert fresh.sum(name) == 0


def test_all_series_can_be_joined_with_identity_info(fresh: Samples) -> None:
    (identity,) = fresh.labels("rabbitmq_identity_info")
    assert set(identity) == {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"}
    (build,) = fresh.labels("rabbitmq_build_info")
    assert {"rabbitmq_version", "erlang_version"} <= set(build)
    assert fresh.sum("rabbitmq_identity_info") == fresh.sum("rabbitmq_build_info") == 1


def test_deliveries_with_and_without_acknowledgement_can_be_added_one_by_one(fresh: Samples) -> None:
    manual, auto = (fresh.labels(ADDED_UP.format(how)) for how in ("manual", "auto"))
    assert manual == auto and {one["queue_type"] for one in manual} == {"rabbit_classic_queue", "rabbit_quorum_queue"}
