"""The common part of Python suites: an sdist of PyPI or Debian, a virtual environment, and pytest."""

import sys
from collections.abc import Sequence
from pathlib import Path

from .brokers import Broker
from .results import Case, junit
from .sources import unpack
from .suite import Suite, Unavailable, bring, test

PYTEST = ("pytest==8.3.5", "pytest-timeout==2.4.0", "pytest-rerunfailures==15.1")
SETTINGS = Path(__file__).with_name("pytest.ini")
TEST_TIMEOUT_S = 60


class PythonSuite(Suite):
    """A suite run by pytest: `tests` are paths, `options` pytest's, `extra` distributions that only the tests need."""

    tests: Sequence[str] = ()
    options: Sequence[str] = ()
    extra: Sequence[str] = ()

    def bring_sources(self, folder: Path) -> Path:
        """Return the archive of sources. Raises Unavailable."""
        raise NotImplementedError

    def pins(self) -> str:
        return " ".join([super().pins(), *PYTEST, *self.extra])

    def environment(self, broker: Broker) -> dict[str, str]:
        """Return the variables that name the broker's address."""
        return {}

    def prepare(self, folder: Path) -> None:
        unpack(self.bring_sources(folder), folder / "source")
        bring([sys.executable, "-m", "venv", "--without-pip", "venv"], folder)
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            folder / "venv/bin/python",
            "--disable-pip-version-check",
        ]
        bring([*pip, "install", "--quiet", "./source", *PYTEST, *self.extra], folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        report = broker.folder / "report.xml"
        pytest: list[str | Path] = [folder / "venv/bin/python", "-m", "pytest", "-c", SETTINGS, "--rootdir=."]
        command: list[str | Path] = [
            *pytest,
            f"--timeout={TEST_TIMEOUT_S}",
            f"--junitxml={report}",
            *self.options,
            *self.tests,
        ]
        test(command, folder / "source", broker.folder / "tests.log", **self.environment(broker))
        if not report.exists():
            raise Unavailable(f"pytest wrote no report, see {broker.folder / 'tests.log'}")
        return junit(report)


class SdistSuite(PythonSuite):
    """A suite in its client's sdist on PyPI."""

    sha256 = ""

    def bring_sources(self, folder: Path) -> Path:
        wanted = folder / "sdist.txt"
        wanted.write_text(f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        bring([*pip, "--no-binary", ":all:", "--require-hashes", "-r", wanted, "-d", folder], folder)
        return next(folder.glob("*.tar.gz"))
