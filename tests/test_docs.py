"""The documents say what is so: commands, options, keys, links and examples are looked up in the thing itself."""

import ast
import re
from dataclasses import fields

from tests.support.checkout import ROOT
from tests.unit.config import sample
from warren.broker import cli, plugin
from warren.broker.config import Config, Sources

from .test_tidy import MAY_IMPORT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {".venv", "build", "node_modules", ".pytest_cache"} & set(path.relative_to(ROOT).parts)
)


def test_every_relative_link_leads_somewhere() -> None:
    broken = [
        f"{document}: {link}"
        for document in DOCUMENTS
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))
        if not (document.parent / link).exists()
    ]
    assert not broken, "\n".join(broken)


def test_every_example_in_python_compiles() -> None:
    for document in DOCUMENTS:
        for example in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
            compile(example, str(document), "exec", ast.PyCF_ONLY_AST)


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = [
        f"{document}: make {target}"
        for document in DOCUMENTS
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(encoding="utf-8"), re.MULTILINE)
        if target not in targets
    ]
    assert not unknown, "\n".join(unknown)


def test_the_readme_names_the_options_of_serve_that_there_are() -> None:
    serve = cli.parser().parse_args(["serve"])
    there_are = {
        "--" + name.replace("_", "-") for name in vars(serve) if name not in ("run", "parser", "version", "data_dir")
    }
    there_are.add("--data")
    named = set(re.findall(r"(?<![-\w])--[a-z]+(?:-[a-z]+)*", README)) - {"--build", "--url", "--from", "--to"}
    assert named == there_are


def test_the_sample_lists_every_key_with_its_default() -> None:
    text = (ROOT / "docker/rabbitmq.conf.example").read_text(encoding="utf-8")
    assert text == sample.text(), "python -m tests.unit.config.sample prints what it should be"


def test_the_samples_in_both_formats_say_the_same() -> None:
    given = Sources(str(ROOT / "docker/rabbitmq.conf"), environment={})
    config = given.load()
    assert given.warnings == []
    assert config == Sources(str(ROOT / "docker/warren.toml"), environment={}).load()
    ours = Config()
    changed = {field.name for field in fields(ours) if getattr(config, field.name) != getattr(ours, field.name)}
    assert changed == {"listeners_tcp", "data_dir"}


def test_the_readme_names_the_variables_that_are_read() -> None:
    text = (ROOT / "broker/config/environment.py").read_text(encoding="utf-8")
    read = set(re.findall(r'"(RABBITMQ_[A-Z_]+)"', text)) | {"RABBITMQ_CONFIG_FILE", "RABBITMQ_CONFIG_FILES"}
    spelled = README.replace("`_PASS`", "`RABBITMQ_DEFAULT_PASS`").replace("`_VHOST`", "`RABBITMQ_DEFAULT_VHOST`")
    assert set(re.findall(r"RABBITMQ_[A-Z_]+", spelled)) == read - {"RABBITMQ_LOGS"}


def test_the_import_table_of_the_broker_has_a_line_for_each_room() -> None:
    table = (
        (ROOT / "broker/README.md")
        .read_text(encoding="utf-8")
        .split("## Who may import whom")[1]
        .split("\n\n`tests")[0]
    )
    named = {room for line in table.splitlines() for room in re.findall(r"`([a-z_]+)`", "".join(line.split("|")[1:2]))}
    there_are = {path.stem for path in (ROOT / "broker").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == set(MAY_IMPORT)
    assert there_are - {"__init__", "__pycache__"} <= named


def test_the_page_on_plugins_lists_the_names_that_they_may_import() -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    section = page.split("## Names that a plugin may import")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(plugin.__all__)


def test_the_comparison_has_the_least_and_the_largest_ratio_of_the_readme() -> None:
    table = README.split("## Compare")[1].split("\n\n")[2]
    rows = [[float(cell) for cell in line.split("|")[3:7]] for line in table.splitlines()[2:]]
    assert len(rows) > 5
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    shown = re.findall(r"([\d.]+) to ([\d.]+) times as many", page.split("| messages a second")[1].splitlines()[0])
    for found, (pure, compiled) in zip(shown, ((0, 2), (1, 3)), strict=True):
        ratios = [row[place] for row in rows for place in (pure, compiled)]
        assert tuple(map(float, found)) == (min(ratios), max(ratios))


def decisions() -> str:
    return (ROOT / "docs/decisions.md").read_text(encoding="utf-8")


def test_each_decision_has_a_date_and_a_status() -> None:
    records = re.findall(r"^- (.*?)(?=^- |^#|^\||\Z)", decisions().split("\n## ", 1)[1], re.MULTILINE | re.DOTALL)
    form = re.compile(r"\*\*[^*]+\*\*(?: \([^)]+\)\.)? \d{4}-\d\d-\d\d, (?:holds|superseded[^.]*)\. \S")
    assert len(records) > 250
    assert not [record for record in records if not form.match(" ".join(record.split()))]


def test_the_index_of_the_decisions_names_every_topic() -> None:
    head, *topics = decisions().split("\n## ")
    assert re.findall(r"^\| \[([^]]+)\]", head, re.MULTILINE) == [topic.split("\n")[0] for topic in topics]


def test_the_files_that_the_decisions_name_exist() -> None:
    named = re.findall(r"`([a-z]+/[\w./-]+)`", decisions())
    assert [path for path in named if not (ROOT / path).exists()] == []
