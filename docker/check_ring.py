"""A test of ring/compose.yaml: disconnects and kills brokers under load, and counts the messages.

Run `python3 docker/check_ring.py`. It needs a Docker engine with `docker compose` or `docker-compose`, and nothing but
Python's standard library. Exit status: 0 if no message was lost and the links were running again soon after each cut,
or if there is no engine; otherwise 1. `--cuts` is the number of times that a broker is disconnected, RATE the number of
messages that each site publishes in a second.
"""

import argparse
import calendar
import json
import re
import subprocess
import sys
import time
from collections import Counter
from functools import partial

from compose_check import Failed, check, run, until

SITES = ("a", "b", "c")
BROKERS = [f"warren-{site}" for site in SITES]
QUIET_S = 10.0  # of load without a fault
CUT_S = 20.0  # for which a broker is disconnected: longer than its peers need to notice
BACK_S = 10.0  # within which all links run again after a cut
CUT_LINKS = ("b", "c")  # sites with links from or to the broker that is disconnected
LINE = re.compile(r"^([abc]) received (\d+) of ([abc])", re.MULTILINE)
DONE = re.compile(r"published 1 to (\d+), all confirmed")

Received = Counter[tuple[str, str, int]]
"""Counts by site, publisher and number."""


def link(site: str) -> dict[str, str]:
    """Return the only link of a site as its broker reports it, or an empty dict if it does not."""
    command = ["docker", "exec", f"warren-{site}", "warrenctl", "-q", "federation_status", "--formatter", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    links: list[dict[str, str]] = json.loads(done.stdout or "[]") if not done.returncode else []
    return links[0] if len(links) == 1 else {}


def link_is_running(site: str) -> bool:
    return link(site).get("status") == "running"


def links_are_running() -> bool:
    return all(link_is_running(site) for site in SITES)


def changed_s(site: str) -> float:
    """Return when the link last started or broke, in seconds; the containers' clocks are in UTC."""
    return float(calendar.timegm(time.strptime(link(site)["last_changed"], "%Y-%m-%d %H:%M:%S")))


def every_site_is_bound(site: str) -> bool:
    """Whether messages published at this site reach all: its own queue, the next site and the one after that."""
    listed = run("docker", "exec", f"warren-{site}", "warrenctl", "-q", "list_bindings", "source_name")
    return listed.splitlines().count("federated.news") == len(SITES)


def received() -> Received:
    """Return the messages that the consumers have printed."""
    lines = [LINE.findall(run("docker", "logs", f"consumer-{site}")) for site in SITES]
    return Counter((site, publisher, int(number)) for found in lines for site, number, publisher in found)


def stop_publishers() -> dict[str, int]:
    """Stop the publishers; return how many messages each has published."""
    run("docker", "stop", *[f"publisher-{site}" for site in SITES])
    found = {site: DONE.findall(run("docker", "logs", f"publisher-{site}")) for site in SITES}
    if not all(found.values()):
        raise Failed(f"a publisher did not come to its end: {found}")
    return {site: int(numbers[-1]) for site, numbers in found.items()}


def missing(published: dict[str, int]) -> list[tuple[str, str, int]]:
    """Return sites, publishers and numbers of the messages that did not arrive."""
    there = received()
    expected = [(site, by, number) for site in SITES for by in SITES for number in range(1, published[by] + 1)]
    return [each for each in expected if each not in there]


def calm() -> None:
    """Check that without a fault each message arrives at every site, once."""
    time.sleep(QUIET_S)
    published = {by: max((number for _, each, number in received() if each == by), default=1) for by in SITES}
    until(f"all of {published} at every site", lambda: not missing(published))
    again = [each for each, times in received().items() if times > 1]
    if again:
        raise Failed(f"came more than once, though nothing was amiss: {again[:10]}")
    print(f"nothing amiss: each of {sum(published.values())} messages came to every site, once")


def cut() -> float:
    """Disconnect a broker from the others for CUT_S, while its own site continues.

    Return how many seconds its links needed to run again. Raises Failed.
    """
    run("docker", "network", "disconnect", "warren-ring", "warren-b")
    before = received()
    time.sleep(CUT_S)
    meanwhile = received() - before
    unaware = [site for site in CUT_LINKS if link_is_running(site)]
    run("docker", "network", "connect", "warren-ring", "warren-b")
    connected_s = time.time()
    if unaware:
        raise Failed(f"after {CUT_S:.0f} s the links of {unaware} had not noticed that they were cut")
    at_b = Counter(publisher == "b" for site, publisher, _ in meanwhile.elements() if site == "b")
    print(
        f"b cut off for {CUT_S:.0f} s: {at_b[True]} of its own messages came there meanwhile, {at_b[False]} others",
        flush=True,
    )
    until("the links run again after the cut", links_are_running)
    back_s = max(0.0, max(changed_s(site) for site in CUT_LINKS) - connected_s)
    print(f"the links ran again {back_s:.0f} s after the cut", flush=True)
    if back_s > BACK_S:
        raise Failed(f"they should within {BACK_S:.0f} s")
    return back_s


def restart() -> None:
    """Kill a broker and start it again."""
    run("docker", "kill", "warren-c")
    run("docker", "start", "warren-c")
    print("c killed and started again")
    until("the links run again after the restart", links_are_running)


def start(command: list[str]) -> None:
    """Start brokers and consumers, then publishers."""
    run(*command, "up", "--detach", "--build", *BROKERS, *[f"consumer-{site}" for site in SITES])
    until("the links run", links_are_running)
    until("every site is bound", lambda: all(every_site_is_bound(site) for site in SITES))
    run(*command, "up", "--detach", "--no-recreate")


def test(cuts: int, command: list[str]) -> None:
    """Run the test. Raises Failed if a message was lost, or a link was not running again in time."""
    start(command)
    calm()
    back_s = [cut() for _ in range(cuts)]
    if back_s:
        print(f"{cuts} cuts: the links ran again within {max(back_s):.0f} s, {sum(back_s) / cuts:.1f} s on average")
    restart()
    time.sleep(QUIET_S)
    published = stop_publishers()
    until(f"all of {published} at every site", lambda: not missing(published))
    there = received()
    for site in SITES:
        counts = [f"{published[by]} of {by}" for by in SITES]
        again = sum(times - 1 for (at, _, _), times in there.items() if at == site)
        print(f"{site} received {', '.join(counts)}; missing 0, again {again}")


def main() -> int:
    """Run the test and return the exit status."""
    parser = argparse.ArgumentParser(description="Runs a ring of three brokers in containers, harms it, and counts.")
    parser.add_argument("--cuts", type=int, default=1, help="how often a broker is cut off the network (1)")
    return check("warren-ring", "ring/compose.yaml", BROKERS, partial(test, parser.parse_args().cuts))


if __name__ == "__main__":
    sys.exit(main())
