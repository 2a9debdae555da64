"""The unix socket of a node: what killed nodes in memory have left is removed."""

import os
import socket
from pathlib import Path

import pytest

from warren.broker.operator.local_socket import remove_stale

pytestmark = pytest.mark.sockets


def left(folder: Path, age_s: float = 3600) -> Path:
    """A folder with a socket at which nobody listens."""
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "ctl.sock"))
    changed_s = os.stat(folder / "ctl.sock").st_mtime - age_s
    os.utime(folder / "ctl.sock", (changed_s, changed_s))
    return folder


def test_sockets_of_killed_nodes_are_removed_and_all_else_stays(tmp_path: Path) -> None:
    left(tmp_path / "warren-killed")
    kept = {left(tmp_path / "warren-begins", age_s=30), left(tmp_path / "other"), left(tmp_path / "warren-more")}
    (tmp_path / "warren-more" / "notes").touch()
    (tmp_path / "warren-empty").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        (tmp_path / "warren-runs").mkdir()
        listening.bind(str(tmp_path / "warren-runs" / "ctl.sock"))
        listening.listen(0)
        os.utime(tmp_path / "warren-runs" / "ctl.sock", (0, 0))
        for _ in range(3):  # then its queue of connections is full
            remove_stale(tmp_path)
    assert set(tmp_path.iterdir()) == kept | {tmp_path / "warren-empty", tmp_path / "warren-runs"}
    assert (tmp_path / "warren-runs" / "ctl.sock").exists() and (tmp_path / "warren-more" / "notes").exists()
