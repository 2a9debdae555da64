"""The keys of a store on PostgreSQL."""

from __future__ import annotations

from ..key import Key
from ..value_types import Boolean, Duration, FilePath, StoreUrl, Text

STORAGE_KEYS: tuple[Key, ...] = (
    Key(
        "storage.url", StoreUrl(empty=False), "storage.url",
        "postgresql://USER@HOST1,HOST2/DATABASE, in place of the data folder", secret=True,
    ),
    Key("storage.password_file", FilePath(), "storage.password_file", "a file with the password of that user"),
    Key(
        "storage.schema", Text(empty=False, longest_bytes=63), "storage.schema",
        "the schema with the tables of this broker",
    ),
    Key(
        "storage.lease_s", Duration("seconds", 3), "storage.lease_s",
        "seconds, until a silent owner is replaced by a standby",
    ),
    Key(
        "storage.retry_s", Duration("seconds"), "storage.retry_s",
        "seconds, for which an unreachable server is tried again",
    ),
    Key(
        "storage.quorum_requires_replication", Boolean(), "storage.quorum_requires_replication",
        "refuse new quorum queues while no standby server is waited for",
    ),
)  # fmt: skip
