"""The check of the manifests (`schema`): every finished file is present and unchanged.

It reveals accidents: files that were deleted, cut, changed or added. It reveals no forgery by somebody who can write to
the folder, and therefore to the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...file_format import schema
from ..hadoop_fs import Folders
from ..input_files import TableFiles, any_file

READERS = 4  # local files that are read concurrently
LOCAL = "file:"


class Entry(msgspec.Struct, frozen=True):
    """A line of a manifest: a finished file, a removed one, or those that a compaction replaces."""

    path: str = ""
    table: str = ""
    bytes: int = 0
    rows: int = 0
    first_row: int | None = None
    last_row: int | None = None
    sha256: str = ""
    removed: str = ""
    replaces: tuple[str, ...] = ()
    by: str = ""


@dataclass
class Manifest:
    """All manifests of a folder.

    files     the finished files, by path
    removed   paths of files that were taken away on purpose
    replaced  paths of files that do not count once the file of a compaction is there, by its path
    boots     those that have a manifest (`boot_key`), with the number of the row after their last finished one
    damaged   manifests with lines that cannot be read
    """

    files: dict[str, Entry] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    boots: dict[str, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """Add the lines of one manifest. An incomplete last line is one that is being written."""
        own = name.removesuffix(".jsonl")
        self.boots.setdefault(own, 0)
        for line in text[: text.rfind("\n") + 1].splitlines():
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except msgspec.MsgspecError:
                if name not in self.damaged:
                    self.damaged.append(name)
                continue
            if entry.replaces:
                self.replaced[entry.by] = entry.replaces
            elif entry.removed:
                self.removed.add(entry.removed)
            elif entry.path:
                self.files[entry.path] = entry
                boot = schema.boot_key(entry.path)
                next_row = entry.last_row + 1 if entry.last_row is not None else 0
                self.boots[boot] = max(self.boots.get(boot, 0), next_row)

    def part(self, wanted: Callable[[str], bool]) -> Manifest:
        """Return the manifests without the files that are not wanted, by path."""
        files = {path: entry for path, entry in self.files.items() if wanted(path)}
        return replace(self, files=files)

    def expected(self, present: Container[str]) -> dict[str, Entry]:
        """Return the finished files that should be there, given the paths of those that are."""
        absent = {path for by, paths in self.replaced.items() if by in present for path in paths} | self.removed
        return {path: entry for path, entry in self.files.items() if path not in absent}


@dataclass(frozen=True)
class FileFaults:
    """The differences between manifests and files: entries of files that are missing or changed, paths of others."""

    missing: list[Entry] = field(default_factory=list)
    changed: list[Entry] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        """Return the reasons for which the input is not complete."""
        reasons = []
        if self.unlisted:
            reasons.append(f"{len(self.unlisted):,} files are in no manifest (such as {self.unlisted[0]})")
        if self.damaged:
            reasons.append(f"{len(self.damaged):,} manifests are damaged ({self.damaged[0]})")
        return reasons


def read_manifest(folders: Folders, folder: str) -> Manifest:
    """Read all manifests. Callers list the files afterwards, so that every file in a manifest can be found."""
    manifest = Manifest()
    place = f"{folder.rstrip('/')}/{schema.MANIFEST}"
    if folders.exists(place):
        for file in folders.files(place):
            if file.name.endswith(".jsonl"):
                manifest.add(file.name, folders.text(file.path))
    return manifest


def check_files(
    spark: SparkSession,
    folder: str,
    manifest: Manifest,
    inputs: Mapping[str, TableFiles],
    verified: Mapping[str, str],
    wanted: Callable[[str], bool] = any_file,
) -> FileFaults:
    """Compare the files with the manifests, which are read again if they differ, because writers may have added files.

    `verified` has checksums of files that need not be read again, by path. Only `wanted` files are compared.
    """
    folders = Folders(spark)
    top = folders.absolute(folder)
    sizes = relative_sizes(top, inputs)
    if sizes.keys() != manifest.expected(sizes).keys():
        manifest = read_manifest(folders, folder).part(wanted)
    expected = manifest.expected(sizes)
    there = {path: entry for path, entry in expected.items() if path in sizes}
    resized = {path for path, entry in there.items() if sizes[path] != entry.bytes}
    sums = {**checksums(spark, top, there.keys() - resized - verified.keys()), **verified}
    return FileFaults(
        missing=[entry for path, entry in sorted(expected.items()) if path not in sizes],
        changed=[
            entry
            for path, entry in sorted(there.items())
            if path in resized or sums.get(path, entry.sha256) != entry.sha256
        ],
        unlisted=sorted(listable(top, inputs, manifest) - manifest.files.keys() - manifest.replaced.keys()),
        damaged=manifest.damaged,
    )


def listable(folder: str, inputs: Mapping[str, TableFiles], manifest: Manifest) -> set[str]:
    """Return the files of boots that have a manifest."""
    return {
        relative_path(folder, file.path)
        for files in inputs.values()
        for file in files.accepted
        if schema.boot_key(file.path) in manifest.boots
    }


def relative_path(folder: str, path: str) -> str:
    return path.removeprefix(folder).lstrip("/")


def relative_sizes(folder: str, inputs: Mapping[str, TableFiles]) -> dict[str, int]:
    """Return the sizes of all files by their paths in the folder."""
    return {relative_path(folder, path): size for files in inputs.values() for path, size in files.sizes().items()}


def checksums(spark: SparkSession, folder: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files by path: here if they are on this machine, else by the executors."""
    paths = sorted(paths)
    if not paths:
        return {}
    if folder.startswith(LOCAL):
        place = Path("/" + folder.removeprefix(LOCAL).lstrip("/"))
        with ThreadPoolExecutor(READERS) as readers:
            return dict(zip(paths, readers.map(lambda path: checksum(place / path), paths), strict=True))
    read = spark.read.format("binaryFile").load([f"{folder}/{path}" for path in paths])
    rows = read.select("path", F.sha2("content", 256).alias("sha256")).collect()
    return {relative_path(folder, row["path"]): row["sha256"] for row in rows}


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
