"""The keys of the throughput export."""

from __future__ import annotations

from ..key import LIST, Key
from ..value_types import Boolean, Duration, FilePath, Integer, Size, Text

THROUGHPUT_KEYS: tuple[Key, ...] = (
    Key("throughput.enabled", Boolean(), "throughput.enabled", "write the events of each message to Parquet"),
    Key("throughput.directory", FilePath(), "throughput.directory", "folder of the files; nodes may share it"),
    Key("throughput.reports", FilePath(), "throughput.reports", "folder whose reports the user interface shows"),
    Key("throughput.vhosts.$", Text(empty=False), "throughput.vhosts", "one that is exported; default: all", LIST),
    Key("throughput.sample_one_in", Integer(1), "throughput.sample_one_in", "one message of this many is logged"),
    Key("throughput.headers.$", Text(empty=False), "throughput.headers", "a header whose values are exported", LIST),
    Key("throughput.buffer", Size(), "throughput.buffer_bytes", "bytes; records beyond it are dropped and counted"),
    Key("throughput.file.size", Size(), "throughput.file_bytes", "bytes, about, until the next file"),
    Key("throughput.file.age", Duration("seconds", 1), "throughput.file_age_s", "seconds, until the next file"),
    Key(
        "throughput.retention", Duration("days", 1, none="infinity"), "throughput.retention_days", "days that are kept"
    ),
)
