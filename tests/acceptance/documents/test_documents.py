"""Every block of code in every document is run or parsed, or says why not. CONTRIBUTING.md has the rules."""

import os
import re
import runpy
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support import postgresql
from tests.support.checkout import ROOT

from .blocks import Block, blocks_of, documents
from .walk import Walk

pytestmark = pytest.mark.sockets
NAMES = [path.relative_to(ROOT).as_posix() for path in documents() if "```" in path.read_text(encoding="utf-8")]
EVERY_DOCUMENT = pytest.mark.parametrize("name", NAMES)

# Why a block is not run, and what runs it instead
REASONS = {
    "analysis": "starts Spark for a minute: tests/analytics/test_end_to_end.py runs this command",
    "containers": "needs Docker and images: tests/test_docker.py, `make ring-containers`, `make replicated-containers`",
    "many tests": "would run the tests, of which these are a part, or the benchmark",
    "minutes": "takes minutes",
    "another broker": "needs a RabbitMQ",
    "root": "changes the machine: tests/acceptance/operator/system/test_systemd.py",
    "other shells": "needs zsh or fish: tests/acceptance/operator/system",
}
# How many blocks of each document are not run, by reason: a block that is added here is read by a reviewer.
NOT_RUN: dict[str, dict[str, int]] = {
    "CONTRIBUTING.md": {"many tests": 1},
    "README.md": {"containers": 1, "minutes": 1},
    "docs/analysis.md": {"analysis": 2},
    "docs/operations.md": {"root": 1, "other shells": 1},
    "docs/start.md": {"containers": 1},
    "docker/README.md": {"containers": 16},
    "tests/README.md": {"many tests": 1},
    "tools/bench/README.md": {"minutes": 3},
    "tools/compare/README.md": {"another broker": 1},
}  # fmt: skip
# What these say is done in a clone of the project, with its Makefile.
IN_A_CLONE = {"README.md", "CONTRIBUTING.md", "docs/analysis.md"}


def excluded(block: Block) -> bool:
    return "not run" in block.comments


@pytest.mark.timeout(600)  # one of them starts twenty brokers
@EVERY_DOCUMENT
def test_the_blocks_do_what_the_document_says(name: str, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(ROOT / name) if not excluded(block)]
    text = "".join(block.text for block in blocks)
    if ("server-a" in text or any(block.language == "sql" for block in blocks)) and (lack := postgresql.missing()):
        pytest.skip(lack)
    if not blocks:
        return
    with Walk(tmp_path, text, clone=name in IN_A_CLONE) as walk:
        for block in blocks:
            walk.run(block)
        walk.finish()
    if walk.unchecked:
        pytest.skip(f"all other blocks are right, but {', '.join(walk.unchecked)}")


@EVERY_DOCUMENT
def test_the_blocks_that_are_not_run_are_known_and_are_commands(name: str) -> None:
    left_out = [block for block in blocks_of(ROOT / name) if excluded(block)]
    reasons = Counter(block.comments["not run"] for block in left_out)
    assert set(reasons) <= set(REASONS), "REASONS, in this file, has the reasons that are accepted"
    assert dict(reasons) == NOT_RUN.get(name, {}), (
        f"{name} has other blocks marked `not run` than NOT_RUN says: run them if you can, else change the number there"
    )
    for block in left_out:
        if block.language == "sh":
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
            for path in re.findall(r"(?:-f |python )([\w.-]+/[\w./-]+)", block.text):
                assert os.path.exists(ROOT / path), f"{block.place}: there is no {path}"


def test_the_pictures_of_topologies_are_those_that_their_source_draws() -> None:
    images = ROOT / "docs/images"
    source = runpy.run_path(str(images / "topologies.py"))
    drawn = {f"federation-{name}.svg": source["draw"](picture) for name, picture in source["PICTURES"].items()}
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in images.glob("*.svg")}


def test_no_document_is_forgotten_that_has_blocks_not_run() -> None:
    assert set(NOT_RUN) <= set(NAMES)
