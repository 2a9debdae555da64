"""The two tiers of the suite: the gate, which each change passes, and the rest, which takes what the gate lacks.

The *gate* (`make test`) needs Python and nothing else, takes at most five minutes on two cores with its set-up, and has
a proof of every promise of the README. A test of the gate needs at most `GATE_LIMIT_S` of processor time.

The *rest* (`make test-more`) has what is left: the tests that need programs of the system (Chromium, PostgreSQL,
Prometheus, Java, Node, shells, RabbitMQ), that build and install the distribution, that start many processes or that
repeat what the gate does with other seeds, and every block of code of the documents. It takes at most twenty minutes.

A test belongs to the rest if its path begins as an entry of `REST`, unless it is in `GATE` as well, or if it has the
mark `rest`. pytest by itself runs both tiers; `--tier` chooses one. Programs that are no tests (the benchmark, the
comparison with RabbitMQ, faults for hours) are in tools/.
"""

from __future__ import annotations

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
    "analytics/": "needs Java",
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
    "analytics/test_export_",
    "analytics/test_compaction",
    "analytics/test_scene",
    "analytics/test_trace_message",
)
# Tests of the gate that may take longer: the scene of the analysis, which starts Spark, the documents of a start, and
# a load that uses the processors for a time by the clock until it is killed
NO_LIMIT = ("tests/acceptance/documents/", "tests/analytics/test_scene.py", "tests/faults/crash/test_killed.py")
TIERS = ("gate", "rest")


def reason_for_rest(item: pytest.Item) -> str | None:
    """The reason for which this test is not in the gate, or None if it is."""
    if mark := item.get_closest_marker("rest"):
        return str(mark.args[0]) if mark.args else "takes longer"
    path = item.nodeid.removeprefix("tests/")
    if path.startswith(GATE):
        return None
    return next((reason for start, reason in REST.items() if path.startswith(start)), None)


def only_in_rest(path: str) -> bool:
    """Whether the gate has no test of a file or folder: its path below tests/, with `/` at the end of a folder."""
    return path.startswith(tuple(REST)) and not any(name.startswith(path) or path.startswith(name) for name in GATE)
