"""Facts: the tables to which the files of the log are reduced, and their merge.

A fact has keys and measures. Facts of parts of the log are merged by summing, or taking the least or the greatest of,
the measures of rows with the same keys, so that the result is the same for any division into parts and any order:
sums are of integers, and quantiles come from histograms with fixed buckets.

    traffic    messages by second: what each queue, virtual host and user did
    latencies  histograms of times since the publish, and of the stages of a message within a queue
    ages       histograms of the ages of dead letters since their first publish, when a consumer got them
    slowest    the messages that consumers settled longest after the first publish
    consumers  messages of each consumer
    holds      for how long each consumer held the messages that it acknowledged
    routes     messages by exchange and routing key
    transfers  messages between connections, exchanges and queues
    attempts   messages that were redelivered or requeued
    rows       the ranges of row numbers that the log has, by boot
    balances   closed journeys by queue: how many messages entered, and how they left
    journeys   open journeys: messages in a queue of which the log has no entry, no end, or several of them
    messages   messages whose journeys are open, or that were routed to more or fewer queues than they entered
    crossings  messages of federation links, by identity
    arrivals   messages from federation links that may still be in a queue, by number, with their identity
    receipts   when a consumer got a message from a federation link, by identity and queue

The last five have a row for each message; all others are bounded by the numbers of queues, users, connections, keys and
seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from ..file_format.arrow_schema import ARROW

NAME = pa.dictionary(pa.int32(), pa.string())
TIME = pa.timestamp("us", "UTC")
INT, BOOL, FLOAT = pa.int64(), pa.bool_(), pa.float32()
Numbers = np.ndarray[Any, Any]
Values = dict[str, Any]


class Measure(NamedTuple):
    """A column that is merged: by sum, min or max, or the value of the row with the greatest first measure: last."""

    merge: str
    type: pa.DataType = INT


class Fact(NamedTuple):
    """The columns of a fact. Keys may be null. With `top`, only that many rows with the greatest first measure stay."""

    keys: Mapping[str, pa.DataType]
    measures: Mapping[str, Measure]
    top: int = 0

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.keys.items(), *((name, measure.type) for name, measure in self.measures.items())])


def names(*columns: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(columns, NAME)


def measures(merge: str, *columns: str, type: pa.DataType = INT) -> dict[str, Measure]:
    return dict.fromkeys(columns, Measure(merge, type))


BOOT = ("node", "boot_id")
WAYS_OUT = ("delivered_without_ack", "acknowledged", "federated", "expired", "dropped", "dead_lettered")

TRAFFIC = Fact(
    {
        **names(*BOOT, "vhost", "queue", "user", "event", "reason"),
        **dict.fromkeys(("no_ack", "redelivered", "linked"), BOOL),
        "ack_bucket": pa.int8(),
        "second": INT,
    },
    {**measures("sum", "records", "weight", "bytes", "routed", "latency_us", "timed"), **measures("max", "highest_us")},
)
LATENCIES = Fact(
    {**names("node", "vhost", "queue", "stage"), "bucket": pa.int32()},
    {**measures("sum", "records"), **measures("max", "highest_us")},
)
AGES = Fact(
    {**names("node", "vhost", "origin_node", "origin", "queue"), "bucket": pa.int32()},
    {**measures("sum", "records"), **measures("max", "highest_us")},
)
SLOWEST = Fact(
    {**names(*BOOT, "vhost", "queue"), "msg_seq": INT},
    {**measures("max", "age_us"), **measures("max", "at", type=TIME)},
    top=200,
)
CONSUMERS = Fact(
    names("node", "vhost", "queue", "consumer_tag", "user", "conn_id"),
    {
        **measures("sum", "delivered", "acknowledged"),
        **measures("max", "last_delivered", "last_acknowledged", type=TIME),
    },
    top=10_000,  # clients may make a consumer for each message
)
HOLDS = Fact(
    {**names("node", "vhost", "queue"), "consumer": INT},
    {**measures("sum", "held", "held_us"), **measures("max", "longest_held_us")},
    top=10_000,
)
ROUTES = Fact(
    {**names("node", "vhost", "exchange"), "routing_key": pa.string()},
    {
        **measures("sum", "published", "bytes", "unroutable", "returned"),
        **measures("min", "unroutable_since", type=TIME),
        **measures("max", "unroutable_last", "routed_last", "dropped_last", type=TIME),
        **measures("max", "unroutable_message", "drop_reason", type=pa.string()),
    },
)
TRANSFERS = Fact(
    names("node", "vhost", "event", "exchange", "queue", "user", "conn_id", "link"),
    {**measures("sum", "weight", "bytes", "redelivered"), **measures("max", "last", type=TIME)},
)
ATTEMPTS = Fact(
    {**names(*BOOT, "vhost", "queue"), "msg_seq": INT},
    {
        **measures("sum", "redelivered", "requeued"),
        **measures("min", "first", type=TIME),
        **measures("max", "last", type=TIME),
    },
)
ROWS = Fact(
    {**names(*BOOT), "first_row": INT, "last_row": INT},
    {
        **measures("sum", "records"),
        **measures("min", "first", type=TIME),
        **measures("max", "last", type=TIME),
        **measures("min", "least_offset"),
        **measures("max", "greatest_offset"),
        **measures("min", "sample_rate", type=FLOAT),
    },
)
BALANCES = Fact(names(*BOOT, "vhost", "queue"), measures("sum", "entered", *WAYS_OUT))
JOURNEYS = Fact(
    {**names(*BOOT, "vhost", "queue"), "msg_seq": INT},
    {
        **measures("sum", "entered", "delivered", "left", *WAYS_OUT),
        **measures("min", "enter_row", "enter_ns", "deliver_ns"),
        **measures("max", "leave_row", "last_deliver_ns", "leave_ns", "origin_us", "consumer"),
        **measures("max", "first_queue", type=pa.string()),
        **measures("max", "last", type=TIME),
        **measures("max", "durable", type=BOOL),
    },
)
MESSAGES = Fact(
    {**names(*BOOT, "vhost"), "msg_seq": INT},
    {
        **measures("sum", "routed", "entered", "published"),
        **measures("max", "persistent", "confirmed", type=BOOL),
        **measures("max", "at", type=TIME),
    },
)
CROSSINGS = Fact(
    {**names("link"), "identity": pa.string()},
    {
        **measures("sum", "taken", "arrived", "discarded"),
        **measures("max", "node", "vhost", "upstream", "upstream_node", type=pa.string()),
        **measures("max", "hops", "left", "last_entered"),
        **measures("min", "published", "entered"),
    },
)
ARRIVALS = Fact({**names(*BOOT, "vhost"), "msg_seq": INT}, measures("max", "link", "identity", type=pa.string()))
RECEIPTS = Fact(
    {**names("link"), "identity": pa.string(), **names("node", "vhost", "queue")}, measures("max", "received_us")
)
FACTS: dict[str, Fact] = {
    "traffic": TRAFFIC,
    "latencies": LATENCIES,
    "ages": AGES,
    "slowest": SLOWEST,
    "consumers": CONSUMERS,
    "holds": HOLDS,
    "routes": ROUTES,
    "transfers": TRANSFERS,
    "attempts": ATTEMPTS,
    "rows": ROWS,
    "balances": BALANCES,
    "journeys": JOURNEYS,
    "messages": MESSAGES,
    "crossings": CROSSINGS,
    "arrivals": ARRIVALS,
    "receipts": RECEIPTS,
}
Facts = dict[str, pa.Table]
"""A table for each name of FACTS, with the columns of its schema."""

MOST = 1 << 60  # of a number in a row
MERGES = {"sum": (np.add, 0), "min": (np.minimum, 2 * MOST), "max": (np.maximum, -2 * MOST)}
LATEST = 1 << 57  # of a time in microseconds: Python has dates up to the year 9999
BUCKETS = 128  # of a histogram for each factor of e: a quantile is off by 0.4 % at most


def bucket(microseconds: Numbers) -> Numbers:
    """Return the buckets of times in a histogram; negative times count as 0."""
    numbers: Numbers = np.floor(np.log(np.maximum(microseconds, 0) + 1.0) * BUCKETS).astype("i4")
    return numbers


def unified(rows: pa.Table) -> pa.Table:
    """Return rows in one chunk, each column of names with one dictionary."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and rows.column(place).num_chunks != 1:
            rows = rows.set_column(place, field, with_one_dictionary(rows.column(place)))
    return rows.combine_chunks()


