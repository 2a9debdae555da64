"""Commands of warren and warrenctl whose standard output cannot be written: a sentence, and a status of its own."""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from threading import Thread

import pytest

from tests.support.warrenctl import Warrenctl
from warren.broker import cli
from warren.broker.ctl.commands import COMMANDS
from warren.broker.ctl.commands.definitions import save
from warren.broker.ctl.errors import CommandError
from warren.broker.plugin_host.loading import load_commands
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

pytestmark = pytest.mark.sockets

FULL = "{}: standard output: the disk is full: free some space, or choose a path on another disk\n"
BRIEF = {  # commands that would end the broker, or wait
    **dict.fromkeys(("stop", "shutdown"), "--dry-run"),
    **dict.fromkeys(("consume_event_stream", "log_tail_stream"), "--duration 0"),
    "add_user": "password",
    "wait": "--pid 1",
}
SILENT = ("await_startup", "consume_event_stream", "log_tail_stream")  # which have nothing to print here


def warren(*arguments: str) -> int:
    """Run `warren`; return the exit status."""
    try:
        return cli.main(arguments)
    except SystemExit as ended:
        return int(str(ended))


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    """The names of all commands, each with those before it."""
    yield name
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from commands(command, f"{name} {word}")


def test_each_command_of_warren_reports_a_full_disk(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    SQLiteMetadata(tmp_path / "meta.sqlite").close()
    lines = [f"{name} --help" for name in commands(cli.parser(load_commands(cli.OURS)))]
    assert len(lines) > 12
    lines += ["--version", "serve --print-config", "plugins", f"doctor --data {tmp_path}", "systemd-unit"]
    (tmp_path / "log").mkdir()
    lines += [f"copy --from {tmp_path} --to {tmp_path}/target"]
    (tmp_path / "events").mkdir()
    lines += [*[f"completion {shell}" for shell in ("bash", "fish", "zsh")], f"compact --input {tmp_path}"]
    with open("/dev/full", "w", encoding="utf-8") as full, redirect_stdout(full):
        for line in lines:
            assert (line, warren(*line.split()), capsys.readouterr().err) == (line, 74, FULL.format("warren"))


def test_commands_report_a_full_disk(warrenctl: Warrenctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # export_definitions writes a file
    said = FULL.format("warrenctl")
    with open("/dev/full", "w", encoding="utf-8") as full, redirect_stdout(full):
        for name, command in COMMANDS.items():
            assert warrenctl(f"help {name}") == (74, "", said)
            status, _, err = warrenctl(f"{name} {'zz ' * command.least}{BRIEF.get(name, '')} -t 5")
            if (status, err) == (0, ""):
                assert name in SILENT
            else:
                assert (status == 74 and err.endswith(said)) or (status in (64, 65, 69, 70) and err.startswith("Error"))
                assert "Traceback" not in err


@pytest.mark.parametrize("line", ["list_users", "help", "export_definitions -", "list_permissions -p none"])
def test_a_closed_output_ends_warrenctl_with_a_status_of_its_own(warrenctl: Warrenctl, line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as output, redirect_stdout(output):
        status, _, err = warrenctl(line)
    assert (status, err) == (141, "Virtual host 'none' does not exist\n" if "none" in line else "")


def test_an_export_to_the_standard_output_is_appended_without_a_banner(warrenctl: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("former\n", encoding="utf-8")
    with open(file, "a", encoding="utf-8") as output, redirect_stdout(output):
        assert warrenctl(f"export_definitions /dev/fd/{output.fileno()}") == (0, "", "")
    former, definitions = file.read_text(encoding="utf-8").splitlines()
    assert former == "former" and json.loads(definitions)["users"]


def test_an_export_to_a_pipe_that_its_reader_closes_early_is_not_made(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)), daemon=True)
    reader.start()
    with pytest.raises(CommandError) as raised:
        save(str(pipe), "more than a pipe holds" * 10_000)
    reader.join()
    assert (raised.value.status, raised.value.text) == (69, f"cannot write {pipe}: its reader has closed it")
