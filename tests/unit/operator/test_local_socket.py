"""The unix socket of a node: what killed nodes in memory have left is removed."""

import fcntl
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from warren.broker.operator.local_socket import remove_stale

pytestmark = pytest.mark.sockets


def left(folder: Path) -> Path:
    """A folder with a socket at which nobody listens."""
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "ctl.sock"))
    return folder


def test_sockets_of_killed_nodes_are_removed_and_all_else_stays(tmp_path: Path) -> None:
    left(tmp_path / "warren-killed")
    kept = {left(tmp_path / "other"), left(tmp_path / "warren-begins"), left(tmp_path / "warren-more")}
    (tmp_path / "warren-more" / "notes").touch()
    kept |= {tmp_path / "warren-empty", tmp_path / "warren-listens"}
    (tmp_path / "warren-empty").mkdir()
    (tmp_path / "warren-listens").mkdir()
    with socket.socket(socket.AF_UNIX) as listening, ExitStack() as undo:
        begins = os.open(tmp_path / "warren-begins", os.O_RDONLY)  # a node that has not called listen yet
        undo.callback(os.close, begins)
        fcntl.flock(begins, fcntl.LOCK_EX)
        listening.bind(str(tmp_path / "warren-listens" / "ctl.sock"))
        listening.listen(0)
        for _ in range(3):  # then its queue of connections is full
            remove_stale(tmp_path)
    assert set(tmp_path.iterdir()) == kept
    for name in ("warren-begins", "warren-listens"):
        assert (tmp_path / name / "ctl.sock").exists()
    assert (tmp_path / "warren-more" / "notes").exists()