def with_one_dictionary(names: pa.ChunkedArray) -> pa.Array:
    """Return a column of names with one dictionary. `ChunkedArray.unify_dictionaries` may crash (pyarrow 26)."""
    if not names.num_chunks:
        return pa.array([], names.type)
    ends = np.cumsum([len(chunk.dictionary) for chunk in names.chunks])
    coded = pa.concat_arrays([chunk.dictionary for chunk in names.chunks]).dictionary_encode()
    places = np.r_[numbers_of(coded.indices), 0]
    codes = [
        places[numbers_of(chunk.indices.fill_null(0)) + end]
        for chunk, end in zip(names.chunks, [0, *ends], strict=False)
    ]
    absent = [numbers_of(chunk.indices.is_null()) for chunk in names.chunks]
    indices = pa.array(np.concatenate(codes).astype("i4"), mask=np.concatenate(absent))
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary)


def group(fact: Fact, rows: pa.Table, where: Numbers | None = None) -> pa.Table:
    """Return a fact of rows that have its columns, or of some of them, with one row for each combination of keys."""
    rows = unified(rows)
    if not (rows.num_rows if where is None else where.any()):
        return fact.schema.empty_table()
    number = combinations([key for name in fact.keys for key in key_numbers(rows[name], where)])
    order = np.argsort(number)
    if any(measure.merge == "last" for measure in fact.measures.values()):
        (last,) = key_numbers(rows[next(iter(fact.measures))], where)
        order = np.lexsort([last, number])
    starts = np.flatnonzero(np.r_[True, np.diff(number[order]) != 0])
    order = order if where is None else np.flatnonzero(where)[order]
    columns = {name: rows[name].take(pa.array(order[starts])) for name in fact.keys}
    for name, measure in fact.measures.items():
        columns[name] = merged_column(rows[name], measure, order, starts)
    grouped = pa.table(columns).cast(fact.schema)
    return greatest(fact, grouped) if fact.top else grouped


