"""The build of Warren that this process runs: its hot modules compiled by mypyc, or pure Python.

`setup.py` compiles modules to extensions beside their sources, which Python prefers to them, and writes a manifest with
the checksums of the sources. Compiled modules rely on the layout of each other's objects, so all of them are used or
none: with WARREN_PURE=1, or if a source has changed since it was compiled, this module has Python import the sources.
It is imported before any module that may be compiled.
"""

import os
import sys
from importlib import machinery
from typing import Any
from zlib import crc32

VARIABLE = "WARREN_PURE"
BROKER = os.path.dirname(os.path.abspath(__file__))
COMPILED, PURE = "compiled", "pure"
NOT_COMPILED, SWITCHED_OFF = "not compiled", f"{VARIABLE} is set"


def manifest_path(folder: str) -> str:
    """Return the path of the manifest of this Python's extensions: a line `CRC32 PATH` for each source."""
    return os.path.join(folder, f"compiled{machinery.EXTENSION_SUFFIXES[0].removesuffix('.so')}.txt")


def pure_reason(folder: str = BROKER) -> str:
    """Return why the extensions are not used, or an empty text if they are."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        return SWITCHED_OFF
    try:
        with open(manifest_path(folder), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return NOT_COMPILED
    for line in lines:
        checksum, _, name = line.partition(" ")
        if has_changed(os.path.join(folder, name), int(checksum)):
            return f"{name} has changed since it was compiled"
    return ""


def has_changed(path: str, checksum: int) -> bool:
    """Return whether a source has another checksum than when it was compiled.

    Its time says nothing: a copy of another version may have an older one. Reading all takes some milliseconds.
    """
    try:
        with open(path, "rb") as file:
            return crc32(file.read()) != checksum
    except OSError:
        return True


def use_sources() -> None:
    """Have Python import the modules in the folders of the broker from their sources, and no extension."""
    hook = machinery.FileFinder.path_hook(
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )

    def broker_only(path: str) -> Any:
        if not os.path.abspath(path).startswith(BROKER + os.sep):
            raise ImportError("not a folder of the broker", path=path)
        return hook(path)

    sys.path_hooks.insert(0, broker_only)


REASON = pure_reason()
BUILD = PURE if REASON else COMPILED
DESCRIPTION = f"pure Python ({REASON})" if REASON else "compiled"
CHANGED = REASON not in ("", NOT_COMPILED, SWITCHED_OFF)
if REASON:  # without a manifest too: an interrupted build leaves extensions that do not belong together
    use_sources()
