"""A link in each of its ack modes, while its connection is cut and either broker is killed."""

from functools import partial

from tools.failover.outcome import Outcome
from tools.federation_faults.crossing import PREFETCH, Crossing
from tools.federation_faults.crossing import Outcome as Crossed

from .scenario import Lab, Scenario, both

FAULTS = {
    "cut": lambda crossing: crossing.flap(0.2, 1.0),
    "upstream killed": Crossing.kill_upstream,
    "downstream killed": Crossing.kill_downstream,
}


def verdict(ack_mode: str, fault: str, found: Crossed) -> Outcome:
    """Return whether the result of a fault is allowed in the mode. Order and flags of repeats must always be right."""
    loses = ack_mode == "no-ack" or ack_mode == "on-publish" and fault == "downstream killed"
    lost_most = found.under_way if loses else 0
    again_most = 0 if ack_mode == "no-ack" else min(PREFETCH * found.breaks, found.under_way)
    return Outcome(
        len(found.lost) <= lost_most and found.duplicates <= again_most and not found.unflagged and not found.unordered,
        f"{fault}: {found.breaks} breaks, {found.confirmed:,} confirmed, {len(found.lost)} lost (<= {lost_most:,}),"
        f" {found.duplicates} again (<= {again_most:,}), {found.unflagged} of them not flagged,"
        f" {found.unordered} out of order",
    )


def crossed(ack_mode: str, lab: Lab) -> Outcome:
    """Measure lost and repeated messages by fault, and compare them with the limits of the mode."""
    rounds, outcomes = lab.count(3), []
    crossing = Crossing(lab.folder, lab.loop(), ack_mode=ack_mode)
    lab.stack.callback(crossing.close)
    for name, fault in FAULTS.items():
        crossing.begin()
        for _ in range(rounds):
            crossing.load()
            fault(crossing)
        crossing.load()
        outcomes.append(verdict(ack_mode, name, crossing.outcome()))
    return both(*outcomes)


SCENARIOS = tuple(
    Scenario(number, f"federation, {mode}", demand, partial(crossed, mode), "3 kills of 50, cuts for 1 s")
    for number, mode, demand in (
        (29, "on-confirm", "0 lost by any fault; repeated <= prefetch for each break, flagged; in order"),
        (30, "on-publish", "0 lost by cuts and upstream; downstream killed: what was not synced; repeated <= prefetch"),
        (31, "no-ack", "lost <= messages under way, and what was not synced downstream; none repeated"),
    )
)
