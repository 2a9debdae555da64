"""The example of docs/plugins.md, as a distribution of its own in an environment of its own."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess, run
from tests.support.checkout import ROOT
from tests.support.pika_client import dial, queue, taken

README = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
LINES = 30  # that an exchange type needs, its entry point and empty lines among them


def example(language: str) -> str:
    """The part of the example, an exchange type, that is in this language: the first there is."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_has_thirty_lines_at_the_most() -> None:
    assert "ExchangeType" in example("python")
    assert len(example("python").splitlines()) + len(example("toml").splitlines()) <= LINES


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The interpreter of an environment that has what this one has, and the example, installed by pip."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "round_robin.py").write_text(example("python"), encoding="utf-8")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "warren-round-robin"\nversion = "3.2.1"\n\n'
        f'{example("toml")}\n[tool.setuptools]\npy-modules = ["round_robin"]\n',
        encoding="utf-8",
    )
    scratch = tmp_path / "scratch"
    venv.create(scratch, with_pip=False, symlinks=True)
    interpreter = str(scratch / "bin/python")
    (packages,) = scratch.glob("lib/python*/site-packages")
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "this.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--no-index", str(source)], check=True, timeout=60)
    return interpreter


@pytest.mark.sockets
def test_a_plugin_of_another_distribution_works(tmp_path: Path, python: str) -> None:
    daemon = BrokerProcess(tmp_path, python=python)
    try:
        daemon.start()
        with dial(daemon.address) as connection:
            channel = connection.channel()
            channel.exchange_declare("x", "x-round-robin")
            queues = [queue(channel) for _ in range(3)]
            for name in queues:
                channel.queue_bind(name, "x", "")
            for number in range(9):
                channel.basic_publish("x", "k", str(number).encode())
            assert [[body for _, _, body in taken(channel, name)] for name in queues] == [
                [b"0", b"3", b"6"],
                [b"1", b"4", b"7"],
                [b"2", b"5", b"8"],
            ]
            for name in queues:
                channel.queue_unbind(name, "x", "")
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("x", "k", b"", mandatory=True)
        daemon.stop()
    finally:
        daemon.close()
    listed = run("plugins", python=python)
    assert listed.returncode == 0, listed.stderr
    assert "x-round-robin\twarren-round-robin 3.2.1\n" in listed.stdout
