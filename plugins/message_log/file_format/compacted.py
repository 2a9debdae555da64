"""The manifests of compactions, as readers of an export see them.

A compaction first writes {"replaces": [paths], "by": path}, then the file, then removes those that it replaces. Whoever
lists the files between these steps sees both: once the new file is there, the replaced ones do not count.

Others may write to the folder of an export. So a path counts only if it is that of a file of the export, in the same
folder as the file that replaces it: nothing else is ignored by readers, or removed by a compaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from . import schema

PREFIX, SUFFIX = "compacted-", ".jsonl"
PATH = re.compile(rf"((?:{'|'.join(schema.TABLES)})/dt=\d{{4}}-\d\d-\d\d/hour=\d\d/)part-[^/\0]+\.parquet")


def is_manifest(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def replacements(manifest: str) -> dict[str, list[str]]:
    """Return what the files of one compaction replace, by path; the last line may have been cut."""
    found = {}
    for line in manifest.splitlines(keepends=True):
        if line.endswith("\n") and '"replaces"' in line:
            by, replaced = entry_of(line)
            if by:
                found[by] = replaced
    return found


def entry_of(line: str) -> tuple[str, list[str]]:
    """Return the path of a file and those that it replaces; an empty path unless all are files of one folder."""
    try:
        entry = json.loads(line)
        paths = [entry["by"], *entry["replaces"]]
        folders = {match[1] if (match := PATH.fullmatch(path)) is not None else "" for path in paths}
    except (ValueError, RecursionError, KeyError, TypeError):
        return "", []
    return (paths[0], paths[1:]) if len(folders) == 1 and "" not in folders else ("", [])


def replaced_paths(manifests: Iterable[str], present: Collection[str]) -> set[str]:
    """Return the files that do not count, as another file that is present replaces them. All paths are relative."""
    return {
        path
        for manifest in manifests
        for by, replaced in replacements(manifest).items()
        if by in present
        for path in replaced
    }
