"""Folders as Spark sees them: a path of this machine, or whatever else the installed Hadoop knows (s3a://, hdfs://).

Everything goes through the file system classes of Spark's own Java, so the job needs no second library that can reach
where its executors write. Failures of these are raised as OSError with one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class Found(NamedTuple):
    """A file; `path` is whole and begins with the scheme."""

    path: str
    name: str
    bytes: int


class Footer(NamedTuple):
    """What a Parquet file says of itself: its key-value metadata and its number of rows."""

    metadata: dict[str, str]
    records: int


class NotParquet(Exception):
    """The file has no footer that can be read."""


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
        raise OSError(f"{path}: {said.splitlines()[0]}") from error


class Folders:
    """Reads and changes folders with the configuration of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark._jvm
        self._configuration: Any = spark._jsc.hadoopConfiguration()

    def _place(self, path: str) -> tuple[Any, Any]:
        place = self._java.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._configuration), place

    def exists(self, path: str) -> bool:
        with _told(path):
            system, place = self._place(path)
            return bool(system.exists(place))

    def files(self, path: str) -> list[Found]:
        """All below, by path. Names that begin with `_` or `.`, and what lies in such folders, are left out."""
        found = []
        with _told(path):
            system, place = self._place(path)
            top = system.makeQualified(place).toString()
            listing = system.listFiles(place, True)
            while listing.hasNext():
                status = listing.next()
                whole = status.getPath().toString()
                if not any(part[:1] in ("_", ".") for part in whole.removeprefix(top).split("/")):
                    found.append(Found(whole, status.getPath().getName(), int(status.getLen())))
        return sorted(found)

    def folders(self, path: str) -> list[str]:
        """The names of those directly in it; none where it does not exist."""
        with _told(path):
            system, place = self._place(path)
            if not system.exists(place):
                return []
            return sorted(s.getPath().getName() for s in system.listStatus(place) if s.isDirectory())

    def footer(self, path: str) -> Footer:
        """Raises NotParquet."""
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
        """A file of that text, in place of any that was there."""
        with _told(path):
            system, place = self._place(path)
            system.setWriteChecksum(False)  # else a file `.name.crc` comes beside it
            stream = system.create(place, True)
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()

    def text(self, path: str) -> str:
        """The text of a small file."""
        with _told(path):
            system, place = self._place(path)
            stream = system.open(place)
            octets = bytes(stream.readAllBytes())
            stream.close()
        return octets.decode("utf-8")

    def move(self, path: str, to: str) -> None:
        """A folder to a place where nothing is."""
        with _told(to):
            system, place = self._place(path)
            if not system.rename(place, self._java.org.apache.hadoop.fs.Path(to)):
                raise OSError(f"{to}: cannot be made")

    def remove(self, path: str) -> None:
        """With all that is in it, if it is there."""
        with _told(path):
            system, place = self._place(path)
            system.delete(place, True)
