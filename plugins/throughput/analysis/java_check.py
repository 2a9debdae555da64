"""The Java that Spark runs on: found and looked at before Spark is started, which would say it in fifty lines."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JAVA = 17
ADVICE = "Spark needs Java 17 or later; on Debian: apt-get install openjdk-17-jre-headless"
ANSWER_S = 20.0  # after which a java that says nothing is none


def java_fault() -> str:
    """One line that says what is missing, or an empty one."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        return f"no java on PATH: {ADVICE}"
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"{program} cannot be run: {ADVICE}"
    version = major(said.stderr + said.stdout)
    return "" if version >= JAVA else f"{program} is Java {version}: {ADVICE}"


def major(text: str) -> int:
    """17 of what `java -version` says; 8 of the old way to count, 1.8; 0 where there is no version."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else 0


if __name__ == "__main__":
    fault = java_fault()
    sys.exit(fault or 0)
