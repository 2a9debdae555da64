"""The share of branches that the tests of queues, storage, sessions and links take, which may not fall."""

import os
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT


@pytest.mark.rest("traces three thousand tests")
@pytest.mark.timeout(1200)
def test_no_package_has_fewer_tested_branches_than_its_floor() -> None:
    pytest.importorskip("coverage", reason="coverage is not installed")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "tools.coverage"],
        cwd=ROOT, env={**kept, "WARREN_PURE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-6000:]
