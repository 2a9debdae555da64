"""The blocks of a document on a machine where other brokers listen at the default ports of all addresses."""

import json
import re
import socket
from pathlib import Path

import pytest

from .blocks import Block
from .walk import ATTEMPTS, PORTS, Walk, free_ports

TEXT = (
    "warren serve --print-config; curl http://127.0.0.1:15672/api/ http://127.0.0.1:15692/metrics amqp://127.0.0.1:5673"
)


def test_nothing_of_a_document_uses_a_default_port(tmp_path: Path) -> None:
    with Walk(tmp_path, TEXT) as walk:
        walk.run(Block(tmp_path / "x.md", 1, "json", json.dumps(TEXT), {}))
        texts = [path.read_text() for path in (tmp_path / "defaults.conf", tmp_path / "scripts/block-1")]
        assert walk.address in texts[1] and "127.0.0.1" not in texts[1]
        ports = [int(port) for text in texts for port in re.findall(r"\d{4,}", text)]
        assert len(ports) == 5 and not set(ports) & set(PORTS)
        assert {len(str(port)) for port in ports} == {4, 5}


def test_the_search_for_free_ports_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def refuse(address: object) -> socket.socket:
        asked.append(address)
        raise OSError("in use")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(AssertionError, match="no free ports on 100 loopback addresses"):
        free_ports()
    assert len(asked) == ATTEMPTS
