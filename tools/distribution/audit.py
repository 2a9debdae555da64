"""Looks the locked requirements up in databases of known vulnerabilities, by pip-audit.

    python -m tools.distribution.audit

The exit status is 0 if each requirement was looked up and none is vulnerable, 1 if one is, and 69 if a requirement
could not be looked up. pip-audit by itself reports success also when its service knows none of the requirements.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.checkout import ROOT

from .sbom import locked_requirements

TOOL = ROOT / ".venv" / "tools" / "bin" / "pip-audit"
SERVICES = ("pypi", "osv")
VULNERABLE, UNAVAILABLE = 1, 69  # EX_UNAVAILABLE of sysexits.h


def audited(service: str, requirements: Path) -> list[dict[str, Any]]:
    """Return what a service reports of each requirement; nothing if it cannot be reached."""
    report = requirements.with_suffix(f".{service}.json")
    options = [
        "--require-hashes",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "--format",
        "json",
        "--service",
        service,
    ]
    subprocess.run(
        [TOOL, "--requirement", requirements, *options, "--output", report],
        capture_output=True,
        timeout=300,
        check=False,
    )
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    return list(json.loads(text)["dependencies"]) if text else []


def verdict(dependencies: list[dict[str, Any]], count: int) -> tuple[int, list[str]]:
    """Return the exit status for the report on `count` requirements, and lines of text."""
    known = [each for each in dependencies if "vulns" in each]
    lines = [
        f"{each['name']} {each['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for each in known
        for found in each["vulns"]
    ]
    if lines:
        return VULNERABLE, lines
    if len(known) < count:
        return UNAVAILABLE, [f"NOT AUDITED: {count - len(known)} of {count} requirements could not be looked up"]
    return 0, [f"{count} requirements audited, no known vulnerabilities"]


def main() -> int:
    status, lines = UNAVAILABLE, ["NOT AUDITED"]
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(locked_requirements(), encoding="utf-8")
        count = locked_requirements().count("==")
        for service in SERVICES:
            status, lines = verdict(audited(service, requirements), count)
            if status != UNAVAILABLE:
                break
    print(*lines, sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
