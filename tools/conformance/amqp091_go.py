"""The Go client of RabbitMQ's maintainers with its integration tests, from Debian's sources."""

from pathlib import Path

from .brokers import Broker
from .results import Case, go
from .sources import debian, download, unpack
from .suite import Suite, Unavailable, needed, test

DEBIAN_GOPATH = Path("/usr/share/gocode")
PACKAGE = "golang-github-rabbitmq-amqp091-go"


class Amqp091Go(Suite):
    """Built in GOPATH mode, so that its one dependency can be Debian's."""

    name = "amqp091-go"
    version = "1.10.0"
    language = "Go"
    what = "the tests of the package, with `-tags=integration`"
    sha256 = "37b69326b1006f1463a2b01ae9838106a855f8565aff279fb7d99cc73de090a0"
    left_out = (("examples, fuzzing", "not tests of a broker"),)

    def prepare(self, folder: Path) -> None:
        needed("go", "golang-go")
        if not (DEBIAN_GOPATH / "src/go.uber.org/goleak").exists():
            raise Unavailable("go.uber.org/goleak is missing (Debian: apt-get install golang-uber-goleak-dev)")
        urls = debian(f"g/{PACKAGE}/{PACKAGE}_{self.version}.orig.tar.gz")
        target = folder / "src/github.com/rabbitmq/amqp091-go"
        target.parent.mkdir(parents=True)
        unpack(download(urls, self.sha256, folder / "go.tar.gz"), target)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        log = broker.folder / "tests.log"
        command = [needed("go", "golang-go"), "test", "-json", "-count=1", "-run=^Test", "-tags=integration", "."]
        gopath = f"{folder.resolve()}:{DEBIAN_GOPATH}"
        source = folder / "src/github.com/rabbitmq/amqp091-go"
        test(command, source, log, GO111MODULE="off", GOPATH=gopath, GOFLAGS="")
        with log.open() as lines:
            cases = go(lines)
        if not cases:
            raise Unavailable(f"the tests were not built, see {log}")
        return cases
