"""docs/testing.md describes the broker for tests as it is. Its examples are run by tests/acceptance/documents."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.documents.blocks import blocks_of
from tests.support.checkout import ROOT
from tests.support.foreign_project import ForeignProject
from warren.testing import Broker, VHost
from warren.testing.vhost import AnyBroker

# Methods that the fixtures, the mixin and `VHost` call
INTERNAL = {
    *("add_vhost", "delete_vhost", "url_of", "uri_for_links", "refused", "api", "undo_faults", "ensure_running"),
}
PAGE = ROOT / "docs/testing.md"


def test_the_page_opens_with_a_crash_test_of_ten_lines() -> None:
    first = blocks_of(PAGE)[0]
    lines = [line for line in first.text.splitlines()[1:] if line]
    assert first.name == "test_crash.py" and first.line < 10
    assert len(lines) == 10 and "kill()" in first.text


@pytest.mark.sockets
@pytest.mark.rest("starts two brokers")
def test_the_example_of_unittest_runs_without_pytest(tmp_path: Path) -> None:
    [text] = [block.text for block in blocks_of(PAGE) if block.name == "test_with_unittest.py"]
    ran = ForeignProject(tmp_path / "project", tmp_path / "installed").run("-c", text)
    assert (ran.returncode, ran.stderr.strip().splitlines()[-1:]) == (0, ["OK"]), ran.stderr


def test_the_page_names_every_method_and_attribute_of_a_broker() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kinds = (Broker, AnyBroker, VHost)
    public = {name for kind in kinds for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}
    unnamed = {name for name in public - INTERNAL if not re.search(rf"`(?:broker\.)?{name}\b", page)}
    assert unnamed == set()


def test_the_addresses_of_the_page_are_one_line_of_json() -> None:
    [text] = [block.text for block in blocks_of(PAGE) if block.language == "output" and "http_url" in block.text]
    assert set(json.loads(text.splitlines()[0])) == {*AnyBroker.__annotations__, *Broker.__annotations__}
