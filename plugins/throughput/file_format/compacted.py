"""The manifests of compactions, as readers of an export see them.

A compaction first writes {"replaces": [paths], "by": path}, then the file, then removes those that it replaces. Whoever
lists the files between these steps sees both: once the new file is there, the replaced ones do not count.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

PREFIX, SUFFIX = "compacted-", ".jsonl"


def is_manifest(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def replacements(manifest: str) -> dict[str, list[str]]:
    """Return what the files of one compaction replace, by path; the last line may have been cut."""
    found = {}
    for line in manifest.splitlines(keepends=True):
        if line.endswith("\n") and '"replaces"' in line:
            entry = json.loads(line)
            found[entry["by"]] = entry["replaces"]
    return found


def replaced_paths(manifests: Iterable[str], present: Collection[str]) -> set[str]:
    """Return the files that do not count, as another file that is present replaces them. All paths are relative."""
    return {
        path
        for manifest in manifests
        for by, replaced in replacements(manifest).items()
        if by in present
        for path in replaced
    }