def key_numbers(column: pa.ChunkedArray, where: Numbers | None) -> Iterator[Numbers]:
    """Yield numbers that are equal in rows with the same key."""
    columns = []
    if column.null_count and not pa.types.is_dictionary(column.type) and not pa.types.is_string(column.type):
        columns.append(numbers_of(column.is_valid()))
        column = column.cast(INT).fill_null(0)
    for values in (*columns, codes(column)):
        yield values if where is None else values[where]


def combinations(columns: Sequence[Numbers]) -> Numbers:
    """Return a number for each row, which orders rows as the columns do, the first one above all."""
    number, count = np.zeros(len(columns[0]), "i8"), 1
    for values in columns if len(number) else ():
        low, high = int(values.min()), int(values.max())
        if low == high:
            continue
        if high - low >= MOST // count:
            number, values = ranks(number), ranks(values)
            count, low, high = len(values), 0, len(values)
        number = number * (high - low + 1) + (values.astype("i8") - low)
        count *= high - low + 1
    return number


def ranks(values: Numbers) -> Numbers:
    """Return numbers from 0 on in the same order."""
    found: Numbers = np.unique(values, return_inverse=True)[1]
    return found


def merged_column(column: pa.ChunkedArray, measure: Measure, order: Numbers, starts: Numbers) -> pa.Array:
    """Return the merged values of groups of rows: those of `order` from each of `starts` to the next one."""
    if column.null_count == len(column):
        return pa.nulls(len(starts), measure.type)
    if measure.merge == "last":
        return column.take(pa.array(order[np.r_[starts[1:], len(order)] - 1]))
    texts = None
    if pa.types.is_string(column.type):
        coded = column.combine_chunks().dictionary_encode()
        texts = coded.dictionary.take(pc.sort_indices(coded.dictionary))
        column = pc.index_in(column, texts)
    if not pa.types.is_floating(column.type):
        column = column.cast(INT)
    merge, neutral = MERGES[measure.merge]
    filled = column.fill_null(neutral) if column.null_count else column
    values = merge.reduceat(numbers_of(filled)[order], starts)
    absent = None
    if column.null_count:
        absent = np.logical_and.reduceat(numbers_of(column.is_null())[order], starts)
        values = np.where(absent, 0, values)
    found = pa.array(values, mask=absent)
    return found.cast(measure.type) if texts is None else texts.take(found)


