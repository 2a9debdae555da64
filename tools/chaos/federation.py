"""A link in each of its ack modes, while its connection is cut and either broker is killed."""

from __future__ import annotations

from functools import partial

from tools.failover.outcome import Outcome
from tools.federation_faults.crossing import PREFETCH, Crossing

from .scenario import Lab, Scenario

FAULTS = {
    "cut": lambda crossing: crossing.flap(0.2, 1.0),
    "upstream killed": Crossing.kill_upstream,
    "downstream killed": Crossing.kill_downstream,
}
UNSYNCED = 4096  # messages of a batch of the journal, and of those that wait for it


def crossed(ack_mode: str, lab: Lab) -> Outcome:
    """Lost and repeated messages by fault, compared with what the mode allows."""
    rounds, good, texts = lab.count(3), True, []
    crossing = Crossing(lab.folder, lab.loop(), ack_mode=ack_mode)
    lab.stack.callback(crossing.close)
    for name, fault in FAULTS.items():
        crossing.begin()
        for _ in range(rounds):
            crossing.load()
            fault(crossing)
        crossing.load()
        found = crossing.outcome()
        lost_most = {
            "on-confirm": 0,
            "on-publish": UNSYNCED * found.breaks if name == "downstream killed" else 0,
            "no-ack": (PREFETCH + UNSYNCED * (name == "downstream killed")) * found.breaks,
        }[ack_mode]
        again_most = 0 if ack_mode == "no-ack" else PREFETCH * found.breaks
        good = good and len(found.lost) <= lost_most and found.duplicates <= again_most
        texts.append(
            f"{name}: {found.breaks} breaks, {found.confirmed:,} confirmed, {len(found.lost)} lost (<= {lost_most:,}),"
            f" {found.duplicates} again (<= {again_most:,}), {found.unflagged} of them not flagged"
        )
    return Outcome(good, "; ".join(texts))


SCENARIOS = tuple(
    Scenario(number, f"federation, {mode}", demand, partial(crossed, mode), "3 kills of 50, cuts for 1 s")
    for number, mode, demand in (
        (29, "on-confirm", "0 lost by any fault; repeated <= prefetch for each break"),
        (30, "on-publish", "0 lost by cuts and upstream; downstream killed: what was not synced; repeated <= prefetch"),
        (31, "no-ack", "lost <= messages under way, and what was not synced downstream; none repeated"),
    )
)
