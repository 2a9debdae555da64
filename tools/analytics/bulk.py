"""A long log, made from columns: messages that are published, enqueued, confirmed, delivered and acknowledged.

    python -m tools.analytics.bulk 10000000 FOLDER [--queues 20] [--keys 1000] [--backlog 0]

100 million events take a few minutes and 1 GB. There is a snapshot of all queues every 10 s. The messages of the
backlog are not delivered, and have three events in place of five.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.analytics.log import START, arrow_schema, listed, save_state
from warren.plugins.message_log.export.node_state import BootEnd
from warren.plugins.message_log.file_format import schema

EVENTS = (schema.PUBLISH, schema.ENQUEUE, schema.CONFIRM, schema.DELIVER, schema.ACK)
UNDELIVERED = 3  # the number of the first events, which messages that stay have
MESSAGES_PER_FILE = 200_000
MESSAGES_PER_S = 2_000
MESSAGE_US, SNAPSHOT_US = 1_000_000 // MESSAGES_PER_S, schema.SNAPSHOT_S * 1_000_000
SNAPSHOTS_PER_FILE = 30
VHOSTS, EXCHANGES, USERS = 4, 5, 3
NODE, BOOT = "rabbit@bulk", "b1"


class Names(NamedTuple):
    """The numbers of queues and of routing keys; one in `stays` messages stays in its queue, none if it is 0."""

    queues: int = 20
    keys: int = 1000
    stays: int = 0

    def row(self, message: Any) -> Any:
        """Return the number of the first row of a message, or of each of an array of them."""
        stay = message // self.stays if self.stays else 0
        return message * len(EVENTS) - stay * (len(EVENTS) - UNDELIVERED)

    def staying(self, messages: np.ndarray) -> np.ndarray:
        return messages % self.stays == self.stays - 1 if self.stays else np.zeros(len(messages), bool)


FEW = Names()


def write(folder: Path, events: int, names: Names = FEW) -> int:
    """Write this many rows, without the missing ones of messages that stay. Returns the number of messages."""
    messages = events // len(EVENTS)
    random = np.random.default_rng(7)
    entered, stayed = np.zeros((2, names.queues), "i8")
    for number, first in enumerate(range(0, messages, MESSAGES_PER_FILE)):
        count = min(MESSAGES_PER_FILE, messages - first)
        queue = random.integers(0, names.queues, count)
        numbers = np.arange(first, first + count)
        entered += np.bincount(queue, minlength=names.queues)
        stayed += np.bincount(queue[names.staying(numbers)], minlength=names.queues)
        put(folder, schema.EVENTS, columns(numbers, queue, names, random), number)
    for number, first in enumerate(range(0, last_snapshot(messages) + 1, SNAPSHOTS_PER_FILE)):
        until = min(first + SNAPSHOTS_PER_FILE, last_snapshot(messages) + 1)
        put(folder, schema.QUEUE_STATS, snapshots(np.arange(first, until), messages, entered, stayed, names), number)
    save_state(folder, NODE, BootEnd(BOOT, names.row(messages), 1, ended=True))
    return messages


def put(folder: Path, table: str, rows: pa.Table, number: int) -> None:
    at = datetime.fromtimestamp(rows["ts_us"][0].as_py().timestamp(), UTC)
    place = folder / table / f"dt={at:%Y-%m-%d}" / f"hour={at:%H}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / schema.file_name(NODE, BOOT, number)
    pq.write_table(rows, path, compression="zstd")
    listed(folder, path, NODE, BOOT)


def columns(messages: np.ndarray, of: np.ndarray, names: Names, random: np.random.Generator) -> pa.Table:
    """Return the rows of messages, each in the queue with the number in `of`, message by message."""
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
    born = rows * MESSAGE_US
    queue = np.repeat(of, kinds)
    key = np.repeat((names.keys * random.random(count) ** 3).astype("i8"), kinds)
    published, queued, consumed = kind == 0, np.isin(kind, (1, 3, 4)), kind >= 3
    texts = {
        "node": named(rows * 0, [NODE]),
        "boot_id": named(rows * 0, [BOOT]),
        "vhost": named(queue % VHOSTS, [f"vhost-{n}" for n in range(VHOSTS)]),
        "event": named(kind, EVENTS),
        "exchange": named(queue % EXCHANGES, [f"exchange-{n}" for n in range(EXCHANGES)], kind <= 1),
        "queue": named(queue, queue_names(names.queues), queued),
        "routing_key": named(key, [f"key.{n}" for n in range(names.keys)], kind <= 1).cast(pa.string()),
        "message_id": numbered("message-", messages).take(pa.array(rows - messages[0])),
        "user": named(queue % USERS, [f"user-{n}" for n in range(USERS)], ~(kind == 1)),
        "consumer_tag": named(queue, [f"consumer-{n}" for n in range(names.queues)], consumed),
    }
    start_us = int(START.timestamp() * 1_000_000)
    numbers = {
        "schema": np.full(len(rows), schema.SCHEMA),
        "ts_us": start_us + born + waits,
        "mono_ns": (born + waits) * 1000,
        "row": names.row(rows) + kind,
        "msg_seq": rows + 1,
        "size": np.repeat(random.integers(100, 1000, count), kinds),
        "persistent": np.ones(len(rows), bool),
        "redelivered": np.zeros(len(rows), bool),
        "no_ack": np.zeros(len(rows), bool),
        "lat_us": waits,
        "sample_rate": np.ones(len(rows)),
    }
    texts["routed"] = pa.array(np.ones(len(rows), "i4"), mask=~published)
    whole = table(schema.EVENTS, texts, numbers)
    return whole.filter(pa.array(~names.staying(rows) | (kind < UNDELIVERED)))


def snapshots(numbers: np.ndarray, messages: int, entered: np.ndarray, stayed: np.ndarray, names: Names) -> pa.Table:
    """Return the snapshots of a broker that starts empty; at its end queues have had and have these messages."""
    queues, last = len(entered), last_snapshot(messages)
    number = np.repeat(numbers, queues + 1)
    queue = np.tile(np.arange(queues + 1), len(numbers))
    row = names.row(np.where(number == last, messages, number * SNAPSHOT_US // MESSAGE_US))
    closing = queue == queues
    kind = np.where(number == 0, 0, np.where(number == last, 2, 1))
    so_far, ready = (np.append(counts, 0)[queue] * number // last for counts in (entered, stayed))
    open_end = ~closing
    texts = {
        "node": named(number * 0, [NODE]),
        "boot_id": named(number * 0, [BOOT]),
        "kind": named(kind, [schema.START, schema.PERIODIC, schema.STOP]),
        "queues": pa.array(np.full(len(number), queues, "i4"), mask=open_end),
        "vhost": named(queue % VHOSTS, [f"vhost-{n}" for n in range(VHOSTS)], open_end),
        "queue": named(queue, [*queue_names(queues), ""], open_end),
        "queue_type": named(queue * 0, ["classic"], open_end),
    }
    figures = {
        "schema": np.full(len(number), schema.SCHEMA),
        "ts_us": int(START.timestamp() * 1_000_000) + number * SNAPSHOT_US + 20_000 * (number > 0),
        "mono_ns": (number * SNAPSHOT_US + 20_000 * (number > 0)) * 1000,
        "snapshot": number,
        "row": row,
        "lost_records": number * 0,
        "durable": np.ones(len(number), bool),
        "ready": ready,
        **dict.fromkeys(("unacked", "ready_bytes", "unacked_bytes"), number * 0),
        "consumers": number * 0 + 1,
        "published": so_far,
        **dict.fromkeys(("delivered", "acked"), so_far - ready),
        "sample_rate": np.ones(len(number)),
    }
    return table(schema.QUEUE_STATS, texts, figures)


def last_snapshot(messages: int) -> int:
    """Return the number of the snapshot at the stop."""
    return messages * MESSAGE_US // SNAPSHOT_US + 1


def queue_names(queues: int) -> list[str]:
    return [f"queue-{n}" for n in range(queues)]


def numbered(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def table(name: str, texts: dict[str, pa.Array], numbers: dict[str, np.ndarray]) -> pa.Table:
    """Return a table with all columns; missing ones are null."""
    whole, arrays = arrow_schema(name), []
    rows = len(texts["node"])
    for field in whole:
        if field.name in texts:
            arrays.append(texts[field.name])
        elif field.name in numbers:
            arrays.append(pa.array(numbers[field.name]).cast(field.type))
        else:
            arrays.append(pa.nulls(rows, field.type))
    return pa.Table.from_arrays(arrays, schema=whole)


def named(codes: np.ndarray, names: list[str] | tuple[str, ...], where: np.ndarray | None = None) -> pa.Array:
    """Return texts by their codes, or null where `where` is false."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype("i4"), mask=None if where is None else ~where), pa.array(list(names))
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queues", type=int, default=FEW.queues)
    parser.add_argument("--keys", type=int, default=FEW.keys)
    parser.add_argument("--backlog", type=int, default=0, help="messages that stay in their queues")
    options = parser.parse_args()
    stays = options.events // len(EVENTS) // options.backlog if options.backlog else 0
    print(f"{write(options.folder, options.events, Names(options.queues, options.keys, stays)):,} messages")