def greatest(fact: Fact, rows: pa.Table) -> pa.Table:
    """Return the `top` rows with the greatest first measure; of equal ones those whose keys are first."""
    if rows.num_rows <= fact.top:
        return rows
    measure = next(iter(fact.measures))
    values = rows[measure].to_numpy()
    rows = rows.filter(pa.array(values >= np.partition(values, -fact.top)[-fact.top]))
    texts = pa.table({name: rows[name].cast(pa.string()) for name in fact.keys} | {measure: rows[measure]})
    order = [(measure, "descending"), *((name, "ascending") for name in fact.keys)]
    return rows.take(pc.sort_indices(texts, order)[: fact.top])


def merge(parts: Iterable[Facts], facts: Mapping[str, Fact] = FACTS) -> Facts:
    """Merge the facts of parts of the log, of which at least one is needed."""
    parts = list(parts)
    merged = {}
    for name, fact in facts.items():
        rows = pa.concat_tables([part[name] for part in parts if name in part] or [fact.schema.empty_table()])
        merged[name] = merge_ranges(rows) if fact is ROWS else group(fact, rows)
    return merged


def merge_ranges(rows: pa.Table) -> pa.Table:
    """Merge ranges of row numbers that overlap or follow each other.

    A number that is in several parts counts in `records` each time, so a range has repeated records if these are more
    than its numbers.
    """
    rows = in_order(rows, *BOOT, "first_row")
    first, last = (rows[name].to_numpy() for name in ("first_row", "last_row"))
    same_boot = np.logical_and.reduce([np.diff(codes(rows[name])) == 0 for name in BOOT])
    begins = np.ones(len(first), bool)
    # Of ranges in the order of their starts, one begins another range if it lies behind the end of all before it.
    boot = np.r_[0, np.cumsum(~same_boot)] if len(first) else np.zeros(0, int)
    span = int(last.max(initial=0)) + 2
    reached = np.maximum.accumulate(last + boot * span)
    begins[1:] = ~same_boot | ((first + boot * span)[1:] > reached[:-1] + 1)
    starts = np.flatnonzero(begins)
    if not len(starts):
        return rows.cast(ROWS.schema)
    number = np.cumsum(begins) - 1
    ranges = {
        "first_row": first[starts][number],
        "last_row": np.maximum.reduceat(last, starts)[number],
    }
    for name, values in ranges.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return group(ROWS, rows)


def in_order(rows: pa.Table, *keys: str) -> pa.Table:
    """Return rows so that those with the same keys follow each other, numbers in ascending order."""
    rows = unified(rows)
    return rows.take(pa.array(np.argsort(combinations([codes(rows[name]) for name in keys]), kind="stable")))


