"""pika: tests/acceptance of Debian's sources, as the sdist on PyPI has no tests."""

from pathlib import Path

from .python import PythonSuite
from .sources import debian, download, unpack


class Pika(PythonSuite):
    name = "pika"
    version = "1.3.2"
    what = "`tests/acceptance`"
    sha256 = "5eb71b9a0047c77d99378e525a2041fc50aae4a177b060f9825b3e2fdcc96fc4"
    tests = ("tests/acceptance/blocking_adapter_test.py", "tests/acceptance/async_adapter_tests.py")
    extra = ("gevent==25.9.1", "tornado==6.5.2", "twisted==25.5.0")
    left_out = (
        ("tests/unit", "opens no connection"),
        ("tests/acceptance/{enforce_one_basicget,io_services,twisted_adapter}*", "speak to no broker"),
    )

    explained = (
        (
            "tests.acceptance.blocking_adapter_test.TestInvalidExchangeTypeRaisesConnectionClosed",
            "an unknown exchange type is 406 and closes the channel, as RabbitMQ 4.3 has it; 503 was before it",
        ),
    )

    def bring_sources(self, folder: Path) -> None:
        urls = debian(f"p/python-pika/python-pika_{self.version}.orig.tar.gz")
        unpack(download(urls, self.sha256, folder / "pika.tar.gz"), folder / "source")
