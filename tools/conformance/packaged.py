"""Clients in C, Perl and PHP: the tests of Debian's sources, with Debian's libraries."""

import shutil
from pathlib import Path

from .brokers import Broker
from .results import Case, junit, tap
from .sources import debian, download, unpack
from .suite import Suite, Unavailable, bring, needed, test


class DebianSuite(Suite):
    """A suite in an original source of Debian, at `path` in its pool."""

    path = ""
    sha256 = ""

    def prepare(self, folder: Path) -> None:
        unpack(download(debian(self.path), self.sha256, folder / Path(self.path).name), folder / "source")


class RabbitMQC(DebianSuite):
    name = "rabbitmq-c"
    version = "0.15.0"
    language = "C"
    what = "`ctest`, with the test that opens connections"
    path = "libr/librabbitmq/librabbitmq_0.15.0.orig.tar.gz"
    sha256 = "7b652df52c0de4d19ca36c798ed81378cba7a03a0f0c5d498881ae2d79b241c2"

    def prepare(self, folder: Path) -> None:
        cmake = needed("cmake", "cmake gcc libssl-dev")
        super().prepare(folder)
        bring([cmake, "-S", "source", "-B", "build", "-DBUILD_TESTING=ON", "-DRUN_SYSTEM_TESTS=ON"], folder)
        bring([cmake, "--build", "build"], folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        report = broker.folder / "report.xml"
        command: list[str | Path] = [needed("ctest", "cmake"), "--test-dir", "build", "--output-junit", report]
        test(command, folder, broker.folder / "tests.log")
        if not report.exists():
            raise Unavailable(f"ctest wrote no report, see {broker.folder / 'tests.log'}")
        return junit(report)


class AnyEventRabbitMQ(DebianSuite):
    name = "AnyEvent-RabbitMQ"
    version = "1.22"
    language = "Perl"
    what = "`xt/{04_anyevent,05_multi_channel,06_close}.t`"
    path = "liba/libanyevent-rabbitmq-perl/libanyevent-rabbitmq-perl_1.22~dfsg.orig.tar.xz"
    sha256 = "bd35753e1f0e51e5416a6b655df9be3a80ef03f1b3b568ec9f1c2d19e9fdf12d"
    left_out = (("t, xt/03_pod.t", "open no connection"),)
    tests = ("xt/04_anyevent.t", "xt/05_multi_channel.t", "xt/06_close.t")

    def prepare(self, folder: Path) -> None:
        bring([needed("perl", "perl"), "-MAnyEvent::RabbitMQ", "-MTest::Exception", "-e", "1"], folder)
        super().prepare(folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        log = broker.folder / "tests.log"
        test([needed("prove", "perl"), "-Ilib", "--verbose", *self.tests], folder / "source", log)
        return tap(log)


class PHPAmqplib(DebianSuite):
    name = "php-amqplib"
    version = "3.7.3"
    language = "PHP"
    what = "`tests/Functional`"
    path = "p/php-amqplib/php-amqplib_3.7.3.orig.tar.xz"
    sha256 = "d7b858c32a6347b30db9807d17889f636d6497168fb83076a149b662c38b9203"
    left_out = (
        ("tests/Unit", "opens no connection"),
        ("@group proxy, management", "need toxiproxy and Httpful, which Debian does not have"),
    )
    explained = (
        (
            "PhpAmqpLib.Tests.Functional.Channel.ChannelWaitTest::should_wait_until_timeout_after_signal",
            "reads a variable that it has not set, which is an error of PHP 8",
        ),
        (
            "PhpAmqpLib.Tests.Functional.Connection.Heartbeat.SIGHeartbeatSenderTest::",
            "depends on when a signal arrives on a busy machine",
        ),
    )

    def prepare(self, folder: Path) -> None:
        needed("phpunit", "phpunit php-curl php-mbstring php-phpseclib")
        super().prepare(folder)
        vendor = folder / "source/vendor"
        vendor.mkdir()
        (vendor / "autoload.php").write_text(AUTOLOAD)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        source = folder / "source"
        certificates = source / "tests/certs"
        for file in ("ca_certificate", "client_certificate", "client_key"):
            shutil.copy(broker.certificates / f"{file}.pem", certificates)
        shutil.copy(broker.certificates / "ca_certificate.pem", certificates / "hashed")
        bring([needed("openssl", "openssl"), "rehash", "hashed"], certificates)
        report = broker.folder / "report.xml"
        log = broker.folder / "tests.log"
        options = ("--no-configuration", "--bootstrap=tests/bootstrap.php", "--exclude-group=proxy,management")
        command = [needed("phpunit", "phpunit"), *options, f"--log-junit={report}", "tests/Functional"]
        test(command, source, log)
        if not report.exists():
            raise Unavailable(f"phpunit wrote no report, see {log}")
        return junit(report)


AUTOLOAD = """\
<?php
require '/usr/share/php/phpseclib/autoload.php';
spl_autoload_register(function (string $name) {
    foreach (['PhpAmqpLib\\\\Tests\\\\' => 'tests', 'PhpAmqpLib\\\\' => 'PhpAmqpLib'] as $prefix => $folder) {
        $file = __DIR__ . "/../$folder/" . str_replace('\\\\', '/', substr($name, strlen($prefix))) . '.php';
        if (str_starts_with($name, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});
"""
