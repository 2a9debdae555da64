"""Reports without a log: of any size, with any names."""

import random
from collections.abc import Callable
from typing import Any

from warren.plugins.message_log.file_format import schema

Values = dict[str, Any]
Name = Callable[[str], str]
STEPS = 60
HOSTILE = "<script>alert('x')</script>&\"\x00\x1b\u202e" + "n" * 150 + "-the end"
FLOWS = ("published", "entered", "delivered", "acknowledged", "left")
TOTALS = (
    *("published", "unroutable", "returned", "confirmed", "refused", "enqueued", "delivered", "redelivered"),
    *("acknowledged", "rejected", "requeued", "expired", "dropped", "dead_lettered", "federated_in", "federated_out"),
)


def report(name: Name = str, rows: int = 8, queues: int = 4, status: str = "imbalanced") -> Values:
    """Return a report with `rows` rows in each list; `name` makes the names of all objects."""
    made = random.Random(7)
    about = [{"node": name(f"node {at % 2}"), "vhost": name("/"), "queue": name(f"queue {at}")} for at in range(rows)]
    one_queue = {"node": name("node 0"), "vhost": name("/"), "queue": name("queue 0")}
    times = {"first": "2026-11-22T05:30:00.000000Z", "last": "2026-11-22T05:31:00.000000Z"}
    boot = {"node": name("node 0"), "boot_id": name("b1"), **times, "records": 1000, "stopped": True}
    conservation = {
        "status": status,
        "balanced": status == "balanced",
        "reasons": [name("the reason")],
        "imbalance_count": rows,
        "imbalances": [
            {**one, "problem": "lost", "msg_seq": at, "message_id": name("id")} for at, one in enumerate(about)
        ],
        "restarts": [{**one, "before": 3, "after": 2, "fewer": 1} for one in about],
        "links": [{"link": name("link"), "upstream_node": name("node 1"), "taken": 10, "arrived": 9, "missing": 1}],
        "boots": [boot],
        "files": {"missing": 1, "changed": 0, "unlisted": 0},
    }
    latency = {"stage": "publish_deliver", "messages": 10, "p50_us": 1_500, "p99_us": 2_500_000, "max_us": 3_000_000}
    client = {"user": name("guest"), "connection": name("10.0.0.1:1 -> 10.0.0.2:5672")}
    rates = {"mean_per_s": 1.0, "peak_per_s": 3.0}
    keys = [
        {"node": name("node 0"), "vhost": name("/"), "exchange": name("x"), "routing_key": name(f"k{at}")}
        for at in range(rows)
    ]
    return {
        "schema": 1,
        "verdict": f"The log does not balance: {name('the verdict')}.",
        "reasons": [name("the reason")],
        "health": {"status": "wrong", "sentence": f"{rows:,} things are wrong now, the worst: {name('q')}."},
        "wrong_now": [
            {**one, "cause": "stuck", "line": f"{one['queue']}: stuck", "message": f"{name('b1')}/{at}"}
            for at, one in enumerate(about)
        ],
        "input": {
            "folder": name("/var/export"),
            "selection": {
                "since": times["first"],
                "until": None,
                "nodes": [name("node 0")],
                "vhosts": [],
                "queues": [],
            },
            "files": 3,
            "events": 1000,
            "skipped": {"foreign": 1},
            "skipped_files": [name("x.parquet")],
            "missing_hours": ["2026-11-22 06"],
            "clock_jumps": [{"node": name("node 0"), "boot_id": "b1", **times, "clock_moved_us": 5_000_000}],
        },
        "totals": {**dict.fromkeys(TOTALS, 12_345), "records": 99_999},
        "conservation": conservation,
        "durability": [{**one, "lost": 1, "at_risk": 1, "missing": 1, "confirmed_before": 5} for one in about],
        "timeline": timeline(name, queues, made),
        "throughput": [
            {"scope": "queue", **one, "flow": "delivered", "grain": "1s", "messages": 9, **rates} for one in about
        ],
        "latency": [{**one, **latency} for one in about],
        "backlog": [{**one, "ready": 7, "unacked": 1, "peak": 77} for one in about],
        "clients": [
            {**one, **client, "published": 5, "delivered": at, "messages": 5 + at} for at, one in enumerate(about)
        ],
        "flow": [edge for one in about for edge in edges(one, name)],
        "hot_keys": [{**key, "published": at, "share": 0.5} for at, key in enumerate(keys)],
        "unroutable": [{**key, "published": 3, "unroutable": 2, "returned": 1} for key in keys],
        "given_up": [{**one, "event": "drop", "reason": "maxlen", "messages": 4} for one in about],
        "redelivered": [{**one, "delivered": 10, "redelivered": 2, "requeued": 1, "share": 0.2} for one in about],
        "poison": [
            {**one, "boot_id": name("b1"), "msg_seq": 1, "redelivered": 6, "requeued": 6, "message_id": name("id")}
            for one in about
        ],
        "links": [
            {"link": name("link"), "upstream_node": name("node 1"), "node": name("node 0"), "arrived": 9, "missing": 1}
        ],
        "consumers": [{**one, "consumers": 1.0} for one in about],
        "churn": [{"node": name("node 0"), "name": "channels", "now": 100}],
        "capacity": [{"node": name("node 0"), "disk_bytes": 10**9}, {"node": name("node 1"), "disk_bytes": 10**9}],
        "compared": {
            "with": {"folder": name("/old"), "verdict": name("fine")},
            "totals": [{"figure": "published", "before": 10, "after": 20, "change": 100.0}],
            "rates": [{**one_queue, "figure": "mean_per_s", "before": None, "after": 2.5, "change": None}],
            "latencies": [{**one_queue, "figure": "p99_us", "before": 1500, "after": 1000, "change": -33.3}],
        },
        "rows": {"latency": rows + 1000, "wrong_now": rows},
    }


def edges(one: Values, name: Name) -> list[Values]:
    scope = {"node": one["node"], "vhost": one["vhost"], "messages": 10}
    entered = {"source_kind": "exchange", "source": name("x"), "target_kind": "queue", "target": one["queue"]}
    left = {"source_kind": "queue", "source": one["queue"], "target_kind": "consumer", "target": name("guest")}
    return [{**scope, **entered}, {**scope, **left}]


def timeline(name: Name, queues: int, made: random.Random) -> Values:
    def series(most: int) -> list[float]:
        return [0 if 20 <= at < 40 else round(made.uniform(0, most), 3) for at in range(STEPS)]

    scope = {"node": name("node 0"), "vhost": name("/")}
    readings = (schema.RESIDENT_BYTES, schema.DISK_FREE_BYTES, schema.OPEN_DESCRIPTORS, schema.CONNECTIONS)
    return {
        "start": "2026-11-22T05:30:00Z",
        "step_s": 1,
        "steps": STEPS,
        "rates": [{**scope, **{flow: series(1000) for flow in FLOWS}}],
        "queues": [
            {**scope, "queue": name(f"queue {at}"), "entered": series(100), "left": series(90)}
            | {"redelivered": series(3), "lag_s": series(100), "messages": [None, *series(500)[1:]]}
            for at in range(queues)
        ],
        "ack_latency": {
            "from_us": [1000, 3162],
            "messages": [[made.randrange(100) for _ in range(STEPS)] for _ in range(2)],
        },
        "nodes": [
            {"node": name(f"node {at}"), **{reading: [None, *series(10**6)[1:]] for reading in readings}}
            | {"loop_lag_p99_us": series(10**6), schema.MEMORY_LIMIT_BYTES: [None] * STEPS}
            for at in range(2)
        ],
    }
