"""Export and reports in S3, in a server on loopback (moto): batch, stream and trace, without a secret in any output."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warren.plugins.message_log.file_format import schema

from .commands import run_here
from .log import Log

boto3 = pytest.importorskip("boto3", reason="moto is not installed: make object-store")
moto_server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.timeout(300)
BUCKET, USER, SECRET, REGION = "reports", "user", "a-secret", "us-east-1"


class Bucket:
    """A bucket of a server on loopback, with the log of a broker at `export`."""

    def __init__(self, folder: Path, address: str) -> None:
        self.where = f"scheme=http&endpoint_override={address}&region={REGION}&allow_bucket_creation=true"
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=f"http://{address}",
            aws_access_key_id=USER,
            aws_secret_access_key=SECRET,
            region_name=REGION,
        )
        self.client.create_bucket(Bucket=BUCKET)
        self._folder = folder
        self.add("rabbit@s3")

    def add(self, node: str) -> None:
        """Add the log of a broker."""
        log = Log(self._folder / node, node, "b1").begin()
        for _ in range(3):
            log.round_trip("work")
        log.stop()
        for path in (self._folder / node).rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, f"export/{path.relative_to(self._folder / node)}")

    def url(self, path: str, scheme: str = "s3") -> str:
        return f"{scheme}://{USER}:{SECRET}@{BUCKET}/{path}?{self.where}"

    def names(self, prefix: str) -> set[str]:
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return {entry["Key"].removeprefix(prefix) for entry in listed if not entry["Key"].endswith("/")}

    def content(self, name: str) -> str:
        text: str = self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read().decode()
        return text

    def report(self, output: str) -> dict[str, Any]:
        run = json.loads(self.content(f"{output}/current.json"))["run"]
        report: dict[str, Any] = json.loads(self.content(f"{output}/runs/{run}/report.json"))
        return report


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            yield Bucket(tmp_path_factory.mktemp("export"), f"{host}:{port}")
    finally:
        server.stop()


def test_a_report_in_s3_is_published_without_a_copy_of_any_object(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.s3.models import S3Backend

    copied: list[object] = []
    monkeypatch.setattr(S3Backend, "copy_object", lambda self, key, *more, **named: copied.append(key))
    where = "--input", bucket.url("export", "s3a"), "--output", bucket.url("report")
    done = run_here("analyze", "--in-process", *where)
    assert done.returncode == 0, done.stderr
    report = bucket.report("report")
    assert report["conservation"]["balanced"] and report["input"]["folder"] == f"s3a://{BUCKET}/export"
    assert {"current.json", "index.html"} <= bucket.names("report/")
    assert not any("_facts" in name for name in bucket.names("report/")) and copied == []
    again = run_here("analyze", "--in-process", *where)
    assert again.returncode == 73 and f"s3://{BUCKET}/report: exists already" in again.stderr
    assert SECRET not in done.stderr + again.stderr + json.dumps(report)


def test_a_stream_keeps_its_state_in_s3_and_reads_what_is_new(bucket: Bucket) -> None:
    words = "analyze", "--in-process", "--stream", "--input", bucket.url("export"), "--output", bucket.url("streamed")
    assert run_here(*words).returncode == 0
    published = bucket.report("streamed")["totals"]["published"]
    assert "last.json" in bucket.names("streamed.state/")
    names = bucket.names("streamed/")
    assert run_here(*words).returncode == 0 and bucket.names("streamed/") == names
    bucket.add("rabbit@later")
    assert run_here(*words).returncode == 0
    assert bucket.report("streamed")["totals"]["published"] == published + 3


def test_credentials_and_endpoint_may_be_those_of_the_environment(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = bucket.where.partition("endpoint_override=")[2].partition("&")[0]
    for name, value in (("ACCESS_KEY_ID", USER), ("SECRET_ACCESS_KEY", SECRET), ("DEFAULT_REGION", REGION)):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
    done = run_here("trace", "b1/1", "--input", f"s3://{BUCKET}/export")
    assert done.returncode == 0, done.stderr


def test_a_message_is_traced_in_an_export_in_s3(bucket: Bucket) -> None:
    done = run_here("trace", "b1/1", "--input", bucket.url("export"), "--json")
    assert done.returncode == 0 and {schema.PUBLISH, schema.ACK} <= {
        event["event"] for event in json.loads(done.stdout)["messages"][0]["events"]
    }
    missing = run_here("trace", "b1/9999", "--input", bucket.url("export"))
    assert missing.returncode == 1 and SECRET not in missing.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("place", ["bucket-that-is-not-there/export", "reports/nothing"])
@pytest.mark.parametrize("scheme", ["s3", "s4"])
def test_a_place_without_an_export_is_one_line_without_the_secret(
    bucket: Bucket, tmp_path: Path, place: str, scheme: str
) -> None:
    url = f"{scheme}://{USER}:{SECRET}@{place}?{bucket.where}"
    done = run_here("analyze", "--in-process", "--input", url, "--output", str(tmp_path / "report"))
    assert done.returncode == 66 and SECRET not in done.stderr
    assert done.stderr.count("\n") == 1 and f"{scheme}://{place}" in done.stderr
