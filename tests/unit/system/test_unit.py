"""The unit of systemd, verified by systemd's own tools where they are installed."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from warren.broker.system.unit import unit

EXPOSURE = 1.4  # of `systemd-analyze security`: 0 is a service that can do nothing, 9.6 one that is not confined

analyzed = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The unit in a file, without its manual pages, and with a command that is there."""
    text = unit().replace(f"{sysconfig.get_path('scripts')}/warren", "/bin/true")
    path = tmp_path / "warren.service"
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("Documentation=")))
    return path


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", "--no-pager", *words], capture_output=True, text=True, check=False)


def test_the_unit_starts_the_warren_of_this_environment() -> None:
    assert f"\nExecStart={sysconfig.get_path('scripts')}/warren serve\n" in unit()


@analyzed
def test_systemd_accepts_every_line(service: Path) -> None:
    ran = analyze("verify", str(service))
    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "warren.service" in line]) == (0, [])


@analyzed
def test_the_broker_is_exposed_to_little(service: Path) -> None:
    ran = analyze("security", "--offline=true", str(service))
    if "unrecognized option" in ran.stderr:
        pytest.skip("this systemd-analyze examines running services only")
    exposure = re.search(r"exposure level for warren.service: ([\d.]+)", ran.stdout)
    assert exposure is not None and float(exposure[1]) <= EXPOSURE, ran.stdout + ran.stderr


def test_it_restarts_where_the_page_on_operations_says_so() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    prevented = re.search(r"and not on ([\d, and]+)\.", page)
    line = re.search(r"^RestartPreventExitStatus=(.*)$", unit(), re.MULTILINE)
    assert prevented is not None and line is not None
    assert re.findall(r"\d+", prevented[1]) == line[1].split()
