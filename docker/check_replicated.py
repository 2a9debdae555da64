"""A test of compose.replicated.yaml: kills each broker and the primary server under load, and counts the messages.

Run `python3 docker/check_replicated.py`. It needs a Docker engine with `docker compose` or `docker-compose`, and
nothing but Python's standard library. Exit status: 0 if no message was lost, or if there is no engine; otherwise 1.
`--rounds` is the number of times that each is killed, RATE the number of messages a second.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from functools import partial

from compose_check import Failed, check, run, until

CONTAINERS = ("server-a", "server-b", "warren-a", "warren-b", "publisher", "consumer")
QUIET_S = 5.0  # of load before a fault
CONFIRMED = re.compile(r"^confirmed (\d+) by (\S+)$", re.MULTILINE)
RECEIVED = re.compile(r"^received (\d+)(.*)$", re.MULTILINE)
DONE = re.compile(r"published 1 to (\d+), all confirmed")


def logs(container: str) -> str:
    return run("docker", "logs", container)


def confirmed() -> list[tuple[int, str]]:
    """Return the numbers that were confirmed, and by which broker."""
    return [(int(number), broker) for number, broker in CONFIRMED.findall(logs("publisher"))]


def active() -> str:
    """Return the broker that has confirmed the last message."""
    return confirmed()[-1][1]


def primary() -> str:
    """Return the server that is the primary."""
    for server in ("server-a", "server-b"):
        text = "SELECT pg_is_in_recovery()"
        done = subprocess.run(
            ["docker", "exec", server, "psql", "-XAtqc", text], capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == "f":
            return server
    raise Failed("there is no primary")


def is_synchronous() -> bool:
    """Whether the primary waits for its standby with each commit, and has one."""
    text = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    done = subprocess.run(
        ["docker", "exec", primary(), "psql", "-XAtqc", text], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() == "1"


def goes_on(what: str, began_s: float) -> None:
    """Wait for a confirm of a message that was published after this call, and print how long it took."""
    before = len(confirmed())
    until(f"confirms after {what}", lambda: len(confirmed()) > before + 1)
    print(f"{what}: confirms again after {time.monotonic() - began_s:.1f} s, by {active()}", flush=True)


def kill_broker() -> None:
    """Kill the active broker; its standby takes over, and it returns as the standby."""
    broker = active()
    began_s = time.monotonic()
    run("docker", "kill", broker)
    goes_on(f"{broker} killed", began_s)
    run("docker", "start", broker)
    until("the other broker serves", lambda: active() != broker)
    until(f"{broker} is the standby", lambda: "standby" in logs(broker)[-3000:])


def kill_primary() -> None:
    """Kill the primary server and promote its standby; the former primary returns as the standby."""
    server = primary()
    other = "server-b" if server == "server-a" else "server-a"
    began_s = time.monotonic()
    run("docker", "kill", server)
    run("docker", "exec", other, "promote")
    goes_on(f"{server} killed and {other} promoted", began_s)
    run("docker", "start", server)
    until(f"{server} is the synchronous standby", is_synchronous)


def test(rounds: int, command: list[str]) -> None:
    """Run the test. Raises Failed if a message was lost."""
    run(*command, "up", "--detach", "--build")
    until("messages are confirmed", lambda: bool(confirmed()))
    until("the standby server is synchronous", is_synchronous)
    for _ in range(rounds):
        for fault in (kill_broker, kill_primary, kill_broker):
            time.sleep(QUIET_S)
            fault()
    time.sleep(QUIET_S)
    run("docker", "stop", "publisher")
    found = DONE.findall(logs("publisher"))
    if not found:
        raise Failed("the publisher did not come to its end")
    wanted = set(range(1, int(found[-1]) + 1))

    def received() -> Counter[int]:
        return Counter(int(number) for number, _ in RECEIVED.findall(logs("consumer")))

    until(f"all of 1 to {max(wanted)}", lambda: wanted <= received().keys())
    again = received().total() - len(wanted)
    print(f"{max(wanted)} messages confirmed, all received, {again} of them again")


def main() -> int:
    """Run the test and return the exit status."""
    parser = argparse.ArgumentParser(description="Runs two brokers and two servers in containers, kills, and counts.")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is killed (1)")
    return check("warren-replicated", "compose.replicated.yaml", CONTAINERS, partial(test, parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
