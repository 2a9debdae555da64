"""Files and folders as Spark sees them: paths of this machine, or of any file system of Hadoop (s3a://, hdfs://).

All access uses the file system classes of Spark's Java, so the driver reaches every place that the executors reach.
Java's exceptions are raised as OSError with a text of one line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

LOCAL = "file"
RENAMING = ("hdfs", "viewfs")  # schemes of file systems that rename a file over another in one step


class FileInfo(NamedTuple):
    """A file. `path` is absolute and begins with the scheme."""

    path: str
    name: str
    bytes: int


class Footer(NamedTuple):
    """The footer of a Parquet file: its key-value metadata and its number of rows."""

    metadata: dict[str, str]
    records: int


class NotParquet(Exception):
    """A file without a readable Parquet footer."""


@contextmanager
def _raise_os_error(path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        text = str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
        raise OSError(f"{path}: {text.splitlines()[0]}") from error


def is_hidden(name: str) -> bool:
    return name[:1] in ("_", ".")


def local_files(folder: str, top: str) -> Iterator[FileInfo]:
    """Yield all files below a folder of this machine, whose path with the scheme is `top`. Raises OSError.

    Hadoop's listing starts a program for each file, to read its permissions, and fails if the writer of an export
    renames or deletes the file meanwhile.
    """
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not is_hidden(entry.name)]
    for entry in visible:
        path = f"{top}/{entry.name}"
        with suppress(FileNotFoundError):  # it was deleted meanwhile
            if entry.is_dir():
                yield from local_files(entry.path, path)
            else:
                yield FileInfo(path, entry.name, entry.stat().st_size)


class Folders:
    """Access to files and folders with the configuration of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration: Any = spark._jsc.hadoopConfiguration()

    def _place(self, path: str) -> tuple[Any, Any]:
        place = self._java.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._configuration), place

    def exists(self, path: str) -> bool:
        with _raise_os_error(path):
            system, place = self._place(path)
            return bool(system.exists(place))

    def absolute(self, path: str) -> str:
        """Return the path in the form of `files`: absolute, and with the scheme."""
        with _raise_os_error(path):
            system, place = self._place(path)
            return str(system.makeQualified(place).toString())

    def local(self, path: str) -> Path | None:
        """Return the path if it is on this machine, or None."""
        with _raise_os_error(path):
            system, place = self._place(path)
            uri = system.makeQualified(place).toUri()
            return Path(str(uri.getPath())) if uri.getScheme() == LOCAL else None

    def names(self, path: str) -> list[str]:
        """Return the names of the files and folders directly in a folder, or none if it does not exist."""
        with _raise_os_error(path):
            system, place = self._place(path)
            if not system.exists(place):
                return []
            return sorted(str(status.getPath().getName()) for status in system.listStatus(place))

    def files(self, path: str) -> list[FileInfo]:
        """Return all files below a folder, by path, without files and folders whose names begin with `_` or `.`."""
        top, local = self.absolute(path), self.local(path)
        if local is not None and local.is_dir():
            return sorted(local_files(str(local), top))
        files = []
        with _raise_os_error(path):
            system, place = self._place(path)
            listing = system.listFiles(place, True)
            while listing.hasNext():
                status = listing.next()
                absolute = status.getPath().toString()
                if not any(map(is_hidden, absolute.removeprefix(top).split("/"))):
                    files.append(FileInfo(absolute, status.getPath().getName(), int(status.getLen())))
        return sorted(files)

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders directly in a folder, or none if it does not exist."""
        with _raise_os_error(path):
            system, place = self._place(path)
            if not system.exists(place):
                return []
            return sorted(s.getPath().getName() for s in system.listStatus(place) if s.isDirectory())

    def footer(self, path: str) -> Footer:
        """Read the footer of a Parquet file. Raises NotParquet."""
        parquet = self._java.org.apache.parquet.hadoop
        try:
            place = self._java.org.apache.hadoop.fs.Path(path)
            reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(place, self._configuration))
        except Py4JJavaError as error:
            raise NotParquet(path) from error
        try:
            metadata = reader.getFileMetaData().getKeyValueMetaData()
            return Footer({key: metadata.get(key) for key in metadata}, int(reader.getRecordCount()))
        finally:
            reader.close()

    def write(self, path: str, text: str) -> None:
        """Write a text file, replacing any existing one."""
        self.write_bytes(path, text.encode("utf-8"))

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file, replacing any existing one."""
        with _raise_os_error(path):
            system, place = self._place(path)
            system.setWriteChecksum(False)  # without this it also writes a file `.name.crc`
            stream = system.create(place, True)
            stream.write(bytearray(content))
            stream.close()

    def replace(self, path: str, text: str) -> None:
        """Replace a small text file in one step: readers see the earlier content or this one, each whole.

        An object of an object store appears when it is complete; elsewhere the file is written under another name.
        """
        local = self.local(path)
        if local is not None:
            new = local.with_name(f".{local.name}-{os.getpid()}")
            new.write_text(text, encoding="utf-8")
            new.replace(local)
            return
        with _raise_os_error(path):
            system, place = self._place(path)
            if system.getScheme() not in RENAMING:
                self.write(path, text)
                return
            new_place = self._java.org.apache.hadoop.fs.Path(place.getParent(), f".{place.getName()}-{os.getpid()}")
            self.write(str(new_place.toString()), text)
            self._rename_over(system, new_place, place)

    def _rename_over(self, system: Any, place: Any, to: Any) -> None:
        java = self._java.org.apache.hadoop.fs
        options = self._gateway.new_array(java.Options.Rename, 1)
        options[0] = java.Options.Rename.OVERWRITE
        java.FileContext.getFileContext(system.getUri(), self._configuration).rename(place, to, options)

    def text(self, path: str) -> str:
        """Read a small text file."""
        return self.content(path).decode("utf-8")

    def content(self, path: str) -> bytes:
        """Read a small file."""
        with _raise_os_error(path):
            system, place = self._place(path)
            stream = system.open(place)
            content = bytes(stream.readAllBytes())
            stream.close()
        return content

    def remove(self, path: str) -> None:
        """Delete a folder and its content, if it exists."""
        with _raise_os_error(path):
            system, place = self._place(path)
            system.delete(place, True)
