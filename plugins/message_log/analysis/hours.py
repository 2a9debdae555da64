"""The summary of traffic: what reports need of its seconds.

kinds    messages by queue, user and kind of event, with the first and the last second
series   messages of each queue, virtual host and user by hour, with the peaks of a second and a minute
minutes  the same by minute, until all files of an hour are merged
seconds  messages of the first and the last second of each file, which may continue in another one; likewise
moments  counts of each queue by interval, for the timeline
waits    acknowledged messages by interval and time since the publish
handled  messages in and out of each boot by second
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from ..file_format.schema import ACK, DELIVER, ENQUEUE, FED_IN, FED_OUT, LEAVING, PUBLISH
from .facts import (
    BOOT,
    INT,
    TRAFFIC,
    Fact,
    Facts,
    Numbers,
    codes,
    group,
    in_order,
    is_one_of,
    measures,
    names,
    numbers_of,
)
from .reduction import WEIGHT

HOUR_S, MINUTE_S = 3600, 60
INTERVALS_S = ((3, 60), (2, 10), (0, 1))  # by the least number of hours from the first file to the last one
KIND = [name for name in TRAFFIC.keys if name not in ("ack_bucket", "second")]
KINDS = Fact(
    {name: TRAFFIC.keys[name] for name in KIND},
    {
        **measures("sum", "records", "weight", "routed"),
        **measures("max", "highest_us", "last"),
        **measures("min", "first"),
    },
)
NAMED = names("scope", "node", "vhost", "name", "flow")
SERIES = Fact(
    {**NAMED, "hour": INT},
    {
        **measures("sum", "messages", "bytes"),
        **measures("max", "peak_1s", "peak_1m", "last"),
        **measures("min", "first"),
        **measures("max", "first_1m_messages", "last_1m_messages"),
    },
)
MINUTES = Fact(
    {**NAMED, "minute": INT},
    {**measures("sum", "weight", "bytes"), **measures("max", "peak", "last"), **measures("min", "first")},
)
SECONDS = Fact({**NAMED, "second": INT}, measures("sum", "weight"))
SECOND_SUMS = Fact({**names("node", "vhost", "name"), "second": INT}, measures("sum", "weight", "bytes"))
COUNTED = {  # the events of each count; "redelivered" and "left" have some of the deliveries, too
    "published": (PUBLISH, FED_IN),
    "entered": (ENQUEUE,),
    "delivered": (DELIVER,),
    "redelivered": (),
    "acknowledged": (ACK, FED_OUT),
    "left": LEAVING,
}
LEFT_UNDELIVERED = {schema.DROP: ("maxlen", "purged", "moved"), schema.DEAD_LETTER: ("expired", "maxlen")}
MOMENTS = Fact(
    {**names(*BOOT, "vhost", "queue"), "second": INT},
    {**measures("sum", *COUNTED), **measures("max", "wait_us"), **measures("min", "entered_us")},
)
WAITS = Fact({**names("node", "vhost"), "ack_bucket": pa.int8(), "second": INT}, measures("sum", "acknowledged"))
HANDLED = Fact({**names(*BOOT), "second": INT}, measures("sum", "weight"))
SUMMARY: dict[str, Fact] = {
    "kinds": KINDS,
    "series": SERIES,
    "minutes": MINUTES,
    "seconds": SECONDS,
    "moments": MOMENTS,
    "waits": WAITS,
    "handled": HANDLED,
}
SCOPES = ("queue", "vhost", "user")
FLOWS = {"published": "published", "enqueued": "entered", "delivered": "delivered", "acknowledged": "acknowledged"}


def interval_s(hours: int) -> int:
    """Return the interval of `moments` in a log with so many hours from its first file to its last one.

    It divides the step of the log's timeline (`timeline.Steps`), and that of a longer log.
    """
    return next(interval for least, interval in INTERVALS_S if hours >= least)


def summarize(traffic: pa.Table, interval: int = 1) -> Facts:
    """Summarize the traffic of one file."""
    rows = traffic.append_column("first", traffic["second"]).append_column("last", traffic["second"])
    flags = flags_of(traffic)
    minutes, seconds = windows(traffic, flags)
    handled = pa.array(flags["published"] | flags["delivered"])
    return {
        "kinds": group(KINDS, rows.select(KINDS.schema.names)),
        "series": SERIES.schema.empty_table(),
        "minutes": minutes,
        "seconds": seconds,
        "moments": moments(traffic, flags, interval),
        "waits": waits(traffic, flags, interval),
        "handled": group(HANDLED, traffic.filter(handled).select(HANDLED.schema.names)),
    }


def complete(facts: Facts) -> Facts:
    """Return the facts of an hour of which all files are merged, with its minutes and seconds in its series."""
    found = pa.concat_tables([facts["series"], series(facts["minutes"], facts["seconds"])])
    empty = {"minutes": MINUTES.schema.empty_table(), "seconds": SECONDS.schema.empty_table()}
    return facts | empty | {"series": group(SERIES, found)}


def flags_of(traffic: pa.Table) -> dict[str, Numbers]:
    """Return which rows of traffic belong to each count."""
    flags = {name: is_one_of(traffic["event"], events) for name, events in COUNTED.items()}
    flags["redelivered"] = flags["delivered"] & numbers_of(traffic["redelivered"].fill_null(False))
    flags["left"] |= flags["delivered"] & numbers_of(traffic["no_ack"].fill_null(False))
    return flags


def departs(traffic: pa.Table, flags: dict[str, Numbers]) -> Numbers:
    """Return where messages left the ready ones of their queue for the first time, as far as an event shows."""
    out = flags["delivered"] & ~flags["redelivered"] | is_one_of(traffic["event"], (schema.EXPIRE,))
    for name, reasons in LEFT_UNDELIVERED.items():
        out |= is_one_of(traffic["event"], (name,)) & is_one_of(traffic["reason"], reasons)
    return out


def moments(traffic: pa.Table, flags: dict[str, Numbers], interval: int) -> pa.Table:
    """Count messages by queue and interval.

    `wait_us` is the longest wait of a message that left for the first time, `entered_us` when it entered.
    """
    some = np.logical_or.reduce([*flags.values(), out := departs(traffic, flags)])
    weight, second, highest_us = (numbers_of(traffic[name]) for name in ("weight", "second", "highest_us"))
    timed = out & (numbers_of(traffic["timed"]) > 0)
    table = traffic.select([*BOOT, "vhost", "queue"])
    table = table.append_column("second", pa.array(second - second % interval))
    for name, where in flags.items():
        table = table.append_column(name, pa.array(np.where(where, weight, 0)))
    # That is the earliest time, since the end of the second is taken for the end of the wait.
    entered_us = pa.array((second + 1) * 1_000_000 - highest_us, mask=~timed)
    table = table.append_column("wait_us", pa.array(highest_us, mask=~timed)).append_column("entered_us", entered_us)
    return group(MOMENTS, table, some)


def waits(traffic: pa.Table, flags: dict[str, Numbers], interval: int) -> pa.Table:
    """Count acknowledged messages by interval and the time since their publish."""
    some = pa.array(flags["acknowledged"] & numbers_of(traffic["ack_bucket"].is_valid()))
    rows = traffic.filter(some).select(["node", "vhost", "ack_bucket", "second", "weight"])
    second = numbers_of(rows["second"])
    rows = rows.set_column(3, "second", pa.array(second - second % interval, INT))
    return group(WAITS, rows.rename_columns(WAITS.schema.names))


def windows(traffic: pa.Table, flags: dict[str, Numbers]) -> tuple[pa.Table, pa.Table]:
    """Return the minutes of each series of a file, and the first and the last second of the file."""
    if not traffic.num_rows:
        return MINUTES.schema.empty_table(), SECONDS.schema.empty_table()
    ends = pc.min_max(traffic["second"]).as_py()
    minutes, seconds = [], []
    for scope, flow, sums in series_by_second(traffic, flags):
        second = numbers_of(sums["second"])
        inner = pa.array((second > ends["min"]) & (second < ends["max"]))
        same = {"scope": constant(scope, len(second)), "flow": constant(flow, len(second))}
        columns = same | {name: sums[name] for name in ("node", "vhost", "name", "second", "weight", "bytes")}
        columns |= {"first": second, "last": second, "minute": second // MINUTE_S * MINUTE_S}
        columns["peak"] = pc.if_else(inner, sums["weight"], 0)
        table = pa.table(columns)
        minutes.append(group(MINUTES, table.select(MINUTES.schema.names).cast(MINUTES.schema)))
        seconds.append(table.filter(pc.invert(inner)).select(SECONDS.schema.names).cast(SECONDS.schema))
    return pa.concat_tables(minutes), pa.concat_tables(seconds)


def series_by_second(traffic: pa.Table, flags: dict[str, Numbers]) -> Iterable[tuple[str, str, pa.Table]]:
    """Yield scope and flow of each kind of series, with the messages of each by second."""
    for scope in SCOPES:
        for flow, count in FLOWS.items():
            if flow == ("published" if scope == "queue" else "enqueued"):
                continue
            rows = traffic.select(["node", "vhost", scope, "second", "weight", "bytes"])
            rows = rows.rename_columns(SECOND_SUMS.schema.names)
            yield scope, flow, group(SECOND_SUMS, rows, flags[count] & numbers_of(traffic[scope].is_valid()))


def constant(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, "i4")), [text])


def series(minutes: pa.Table, seconds: pa.Table) -> pa.Table:
    """Return series by hour, from their minutes and the seconds at the ends of files."""
    if not minutes.num_rows:
        return SERIES.schema.empty_table()
    peaks = group(SECONDS, seconds)
    second = numbers_of(peaks["second"])
    columns = {name: peaks[name] for name in NAMED} | {"minute": second // MINUTE_S * MINUTE_S, "peak": peaks["weight"]}
    columns |= {"weight": second * 0, "bytes": second * 0, "first": second, "last": second}
    ends = pa.table({name: columns[name] for name in MINUTES.schema.names}).cast(MINUTES.schema)
    rows = in_order(group(MINUTES, pa.concat_tables([minutes, ends])), *NAMED, "minute")
    minute, weight = numbers_of(rows["minute"]), numbers_of(rows["weight"])
    hour = minute // HOUR_S * HOUR_S
    changes = np.logical_or.reduce([np.diff(each) != 0 for each in (*(codes(rows[name]) for name in NAMED), hour)])
    starts = np.flatnonzero(np.r_[True, changes])
    ends_at = np.r_[starts[1:], len(hour)] - 1
    found = {name: rows[name].take(pa.array(starts)) for name in NAMED} | {"hour": hour[starts]}
    found |= {"messages": np.add.reduceat(weight, starts), "peak_1m": np.maximum.reduceat(weight, starts)}
    found |= {"bytes": np.add.reduceat(numbers_of(rows["bytes"]), starts)}
    found |= {"peak_1s": np.maximum.reduceat(numbers_of(rows["peak"]), starts)}
    found |= {"first_1m_messages": weight[starts], "last_1m_messages": weight[ends_at]}
    for name in ("messages", "bytes", "peak_1s", "peak_1m", "first_1m_messages", "last_1m_messages"):
        found[name] = (found[name] + WEIGHT // 2) // WEIGHT
    found |= {"first": numbers_of(rows["first"])[starts], "last": numbers_of(rows["last"])[ends_at]}
    return pa.table({name: found[name] for name in SERIES.schema.names}).cast(SERIES.schema)
