"""The manifests of compactions, as readers of an export see them.

A compaction first writes {"replaces": [paths], "by": path}, then the file, then removes the replaced files. A reader
that lists the files between these steps sees both: once the new file exists, the replaced ones do not count.

Other users may write to the folder of an export. So a path counts only if it is that of a file of the export, of the
same hour and boot as the file that replaces it. Readers ignore no other files, and compactions remove no others.
"""

import json
import re
from collections.abc import Collection, Iterable

from . import schema

PREFIX, SUFFIX = "compacted-", ".jsonl"
PATH = re.compile(rf"((?:{'|'.join(schema.TABLES)})/dt=\d{{4}}-\d\d-\d\d/hour=\d\d/)(part-[^/\0]+\.parquet)")


def is_manifest(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def replacements(manifest: str) -> dict[str, list[str]]:
    """Return the replaced files of one compaction by the path of its file. The last line may be cut."""
    by_file = {}
    for line in manifest.splitlines(keepends=True):
        if line.endswith("\n") and '"replaces"' in line:
            by, replaced = entry_of(line)
            if by:
                by_file[by] = replaced
    return by_file


def entry_of(line: str) -> tuple[str, list[str]]:
    """Return the path of a file and its replaced files; the path is empty unless all are of one hour and boot."""
    try:
        entry = json.loads(line)
        paths = [entry["by"], *entry["replaces"]]
        places = {hour_and_boot(path) for path in paths}
    except (ValueError, RecursionError, KeyError, TypeError):
        return "", []
    return (paths[0], paths[1:]) if len(places) == 1 and None not in places else ("", [])


def hour_and_boot(path: str) -> tuple[str, str] | None:
    """Return the folder and the boot of a file of the export, or None for another path."""
    match = PATH.fullmatch(path)
    part = schema.parse_name(match[2]) if match is not None else None
    return (match[1], part.boot) if match is not None and part is not None else None


def replaced_paths(manifests: Iterable[str], present: Collection[str]) -> set[str]:
    """Return the files that do not count, because a present file replaces them. All paths are relative."""
    return {
        path
        for manifest in manifests
        for by, replaced in replacements(manifest).items()
        if by in present
        for path in replaced
    }
