"""The software bill of materials in CycloneDX's format: what the image installs, and the charts of the user interface.

    python -m tools.distribution.sbom FILE

It is made of the lock files, with versions and hashes, and of the version that the charts' script names.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT

from . import lock

TOOL = ROOT / ".venv" / "tools" / "bin" / "cyclonedx-py"
LOCKS = ("requirements-analytics.txt", "requirements-postgresql.txt")
CHARTS = ROOT / "plugins" / "web" / "uPlot.iife.min.js"
PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)


def charts_component() -> dict[str, object]:
    """Return the component of the charts, a package of npm that is part of the sources."""
    found = re.search(r"\(v([\d.]+)\)", CHARTS.read_text(encoding="utf-8"))
    assert found is not None
    library = {"type": "library", "name": "uplot", "version": found[1], "purl": f"pkg:npm/uplot@{found[1]}"}
    return {**library, "bom-ref": "uplot", "licenses": [{"license": {"id": "MIT"}}]}


def locked_requirements() -> str:
    """Return the requirements of the image and its variants, each once, as one lock file."""
    entries = {key: line for name in LOCKS for key, line in lock.requirements(ROOT / "docker" / name).items()}
    return "".join(f"{line}\n" for _, line in sorted(entries.items()))


def pins(requirements: str) -> set[tuple[str, str]]:
    """Return name and version of each pinned requirement."""
    return {(name.lower().replace("_", "-"), version) for name, version in PIN.findall(requirements)}


def write(file: Path) -> None:
    """Write the bill. Raises CalledProcessError, and ValueError if a requirement is not in it."""
    requirements = locked_requirements()
    options = ["--pyproject", "pyproject.toml", "--sv", "1.6", "--output-reproducible", "-o", str(file), "-"]
    # A lock file has no dependencies of each requirement, of which the tool warns.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::UserWarning"}
    subprocess.run(
        [TOOL, "requirements", *options], input=requirements, text=True, cwd=ROOT, env=environment, check=True,
        timeout=300,
    )  # fmt: skip
    bill = json.loads(file.read_text(encoding="utf-8"))
    bill["components"].append(charts_component())
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    missing = pins(requirements) - components(file)
    if missing:
        raise ValueError(f"{file} lacks {sorted(missing)}")


def components(file: Path) -> set[tuple[str, str]]:
    """Return name and version of each component in a bill."""
    bill = json.loads(file.read_text(encoding="utf-8"))
    return {(each["name"].lower().replace("_", "-"), each["version"]) for each in bill["components"]}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
