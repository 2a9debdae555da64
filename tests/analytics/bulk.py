"""A long log, made of columns: so many events of messages that are published, enqueued, confirmed, delivered, acked.

python -m tests.analytics.bulk 10000000 FOLDER
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warren.plugins.throughput.file_format import schema

from .log import START, Log, arrow_schema, listed

EVENTS = (schema.PUBLISH, schema.ENQUEUE, schema.CONFIRM, schema.DELIVER, schema.ACK)
MESSAGES_PER_FILE = 200_000
MESSAGES_PER_S = 2_000
QUEUES, VHOSTS, EXCHANGES, KEYS, USERS = 20, 4, 5, 1000, 3
NODE, BOOT = "rabbit@bulk", "b1"


def write(folder: Path, events: int) -> int:
    """Write this many rows, rounded down to complete messages. Returns the number of messages."""
    messages = events // len(EVENTS)
    random = np.random.default_rng(7)
    for number, first in enumerate(range(0, messages, MESSAGES_PER_FILE)):
        count = min(MESSAGES_PER_FILE, messages - first)
        rows = columns(np.arange(first, first + count), random)
        at = datetime.fromtimestamp(rows["ts_us"][0].as_py().timestamp(), UTC)
        place = folder / schema.EVENTS / f"dt={at:%Y-%m-%d}" / f"hour={at:%H}"
        place.mkdir(parents=True, exist_ok=True)
        path = place / schema.file_name(NODE, BOOT, number)
        pq.write_table(rows, path, compression="zstd")
        listed(folder, path, NODE, BOOT)
    snapshots(folder, messages)
    return messages


def columns(messages: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Rows of these messages, message by message."""
    count, kinds = len(messages), len(EVENTS)
    rows = np.repeat(messages, kinds)
    kind = np.tile(np.arange(kinds), count)
    waits = np.stack(
        [
            np.zeros(count, "i8"),
            random.integers(10, 60, count),
            random.integers(300, 4_000, count),
            random.integers(200, 2_500, count),
            random.integers(2_600, 12_000, count),
        ],
        axis=1,
    ).ravel()
    born = rows * (1_000_000 // MESSAGES_PER_S)
    queue = np.repeat(random.integers(0, QUEUES, count), kinds)
    key = np.repeat((KEYS * random.random(count) ** 3).astype("i8"), kinds)
    published, queued, consumed = kind == 0, np.isin(kind, (1, 3, 4)), kind >= 3
    texts = {
        "node": named(rows * 0, [NODE]),
        "boot_id": named(rows * 0, [BOOT]),
        "vhost": named(queue % VHOSTS, [f"vhost-{n}" for n in range(VHOSTS)]),
        "event": named(kind, EVENTS),
        "exchange": named(queue % EXCHANGES, [f"exchange-{n}" for n in range(EXCHANGES)], kind <= 1),
        "queue": named(queue, [f"queue-{n}" for n in range(QUEUES)], queued),
        "routing_key": named(key, [f"key.{n}" for n in range(KEYS)], kind <= 1).cast(pa.string()),
        "message_id": pa.array([f"message-{number}" for number in messages]).take(pa.array(rows - messages[0])),
        "user": named(queue % USERS, [f"user-{n}" for n in range(USERS)], ~(kind == 1)),
        "consumer_tag": named(queue, [f"consumer-{n}" for n in range(QUEUES)], consumed),
    }
    start_us = int(START.timestamp() * 1_000_000)
    numbers = {
        "schema": np.full(len(rows), schema.SCHEMA),
        "ts_us": start_us + born + waits,
        "mono_ns": (born + waits) * 1000,
        "row": rows * kinds + kind,
        "msg_seq": rows + 1,
        "size": np.repeat(random.integers(100, 1000, count), kinds),
        "persistent": np.ones(len(rows), bool),
        "redelivered": np.zeros(len(rows), bool),
        "no_ack": np.zeros(len(rows), bool),
        "lat_us": waits,
        "sample_rate": np.ones(len(rows)),
    }
    numbers["routed"] = np.ones(len(rows), "i4")
    return table(texts, numbers, published)


def table(texts: dict[str, pa.Array], numbers: dict[str, np.ndarray], published: np.ndarray) -> pa.Table:
    """Return a table with all columns; missing ones are null."""
    whole, arrays = arrow_schema(schema.EVENTS), []
    for field in whole:
        if field.name in texts:
            arrays.append(texts[field.name])
        elif field.name in numbers:
            mask = ~published if field.name == "routed" else None
            arrays.append(pa.array(numbers[field.name], mask=mask).cast(field.type))
        else:
            arrays.append(pa.nulls(len(published), field.type))
    return pa.Table.from_arrays(arrays, schema=whole)


def named(codes: np.ndarray, names: list[str] | tuple[str, ...], where: np.ndarray | None = None) -> pa.Array:
    """Texts by their codes; null where `where` is false."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype("i4"), mask=None if where is None else ~where), pa.array(list(names))
    )


def snapshots(folder: Path, messages: int) -> None:
    """Write the snapshots of a broker that starts and ends empty."""
    log = Log(folder, NODE, BOOT)
    log.snapshot(schema.START)
    log.now_us = messages * (1_000_000 // MESSAGES_PER_S) + 20_000
    log.row = messages * len(EVENTS)
    log.snapshot(schema.STOP)
    log.write()


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[2]), int(sys.argv[1])):,} messages")
