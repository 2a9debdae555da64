"""The two tiers of the suite: the gate, which each change passes, and the rest, which takes what the gate lacks.

The *gate* (`make test`) needs Python and nothing else, takes at most five minutes on two cores with its set-up, and has
a proof of every promise of the README. A test of the gate needs at most `GATE_LIMIT_S` of processor time.

The *rest* (`make test-more`) has what is left: the tests that need programs of the system (Chromium, PostgreSQL,
Prometheus, Java, Node, shells, RabbitMQ), that build and install the distribution, that start many processes or that
repeat what the gate does with other seeds, and every block of code of the documents. It takes at most twenty minutes
beside 20,000 seeds of whole brokers, which take 1.5 hours of processor time.

A test belongs to the rest if its path begins as an entry of `REST`, unless it is in `GATE` as well, if it has the mark
`rest`, or if its inputs are in `INPUTS_OF_REST`. pytest by itself runs both tiers; `--tier` chooses one. Programs that
are no tests (the benchmark, the comparison with RabbitMQ, faults for hours) are in tools/.
"""

import pytest

GATE_LIMIT_S = 2.0

# The beginning of a path below tests/ -> why it is not in the gate
REST: dict[str, str] = {
    "acceptance/documents/": "runs every block of code of the documents",
    "acceptance/federation/interop/": "needs RabbitMQ",
    "acceptance/migration/": "starts many brokers",
    "acceptance/operator/management/test_same_as_rabbitmq": "needs RabbitMQ",
    "acceptance/operator/prometheus/test_monitoring": "needs Prometheus",
    "acceptance/operator/system/": "needs shells and tools of the system",
    "acceptance/operator/ui/": "needs Chromium",
    "acceptance/replication/": "needs PostgreSQL",
    "acceptance/testing/test_wheel": "installs the distribution",
    "analytics/test_durability": "starts many brokers",
    "analytics/test_end_to_end": "starts many brokers",
    "analytics/test_killed_compaction": "kills compactions",
    "analytics/test_object_store": "needs a server for S3",
    "clients/test_amqplib": "needs Node",
    "clients/test_flower": "starts many processes",
    "clients/test_prometheus": "needs Prometheus",
    "clients/test_rabbitmqadmin": "needs RabbitMQ's rabbitmqadmin",
    "faults/federation/": "kills brokers for longer",
    "faults/migration/": "kills brokers for longer",
    "test_compiled": "compiles the hot modules",
    "test_packaging": "builds and installs the distribution",
    "unit/plugins/test_third_party": "installs a distribution",
}
# What the gate has of those
GATE = (
    "acceptance/documents/test_documents.py::test_the_blocks_do_what_the_document_says[README.md]",
    "acceptance/documents/test_documents.py::test_the_blocks_do_what_the_document_says[docs/start.md]",
)
# Inputs of tests of the gate that are in the rest: they take the same way as others, of which the gate has the worst
# ones and an ordinary one. They stand in the ids of tests in brackets. By test, or by file for all tests of it.
INPUTS_OF_REST: dict[str, set[str]] = {
    "analytics/test_export_runs.py::test_each_delivery_is_recorded_for_the_message_that_was_delivered": {
        *map(str, range(6, 12)),
    },
    "analytics/test_ledger_store.py::test_a_log_that_grows_is_reported_as_a_whole_one": {"1", "2", "3"},
    "faults/crash/test_features_restarted.py": {"stopped", "restored", "expired"},
    "faults/crash/test_restarted.py": {"restored"},
    "faults/crash/test_moved.py::test_a_moved_message_survives_in_one_queue": {"2"},
    "faults/simulation/test_every_call.py::test_a_node_keeps_its_promises_whichever_call_fails": {
        *("close-ENOSPC", "names-ENOSPC", "read-ENOSPC", "remove-ENOSPC", "rename-ENOSPC", "truncate-ENOSPC"),
    },
    "faults/simulation/test_exhausted.py::test_a_batch_survives_a_shortage_at_any_call": {"ENFILE", "ENOMEM"},
    "loop_latency/test_auto_delete.py::test_a_headers_exchange_whose_bindings_have_very_many_conditions": {
        "any string",
    },
    "loop_latency/test_consumers.py::test_consumers_that_end": {
        *("single active-cancel_each", "single active with priorities-cancel_each", "priorities-close_channel"),
    },
    "loop_latency/test_consumers.py::test_messages_for_consumers_of_one_connection_that_reads_nothing": {
        *("single active", "single active with priorities", "quorum"),
    },
    "loop_latency/test_consumers.py::test_messages_for_a_queue_with_a_limit_whose_consumers_are_woken_in_turns": {
        *("rejected publishes", "time to live"),
    },
    "loop_latency/test_consumers.py::test_settlements_under_a_limit_that_consumers_share": {"1"},
    "loop_latency/test_emissions.py::test_a_long_history_for_many_new_bindings": {"False-empty"},
    "loop_latency/test_emissions.py::test_delayed_messages_that_are_due_at_the_same_time_for_very_many_queues": {
        *("False-fanout", "False-topic", "True-fanout", "True-topic"),
    },
    "loop_latency/test_ends.py::test_channels_with_many_deliveries_that_end_at_once": {"error", "timeout"},
    "loop_latency/test_ends.py::test_short_transactions_and_acknowledgements_of_a_channel_with_very_many_deliveries": {
        "Commit",
    },
    "loop_latency/test_exchange_types.py::test_very_many_bindings_of_one_queue": {
        *("x-local-random-delete_exchange", "x-local-random-delete_queue", "x-modulus-hash-delete_exchange"),
        *("x-random-delete_exchange", "x-random-delete_queue", "x-modulus-hash-unbind_and_publish"),
    },
    "loop_latency/test_headers.py::test_deliveries_that_are_requeued": {
        *("close_connection-many fields", "close_transactional_channel-many fields", "fail-many fields"),
        *("recover_all-many fields", "vanish-many fields"),
    },
    "loop_latency/test_links.py::test_deliveries_of_a_link": {
        *("keys to a topic exchange-1", "plain queues-1", "queues that look at each message-1"),
    },
    "loop_latency/test_publishes.py::test_publishes_to_very_many_queues": {
        *("fanout-one key-True", "fanout-many keys-True", "fanout-headers-True"),
        *("x-consistent-hash-one key-True", "x-consistent-hash-many keys-True", "x-consistent-hash-headers-True"),
    },
    "loop_latency/test_shed_deliveries.py::test_deliveries_that_were_shed": {"reject_nearly_all-1", "requeue_all-1"},
    "loop_latency/test_very_many_links.py::test_very_many_links_that_lose_their_upstream": {"closes-100"},
    "unit/core/exchanges/test_router.py::test_very_many_destinations_are_added_in_steps": {
        *("direct-all", "fanout-any", "headers-all", "topic-all"),
    },
    "unit/plugins/test_consistent_hash.py::test_queues_get_what_their_weights_say_within_5_percent": {"weights0"},
    "unit/plugins/test_delayed_message.py::test_messages_and_their_times_survive_a_restart": {"stop"},
    "unit/plugins/test_hashing_and_random.py::test_a_restart_moves_no_key": {"stopped"},
    "unit/plugins/test_modulus_hash_guide.py::test_routing_survives_restarts": {"stopped"},
    "unit/session/test_freed_consumers.py::test_no_message_is_lost_while_consumers_under_a_shared_limit_are_woken": {
        *("no limit-rejected publishes", "no limit-single active", "no limit-time to live"),
    },
    "unit/session/test_limits.py::test_messages_that_a_full_queue_rejects_and_dead_letters_are_limited": {
        "False-250-False", "True-250-False", "True-250-True",
    },
    "unit/session/test_memory_bounds.py::test_a_message_of_a_long_queue_takes_few_bytes_and_fewer_on_the_disk": {
        "1099511627776-2-160",
    },
    "unit/session/test_shed_deliveries.py::test_rejected_messages_are_read_no_faster_than_they_are_dead_lettered": {
        "0-60000-True",
    },
}  # fmt: skip
# Tests of the gate that may take longer: that of the engines, which starts Spark, the documents of a start, and a
# load that uses the processors for a time by the clock until it is killed
NO_LIMIT = ("tests/acceptance/documents/", "tests/analytics/test_engines.py", "tests/faults/crash/test_killed.py")
TIERS = ("gate", "rest")


def reason_for_rest(item: pytest.Item) -> str | None:
    """The reason for which this test is not in the gate, or None if it is."""
    if mark := item.get_closest_marker("rest"):
        return str(mark.args[0]) if mark.args else "takes longer"
    path = item.nodeid.removeprefix("tests/")
    test, _, given = path.partition("[")
    file = test.partition("::")[0]
    if any(given.removesuffix("]") in INPUTS_OF_REST.get(name, ()) for name in (test, file)):
        return "takes the same way as other inputs"
    if path.startswith(GATE):
        return None
    return next((reason for start, reason in REST.items() if path.startswith(start)), None)


def only_in_rest(path: str) -> bool:
    """Whether the gate has no test of a file or folder: its path below tests/, with `/` at the end of a folder."""
    return path.startswith(tuple(REST)) and not any(name.startswith(path) or path.startswith(name) for name in GATE)
