"""`make ring`: four topologies of real processes, with a message from each broker, and its receivers.

The exit status is 0 if every broker received exactly the expected messages.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.federated_broker import FederatedBroker
from tests.support.polling import STEADY_S, until

EXCHANGE, QUEUE = "federated.news", "inbox"
SETTLE_S = 4 * STEADY_S  # the time in which surplus copies would arrive


class Topology(NamedTuple):
    """`links` lead from the number of an upstream to that of a downstream. `reach` has for each broker those that get
    its messages, once each."""

    brokers: int
    links: Sequence[tuple[int, int]]
    max_hops: int
    reach: Sequence[Sequence[int]]


TREE = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
TOPOLOGIES = {
    "pair": Topology(2, [(0, 1), (1, 0)], 1, [range(2)] * 2),
    "complete graph of three": Topology(
        3, [(up, down) for up in range(3) for down in range(3) if up != down], 1, [range(3)] * 3
    ),
    "fan-out tree": Topology(7, TREE, 2, [range(7), (1, 3, 4), (2, 5, 6), (3,), (4,), (5,), (6,)]),
    "ring of six": Topology(6, [(number, (number + 1) % 6) for number in range(6)], 5, [range(6)] * 6),
}


def run(topology: Topology, folder: Path) -> bool:
    warrens = [FederatedBroker(folder / f"broker{number}", f"broker{number}") for number in range(topology.brokers)]
    try:
        for warren in warrens:
            warren.launch()
        for warren in warrens:
            warren.wait_ready()
        return received(topology, warrens)
    finally:
        for warren in warrens:
            warren.close()


def received(topology: Topology, warrens: list[FederatedBroker]) -> bool:
    """Return whether each broker received the expected messages, and print a line for each."""
    channels = [warren.connect().channel() for warren in warrens]
    for channel in channels:
        channel.exchange(EXCHANGE, "fanout", durable=True)
        channel.declare(QUEUE, durable=True)
        channel.bind(QUEUE, EXCHANGE)
    federate(topology, warrens)
    for number, channel in enumerate(channels):
        channel.publish(EXCHANGE, "", b"broker%d" % number, {"delivery_mode": 2})
    expected = [
        {f"broker{number}": 1 for number, reach in enumerate(topology.reach) if at in reach}
        for at in range(topology.brokers)
    ]
    until(
        lambda: all(warren.queues()[QUEUE] >= len(wanted) for warren, wanted in zip(warrens, expected, strict=True)),
        lambda: str([warren.queues()[QUEUE] for warren in warrens]),
    )
    time.sleep(SETTLE_S)
    good = True
    for number, (channel, wanted) in enumerate(zip(channels, expected, strict=True)):
        came = dict(sorted(Counter(body.decode() for body in channel.drain(QUEUE)).items()))
        received = ", ".join(f"{name}{f' {count} times' if count > 1 else ''}" for name, count in came.items())
        print(f"  broker{number} received from {received or 'nobody'}{'' if came == wanted else f'   WRONG: {wanted}'}")
        good = good and came == wanted
    return good


def federate(topology: Topology, warrens: list[FederatedBroker]) -> None:
    """Federate the brokers, and wait until all links run and every binding is where it is needed."""
    for number, warren in enumerate(warrens):
        uris = [warrens[up].uri for up, down in topology.links if down == number]
        if uris:
            warren.federate("^federated", *uris, max_hops=topology.max_hops)
    for number, count in Counter(down for _, down in topology.links).items():
        warrens[number].running(count)
    for number, warren in enumerate(warrens):
        others = [at for at in topology.reach[number] if at != number]
        warren.bound(EXCHANGE, *[""] * len(others))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="words that a topology has in its name; default: all")
    words = parser.parse_args().only
    good = True
    for name, topology in TOPOLOGIES.items():
        if words and not any(word in name for word in words):
            continue
        print(f"{name}, max-hops {topology.max_hops}", flush=True)
        with tempfile.TemporaryDirectory(prefix="warren-ring-") as folder:
            good = run(topology, Path(folder)) and good
    print("every broker received what it should" if good else "NOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
