"""Export and reports in S3: a real server (moto) on loopback, Hadoop's connector for Spark, pyarrow for a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import s3_connector
from warren.plugins.message_log.analysis import job, publication
from warren.plugins.message_log.analysis.hadoop_fs import Folders
from warren.plugins.message_log.analysis.reports import run
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.trace import search

from . import java_classes
from .checking import ON_THE_PAGE
from .log import Log

boto3 = pytest.importorskip("boto3", reason="moto is not installed")
moto_server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.timeout(900)
BUCKET, USER, SECRET, REGION = "reports", "user", "secret", "us-east-1"


class Bucket:
    """A bucket of a server on loopback, with the log of a broker at `export`."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=f"http://{address}",
            aws_access_key_id=USER,
            aws_secret_access_key=SECRET,
            region_name=REGION,
        )
        self.client.create_bucket(Bucket=BUCKET)
        log = Log(folder, "rabbit@s3", "b1")
        log.snapshot(schema.START)
        for _ in range(3):
            log.round_trip("work")
        log.snapshot(schema.STOP)
        log.write()
        for path in folder.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, f"export/{path.relative_to(folder)}")

    def names(self, prefix: str) -> list[str]:
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [entry["Key"].removeprefix(prefix) for entry in listed]

    def content(self, name: str) -> str:
        text: str = self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read().decode()
        return text


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ACCESS_KEY_ID", USER), ("SECRET_ACCESS_KEY", SECRET), ("EC2_METADATA_DISABLED", "true")):
            patch.setenv(f"AWS_{name}", value)
        server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        try:
            yield Bucket(tmp_path_factory.mktemp("export"), f"{host}:{port}")
        finally:
            server.stop()


@pytest.fixture
def s3(spark: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Spark with the connector, and with reports that the page cannot do without."""
    archives = s3_connector.archives()
    if not archives:
        pytest.skip("Hadoop's connector for S3 is not in the cache: python -m tests.support.s3_connector")
    java_classes.load(spark, archives)
    java: Any = spark._jvm
    java.System.setProperty("com.amazonaws.sdk.disableEc2Metadata", "true")  # otherwise it waits for such a server
    configuration = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    own = {"endpoint": f"http://{bucket.address}", "endpoint.region": REGION, "access.key": USER, "secret.key": SECRET}
    for name, value in (s3_connector.SETTINGS | {f"fs.s3a.{name}": value for name, value in own.items()}).items():
        configuration.set(name, value)
    monkeypatch.setattr(run, "REPORTS", [report for report in run.REPORTS if report.name in ON_THE_PAGE])
    return spark


def test_a_report_in_s3_is_published_without_a_copy_of_any_object(
    s3: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.s3.models import S3Backend

    copied: list[object] = []
    monkeypatch.setattr(S3Backend, "copy_object", lambda self, key, *more, **named: copied.append(key))
    output = f"s3a://{BUCKET}/report"
    report = job.batch(s3, f"s3a://{BUCKET}/export", output, lambda what: None)
    assert report["conservation"]["balanced"] and report["totals"]["published"] == 3
    run_id = json.loads(bucket.content("report/current.json"))["run"]
    names = {name for name in bucket.names("report/") if not name.endswith("/")}
    assert {"current.json", "index.html", f"runs/{run_id}/index.html", f"runs/{run_id}/report.json"} <= names
    assert all(name.startswith(f"runs/{run_id}/") for name in names - {"current.json", "index.html"})
    assert copied == []
    assert job.read_old(s3, output) == report
    folders = Folders(s3)
    with pytest.raises(job.JobRefused, match="exists already"):
        job.batch(s3, f"s3a://{BUCKET}/export", output, lambda what: None)
    for number in range(4):
        with publication.new_run(folders, output) as folder:
            folders.write(f"{folder}/report.json", str(number))
            publication.publish(folders, folder)
    assert [bucket.content(f"report/{name}") for name in bucket.names("report/") if name.endswith("report.json")] == [
        "1",
        "2",
        "3",
    ]


def test_a_message_is_traced_in_an_export_in_s3(bucket: Bucket) -> None:
    where = f"s3://{BUCKET}/export?scheme=http&endpoint_override={bucket.address}&region={REGION}"
    found = search.find(search.Log(where), "b1/1")
    assert {row["event"] for row in found.rows} >= {schema.PUBLISH, schema.ENQUEUE, schema.DELIVER, schema.ACK}
