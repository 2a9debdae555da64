"""The Java client: the functional tests of Debian's original source, with Debian's jars."""

import shlex
from pathlib import Path

from .brokers import NODE, PORT, Broker
from .packaged import DebianSuite
from .results import Case, junit
from .suite import Unavailable, bring, needed, test

PACKAGES = "openjdk-17-jdk-headless librabbitmq-client-java junit5 libmockito-java libdropwizard-metrics-java"
JARS = Path("/usr/share/java")
LIBRARIES = (
    "amqp-client", "junit4", "hamcrest", "mockito-core", "byte-buddy", "byte-buddy-agent", "objenesis", "metrics-core",
    "slf4j-api", "slf4j-nop",
)  # fmt: skip
LAUNCHER = (
    "junit-platform-console", "junit-platform-reporting", "junit-platform-launcher", "junit-platform-engine",
    "junit-platform-commons", "junit-vintage-engine", "opentest4j", "opentest4j-reporting-events",
    "opentest4j-reporting-schema", "apiguardian-api", "picocli",
)  # fmt: skip
QUEUE_GONE = "commits to a queue that was deleted since the publish, which fails since RabbitMQ 4.0"
STAND_INS = Path(__file__).with_name("java")
TESTS = "com.rabbitmq.client.test.functional.FunctionalTests"
# The tests read columns without a heading, as rabbitmqctl printed them before 3.8.
RABBITMQCTL = """\
#!/bin/sh
case "$*" in *list_connections*) set -- "$@" --no-table-headers ;; esac
exec {} "$@"
"""
# The targets of RabbitMQ's sources that the tests make.
MAKEFILE = """\
stop-rabbit-on-node:
	$(RABBITMQCTL) stop_app
start-rabbit-on-node:
	$(RABBITMQCTL) start_app
set-resource-alarm:
	$(RABBITMQCTL) set_disk_free_limit 1000TB
clear-resource-alarm:
	$(RABBITMQCTL) set_disk_free_limit 1MB
"""


class JavaClient(DebianSuite):
    name = "amqp-client"
    version = "5.0.0"
    language = "Java"
    what = "`FunctionalTests`"
    path = "r/rabbitmq-java-client/rabbitmq-java-client_5.0.0.orig.tar.gz"
    sha256 = "23c185a4b241c60223e8a800472d674f3d8e8fc5688bf99abe6ccdfd55e64aeb"
    time_limit_s = 2400
    left_out = (
        ("ClientTests", "most open no connection"),
        ("ServerTests, HATests", "start nodes from RabbitMQ's sources"),
        ("SSLTests", "need key stores that the build makes"),
    )

    explained = tuple(
        (f"com.rabbitmq.client.test.functional.{test}", reason)
        for test, reason in (
            ("DeadLetterExchange::deadLetterNewRK", "expects no CC header, which stays since RabbitMQ 4.0"),
            ("DeadLetterExchange::declareQueueWithInvalid", "finds a queue that tests of `Routing` have left"),
            ("DeadLetterExchange::republish", "publishes an x-death header, which is ignored since RabbitMQ 4.0"),
            ("FrameMax::rejectLarge", "expects frames of at most 4096 bytes until tune-ok; 8192 since RabbitMQ 4.1"),
            ("Routing::basicReturnTransactional", QUEUE_GONE),
            ("Transactions::commitWithDeletedQueue", QUEUE_GONE),
        )
    )

    def prepare(self, folder: Path) -> None:
        javac = needed("javac", PACKAGES)
        super().prepare(folder)
        tests = folder / "source/src/test/java"
        file = tests / f"{TESTS.replace('.', '/')}.java"
        bring([javac, "-d", "classes", "-cp", jars(LIBRARIES), "-sourcepath", f"{tests}:{STAND_INS}", file], folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        reports = broker.folder / "reports"
        control = broker.folder / "control"
        control.write_text(RABBITMQCTL.format(shlex.quote(str(broker.rabbitmqctl()))))
        control.chmod(0o755)
        (broker.folder / "Makefile").write_text(MAKEFILE)
        classes = f"{folder / 'classes'}:{folder / 'source/src/test/resources'}:{jars((*LIBRARIES, *LAUNCHER))}"
        command: list[str | Path] = [
            needed("java", PACKAGES), f"-Drabbitmqctl.bin={control}", f"-Drabbitmq.dir={broker.folder}",
            f"-Dtest-broker.A.nodename={NODE}", f"-Dtest-broker.A.node_port={PORT}",
            f"-Dtest-broker.A.config_file={broker.configuration.with_suffix('')}",
            "-cp", classes, "org.junit.platform.console.ConsoleLauncher", "--select-class", TESTS,
            "--reports-dir", reports, "--disable-banner", "--disable-ansi-colors",
        ]  # fmt: skip
        log = broker.folder / "tests.log"
        test(command, folder, log, self.time_limit_s)
        files = sorted(reports.glob("TEST-*.xml"))
        if not files:
            raise Unavailable(f"JUnit wrote no report, see {log}")
        return [case for file in files for case in junit(file)]


def jars(names: tuple[str, ...]) -> str:
    """Return the class path of these libraries. Raises Unavailable."""
    files = [JARS / f"{name}.jar" for name in names]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise Unavailable(f"no {', '.join(missing)} in {JARS} (Debian: apt-get install {PACKAGES})")
    return ":".join(map(str, files))
