"""The keys of the message log."""

from __future__ import annotations

from ..key import LIST, Key
from ..value_types import Boolean, Duration, FilePath, Integer, Size, Text

MESSAGE_LOG_KEYS: tuple[Key, ...] = (
    Key("message_log.enabled", Boolean(), "message_log.enabled", "write the events of each message to Parquet"),
    Key("message_log.directory", FilePath(), "message_log.directory", "folder of the files; nodes may share it"),
    Key("message_log.reports", FilePath(), "message_log.reports", "folder whose reports the user interface shows"),
    Key("message_log.vhosts.$", Text(empty=False), "message_log.vhosts", "one that is exported; default: all", LIST),
    Key("message_log.sample_one_in", Integer(1), "message_log.sample_one_in", "one message of this many is logged"),
    Key("message_log.headers.$", Text(empty=False), "message_log.headers", "a header whose values are exported", LIST),
    Key("message_log.buffer", Size(), "message_log.buffer_bytes", "bytes; records beyond it are dropped and counted"),
    Key("message_log.file.size", Size(), "message_log.file_bytes", "bytes, about, until the next file"),
    Key("message_log.file.age", Duration("seconds", 1), "message_log.file_age_s", "seconds, until the next file"),
    Key("message_log.retention", Duration("days", 1, none="infinity"), "message_log.retention_days", "days to keep"),
)
