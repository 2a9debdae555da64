"""The evidence outside the rows of the log: what the files' footers say, and which files were not read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from warren.broker.config import MessageLogExport

from ...file_format import schema
from ..input_files import TableFiles, skipped_files
from .manifest import FileFaults

REASONS = {
    "not_parquet": "are damaged or not Parquet",
    "foreign": "do not belong to an export",
    "unknown_schema": "have a version of the schema that this Warren does not read",
    "duplicate": "have the name of another file",
}


@dataclass(frozen=True)
class Evidence:
    """The evidence of one input.

    skipped        number of skipped files by reason (`input_files`)
    lost_records   by boot (`boot_key`): the greatest count in the footers of its files
    file_age_s     likewise: the time for which the writer keeps a file open
    finished       likewise, of boots with a manifest: the number of the row after the last one in a finished file
    faults         of files, by the manifests
    unprocessed    number of files that the stream has not processed
    now_us         the time of the analysis
    since_us       the time before which nothing was asked for, or None
    routes_compared  whether the log has all queues that messages were routed to
    """

    skipped: Mapping[str, int] = field(default_factory=dict)
    lost_records: Mapping[str, int] = field(default_factory=dict)
    file_age_s: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    faults: FileFaults = field(default_factory=FileFaults)
    unprocessed: int = 0
    now_us: int = field(default_factory=lambda: time.time_ns() // 1000)
    since_us: int | None = None
    routes_compared: bool = True

    def reasons(self) -> list[str]:
        """Return the reasons for which the input is not complete."""
        skipped = {text: self.skipped[reason] for reason, text in REASONS.items() if reason in self.skipped}
        reasons = [f"{number:,} skipped files {text}" for text, number in skipped.items()]
        if self.unprocessed:
            reasons.append(f"{self.unprocessed:,} files of the input were not processed")
        return [*reasons, *self.faults.reasons()]

    def finished_row(self, node: str, boot_id: str) -> int | None:
        """Return the number of the row after the last finished one, or None for a boot without a manifest."""
        return self.finished.get(key_of(node, boot_id))

    def lost(self, node: str, boot_id: str) -> int:
        return self.lost_records.get(key_of(node, boot_id), 0)

    def silence_us(self, node: str, boot_id: str) -> int:
        """Return the greatest age of a running boot's newest record: that of a finished file plus three snapshots."""
        age_s = self.file_age_s.get(key_of(node, boot_id), MessageLogExport().file_age_s)
        return (age_s + SILENT_SNAPSHOTS * schema.SNAPSHOT_S) * 1_000_000


SILENT_SNAPSHOTS = 3


def key_of(node: str, boot_id: str) -> str:
    return schema.boot_key(schema.file_name(node, boot_id, 0))


def evidence(
    inputs: Mapping[str, TableFiles],
    finished: Mapping[str, int] | None = None,
    faults: FileFaults | None = None,
    unprocessed: int = 0,
) -> Evidence:
    """Return the evidence of the files of all tables, and of their manifests."""
    lost: dict[str, int] = {}
    ages: dict[str, int] = {}
    for files in inputs.values():
        for file in files.accepted:
            key = schema.boot_key(file.path)
            lost[key] = max(lost.get(key, 0), file.lost_records)
            if file.file_age_s is not None:
                ages[key] = max(ages.get(key, 0), file.file_age_s)
    return Evidence(skipped_files(inputs), lost, ages, finished or {}, faults or FileFaults(), unprocessed)
