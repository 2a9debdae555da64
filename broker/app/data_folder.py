"""The data folder at a start: refused if it has files of something else, and left as it was if the start fails."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

from ..config import Config, Sources
from ..control_socket import NAME as SOCKET
from ..storage.errors import StorageFault
from ..storage.folder_lock import NAME as LOCK
from ..storage.folder_lock import lock

METADATA, JOURNAL = "meta.sqlite", "log"
STORED = (JOURNAL, METADATA, *(f"{METADATA}-{suffix}" for suffix in ("wal", "shm", "journal")))
OTHERS = (SOCKET, "message_log.json")  # the second is a note of the export
ALLOWED = (*STORED, *OTHERS, LOCK, "lost+found")  # the last is a folder of each ext4


class DataFolder:
    """The folder, as it was before the start."""

    def __init__(self, config: Config, sources: Sources) -> None:
        self._config = config
        self._sources = sources
        self.path = Path(config.data_dir).absolute()
        self._missing = [path for path in (self.path, *self.path.parents) if not os.path.lexists(path)]
        self._made: tuple[str, ...] = ()  # names that only this start has made

    def lock(self) -> None:
        """Lock the folder, for as long as this process runs. Raises StorageFault, InUse, OSError."""
        if self._config.memory:
            return
        if os.path.isdir(self.path):
            self._check()
        locked_before = os.path.lexists(self.path / LOCK)
        lock(self.path)
        if not any(os.path.lexists(self.path / name) for name in STORED):
            self._made = (*STORED, *(name for name in OTHERS if not os.path.lexists(self.path / name)))
        if not locked_before:
            self._made += (LOCK,)  # the last that is removed

    def _check(self) -> None:
        """Raise StorageFault if no broker has stored anything here, and there is more than hidden files and such that
        the configuration names.
        """
        names = os.listdir(self.path)
        if METADATA in names or any((self.path / JOURNAL).glob("[0-9]*.log")):
            return
        log = self._config.log
        paths = (self._config, self._sources.files, os.path.join(log.dir, log.file))
        named = {*ALLOWED, *names_in(self.path, paths)}
        foreign = sorted(name for name in names if name not in named and name[0] != ".")
        if foreign:
            advice = "choose a new folder, an empty one or that of a broker (--data)"
            raise StorageFault(f"{self.path}: it has files of something else, such as {foreign[0]}: {advice}")

    def keep(self) -> None:
        """Note that the start has not failed."""
        self._made = ()

    def clean(self) -> None:
        """Remove all that a failed start has stored where nothing was stored, and the folders that it has made."""
        for name in self._made:
            path = self.path / name
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self._missing if self._made else ():
            with suppress(OSError):
                path.rmdir()


def names_in(folder: Path, part: object) -> Iterator[str]:
    """Yield the names in the folder that texts of a configuration have as paths."""
    if is_dataclass(part):
        for field in fields(part):
            yield from names_in(folder, getattr(part, field.name))
    elif isinstance(part, list | tuple):
        for each in part:
            yield from names_in(folder, each)
    elif isinstance(part, str):
        path = Path(part).absolute()
        if path != folder and path.is_relative_to(folder):
            yield path.relative_to(folder).parts[0]
