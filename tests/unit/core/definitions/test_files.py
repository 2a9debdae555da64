"""Definitions in files and folders."""

import contextlib
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions import DEFINITIONS, new_node
from warren.broker.amqp.errors import Invalid
from warren.broker.core.definitions import files
from warren.broker.core.definitions.entry import VALUES_LIMIT
from warren.broker.core.definitions.files import DefinitionsError, load, parse_json
from warren.broker.core.definitions.importer import begin_import
from warren.broker.core.definitions.release import RELEASED, release
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT, digest_of, marks_of
from warren.broker.core.node.node import Node

VHOST = {"vhosts": [{"name": "v"}]}
QUEUE = {"queues": [{"vhost": "v", "name": "q"}]}


@pytest.fixture
def node() -> Node:
    return new_node()


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def refusal(node: Node, place: Path) -> str:
    with pytest.raises(DefinitionsError) as raised:
        load(node, place)
    (line,) = str(raised.value).splitlines()
    return line


def test_a_byte_order_mark_is_accepted(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(DEFINITIONS).encode())
    assert load(node, file) == []


def test_the_json_files_of_a_folder_are_loaded_by_name(node: Node, tmp_path: Path) -> None:
    write(tmp_path / "20-queues.json", QUEUE)
    write(tmp_path / "10-vhosts.json", VHOST)
    (tmp_path / "readme.txt").write_text("no JSON")
    assert load(node, tmp_path) == []
    assert list(node.vhosts["v"].queues) == ["q"]


def test_an_empty_folder_is_fine(node: Node, tmp_path: Path) -> None:
    assert load(node, tmp_path) == []


def test_skipped_entries_are_reported(node: Node, tmp_path: Path) -> None:
    queue = {"vhost": "v", "name": "amq.gen"}
    lines = load(node, write(tmp_path / "all.json", VHOST | {"queues": [queue]}))
    assert lines == ["queue 'amq.gen' in vhost 'v' is left out: its name is reserved"]


def test_a_bad_file_is_named_in_one_line(node: Node, tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    assert refusal(node, missing) == f"{missing}: there is no such file or folder: check the path"
    limits = {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"bogus": 1}}
    file = write(tmp_path / "bad.json", VHOST | {"parameters": [limits]})
    assert refusal(node, file) == (
        f'{file}: Validation failed Unrecognised terms [{{<<"bogus">>,1}}] in limits '
        '(vhost: "v" / component: "vhost-limits" / key: "limits")'
    )
    assert not node.vhosts


@pytest.mark.parametrize("text", [b"", b"{", b"[1,]", b"\xff", b"{} {}", b'{"a": NaN}', b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_is_refused(node: Node, tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text)
    assert refusal(node, file).startswith(f"{file}: failed to parse JSON: ")


def test_names_that_are_not_utf_8_survive() -> None:
    assert parse_json(json.dumps({"name": "a\udcff"}).encode()) == {"name": "a\udcff"}


def test_unchanged_files_are_skipped_if_so_configured(node: Node, tmp_path: Path) -> None:
    file = write(tmp_path / "all.json", VHOST)
    assert load(node, file, True) == []
    node.delete_vhost("v")
    assert load(node, file, True) is None and not node.vhosts
    assert load(node, file) == [] and "v" in node.vhosts
    write(file, VHOST | QUEUE)
    assert load(node, file, True) == [] and "q" in node.vhosts["v"].queues


@pytest.mark.parametrize("skip", [True, False])
def test_loading_a_file_clears_the_mark_of_its_interrupted_import_alone(node: Node, tmp_path: Path, skip: bool) -> None:
    file = write(tmp_path / "all.json", VHOST)
    load(node, file, skip_if_unchanged=True)
    begin_import(node, "another", None)
    begin_import(node, digest_of(file.read_bytes()), None)
    assert load(node, file, skip_if_unchanged=skip) == [], "it is unchanged, and yet its import was interrupted"
    assert [mark["sha256"] for mark in marks_of(node.parameters.globals()[UNFINISHED_IMPORT])] == ["another"]
    if skip:
        assert load(node, file, skip_if_unchanged=True) is None


def test_an_unchanged_file_is_loaded_again_after_an_import_of_it_into_one_virtual_host_was_interrupted(
    node: Node, tmp_path: Path
) -> None:
    file = write(tmp_path / "all.json", VHOST)
    load(node, file, skip_if_unchanged=True)
    begin_import(node, digest_of(file.read_bytes()), "v")
    assert load(node, file, skip_if_unchanged=True) == []
    assert load(node, file, skip_if_unchanged=True) is None


@pytest.mark.parametrize("text", ['{"a": [{}, {"b": [{}]}], "c": {}}', '{"a": [{}, {"b": [{}]}, x', "[" * 100_000])
def test_a_text_keeps_none_of_its_objects(text: str) -> None:
    gc.collect()
    before = len(gc.get_objects())
    with contextlib.suppress(ValueError):
        parse_json(text.encode())
    assert len(gc.get_objects()) <= before + 10


ENTRIES = '{"b": [' + "[[]], " * 1_000 + "0]}, "


@pytest.mark.parametrize("text", ['{"a": [%s 0], "a": 0}', '{"a": [%s 0]!', '{"a": [%s 0]} 0', '{"a": [%s 0]%s}'])
def test_lists_that_no_document_has_are_freed_in_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in a value whose key comes again, in a broken text or in an object with too many fields."""
    steps = 0

    def counted(*containers: object) -> Iterator[None]:
        nonlocal steps
        for _ in release(*containers):
            steps += 1
            yield

    monkeypatch.setattr(files, "release", counted)
    with contextlib.suppress(ValueError, Invalid):
        parse_json(text.replace("%s", ENTRIES * 100, 1).replace("%s", ', "c": 0' * VALUES_LIMIT).encode())
    assert steps >= 100 * 2 * 1_000 // RELEASED


def test_other_threads_run_while_very_long_integers_are_decoded() -> None:
    text = b"[" + b",".join([b"9" * 4_000] * 2_000) + b"]"
    decoding = threading.Thread(target=parse_json, args=(text,), daemon=True)
    decoding.start()
    turns = 0
    while decoding.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 5


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_a_file_may_be_nested_as_deep_as_any_document(node: Node, tmp_path: Path, depth: int) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"unknown": ' + "[" * 99 + "]" * 99 + "}", encoding="utf-8")
    assert load(node, file) == []
    file.write_text('{"unknown": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}", encoding="utf-8")
    assert "nested" in refusal(node, file) and "100 deep" in refusal(node, file)


def test_a_number_with_too_many_digits_is_refused_in_words_for_an_operator() -> None:
    limit = sys.get_int_max_str_digits()
    with pytest.raises(ValueError, match=f"^a number may have {limit} digits$"):
        parse_json(b"[" + b"9" * (limit + 1) + b"]")
