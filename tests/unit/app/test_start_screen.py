"""The start screen on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import command_line
from tests.support.checkout import ROOT
from warren.broker.app.start_screen import command, start_screen
from warren.broker.core.messages.journal_port import StorageStatus

WAIT_S = 50.0


def test_it_names_the_addresses_the_user_the_data_and_how_to_stop() -> None:
    bound = {"amqp": ["127.0.0.1:5672"], "http": ["127.0.0.1:15672"], "http/prometheus": ["127.0.0.1:15692"]}
    shown = start_screen(
        "1.2.3", "warren@here", bound | {"control": ["/d/ctl.sock"]}, "guest", "/d", StorageStatus("fsync", "")
    )
    assert shown.splitlines() == [
        "",
        "Warren 1.2.3 is ready: warren@here",
        "  AMQP          amqp://127.0.0.1:5672",
        "  Browser       http://127.0.0.1:15672/",
        "  Metrics       http://127.0.0.1:15692/metrics",
        "  User          guest",
        "  Data          /d: confirmed messages survive kill -9 and a power cut",
        f"  Commands      {command('warrenctl')} --data /d status",
        "  Stop          Ctrl-C",
    ]


def test_what_is_not_served_is_shown_with_the_reason_and_what_to_do() -> None:
    lacking = {"http": "none at 127.0.0.1:15672: another program listens there; --http HOST:PORT chooses another"}
    storage = StorageStatus("memory", "")
    shown = start_screen("1.2.3", "w@h", {"amqps": ["[::]:5671"]}, "", "", storage, "", lacking).splitlines()
    assert f"  Browser       {lacking['http']}" in shown
    assert "  AMQP with TLS amqps://localhost:5671, and at every other address of this machine" in shown
    bound = {"http": ["0.0.0.0:80"]}
    shown = start_screen("1.2.3", "w@h", bound, "", "", storage, "/mq").splitlines()
    assert "  Browser       http://localhost:80/mq/, and at every other address of this machine" in shown


def test_commands_have_the_path_that_a_second_terminal_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment whose folder of commands is not on PATH, as after `make run`; one that is; and none at all."""
    commands = tmp_path / "bin of it"
    commands.mkdir()
    monkeypatch.setattr(sys, "executable", str(commands / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert command("warrenctl") == "warrenctl"
    (commands / "warrenctl").touch(0o755)
    assert command("warrenctl") == f"'{commands}/warrenctl'"
    monkeypatch.setenv("PATH", str(commands))
    assert command("warrenctl") == "warrenctl"
    socket = {"control": ["/tmp/warren-x/ctl.sock"]}
    shown = start_screen("1.2.3", "w@h", socket, "", "", StorageStatus("memory", "")).splitlines()
    assert "  Commands      warrenctl --data /tmp/warren-x status" in shown


def test_a_broker_in_memory_says_that_nothing_is_kept() -> None:
    shown = start_screen("1.2.3", "warren@here", {}, "", "", StorageStatus("memory", ""))
    assert "in memory: nothing survives the end of the process" in shown and "User" not in shown


def test_the_address_for_a_browser_has_the_prefix_of_the_user_interface() -> None:
    for prefix in ("/mq", "/mq/"):
        bound = {"https": ["[::1]:15671"]}
        shown = start_screen("1.2.3", "warren@here", bound, "", "", StorageStatus("memory", ""), prefix)
        assert "  Browser       https://[::1]:15671/mq/" in shown.splitlines()


def test_it_says_where_a_password_is_and_how_to_set_another() -> None:
    shown = start_screen("1", "w@h", {}, "the user", "/d", StorageStatus("os", ""), secret_of="the user").splitlines()
    change = f"{command('warrenctl')} --data /d change_password 'the user' PASSWORD"
    says = f"as configured or printed at the first start, or set since; {change} sets another"
    assert shown[2:4] == ["  User          the user", f"  Password      {says}"], shown


@pytest.mark.sockets
@pytest.mark.parametrize(("key", "known"), [("", " with the password guest"), ("default_pass = secret\n", "")])
def test_a_terminal_gets_it_after_the_log_says_ready(tmp_path: Path, key: str, known: str) -> None:
    ours, theirs = pty.openpty()
    (tmp_path / "rabbitmq.conf").write_text(key)
    options = [
        "--config",
        str(tmp_path / "rabbitmq.conf"),
        "--amqp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--data",
        str(tmp_path / "data"),
    ]
    line = command_line("serve", *options)
    process = subprocess.Popen(line, cwd=ROOT, stderr=theirs, stdout=theirs)
    os.close(theirs)
    shown = ""
    try:
        while "Stop " not in shown and select.select([ours], [], [], WAIT_S)[0]:
            shown += os.read(ours, 4096).decode()
        lines = shown.replace("\r", "").splitlines()
        assert any(line.endswith("plugins started.") for line in lines), shown
        assert any(line.startswith("Warren ") and " is ready: warren@" in line for line in lines), shown
        assert f"  User          guest{known}, from this machine only" in lines
        assert any(line.startswith("  Password ") for line in lines) == (not known) and "secret" not in shown
        assert f"  Commands      {command('warrenctl')} --data {tmp_path / 'data'} status" in lines
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        os.close(ours)
