"""The analysis in the gate: the log of a real broker balances, and a record that is removed from it is found."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from warren.plugins.throughput.analysis.conservation import imbalances, queues
from warren.plugins.throughput.file_format import schema

from .checking import checked
from .exporting import whole_files
from .test_export_broker import Broker, traffic


@pytest.mark.sockets
def test_the_log_of_a_broker_balances_and_a_removed_record_is_found(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        traffic(broker)
        broker.stop()
    check = checked(spark, tmp_path / "out", tmp_path / "whole")
    assert (check["status"], check["balanced"], check["reasons"]) == ("balanced", True, []), check["imbalances"]

    file = whole_files(tmp_path / "out")[-1]
    events = pq.ParquetFile(file).read()
    removed = pc.index(pc.equal(events["event"], schema.DELIVER), pa.scalar(True)).as_py()
    pq.write_table(events.filter(pc.not_equal(events["row"], events["row"][removed])), file)
    check = checked(spark, tmp_path / "out", tmp_path / "damaged")
    assert (check["status"], check["missing_records"]) == ("imbalanced", 1)
    assert {row["problem"] for row in check["imbalances"]} == {imbalances.FILE_CHANGED, queues.VANISHED}
