"""The archive of Java's loaded classes, which halves the processor time of Spark's start.

The first run writes it to the user's cache folder, for this Java and this Spark. Java ignores an archive of another
version.
"""

import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

DUMP_S = 120.0  # the time for Java to write the archive at its end
UNUSED_S = 30 * 24 * 3600.0  # the age at which an unused archive of another Java or Spark is removed
SILENT = "-Xlog:disable -Xlog:all=error:stderr"  # no warnings about classes that cannot be archived


class ClassCache:
    """The archive at `path`, which this run uses, or writes if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.missing = not path.exists()
        if not self.missing:
            os.utime(path)
        self._path = path
        self._new = path.with_name(f"{path.name}.{os.getpid()}.tmp")

    def options(self) -> str:
        """Return Java's options to use or make the archive."""
        wanted = f"ArchiveClassesAtExit={self._new}" if self.missing else f"SharedArchiveFile={self._path}"
        return f"{SILENT} -XX:{wanted}"

    def keep(self, java: subprocess.Popen[Any]) -> None:
        """End Spark's Java process, and keep the archive that it writes then, if it is complete."""
        try:
            if java.stdin is not None:
                java.stdin.close()  # the process ends when its input is closed
            if java.wait(DUMP_S) == 0 and self._new.exists():
                self._new.replace(self._path)
        except (OSError, subprocess.TimeoutExpired):
            pass  # the next run writes it
        finally:
            self._new.unlink(missing_ok=True)


def class_cache(java: str, spark: Path) -> ClassCache | None:
    """Return the archive of this Java and this Spark, given by program and folder; None if no cache can be written."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(home).expanduser() / "warren"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ages = [place.stat().st_mtime_ns for place in (Path(java).resolve(), spark / "jars")]
    except (OSError, RuntimeError):
        return None
    if " " in str(folder) or not os.access(folder, os.W_OK):  # Spark divides Java's options at spaces
        return None
    remove_unused(folder)
    name = hashlib.sha256(repr((str(Path(java).resolve()), str(spark), ages)).encode()).hexdigest()[:16]
    return ClassCache(folder / f"spark-{name}.jsa")


def remove_unused(folder: Path) -> None:
    """Remove archives that no run has used for UNUSED_S, and parts of them that a killed run has left."""
    for path in folder.glob("spark-*"):
        try:
            if time.time() - path.stat().st_mtime > UNUSED_S:
                path.unlink()
        except OSError:
            continue  # another run removed it
