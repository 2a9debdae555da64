"""Histories of real clients, checked by Porcupine."""

from functools import partial

from tools.failover.outcome import Outcome
from tools.linearizability.runs import run

from .scenario import Lab, Scenario

SECONDS = 5.0


def linearizable(name: str, lab: Lab) -> Outcome:
    return run(name, lab.folder, SECONDS * lab.scale, lab.seed)


SCENARIOS = tuple(
    Scenario(number, f"history of clients, {what}", "linearizable: each message is published once and taken once",
             partial(linearizable, name))
    for number, what, name in (
        (38, "kill -9", "killed"), (39, "connections cut", "cut"), (40, "takeover on PostgreSQL", "takeover"),
    )
)  # fmt: skip
SCENARIOS += (
    Scenario(41, "history of clients, no faults", "linearizable as a queue: first in, first out",
             partial(linearizable, "calm")),
)  # fmt: skip
