"""The memory of a broker whose messages exceed `warren.message_memory`: prints the table in docs/measurements.md.

    .venv/bin/python -m tools.bench.message_memory    # about a minute

Each row is a broker of its own that gets persistent messages, 1 GiB of long ones or 64 MiB of short ones, with and
without a consumer that acknowledges nothing.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from pamqp.commands import Basic

from tests.support.amqp_client import Client, Silence
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until

LIMIT_MIB = 64
MANY_BYTES, FEW_BYTES = 1 << 30, 64 << 20
PART_BYTES = 4 << 20  # sent before the memory is looked at
SYNC_PARTS = 8
KINDS: dict[str, tuple[bytes, dict[str, Any], int]] = {
    "1 MiB": (bytes(1 << 20), {}, MANY_BYTES >> 20),
    "headers of 60,000 bytes": (b"", {"headers": {"h": "x" * 60_000}}, MANY_BYTES // 60_000),
    "100 bytes": (bytes(100), {}, FEW_BYTES // 100),
}


def status_mib(pid: int, field: str) -> float:
    """Return a field of /proc/PID/status in MiB."""
    found = re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def discard(client: Client) -> None:
    """Read what arrives until the connection ends."""
    while True:
        with suppress(Silence):
            if not client.pipe.receive(1000):
                return


def rows(folder: Path) -> Iterator[str]:
    """Yield the rows of the table: the messages, and the memory of an idle process, at its peak and at the end."""
    for kind, (body, properties, count) in KINDS.items():
        for consumes in (False, True):
            broker = BrokerProcess(folder / f"{kind}-{consumes}", "--http", "127.0.0.1:0", fork=False)
            broker.configure(f"warren.message_memory = {LIMIT_MIB}MiB")
            with broker:
                yield row(broker, kind, body, properties, count, consumes)
                broker.kill()


def row(broker: BrokerProcess, kind: str, body: bytes, properties: dict[str, Any], count: int, consumes: bool) -> str:
    pid = broker.process.pid
    idle = status_mib(pid, "VmRSS")
    client = broker.connect()
    channel = client.channel(1)
    channel.declare("q", durable=True)
    if consumes:
        consumer = broker.connect()
        consumer.channel(1).send(Basic.Consume, queue="q", consumer_tag="slow")
        Thread(target=discard, args=(consumer,), daemon=True).start()
    sent: list[bytes] = []
    send = client.pipe.send
    client.pipe.send = sent.append  # type: ignore[assignment,method-assign]
    channel.publish("", "q", body, {"delivery_mode": 2, **properties})
    client.pipe.send = send  # type: ignore[method-assign]
    one = b"".join(sent)
    part = max(PART_BYTES // len(one), 1)
    for number, first in enumerate(range(0, count, part)):
        client.raw(one * min(part, count - first))
        if number % SYNC_PARTS == 0:
            channel.sync()
    channel.sync()
    if consumes:
        until(lambda: channel.count("q") == 0, "the deliveries", 300.0)
    peak, end = status_mib(pid, "VmHWM"), status_mib(pid, "VmRSS")
    return f"| {count:,} of {kind} | {'yes' if consumes else 'no'} | {idle:.0f} | {peak:.0f} | {end:.0f} |"


def main() -> int:
    print(
        f"| messages, limit {LIMIT_MIB} MiB | unacknowledged | idle, MiB | peak | at the end |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        for each in rows(Path(folder)):
            print(each, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
