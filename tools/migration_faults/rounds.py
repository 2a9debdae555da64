"""`make migration`: migrations under load, with brokers and the command killed meanwhile, and every message counted.

Each round moves all queues, publishers and consumers from the source to the target. Both are Warrens that the round
starts, unless one of them is named by its URLs: `--source` or `--target` HTTP,AMQP.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.federation.interop.rabbit import free_ports
from tests.support.broker_process import BrokerProcess, command_line, environment_of
from tests.support.polling import until_async
from warren.broker.ctl.api_client import API
from warren.broker.ctl.errors import UNAVAILABLE

from .load import SOURCE, TARGET, Load, Outcome

CLIENTS = 8
MOVE_EVERY_S = 0.5  # between two clients that move
KILL_EVERY_S = 3.0
END_WITHIN_S = 400.0


class Side:
    """A broker of the migration: a Warren in `folder`, or one that runs already (`urls`: HTTP API and AMQP)."""

    def __init__(self, name: str, folder: Path, urls: Sequence[str] = ()) -> None:
        self.process: BrokerProcess | None = None
        if urls:
            self.http, self.amqp = urls
            return
        port, http = free_ports(2)
        options = ("--http", f"127.0.0.1:{http}", "--cluster-name", name)
        self.process = BrokerProcess(folder / name, *options, amqp=f"127.0.0.1:{port}", node=f"{name}@test")
        self.process.start()
        self.http, self.amqp = f"http://guest:guest@127.0.0.1:{http}", f"amqp://guest:guest@127.0.0.1:{port}/%2f"

    async def kill(self) -> None:
        """Kill the Warren, and start it again at the same ports."""
        if self.process is not None:
            await asyncio.to_thread(self.process.kill)
            await asyncio.to_thread(self.process.start)

    def lengths(self) -> list[tuple[str, int, int, int]]:
        """Return name, ready and unacked messages and consumers of each queue that is not empty."""
        api = API(self.http, 60)
        rows = api.get("queues", columns="name,messages_ready,messages_unacknowledged,consumers")
        api.close()
        found = [
            tuple(row.get(name, 0) for name in ("name", "messages_ready", "messages_unacknowledged", "consumers"))
            for row in rows
        ]
        return [row for row in found if row[1] or row[2]]

    def close(self) -> None:
        if self.process is not None:
            self.process.close()


class Command:
    """`warren migrate` as a process; `output` has what all its runs printed."""

    def __init__(self, folder: Path, source: Side, target: Side, *options: str) -> None:
        self._words = ("migrate", "--from", source.http, "--to", target.http, *options)
        self._folder = folder
        self.output = folder / "migrate.log"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *command_line(*self._words), stdout=output, stderr=output, env=environment_of(self._folder)
            )

    async def kill(self) -> None:
        """Kill the command, if it still runs, and start it again."""
        assert self.process is not None
        if self.process.returncode != 0:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
            await self.start()

    async def wait(self) -> int:
        """Wait for its end. It is started again if a starting broker did not answer."""
        async with asyncio.timeout(END_WITHIN_S):
            while True:
                assert self.process is not None
                status = await self.process.wait()
                if status != UNAVAILABLE:
                    return status
                await self.start()


async def migrate(
    folder: Path, source: Side, target: Side, queues: int, backlogs: dict[int, int], kills: Sequence[str]
) -> tuple[Outcome, dict[str, float]]:
    """Run one round. Returns the count, and the times of the parts in seconds.

    `backlogs` has the number of messages by queue; `kills` are killed one after the other while messages move:
    `command`, `source` or `target`.
    """
    load = Load({SOURCE: source.amqp, TARGET: target.amqp}, queues)
    await load.declare()
    for number, count in backlogs.items():
        await load.fill(load.queues[number], count)
    for number in range(CLIENTS):
        load.start("publisher", SOURCE, number, CLIENTS)
        if number % 2:  # the queues of the others have no consumer
            load.start("consumer", SOURCE, number, CLIENTS)
    command = Command(folder, source, target)
    began_s = time.monotonic()
    await command.start()
    await until_async(lambda: b" moved, " in command.output.read_bytes(), command.output.read_text)
    await asyncio.sleep(KILL_EVERY_S)
    victims = {"command": command.kill, "source": source.kill, "target": target.kill}

    async def kill() -> None:
        for name in kills:
            await victims[name]()
            await asyncio.sleep(KILL_EVERY_S)

    killing = asyncio.create_task(kill())
    for number in range(CLIENTS):
        if number % 2:
            await load.stop("consumer", SOURCE, number)
        load.start("consumer", TARGET, number, CLIENTS)
        await asyncio.sleep(MOVE_EVERY_S)
    await killing
    for number in range(CLIENTS):
        await load.stop("publisher", SOURCE, number)
        load.start("publisher", TARGET, number, CLIENTS)
        await asyncio.sleep(MOVE_EVERY_S)
    moved_s = time.monotonic() - began_s
    status = await command.wait()
    ended_s = time.monotonic() - began_s
    assert status == 0, command.output.read_text()[-4000:]
    for number in range(CLIENTS):
        await load.stop("publisher", TARGET, number)
    await load.everything_arrived()
    if losses := load.losses():
        print(losses, flush=True)
        print(await asyncio.to_thread(target.lengths), flush=True)
    for number in range(CLIENTS):
        await load.stop("consumer", TARGET, number)
    return load.outcome(), {"clients moved after": moved_s, "ended after": ended_s}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--backlog", type=int, default=10_000, help="messages in every twentieth queue at the start")
    parser.add_argument("--kill", default="command,target,command", help="killed one after the other in each round")
    for side in (SOURCE, TARGET):
        parser.add_argument(f"--{side}", metavar="HTTP,AMQP", type=lambda text: text.split(","), default=())
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # aiormq logs each lost connection with a traceback
    kills = [name for name in options.kill.split(",") if name]
    lost = 0
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="warren-migration-") as folder:
            sides = [Side(name, Path(folder), getattr(options, name)) for name in (SOURCE, TARGET)]
            backlogs = dict.fromkeys(range(0, options.queues, 20), options.backlog)
            try:
                work = migrate(Path(folder), *sides, options.queues, backlogs, kills)
                outcome, times = asyncio.run(work)
                output = (Path(folder) / "migrate.log").read_text()
            finally:
                for side in sides:
                    side.close()
        took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times.items())
        print(f"round {number + 1}: {outcome}; {took}; load {os.getloadavg()[0]:.1f}", flush=True)
        print(output.splitlines()[-1], flush=True)
        lost += outcome.lost
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
