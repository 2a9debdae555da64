"""The summary of an hour's traffic: what reports need of its seconds, as many rows as there are queues and users.

kinds   messages by queue, user and kind of event, with the first and the last second
series  messages of each queue, virtual host and user, with the peaks of a second and a minute
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format.schema import ACK, DELIVER, ENQUEUE, FED_IN, FED_OUT, PUBLISH
from .facts import INT, TRAFFIC, Fact, Facts, codes, group, in_order, measures, names, numbers_of, unified
from .reduction import WEIGHT

HOUR_S, MINUTE_S = 3600, 60
KIND = [name for name in TRAFFIC.keys if name not in ("ack_bucket", "second")]
KINDS = Fact(
    {name: TRAFFIC.keys[name] for name in KIND},
    {
        **measures("sum", "records", "weight", "routed"),
        **measures("max", "highest_us", "last"),
        **measures("min", "first"),
    },
)
SERIES = Fact(
    {**names("scope", "node", "vhost", "name", "flow"), "hour": INT},
    {
        **measures("sum", "messages", "bytes"),
        **measures("max", "peak_1s", "peak_1m", "last"),
        **measures("min", "first"),
        **measures("max", "first_1m_messages", "last_1m_messages"),
    },
)
SUMMARY: dict[str, Fact] = {"kinds": KINDS, "series": SERIES}
SCOPES = ("queue", "vhost", "user")
FLOWS = {
    "published": (PUBLISH, FED_IN),
    "enqueued": (ENQUEUE,),
    "delivered": (DELIVER,),
    "acknowledged": (ACK, FED_OUT),
}


def summarize(traffic: pa.Table) -> Facts:
    """Summarize the traffic of one hour, or of several."""
    rows = traffic.append_column("first", traffic["second"]).append_column("last", traffic["second"])
    return {"kinds": group(KINDS, rows.select(KINDS.schema.names)), "series": series(traffic)}


def series(traffic: pa.Table) -> pa.Table:
    """Return the messages of each series by hour, with its peaks."""
    flow_of = {event: flow for flow, events in FLOWS.items() for event in events}
    flows = pa.array([flow_of.get(event) for event in traffic["event"].to_pylist()], pa.string())
    parts = [SERIES.schema.empty_table()]
    for scope in SCOPES:
        absent = "published" if scope == "queue" else "enqueued"
        table = traffic.select(["node", "vhost", "second", "weight", "bytes"])
        table = table.append_column("name", traffic[scope].cast(pa.string())).append_column("flow", flows)
        wanted = pc.and_(pc.is_valid(table["name"]), pc.fill_null(pc.not_equal(table["flow"], absent), False))
        keys = ["node", "vhost", "name", "flow"]
        sums = unified(table.filter(wanted)).group_by([*keys, "second"], use_threads=False)
        seconds = in_order(sums.aggregate([("weight", "sum"), ("bytes", "sum")]), *keys, "second")
        if seconds.num_rows:
            parts.append(by_hour(scope, keys, seconds))
    return unified(pa.concat_tables(parts))


def by_hour(scope: str, keys: list[str], seconds: pa.Table) -> pa.Table:
    """Return series by hour, from their seconds in order."""
    second = numbers_of(seconds["second"])
    counts, size = ((numbers_of(seconds[name]) + WEIGHT // 2) // WEIGHT for name in ("weight_sum", "bytes_sum"))
    changes = np.logical_or.reduce([np.diff(codes(seconds[name])) != 0 for name in keys])
    minute, hour = second // MINUTE_S, second // HOUR_S
    begins_minute = np.r_[True, changes | (np.diff(minute) != 0)]
    begins_hour = np.r_[True, changes | (np.diff(hour) != 0)]
    minutes, hours = np.flatnonzero(begins_minute), np.flatnonzero(begins_hour)
    of_minute = np.add.reduceat(counts, minutes)
    first_minutes = np.searchsorted(minutes, hours)  # of each hour, among the minutes
    last_minutes = np.r_[first_minutes[1:], len(minutes)] - 1
    columns = {name: seconds[name].take(pa.array(hours)) for name in keys}
    columns |= {"scope": pa.array([scope] * len(hours), pa.string()).dictionary_encode(), "hour": hour[hours] * HOUR_S}
    columns |= {"messages": np.add.reduceat(counts, hours), "bytes": np.add.reduceat(size, hours)}
    columns |= {"peak_1s": np.maximum.reduceat(counts, hours), "peak_1m": np.maximum.reduceat(of_minute, first_minutes)}
    columns |= {"first": second[hours], "last": second[np.r_[hours[1:], len(second)] - 1]}
    columns |= {"first_1m_messages": of_minute[first_minutes], "last_1m_messages": of_minute[last_minutes]}
    return pa.table({name: columns[name] for name in SERIES.schema.names}).cast(SERIES.schema)