def codes(column: pa.ChunkedArray) -> Numbers:
    """Return numbers as they are, and a number for each value of a column of names, -1 for null."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    elif pa.types.is_timestamp(column.type):
        column = column.cast(INT)
    if not pa.types.is_dictionary(column.type):
        return numbers_of(column)
    return numbers_of(column.combine_chunks().indices.fill_null(-1))


def is_one_of(column: pa.ChunkedArray, texts: Collection[str]) -> Numbers:
    """Return where a column of names has one of some texts."""
    names = pa.table({"name": column})
    column = unified(names)["name"].combine_chunks()
    wanted = np.array([*(text in texts for text in column.dictionary.to_pylist()), False])
    found: Numbers = wanted[numbers_of(column.indices.fill_null(-1))]
    return found


def numbers_of(column: pa.Array | pa.ChunkedArray) -> Numbers:
    numbers: Numbers = column.to_numpy(zero_copy_only=False)
    return numbers


def of_boots(rows: pa.Table, values: Mapping[tuple[str, str], Sequence[int]], default: Sequence[int]) -> Numbers:
    """Return the values of the boot of each row, or the default."""
    if not rows.num_rows:
        return np.zeros((0, len(default)), "i8")
    columns = [as_column(rows[name], NAME) for name in BOOT]
    rows = unified(pa.table(columns, names=list(BOOT)))
    nodes, boots = (rows[name].combine_chunks().dictionary.to_pylist() for name in BOOT)
    found = np.array([[values.get((node, boot), default) for boot in boots] for node in nodes], "i8")
    of_rows: Numbers = found[codes(rows["node"]), codes(rows["boot_id"])]
    return of_rows


def quantile_table(histograms: pa.Table, keys: list[str], thousandths: Mapping[str, int]) -> pa.Table:
    """Return quantiles, `messages` and `max_us` for each combination of keys of histograms.

    `histograms` has the columns `bucket`, `records` and `highest_us`. Times are whole microseconds: the middle of the
    bucket, but no more than the highest time.
    """
    rows = in_order(histograms, *keys, "bucket")
    counts, buckets, highest = (rows[name].to_numpy() for name in ("records", "bucket", "highest_us"))
    changes = [np.diff(codes(rows[name])) != 0 for name in keys]
    starts = np.flatnonzero(np.r_[len(counts) > 0, np.logical_or.reduce(changes)] if len(counts) else [])
    upto = np.cumsum(counts)
    totals, greatest = np.add.reduceat(counts, starts), np.maximum.reduceat(highest, starts)
    before = upto[starts] - counts[starts]
    table = rows.select(keys).take(pa.array(starts))
    table = table.append_column("messages", pa.array(totals)).append_column("max_us", pa.array(greatest))
    for name, share in thousandths.items():
        # the first row of the combination with which the messages so far reach the share of all
        reached = np.searchsorted(upto * 1000, before * 1000 + totals * share)
        middle = np.round(np.exp((buckets[reached] + 0.5) / BUCKETS) - 1).astype("i8")
        table = table.append_column(name, pa.array(np.minimum(middle, greatest)))
    return table


class Table:
    """Rows of a table of the export as columns; those that the file lacks are null. `rows` are all rows."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        self.rows = unified(rows)
        self.count = rows.num_rows
        self._types = {column.name: ARROW[column.type] for column in schema.TABLES[name]}
        for column in schema.TABLES[name]:
            if not column.optional and column.name in self.rows.column_names and self.rows[column.name].null_count:
                raise ValueError(f"{column.name}: null")
            if column.type == "timestamp":
                self._check_range(column.name, 0, LATEST)
            elif column.type == "int64" and column.name not in ("msg_seq", "source_seq"):  # which are never summed
                self._check_range(column.name, -MOST, MOST)
        if "sample_rate" in self.rows.column_names:
            rates = numbers_of(self.rows["sample_rate"])
            if not ((rates > 0) & (rates <= 1)).all():
                raise ValueError("sample_rate")

    def _check_range(self, name: str, low: int, high: int) -> None:
        """Raise ValueError for numbers that no broker has, with which sums would not fit into 64 bits."""
        if name in self.rows.column_names and self.count:
            ends = pc.min_max(self.rows[name].cast(INT)).as_py()
            if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
                raise ValueError(f"{name}: {ends['min']} to {ends['max']}")

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """Return a column as the file has it."""
        if name in self.rows.column_names:
            return self.rows[name]
        return pa.chunked_array([pa.nulls(self.count, self._types[name])])

    def number(self, name: str, null: int = 0) -> Numbers:
        """Return a column of numbers, times in microseconds, or truth values, with `null` for null."""
        column = self[name]
        column = column.cast(INT) if pa.types.is_timestamp(column.type) else column
        return numbers_of(column.fill_null(bool(null) if pa.types.is_boolean(column.type) else null))

    def has(self, name: str) -> Numbers:
        """Return where a column is not null."""
        return numbers_of(self[name].is_valid())

    def grouped(self, fact: Fact, where: Numbers | None = None, **columns: Any) -> pa.Table:
        """Return a fact of the rows `where`, as `columns`."""
        return group(fact, self.columns(fact, **columns), where)

    def columns(self, fact: Fact, **columns: Any) -> pa.Table:
        """Return rows with the columns of a fact, from these columns and, for the others, those of the table."""
        values = {name: columns[name] if name in columns else self[name] for name in fact.schema.names}
        return pa.table({name: as_column(value, fact.schema.field(name).type) for name, value in values.items()})


