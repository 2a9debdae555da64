"""A report of the analysis, as it is stored."""

import json
from pathlib import Path


def write_report(folder: Path, name: str, queue: str) -> None:
    """Write the report `name` about a queue in the folder of a broker."""
    about = {"node": "warren@test", "vhost": "/", "queue": queue}
    lag = {"stage": "publish_deliver", "p50_us": 1500, "p99_us": 2_500_000, "max_us": 3_000_000}
    throughput = {"scope": "user", "name": "guest", "node": "warren@test", "flow": "enqueued", "grain": "1s"}
    conservation = {
        "status": "imbalanced", "balanced": False, "reasons": [], "imbalance_count": 1,
        "imbalances": [{**about, "problem": "lost", "records": 1}], "links": [],
    }  # fmt: skip
    report = {
        "schema": 1, "verdict": "It does not add up: 1 imbalance.", "reasons": [],
        "health": {"status": "wrong", "sentence": f"1 thing is wrong now, the worst: {queue}: stuck."},
        "wrong_now": [{**about, "cause": "stuck", "line": f"{queue}: stuck since noon", "message": "b1/7"}],
        "totals": {"published": 12345, "delivered": 12344}, "conservation": conservation,
        "durability": [{**about, "confirmed_before": 12, "there_after": 11, "missing": 1, "lost": 1}],
        "latency": [{**about, **lag}], "throughput": [{**throughput, "messages": 9876}],
        "backlog": [{**about, "peak": 77}],
    }  # fmt: skip
    made = folder / "reports" / name
    made.mkdir(parents=True)
    (made / "report.json").write_text(json.dumps(report))
    (made / "index.html").write_text("<title>a page</title>")


def publish_run(folder: Path, name: str, run: str, verdict: str) -> None:
    """Publish a run of the report `name`, with another verdict."""
    output = folder / "reports" / name
    report = json.loads((output / "report.json").read_text())
    place = output / "runs" / run
    place.mkdir(parents=True)
    (place / "report.json").write_text(json.dumps({**report, "verdict": verdict}))
    (output / "current.new").write_text(json.dumps({"run": run, "earlier": []}))
    (output / "current.new").rename(output / "current.json")
