"""The commands as processes: exit status, one line for each error, output of a ready broker."""

import io
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from tests.support.broker_process import WARREN, WARRENCTL, BrokerProcess, run
from warren.broker import cli, standard_streams
from warren.broker.cli import main
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

warren, warrenctl = run, partial(run, module=WARRENCTL)


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("serve --bogus", " serve: there is no option --bogus (`warren help serve` shows the usage)"),
        ("serve --mem", " serve: there is no option --mem; did you mean --memory? (`warren help serve` shows"),
        ("serve --amqp", " serve: --amqp needs a value (`warren help serve` shows the usage)"),
        ("serve --memory --data d", " serve: --data and --memory exclude each other (`warren help serve` shows"),
        ("serve d", " serve: 'd' is one word too many (`warren help serve` shows the usage)"),
        ("serv", ": there is no command serv; did you mean serve? (`warren help` shows the usage)"),
        ("migrat", ": there is no command migrat; did you mean migrate? (`warren help` shows the usage)"),
        ("help serv", ": there is no command serv; did you mean serve? (`warren help` shows the usage)"),
        ("store ini", " store: there is no action ini; did you mean init? (`warren help store` shows the usage)"),
        ("store", " store: missing: ACTION (`warren help store` shows the usage)"),
        ("completion csh", " completion: there is no shell csh; did you mean zsh? (`warren help completion` shows"),
        ("copy --from d", " copy: missing: --to (`warren help copy` shows the usage)"),
        ("-x help", " help: there is no option -x (`warren help help` shows the usage)"),
        ("--vers", ": there is no option --vers; did you mean --version? (`warren help` shows the usage)"),
        *(
            (f"{line} 5673", f" serve: there is no option {line.split()[1]}; did you mean {meant}? (")
            for line, meant in (
                *(("serve --port", "--amqp"), ("serve --listen", "--amqp"), ("serve -p", "--amqp")),
                *(("serve --datadir", "--data"), ("serve -c", "--config"), ("serve --config-file", "--config")),
                *(("serve --prometheus", "--metrics"), ("serve --verbose", "--log-level")),
            )
        ),
        ("doctor --port=1", " doctor: there is no option --port (`"),
        ("serve --detached", " serve: there is no option --detached (`"),
        ("start", ": there is no command start; did you mean serve? ("),
        ("status", ": there is no command status; did you mean warrenctl status? ("),
        ("stop", ": there is no command stop; did you mean warrenctl stop? ("),
        ("store list", " store: there is no action list (`"),
        ("xyzzy", ": there is no command xyzzy (`"),
    ],
)
def test_a_wrong_command_line_ends_warren_with_one_sentence(
    capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    with pytest.raises(SystemExit, match="64"):
        main(line.split())
    output = capsys.readouterr()
    assert output.out == "" and only_line(output.err).startswith(f"warren{says}")


@pytest.mark.parametrize(
    ("line", "status", "same"),
    [("", 64, "--help"), ("help", 0, "--help"), ("help serve", 0, "serve --help"), ("version", 0, "--version"),
     ("help store init", 0, "store init --help"), ("help migrate", 0, "migrate --help"), ("-h", 0, "--help")],
)  # fmt: skip
def test_help_and_the_version_are_commands_too(
    capsys: pytest.CaptureFixture[str], line: str, status: int, same: str
) -> None:
    def printed(words: list[str]) -> tuple[object, str]:
        try:
            return main(words), capsys.readouterr().out
        except SystemExit as ended:
            return ended.code, capsys.readouterr().out

    assert printed(line.split()) == (status, printed(same.split())[1])


@pytest.mark.parametrize(
    "line",
    [
        *("serve --config", "serve --data", "doctor --data", "doctor --store", "copy --from data --to", "copy --from"),
        *("store check --password-file", "store check", "completion", "compact --input", "trace id --input"),
        *("analyze --input data --output", "analyze --input", "migrate --from", "migrate --from-password-file"),
    ],
)
def test_an_empty_value_is_no_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line.split()
    option = words[-1] if words[-1].startswith("--") else "an argument"
    says = f"warren: {option} is empty: in a script, is a variable not set?\n"
    for arguments in [[*words, ""], [*words[:-1], f"{words[-1]}="]][: 2 if option != "an argument" else 1]:
        with pytest.raises(SystemExit, match="64"):
            main(arguments)
        assert capsys.readouterr().err == says
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["plugins", "doctor --data .", "--help"])
def test_a_closed_output_ends_warren_without_a_word_and_without_a_verdict(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    SQLiteMetadata(tmp_path / "meta.sqlite").close()
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main(line.split()) == 141
    assert capfd.readouterr() == ("", "")


def test_a_command_that_was_started_without_an_output_says_so_if_it_has_something_to_print(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it then
    assert main(["plugins"]) == 74
    assert capfd.readouterr().err == "warren: standard output: it is closed\n"
    monkeypatch.setattr(cli, "plugins", lambda _: 0)
    assert main(["plugins"]) == 0


@contextmanager
def full_pipe() -> Iterator[tuple[int, TextIO]]:
    """Both ends of a non-blocking pipe that has no room: a descriptor to read from, and a stream to write to."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    with open(writer, "w", encoding="utf-8", buffering=1) as output:
        yield reader, output
    os.close(reader)


def test_an_output_that_another_program_has_made_non_blocking_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_: object, writers: list[io.FileIO], __: object) -> None:
        assert [one.fileno() for one in writers] == [full.fileno()]
        read.append(os.read(reader, 1 << 20))

    read: list[bytes] = []
    monkeypatch.setattr(standard_streams, "select", wait)
    with full_pipe() as (reader, full):
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["plugins"]) == 0
        assert not read[0].strip(b"\0") and os.read(reader, 1 << 20).startswith(b"direct\tbuilt in\n")


def test_an_interrupt_ends_a_command_that_waits_for_a_reader_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[object] = []

    def interrupted(*arguments: object) -> None:
        waits.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(standard_streams, "select", interrupted)
    with full_pipe() as (_, unread):
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["plugins"]) == 130
    assert len(waits) == 1


def test_an_error_that_cannot_be_printed_keeps_its_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full, full_pipe() as (_, unread):
        for output in (full, unread, None):
            monkeypatch.setattr(sys, "stderr", output)
            assert main(["doctor", "--data", str(tmp_path)]) == 66
    assert capfd.readouterr().out == ""


def test_an_output_that_has_failed_is_not_written_again_at_the_end_of_the_process() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        output = standard_streams.opened(full, standard_streams.Output)
        print("x", file=output)
        with pytest.raises(standard_streams.OutputError):
            output.flush()
        output.close()


def test_a_pipe_that_breaks_elsewhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "plugins", fails)
    with pytest.raises(BrokenPipeError), open(os.devnull, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        main(["plugins"])


def fails(_: object) -> int:
    raise BrokenPipeError


@pytest.mark.parametrize(
    ("option", "value", "status", "says"),
    [
        ("--config", "/none.toml", 78, "/none.toml: there is no such file or folder: check the path"),
        ("--amqp", "localhost", 64, "command line: --amqp: 'localhost' is neither PORT nor HOST:PORT"),
    ],
)
def test_a_configuration_that_is_none_ends_warren_with_one_line(
    option: str, value: str, status: int, says: str
) -> None:
    done = warren("serve", option, value)
    assert (done.returncode, done.stdout) == (status, "")
    assert only_line(done.stderr) == f"warren: {says}"


def test_the_configuration_is_printed_and_nothing_started(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("heartbeat = 5\nnet_ticktime = 60\ndefault_pass = secret\n")
    done = warren("serve", "--config", str(file), "--node", "a@b", "--print-config")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"# {file}:2: net_ticktime: Warren does not follow this key"
    assert {"heartbeat = 5", "warren.node = a@b"} <= set(lines)
    assert {"# cluster_name is not set", "# default_pass is not shown"} <= set(lines)
    assert "secret" not in done.stdout


@pytest.mark.parametrize("module", [WARREN, WARRENCTL])
def test_the_commands_tell_their_version_and_usage(module: str) -> None:
    assert re.match(r"warren(ctl)? \S", only_line(run("--version", module=module).stdout))
    assert "usage" in run("--help", module=module).stdout.lower()


@pytest.mark.sockets
def test_the_daemon_imports_nothing_that_only_costs_time_and_memory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = warren("serve", "--memory", "--amqp", f"127.0.0.1:{taken.getsockname()[1]}", PYTHONPROFILEIMPORTTIME="1")
    imported = {text.rpartition("|")[2].strip() for text in done.stderr.splitlines() if text.startswith("import time:")}
    assert "warren.broker.app.main" in imported
    assert not {"typer", "click", "rich.console", "pydantic", "pytest", "tomllib", "difflib"} & imported


@pytest.mark.parametrize("url", ["ftp://localhost", "http://localhost:x", "localhost"])
def test_a_url_of_another_kind_ends_warrenctl_with_one_line(url: str) -> None:
    done = warrenctl("ping", "--url", url)
    assert (done.returncode, done.stdout) == (64, "")
    assert only_line(done.stderr).startswith("warrenctl: ")


@pytest.mark.parametrize("arguments", [["serve", "--store"], ["doctor", "--store"], ["store", "check"]])
def test_a_store_at_a_url_of_another_kind_ends_warren_with_one_line_without_its_password(arguments: list[str]) -> None:
    done = warren(*arguments, "mysql://user:S3cret@host/db")
    assert (done.returncode, done.stdout) == (64, "")
    line = only_line(done.stderr)
    assert "postgresql://USER@HOST1,HOST2/DATABASE" in line and "S3cret" not in line


@pytest.mark.parametrize("arguments", [["list_queus"], ["ping", "--bogus"], ["add_user"], ["list_users", "one"], []])
def test_a_wrong_command_line_ends_warrenctl_as_it_ends_rabbitmqctl(arguments: list[str]) -> None:
    assert warrenctl(*arguments).returncode == 64


@pytest.mark.sockets
def test_warrenctl_tells_in_one_line_that_nobody_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        port = taken.getsockname()[1]
        done = warrenctl("ping", "--url", f"amqp://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (69, "")
    assert only_line(done.stderr) == f"warrenctl: 127.0.0.1:{port}: connection refused: nothing listens at this port"


@pytest.mark.sockets
def test_a_broker_says_where_it_listens_answers_a_ping_and_stops_when_told(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, memory=True, fork=False) as broker:
        (address,) = broker.addresses["amqp"]
        check_pings(address)
        broker.stop()


def check_pings(address: str) -> None:
    """Check that pings need a right password and an existing virtual host."""
    assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", address)
    pinged = warrenctl("ping", "--url", f"amqp://{address}")
    assert (pinged.returncode, pinged.stdout, pinged.stderr) == (0, "Ping succeeded\n", "")
    refused = warrenctl("ping", "--url", f"amqp://guest:wrong@{address}")
    assert refused.returncode == 69
    assert "ACCESS_REFUSED" in only_line(refused.stderr)
    nowhere = warrenctl("ping", "--url", f"amqp://{address}/nowhere")
    assert nowhere.returncode == 69
    assert "NOT_ALLOWED" in only_line(nowhere.stderr)


@pytest.mark.sockets
def test_a_port_in_use_ends_warren_with_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = warren("serve", "--amqp", f"127.0.0.1:{port}", "--memory")
    assert done.returncode == 69
    assert str(port) in only_line(done.stderr)
