"""Hadoop's connector for S3, which the package sagemaker-pyspark of PyPI contains: for tests, in the user's cache.

`python -m tests.support.s3_connector` fetches it, 180 MB, unless it is there. It is older than Spark's Hadoop (3.3.1),
and needs times in plain numbers (SETTINGS), where that has units by default.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "sagemaker-pyspark==1.4.5"
HASH = "sha256:05ca2d5081d7138ce29a8fb0a9cba077f28c825288ed07aed46a82e63c0bf1fb"
JARS = ("hadoop-aws-3.3.1.jar", "aws-java-sdk-bundle-1.11.901.jar")
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "warren-tests" / "s3-connector"
DOWNLOAD_S = 600.0
SETTINGS = {
    "fs.s3a.threads.keepalivetime": "60",
    "fs.s3a.connection.establish.timeout": "5000",
    "fs.s3a.connection.timeout": "20000",
    "fs.s3a.connection.request.timeout": "0",
    "fs.s3a.connection.ttl": "-1",
    "fs.s3a.multipart.purge.age": "86400",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.connection.ssl.enabled": "false",
    "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
}


def archives() -> list[Path]:
    """Return the archives of the connector, or none if it was not fetched."""
    found = [FOLDER / name for name in JARS]
    return found if all(path.is_file() for path in found) else []


def fetch() -> None:
    """Fetch the package, check its hash, and keep the archives. Raises CalledProcessError, OSError."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{PACKAGE} --hash={HASH}\n")
        options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes")
        command = [sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", str(wanted)]
        subprocess.run(command, check=True, timeout=DOWNLOAD_S)
        (package,) = Path(folder).glob("*.tar.gz")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tarfile.open(package) as content:
            for member in content:
                name = member.name.rpartition("/")[2]
                if name in JARS and (archive := content.extractfile(member)) is not None:
                    new = FOLDER / f".{name}-{os.getpid()}"
                    new.write_bytes(archive.read())
                    new.replace(FOLDER / name)


if __name__ == "__main__":
    if not archives():
        fetch()
