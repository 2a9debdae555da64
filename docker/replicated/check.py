"""A test of compose.replicated.yaml: kills each broker and the primary server under load, and counts the messages.

Run `python3 docker/replicated/check.py`. It needs a Docker engine with `docker compose` or `docker-compose`, and
nothing but Python's standard library. Exit status: 0 if no message was lost, or if there is no engine; otherwise 1.
`--rounds` is the number of times that each is killed, RATE the number of messages a second.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = Path(__file__).parent.parent / "compose.replicated.yaml"
CONTAINERS = ("server-a", "server-b", "warren-a", "warren-b", "publisher", "consumer")
QUIET_S = 5.0  # of load before a fault
PATIENCE_S = 120.0  # for any condition
CONFIRMED = re.compile(r"^confirmed (\d+) by (\S+)$", re.MULTILINE)
RECEIVED = re.compile(r"^received (\d+)(.*)$", re.MULTILINE)
DONE = re.compile(r"published 1 to (\d+), all confirmed")


class Failed(Exception):
    """The test failed; the text names the condition that was not met."""


def run(*command: str) -> str:
    """Return the output and errors of a command. Raises Failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout


def succeeds(*command: str) -> bool:
    return shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode


def compose() -> list[str] | None:
    """Return this machine's command for compose, or None without an engine."""
    if not succeeds("docker", "info"):
        return None
    words = ["docker", "compose"] if succeeds("docker", "compose", "version") else ["docker-compose"]
    return [*words, "-p", "warren-replicated", "-f", str(FILE)] if succeeds(*words, "version") else None


def until(what: str, condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises Failed if it is not met in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.1)


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


@contextmanager
def site(command: list[str]) -> Iterator[None]:
    """Start everything; remove all of it afterwards."""
    taken = [name for name in CONTAINERS if run("docker", "ps", "--all", "--quiet", "--filter", f"name=^{name}$")]
    if taken:
        raise Failed(f"containers are there already, remove them first: {', '.join(taken)}")
    try:
        run(*command, "up", "--detach", "--build")
        until("messages are confirmed", lambda: bool(confirmed()))
        until("the standby server is synchronous", is_synchronous)
        yield
    except Failed:
        subprocess.run([*command, "logs", "--tail", "20"], check=False)
        raise
    finally:
        run(*command, "down", "--volumes", "--rmi", "local", "--timeout", "10")


def check(rounds: int) -> None:
    """Run the test. Raises Failed if a message was lost."""
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
    rounds = parser.parse_args().rounds
    command = compose()
    if command is None:
        print("NOTE: no Docker engine with compose answers: the replicated brokers are not run")
        return 0
    os.environ.setdefault("RATE", "20")
    try:
        with site(command):
            check(rounds)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    print("nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
