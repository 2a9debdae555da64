"""One Spark session for all tests, and exports of a broker in this process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.amqp_client import Channel
from warren.plugins.message_log.analysis.java_check import java_fault
from warren.plugins.message_log.analysis.session import session

from .exporting import Exporting


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    fault = java_fault()
    if fault:
        pytest.skip(fault)  # make test also prints it
    with session("local[2]") as started:
        yield started


@pytest.fixture
def exporting(tmp_path: Path) -> Iterator[Callable[..., Exporting]]:
    """Make an export with some options, and close it after the test."""
    with ExitStack() as stack:

        def make(**options: object) -> Exporting:
            export = Exporting(tmp_path, **options)  # type: ignore[arg-type]
            stack.callback(export.close)
            return export

        yield make


@pytest.fixture
def export(exporting: Callable[..., Exporting]) -> Exporting:
    return exporting()


@pytest.fixture
def ch(export: Exporting) -> Channel:
    return export.peer.connect().channel()
