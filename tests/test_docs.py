"""The documents say what is so: commands, options, keys, links and examples are looked up in the thing itself."""

import ast
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from broker import cli, config

from .test_tidy import MAY_IMPORT

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {".venv", "node_modules", ".pytest_cache"} & set(path.relative_to(ROOT).parts)
)
EVERY_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


@EVERY_DOCUMENT
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@EVERY_DOCUMENT
def test_every_example_in_python_compiles(document: Path) -> None:
    for example in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
        ast.parse(example)


@EVERY_DOCUMENT
def test_every_make_target_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z]+)", document.read_text(encoding="utf-8"), re.MULTILINE)) <= targets


def test_the_makefile_declares_each_target_that_is_no_file() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony and set(phony[1].split()) == set(re.findall(r"^([a-z]+):", text, re.MULTILINE))


def test_the_readme_names_the_options_of_serve_that_there_are() -> None:
    serve = cli.parser().parse_args(["serve"])
    there_are = {"--" + name.replace("_", "-") for name in vars(serve) if name not in ("run", "version", "data_dir")}
    there_are.add("--data")
    named = set(re.findall(r"(?<![-\w])--[a-z]+(?:-[a-z]+)*", README)) - {"--build"}
    assert named == there_are


def test_the_sample_names_every_key_with_its_default() -> None:
    text = (ROOT / "docker/warren.toml").read_text(encoding="utf-8")
    keys = set(re.findall(r"^(?:# )?([a-z_]+) = ", text, re.MULTILINE))
    assert keys == set(config.Config.__struct_fields__)
    ours, sample = config.Config(), config.load(str(ROOT / "docker/warren.toml"))
    changed = {key for key in keys if getattr(ours, key) != getattr(sample, key)}
    assert changed == {"amqp", "loopback_users", "data_dir"}
    for key in changed:
        default = msgspec.json.encode(getattr(ours, key)).decode()
        assert re.search(rf"^{key} = .*# default {re.escape(default)}", text, re.MULTILINE)


def test_the_import_table_of_the_broker_has_a_line_for_each_room() -> None:
    table = (
        (ROOT / "broker/README.md")
        .read_text(encoding="utf-8")
        .split("## Who may import whom")[1]
        .split("\n\n`tests")[0]
    )
    named = {room for line in table.splitlines() for room in re.findall(r"`([a-z]+)`", "".join(line.split("|")[1:2]))}
    there_are = {path.stem for path in (ROOT / "broker").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == set(MAY_IMPORT)
    assert there_are - {"__init__", "__pycache__"} <= named


def test_ci_runs_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "exec make test"
    subprocess.run(["bash", "-n", str(script)], check=True)
