"""The analysis in the gate: the log of a real broker, from which one record is removed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis.conservation import imbalances, queues
from warren.plugins.message_log.file_format import schema

from .checking import checked
from .exporting import whole_files
from .test_export_broker import Broker, traffic


@pytest.mark.sockets
def test_a_record_that_is_removed_from_the_log_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        traffic(broker)
        broker.stop()
    file = whole_files(tmp_path / "out")[-1]
    events = pq.ParquetFile(file).read()
    removed = pc.index(pc.equal(events["event"], schema.DELIVER), pa.scalar(True)).as_py()
    pq.write_table(events.filter(pc.not_equal(events["row"], events["row"][removed])), file)
    check = checked(spark, tmp_path / "out", tmp_path / "report")
    assert (check["status"], check["balanced"], check["missing_records"]) == ("imbalanced", False, 1)
    assert check["reasons"] == []
    assert {row["problem"] for row in check["imbalances"]} == {imbalances.FILE_CHANGED, queues.VANISHED}