def as_column(values: Any, type: pa.DataType) -> pa.ChunkedArray:
    """Return values as a column of a type; a text column becomes a dictionary if the type is one."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([pa.array(values)])
    if pa.types.is_dictionary(type) and not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    return column.cast(type)


SLICED_BY = {  # the column of each fact by which it is divided; facts without one are in the first slice
    **dict.fromkeys(("kinds", "moments", "latencies", "ages", "consumers", "holds", "balances"), "queue"),
    **dict.fromkeys(("series", "minutes", "seconds"), "name"),
    **dict.fromkeys(("attempts", "slowest", "journeys", "messages", "arrivals"), "msg_seq"),
    "transfers": "conn_id",
    "routes": "routing_key",
    **dict.fromkeys(("crossings", "receipts"), "identity"),
}
FACTOR = 1_000_003  # of the bytes of a name in its number
NAME_BYTES = 24  # of a name, the last ones, that decide on its slice


def divide(facts: Facts, count: int) -> list[Facts]:
    """Divide facts into `count` slices, so that rows with the same keys, and those of a message, are in the same one.

    A slice of facts that are divided into a divisor of `count` consists of whole slices.
    """
    if count == 1:
        return [facts]
    slices: list[Facts] = [{} for _ in range(count)]
    for name, rows in facts.items():
        rows, column = unified(rows), SLICED_BY.get(name)
        numbers = slice_numbers(rows[column]) % count if column is not None else np.zeros(rows.num_rows, "i8")
        order = np.argsort(numbers.astype("u1"), kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=count))
        for place, (begin, end) in enumerate(zip(np.r_[0, ends], ends, strict=False)):
            slices[place][name] = with_own_names(rows.take(pa.array(order[begin:end])))
    return slices


def with_own_names(rows: pa.Table) -> pa.Table:
    """Return rows without the names that none of them has, which would be copied with them to another process."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            names = rows.column(place).combine_chunks()
            used = names.indices.unique().drop_null()
            names = pa.DictionaryArray.from_arrays(pc.index_in(names.indices, used), names.dictionary.take(used))
            rows = rows.set_column(place, field, names)
    return rows


def slice_numbers(column: pa.ChunkedArray) -> Numbers:
    """Return a number for each value, the same in all processes: 0 for null."""
    if pa.types.is_integer(column.type):
        return numbers_of(column)
    if pa.types.is_dictionary(column.type):
        coded = unified(pa.table({"": column}))[""].combine_chunks()
        numbers: Numbers = np.r_[text_numbers(coded.dictionary), 0]
        return numbers.take(numbers_of(coded.indices.fill_null(-1)))
    return text_numbers(column.combine_chunks())


def text_numbers(texts: pa.Array) -> Numbers:
    """Return a number for each text, from its last bytes."""
    texts = pa.concat_arrays([texts])  # begins at the start of its buffers
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, "i4", len(texts) + 1).astype("i8") if len(texts) else np.zeros(1, "i8")
    content = np.frombuffer(data, "u1") if data is not None and data.size else np.zeros(1, "u1")
    numbers = np.zeros(len(texts), "u4")
    for back in range(1, NAME_BYTES + 1):
        place = ends[1:] - back
        numbers = np.where(place >= ends[:-1], (numbers * np.uint32(FACTOR)) ^ content[np.maximum(place, 0)], numbers)
    found: Numbers = (numbers ^ (numbers >> np.uint32(15))).astype("i8")
    return found


def keyed(rows: Iterable[Values], *names: str) -> dict[tuple[Any, ...], list[Values]]:
    """Return rows by the values of columns."""
    found: dict[tuple[Any, ...], list[Values]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found
