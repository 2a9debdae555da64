"""The finished files of one boot, for a writer that continues the boot of a killed writer."""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..file_format import schema
from .manifest import FinishedFile, Manifest

READ_BYTES = 1 << 20


def unlisted_files(folder: Path, node: str, boot_id: str, manifest: Manifest) -> list[FinishedFile]:
    """Return the files that the manifest lacks because their writer was killed before it added them. Raises OSError."""
    listed = {entry.path for entry in manifest.finished_files()}
    prefix = file_prefix(node, boot_id)
    unlisted = []
    for table in schema.TABLES:
        for path in sorted(folder.glob(f"{table}/dt=*/hour=*/{prefix}*.parquet")):
            name, part = path.relative_to(folder).as_posix(), schema.parse_name(path.name)
            # The file of a compaction is listed in the manifest of the compaction.
            if part is not None and part.first == part.last and name not in listed:
                with contextlib.suppress(pa.ArrowInvalid):
                    unlisted.append(describe_file(folder, name))
    return unlisted


def describe_file(folder: Path, name: str) -> FinishedFile:
    """Return the entry of the manifest for a file, by its path in the folder of the export.

    Raises OSError, or pa.ArrowInvalid for a damaged file.
    """
    table, sha256, size = name.partition("/")[0], hashlib.sha256(), 0
    with (folder / name).open("rb") as file:
        while piece := file.read(READ_BYTES):
            sha256.update(piece)
            size += len(piece)
    with pq.ParquetFile(folder / name) as content:
        rows = content.metadata.num_rows
        ends = pc.min_max(content.read(["row"])["row"]) if table == schema.EVENTS else None
    least, greatest = (ends["min"].as_py(), ends["max"].as_py()) if ends is not None else (None, None)
    return FinishedFile(name, table, size, rows, least, greatest, sha256.hexdigest())


def next_sequences(files: list[FinishedFile]) -> dict[str, int]:
    """Return the sequence number of the next file of each table."""
    sequences = dict.fromkeys(schema.TABLES, 0)
    for file in files:
        part = schema.parse_name(file.path.rpartition("/")[2])
        if part is not None and file.table in sequences:
            sequences[file.table] = max(sequences[file.table], part.last + 1)
    return sequences


def remove_unfinished(folder: Path, node: str, boot_id: str) -> None:
    """Delete the files that the killed writer of this boot did not finish. Raises OSError."""
    for path in folder.glob(f"*/dt=*/hour=*/.{file_prefix(node, boot_id)}*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if not is_locked(path):  # a compaction may be writing one
                path.unlink()


def is_locked(path: Path) -> bool:
    """Return whether a process has locked the file. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def file_prefix(node: str, boot_id: str = "") -> str:
    """Return the beginning of the names of a boot's files, or without a boot that of the node's files."""
    return f"part-{schema.safe_name(node)}-" + (f"{boot_id}-" if boot_id else "")
