"""Very many bindings and queues."""

from tools.bench.bindings import bindings
from tools.bench.churn import queues
from tools.bench.process import Broker
from tools.failover.outcome import Outcome

from .scenario import Lab, Scenario, Timed

BOUND_PER_S = 1000
COST = 3.0


def explosion(lab: Lab) -> Outcome:
    many, count = lab.count(20_000, 1000), lab.count(10_000, 100)
    broker = lab.started()
    target = Broker("warren", broker.port, broker.process.pid)
    figures = {one.what: one.measured for one in bindings(target, 2.0, 0.5, True, many)}
    bound_per_s = next(value for what, value in figures.items() if "bindings to" in what)
    cost = next(value for what, value in figures.items() if "cost" in what)
    made = {one.what: one.value for one in queues(target, count)}
    declared_s = made[f"declare {count:,} queues"]
    return Timed(
        True,
        f"{bound_per_s:,.0f} durable bindings a second, one by one, to {many:,}; a publish then costs {cost:.2f} times"
        f" that with 100; {count:,} durable queues declared at {count / declared_s:,.0f}/s,"
        f" {made['memory of a durable queue']:.1f} KiB each, another client waited"
        f" {made[f'declare {count:,} queues: longest wait']:.0f} ms at most",
        bound_per_s >= BOUND_PER_S and cost <= COST,
    )


SCENARIOS = (
    Scenario(14, "very many bindings and queues",
             ">= 1,000 durable bindings/s; a publish costs <= 3 times that with 100", explosion,
             "20,000 of 100,000 bindings"),
)  # fmt: skip
