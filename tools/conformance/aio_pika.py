"""aiormq and aio-pika: the tests of their sdists, for which RabbitMQ runs in a container."""

import shutil
from pathlib import Path

from .brokers import Broker
from .docker import Docker
from .python import SdistSuite
from .results import Case

CONFTEST = Path(__file__).with_name("aiormq_conftest.py")
PYTEST = ("pytest==9.0.3", "pytest-timeout==2.4.0", "pytest-rerunfailures==16.7", "aiomisc-pytest==2.0.0")


class Aiormq(SdistSuite):
    name = "aiormq"
    version = "7.2.4"
    what = "`tests`"
    sha256 = "5fd20bb9583d73de85572198496b65cf028f27527c1733c9840d458e0b40e8fa"
    pytest = PYTEST
    options = ("-p", "no:asyncio")
    tests = ("tests",)
    explained = (
        (
            "tests.test_connection_futures::test_connection_close_during_publish_drain",
            "expects the error of one of two tasks of the client that end at the same time",
        ),
    )

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        source = folder / "source"
        shutil.copy(CONFTEST, source / "conftest.py")
        for ours, theirs in (
            ("ca_certificate", "ca.pem"),
            ("client_certificate", "client.pem"),
            ("client_key", "client.key"),
        ):
            shutil.copy(broker.certificates / f"{ours}.pem", source / "tests/certs" / theirs)
        return super().run(folder, broker)


class AioPika(SdistSuite):
    """The suite starts its container by Docker's API, which is ours during the run."""

    name = "aio-pika"
    version = "10.2.1"
    what = "`tests`"
    sha256 = "e4f77afd9179a3cca5a904c3b0a1190256a36d9f90650db908b1b2245eb27487"
    pytest = PYTEST
    extra = ("aiormq==7.2.4", "shortuuid==1.0.13", "timeout-decorator==0.5.0")
    options = ("-p", "no:asyncio", "--tb=native")
    tests = ("tests",)
    explained = (
        (
            "tests.test_memory_leak::test_leak_unclosed_channel",
            "counts channels that tasks of the client may still refer to",
        ),
    )
    docker_url = ""

    def environment(self, broker: Broker) -> dict[str, str]:
        return {"DOCKER_HOST": self.docker_url}

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        with Docker(broker) as docker:
            self.docker_url = docker.url
            return super().run(folder, broker)
