"""`warren compact`, killed at each of its effects on files: every row stays, and the next run completes it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import environment_of

from .test_compaction import LATER, everything, export, manifests, merge

STEP = 7  # of the effects, each 7th

# It counts its changes of files, and kills itself before or after one by its number, or prints their count for 0.
KILLED = """
import os, signal, sys
from datetime import datetime
from pathlib import Path

import pyarrow.compute, pyarrow.parquet

from warren.plugins.message_log.compaction import merge

folder, last, now = Path(sys.argv[1]), int(sys.argv[2]), datetime.fromisoformat(sys.argv[3])
count, counting = 0, False

def effect(event="", args=()):
    global count
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if counting and (not event or writes or event in ("os.rename", "os.remove", "os.truncate", "os.mkdir")):
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

def around(call):
    def called(*args):
        effect()
        result = call(*args)
        effect()
        return result
    return called

for name in ("pwrite", "fsync"):
    setattr(os, name, around(getattr(os, name)))
sys.addaudithook(effect)
counting = True
merge.compact(folder, now)
print(count)
"""


def compact_until(folder: Path, effect: int) -> subprocess.CompletedProcess[str]:
    (folder / "manifest").mkdir(exist_ok=True)
    line = [sys.executable, "-c", KILLED, str(folder), str(effect), LATER.isoformat()]
    environment = os.environ | environment_of(folder)
    return subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.rest("starts many processes")
def test_a_compaction_that_is_killed_loses_and_repeats_no_row(tmp_path: Path) -> None:
    export(tmp_path / "export", files=3)
    before = everything(tmp_path / "export")
    effects = int(compact_until(shutil.copytree(tmp_path / "export", tmp_path / "all"), 0).stdout)
    assert effects > 50
    for effect in range(1, effects + 1, STEP):
        folder = shutil.copytree(tmp_path / "export", tmp_path / str(effect))
        assert compact_until(folder, effect).returncode == -signal.SIGKILL
        merge.compact(folder, LATER)
        assert everything(folder) == before, effect
        assert merge.compact(folder, LATER) == merge.Result(0, 0, 0)
        assert all('"sha256"' in path.read_text() for path in manifests(folder)), effect
        assert not list(folder.rglob(".*.tmp")), effect
