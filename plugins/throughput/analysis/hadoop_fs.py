"""Files and folders as Spark sees them: paths of this machine, or of any file system of Hadoop (s3a://, hdfs://).

All access uses the file system classes of Spark's own Java, so the job needs no second library for the places where its
executors write. Java's exceptions are raised as OSError with a text of one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


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


class Folders:
    """Access to files and folders with the configuration of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark._jvm
        self._configuration: Any = spark._jsc.hadoopConfiguration()

    def _place(self, path: str) -> tuple[Any, Any]:
        place = self._java.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._configuration), place

    def exists(self, path: str) -> bool:
        with _raise_os_error(path):
            system, place = self._place(path)
            return bool(system.exists(place))

    def absolute(self, path: str) -> str:
        """Return the path as those of `files` begin: absolute, and with the scheme."""
        with _raise_os_error(path):
            system, place = self._place(path)
            return str(system.makeQualified(place).toString())

    def files(self, path: str) -> list[FileInfo]:
        """Return all files below a folder, by path, without files and folders whose names begin with `_` or `.`."""
        files = []
        with _raise_os_error(path):
            system, place = self._place(path)
            top = system.makeQualified(place).toString()
            listing = system.listFiles(place, True)
            while listing.hasNext():
                status = listing.next()
                absolute = status.getPath().toString()
                if not any(part[:1] in ("_", ".") for part in absolute.removeprefix(top).split("/")):
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
            system.setWriteChecksum(False)  # otherwise it also writes a file `.name.crc`
            stream = system.create(place, True)
            stream.write(bytearray(content))
            stream.close()

    def text(self, path: str) -> str:
        """Read a small text file."""
        with _raise_os_error(path):
            system, place = self._place(path)
            stream = system.open(place)
            content = bytes(stream.readAllBytes())
            stream.close()
        return content.decode("utf-8")

    def move(self, path: str, to: str) -> None:
        """Rename a folder to a path that does not exist."""
        with _raise_os_error(to):
            system, place = self._place(path)
            if not system.rename(place, self._java.org.apache.hadoop.fs.Path(to)):
                raise OSError(f"{to}: cannot be made")

    def remove(self, path: str) -> None:
        """Delete a folder and its content, if it exists."""
        with _raise_os_error(path):
            system, place = self._place(path)
            system.delete(place, True)
