"""Commands of `warren` in the process of the tests, because a new one would import pyarrow for half a second."""

import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.support.checkout import ROOT
from warren.broker import cli


def run_here(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder. Returns its exit status and output."""
    with chdir(folder), redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        status = cli.run(words)
    return subprocess.CompletedProcess(words, status, output.getvalue(), errors.getvalue())
