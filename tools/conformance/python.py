"""The common part of Python suites: sources of PyPI, Debian or a repository, a virtual environment, and pytest."""

import sys
from collections.abc import Sequence
from pathlib import Path

from .brokers import Broker
from .results import Case, junit
from .sources import checkout, unpack
from .suite import Suite, Unavailable, bring, test

PYTEST = ("pytest==8.3.5", "pytest-timeout==2.4.0", "pytest-rerunfailures==15.1")
SETTINGS = Path(__file__).with_name("pytest.ini")
TEST_TIMEOUT_S = 120
RERUNS = 2  # as many tests have limits of time that a busy machine does not keep


class PythonSuite(Suite):
    """A suite run by pytest.

    `tests` are paths, `options` pytest's. `extra` are distributions that only the tests need, `features` the extras of
    the client's own distribution. `settings` is the file of pytest's settings, ours unless the tests need their own.
    `test_limit_s` is the time that one test may take.
    """

    language = "Python"
    tests: Sequence[str] = ()
    options: Sequence[str] = ()
    pytest: Sequence[str] = PYTEST
    extra: Sequence[str] = ()
    features = ""
    settings = str(SETTINGS)
    test_limit_s = TEST_TIMEOUT_S

    def bring_sources(self, folder: Path) -> None:
        """Bring the sources to `source` in the folder. Raises Unavailable."""
        raise NotImplementedError

    def pins(self) -> str:
        return " ".join([super().pins(), self.features, *self.pytest, *self.extra])

    def environment(self, broker: Broker) -> dict[str, str]:
        """Return the variables that name the broker's address."""
        return {}

    def prepare(self, folder: Path) -> None:
        self.bring_sources(folder)
        bring([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            folder / "venv/bin/python",
            "--disable-pip-version-check",
        ]
        bring([*pip, "install", "--quiet", f"./source{self.features}", *self.pytest, *self.extra], folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        report = broker.folder / "report.xml"
        command: list[str | Path] = [
            folder / "venv/bin/python",
            "-m",
            "pytest",
            "-c",
            self.settings,
            "--rootdir=.",
            f"--timeout={self.test_limit_s}",
            f"--reruns={RERUNS}",
            "-rfER",
            f"--junitxml={report}",
            *self.options,
            *self.tests,
        ]
        log = broker.folder / "tests.log"
        test(command, folder / "source", log, self.time_limit_s, **self.environment(broker))
        if not report.exists():
            raise Unavailable(f"pytest wrote no report, see {log}")
        return junit(report)


class SdistSuite(PythonSuite):
    """A suite in its client's sdist on PyPI."""

    sha256 = ""

    def bring_sources(self, folder: Path) -> None:
        wanted = folder / "sdist.txt"
        wanted.write_text(f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        bring([*pip, "--no-binary", self.name, "--require-hashes", "-r", wanted, "-d", folder], folder)
        unpack(next(folder.glob("*.tar.gz")), folder / "source")


class RepositorySuite(PythonSuite):
    """A suite that only its client's repository has: `commit` is the one of the version, and pins the sources."""

    repository = ""
    commit = ""

    def pins(self) -> str:
        return f"{super().pins()} {self.commit}"

    def bring_sources(self, folder: Path) -> None:
        checkout(self.repository, self.commit, folder / "source")
