"""The check of the installed Java before Spark is started, whose own error would have fifty lines."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JAVA = 17
ADVICE = "Spark needs Java 17 or later; on Debian: apt-get install openjdk-17-jre-headless"
ANSWER_S = 20.0  # for `java -version`


def java_fault() -> str:
    """Return what is missing, in one line, or an empty string."""
    program = java_program()
    if program is None:
        return f"no java on PATH: {ADVICE}"
    try:
        result = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"{program} cannot be run: {ADVICE}"
    version = major(result.stderr + result.stdout)
    return "" if version >= JAVA else f"{program} is Java {version}: {ADVICE}"


def java_program() -> str | None:
    """Return the path of the Java that Spark will run, or None."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def major(text: str) -> int:
    """Return the major version in the output of `java -version`, 8 for 1.8, or 0 if there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else 0


if __name__ == "__main__":
    fault = java_fault()
    sys.exit(fault or 0)
