"""Commands against a running broker. The expected output is that of rabbitmqctl 3.10, or 4.0 where they differ."""

import errno
import io
import json
import os
import platform
import pty
import re
import stat
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pika
import pytest

from tests.support.warrenctl import Controlled, Ready, RunWith, Told, Warrenctl, broker_process, parameters
from warren.broker.ctl import output_file
from warren.broker.ctl.commands import COMMANDS
from warren.broker.ctl.missing_commands import ROWS
from warren.broker.ctl.output_file import replacing
from warren.broker.operator import node_control

from .recorded import IN_ORDER, expected

pytestmark = pytest.mark.sockets


def test_commands_print_and_exit_as_rabbitmqctl_does(ready: Ready, warrenctl: Warrenctl) -> None:
    assert [(one.line, *warrenctl(one.line)) for one in IN_ORDER] == expected(ready)


def test_each_command_of_rabbitmq_is_there_or_listed_as_missing() -> None:
    """The commands of RabbitMQ 4.0.5 and of the plugins of its distribution."""
    names = set((Path(__file__).parent / "rabbitmq_commands.txt").read_text().split())
    guide = Path("docs/migration.md").read_text().partition("\n## Commands that are missing\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in guide.splitlines() if row.startswith("| `")]
    listed = re.findall("`([^`]+)`", " ".join(rows))
    assert sorted(listed) == sorted(names - COMMANDS.keys() - {"help"})
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", guide)
    for row_names, why in ROWS:
        assert f"| {', '.join(f'`{name}`' for name in row_names.split())} | {why} |" in plain


def test_a_command_that_is_missing_says_what_to_use_instead(warrenctl: Warrenctl) -> None:
    assert warrenctl("shovel_status") == (
        64, "", "\nWarren has no command 'shovel_status': there are no shovels: federation_status,"
        " restart_federation_link.\n",
    )  # fmt: skip


@pytest.mark.parametrize(("line", "told"), [
    ("await_online_nodes 1 -q", (0, "", "")),
    ("await_online_nodes 2 -q", (69, "", "Error:\nOne node is active, never 2: a standby takes over from it\n")),
    ("rebalance all --queue-pattern .* -q", (0, "", "")),
    ("reconcile_vhosts -q", (0, "", "")),
    ("force_gc --formatter json", (0, '{"result":"ok","node":"rabbit@here"}\n', "")),
    ("reset_node_auth_attempt_metrics -q", (0, "", "")),
    ("enable_feature_flag --opt-in --experimental all -q", (0, "", "")),
    ("list_unresponsive_queues --queue-timeout 100 -s", (0, "", "")),
    ("list_deprecated_features --used -s name doc_url", (0, "", "")),
    ("check_if_new_quorum_queue_replicas_have_finished_initial_sync -q",
     (0, "Node rabbit@here reported no queues with promotable replicas\n", "")),
    ("erlang_version -q", (0, f"Python {platform.python_version()}\n", "")),
])  # fmt: skip
def test_commands_and_options_that_are_accepted(warrenctl: Warrenctl, line: str, told: Told) -> None:
    assert warrenctl(line) == told


def test_cipher_suites_have_three_formats(warrenctl: Warrenctl) -> None:
    shown = {form: warrenctl(f"cipher_suites --format {form} -q")[1] for form in ("openssl", "erlang", "map")}
    assert shown["openssl"] == warrenctl("cipher_suites -q")[1]
    assert "TLS_AES_256_GCM_SHA384\n" in shown["openssl"]
    assert "{any,aes_256_gcm,aead,sha384}" in shown["erlang"].splitlines()[1]
    assert "{ecdhe_rsa,aes_128_gcm,aead,sha256}" in shown["erlang"]
    assert "#{cipher => aes_256_gcm,mac => aead,prf => sha384,key_exchange => any}" in shown["map"]
    assert set(shown["openssl"].split()) < set(warrenctl("cipher_suites --all -q")[1].split())
    assert warrenctl("cipher_suites --format x")[0] == 65


@pytest.mark.parametrize("command", [name for name, one in COMMANDS.items() if "vhost" in one.options])
def test_an_unknown_virtual_host_is_an_error(warrenctl: Warrenctl, command: str) -> None:
    status, _, err = warrenctl(f"{command} -p nosuch {' '.join(['zz'] * COMMANDS[command].least)}")
    if command == "clear_permissions":  # no error in RabbitMQ either: there are none to clear
        assert (status, err) == (0, "")
    else:
        assert status >= 64 and err
    if command.startswith("list_"):
        assert (status, err) == (65, "Virtual host 'nosuch' does not exist\n")


@pytest.mark.parametrize("command", [name for name, one in COMMANDS.items() if "vhost" in one.options])
def test_an_empty_name_of_a_virtual_host_is_not_the_default_one(warrenctl: Warrenctl, command: str) -> None:
    """A script gives it where a variable is not set."""
    status, _, err = warrenctl(f"{command} -p '' {' '.join(['zz'] * COMMANDS[command].least)}")
    assert status >= 64 and err
    if command.startswith(("list_", "clear_", "delete_", "purge_")) and command != "clear_topic_permissions":  # no user
        assert (status, err) == (65, "Virtual host '' does not exist\n")


def test_a_banner_names_the_default_virtual_host(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("add_vhost v")[0] == 0
    controlled.host.node.default_vhost = "v"
    assert in_process("list_bindings") == (0, "Listing bindings for vhost v...\n", "")
    assert in_process("list_bindings -p /") == (0, "Listing bindings for vhost /...\n", "")


BAD = "Error (argument validation): Bad argument:"
NO_PARAMETER = (69, "Error:\nParameter does not exist\n")


@pytest.mark.parametrize(("line", "status", "says"), [
    ("add_vhost ''", 65, f"{BAD} virtual host cannot be an empty string\n"),
    ("hash_password ''", 65, f"{BAD} password cannot be an empty string\n"),
    ("set_policy '' a '{}'", 65, f"{BAD} name cannot be an empty string\n"),
    ("set_operator_policy '' a '{}'", 65, f"{BAD} name cannot be an empty string\n"),
    ("set_parameter '' name 1", 65, f"{BAD} name cannot be an empty string\n"),
    ("set_parameter component '' 1", 65, f"{BAD} name cannot be an empty string\n"),
    ("set_global_parameter '' 1", 65, f"{BAD} name cannot be an empty string\n"),
    ("clear_policy ''", *NO_PARAMETER),
    ("clear_operator_policy ''", *NO_PARAMETER),
    ("clear_parameter '' name", *NO_PARAMETER),
    ("clear_parameter component ''", *NO_PARAMETER),
    ("clear_global_parameter ''", *NO_PARAMETER),
    ("clear_user_limits guest ''", 65, f"{BAD} limit cannot be an empty string\n"),
])  # fmt: skip
def test_an_empty_name_is_no_path_of_a_list(warrenctl: Warrenctl, line: str, status: int, says: str) -> None:
    ended, _, err = warrenctl(line)
    assert ended == status and err.startswith(says)


def test_the_default_exchange_has_topic_permissions_too(warrenctl: Warrenctl) -> None:
    assert warrenctl("set_topic_permissions guest '' '.*' '.*'")[0] == 0
    assert warrenctl("clear_topic_permissions guest ''")[0] == 0
    assert warrenctl("list_topic_permissions -q")[1] == ""


def test_a_failed_export_keeps_the_last(warrenctl: Warrenctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "definitions.json"
    file.touch(0o640)
    assert warrenctl(f"export_definitions {file}")[0] == 0
    before = file.read_bytes()
    assert json.loads(before)["users"] and file.stat().st_mode & 0o777 == 0o640
    monkeypatch.setattr(os, "fsync", full_disk)
    status, _, err = warrenctl(f"export_definitions {file}")
    assert status == 69 and "cannot write" in err and "space" in err
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def write(file: Path, text: str) -> None:
    with replacing(str(file)) as opened:
        opened.write(text.encode())


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_export_leaves_no_file(monkeypatch: pytest.MonkeyPatch, folder: str, error: type) -> None:
    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with TemporaryDirectory(dir=folder) as made:
        file = Path(made, "definitions.json")
        file.write_text("former")
        with pytest.raises(error):
            write(file, "{}")
        assert file.read_text() == "former" and list(Path(made).iterdir()) == [file]


@pytest.mark.parametrize("name", ["definitions.json", "[a]*", "n" * 255, "\N{CHERRIES}" * 61])
def test_what_killed_commands_have_left_is_removed_and_new_files_in_use_are_not(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with replacing(str(file)) as opened:
        (first,) = tmp_path.iterdir()
        left, pipe = (first.with_name(f"{first.name[:-12]}{end}.new") for end in ("1234_abc", "abcdefgh"))
        left.touch()
        os.mkfifo(pipe)
        write(file, "another")
        assert sorted(tmp_path.iterdir()) == sorted([first, pipe, file]) and file.read_text() == "another"
        opened.write(b"first")
    assert sorted(tmp_path.iterdir()) == sorted([pipe, file]) and file.read_text() == "first"


def test_a_new_file_that_another_command_has_removed_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another command may take a file for one of a killed command before it is locked."""
    removed: list[Path] = []

    def flock(descriptor: int, _: int) -> None:
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()

    monkeypatch.setattr(output_file, "flock", flock)
    write(tmp_path / "file", "{}")
    assert removed and [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_file_system_without_locks_takes_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def flock(descriptor: int, _: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(output_file, "flock", flock)
    left = tmp_path / ".file.abcdefgh.new"
    left.touch()
    write(tmp_path / "file", "{}")
    assert sorted(tmp_path.iterdir()) == [left, tmp_path / "file"]


def test_a_file_in_use_is_named_so(warrenctl: Warrenctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def busy(new: str, place: Path) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), new, None, str(place))

    monkeypatch.setattr(os, "replace", busy)
    status, _, err = warrenctl(f"export_definitions {tmp_path}/new")
    says = f"Error:\ncannot write {tmp_path}/new: it is in use, or a mount of its own: choose another path\n"
    assert (status, err) == (69, says)
    assert list(tmp_path.iterdir()) == []


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_nobody_else_can_read_an_unfinished_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    opened, file = [], tmp_path / ("d" * 255)
    file.touch()
    file.chmod(mode)
    open_file = os.open

    def open_and_look(path: str, flags: int, *more: int) -> int:
        descriptor = open_file(path, flags, *more)
        if flags & os.O_CREAT:
            assert flags & (os.O_EXCL | os.O_NOFOLLOW) == os.O_EXCL | os.O_NOFOLLOW
            opened.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", open_and_look)
    write(file, "{}")
    assert opened == [0o600] and file.read_text() == "{}" and stat.S_IMODE(file.stat().st_mode) == mode


def test_an_export_goes_where_a_link_leads_and_a_new_file_has_the_mode_of_other_new_files(tmp_path: Path) -> None:
    link, file, other = (tmp_path / name for name in ("link", "definitions.json", "other"))
    link.symlink_to(file)
    other.touch()
    for text in ("{}", "[]"):
        write(link, text)
        assert link.is_symlink() and file.read_text() == text and file.stat().st_mode == other.stat().st_mode
    assert len(list(tmp_path.iterdir())) == 3


def test_an_export_may_go_to_a_pipe_or_to_the_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(Path("/dev/stdout"), "{}")
    assert capfd.readouterr().out == "{}"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe, "{}")
    assert os.read(reader, 10) == b"{}"
    os.close(reader)


def test_the_name_of_an_export_may_be_too_long(warrenctl: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / ("d" * 256)
    status, _, err = warrenctl(f"export_definitions {file}")
    assert status == 69 and f"cannot write {file}: File name too long" in err


@pytest.mark.parametrize(("line", "status", "says"), [
    ("export_definitions /proc/none", 69, "cannot write /proc/none: there is no such file or folder"),
    ("export_definitions /", 69, "cannot write /: it is a folder, and a file is needed: choose another path"),
    ("export_definitions --format yaml -", 65, "Bad argument: Format should be json"),
    ("import_definitions --format yaml -", 65, "Bad argument: Format should be json"),
    ("import_definitions /", 69, "cannot read /: it is a folder, and a file is needed: choose another path"),
    (f"import_definitions {sys.executable}", 65, "not UTF-8, as JSON has to be"),
    ("wait / --timeout 1", 69, "cannot read /: it is a folder, and a file is needed: choose another path"),
    ("ping --url http://127.0.0.1 --password-file /none", 64, "/none: there is no such file or folder"),
])  # fmt: skip
def test_an_unusable_file_is_an_error_with_advice(warrenctl: Warrenctl, line: str, status: int, says: str) -> None:
    ended, _, err = warrenctl(line)
    assert ended == status and says in err
    assert "Errno" not in err


def test_the_socket_is_for_its_owner_alone(ready: Ready) -> None:
    path = Path(ready["control"][0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_unknown_column_is_named(warrenctl: Warrenctl) -> None:
    status, out, err = warrenctl("list_queues name nonsense")
    assert (status, out) == (64, "")
    assert err.startswith("Error (argument validation): Info key(s) nonsense are not supported\n")
    assert "\n<column>\n\tmust be one of name, durable, auto_delete, " in err


@pytest.mark.parametrize("command", [name for name, one in COMMANDS.items() if "<column>" in one.usage])
def test_help_names_the_columns_that_a_list_has(warrenctl: Warrenctl, command: str) -> None:
    status, out, _ = warrenctl(f"help {command}")
    named = out.partition("\n<column>\n\tmust be one of ")[2].splitlines()[0].split(", ")
    assert status == 0 and len(named) > 3
    status, out, err = warrenctl(f"{command} --formatter json {' '.join(named)}")
    assert (status, err) == (0, "")


def test_no_column_about_the_memory_of_a_queue_is_empty(ready: Ready, warrenctl: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.queue_declare("sized", exclusive=True)
        channel.basic_publish("", "sized", b"12345")
        row = warrenctl("list_queues -s name messages_ram messages_ready_ram message_bytes_ram memory")[1]
        name, *counts, memory = row.split()
        assert (name, counts) == ("sized", ["1", "1", "5"]) and int(memory) > 5


def test_a_quorum_queue_has_one_replica_and_policies_that_match_it(ready: Ready, warrenctl: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        connection.channel().queue_declare("safe", durable=True, arguments={"x-queue-type": "quorum"})
        assert warrenctl("quorum_status safe -s")[1] == "rabbit@here\tleader\tvoter\tfalse\tno disk\n"
        for name, pattern, priority in (("low", "^safe", 1), ("other", "^other", 2), ("high", "^safe", 3)):
            assert warrenctl(f"set_policy {name} {pattern} '{{\"max-length\":9}}' --priority {priority}")[0] == 0
        rows = warrenctl("list_policies_that_match safe -s")[1]
        assert rows == '/\thigh\t^safe\tall\t{"max-length":9}\t3\n/\tlow\t^safe\tall\t{"max-length":9}\t1\n'
        assert warrenctl("list_policies_that_match nothing")[0] == 65
        assert [warrenctl(f"clear_policy {name}")[0] for name in ("low", "other", "high")] == [0, 0, 0]
        assert warrenctl("delete_queue safe")[0] == 0


def test_connections_are_listed_and_closed(ready: Ready, warrenctl: Warrenctl) -> None:
    connection = pika.BlockingConnection(parameters(ready))
    channel = connection.channel()
    channel.queue_declare("listed")
    channel.basic_publish("", "listed", b"1")
    channel.basic_consume("listed", lambda *_: None, consumer_tag="tag")
    _, row, _ = warrenctl("list_connections -s pid peer_port client_properties")
    pid, _, shown = row.rstrip("\n").split("\t")
    assert '{"connection_name","mine"}' in shown
    assert warrenctl("list_queues -s name messages messages_unacknowledged consumers")[1] == "listed\t1\t1\t1\n"
    assert warrenctl("list_channels -s user consumer_count messages_unacknowledged")[1] == "guest\t1\t1\n"
    assert warrenctl("list_consumers -s queue_name consumer_tag ack_required")[1] == "listed\ttag\ttrue\n"
    assert warrenctl("list_bindings -s")[1] == "\texchange\tlisted\tqueue\tlisted\t[]\n"
    assert warrenctl(f"close_connection '{pid}' bye")[0] == 0
    with pytest.raises(pika.exceptions.ConnectionClosed, match="bye"):
        channel.start_consuming()
    output = warrenctl("delete_queue listed")[1].splitlines()
    assert output[1] == "Queue was successfully deleted with 1 ready messages"


def test_a_long_list_is_printed_completely(ready: Ready, warrenctl: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        names = [f"many.{number:03}" for number in range(250)]
        for name in names:
            channel.queue_declare(name, exclusive=True)
        listed = json.loads(warrenctl("list_queues name --formatter json")[1])
    assert [one["name"] for one in listed] == names


def test_definitions_are_exported_and_imported(warrenctl: Warrenctl, by_http: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    for run in (warrenctl, by_http):
        assert run("set_global_parameter kept 5")[0] == 0
        assert run(f"export_definitions {file}")[0] == 0
        assert run("clear_global_parameter kept")[0] == 0
        assert run(f"import_definitions {file}")[0] == 0
        assert "kept\t5\n" in run("list_global_parameters")[1]
        assert json.loads(run("export_definitions -")[1])["global_parameters"] == [{"name": "kept", "value": 5}]
        file.write_text('{"users":')
        assert run(f"import_definitions {file}")[0] == 65
    assert by_http(f"import_definitions --skip-if-unchanged {file}")[0] == 64


def test_surrogates_are_written_as_in_json(warrenctl: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    user, parameter = {"name": "\ud800", "password_hash": "", "tags": ""}, {"name": "odd", "value": "\ud800"}
    file.write_text(json.dumps({"users": [user], "global_parameters": [parameter]}))
    status, out, _ = warrenctl(f"import_definitions --leave-out {file}")
    assert status == 0 and '(user: "\\ud800"): left out\n' in out
    assert "\\ud800" in warrenctl("list_global_parameters --formatter json")[1]
    for place in (str(file), "-"):
        status, out, _ = warrenctl(f"export_definitions {place}")
        exported = json.loads(out if place == "-" else file.read_text(encoding="utf-8"))
        assert status == 0 and parameter in exported["global_parameters"]
    status, _, err = warrenctl(f"import_definitions --leave-out {file}")
    assert (status, err) == (0, "")
    assert warrenctl("clear_global_parameter odd")[0] == 0


def test_a_password_from_the_input_may_be_blank(warrenctl: Warrenctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status, out, err = warrenctl("add_user silent")
    assert (status, out, err) == (65, "", "Error:\nPassword is not provided via argument or stdin\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert warrenctl("add_user silent")[0] == 0
    assert warrenctl("delete_user silent")[0] == 0


def test_an_input_that_cannot_be_read_is_named(warrenctl: Warrenctl, monkeypatch: pytest.MonkeyPatch) -> None:
    no_password = (65, "", "Error:\nPassword is not provided via argument or stdin\n")
    with open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8") as unreadable:
        for given in (None, unreadable):  # None: it was closed before the start
            monkeypatch.setattr(sys, "stdin", given)
            assert warrenctl("add_user silent") == no_password
            assert warrenctl("import_definitions -") == (69, "", "Error:\ncannot read standard input: it is closed\n")


def test_definitions_are_utf_8_whatever_the_locale_has(warrenctl: Warrenctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes, encoding: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding))

    read(b'\xef\xbb\xbf{"vhosts": [{"name": "caf\xc3\xa9"}]}', "latin-1")
    output = "Importing definitions in JSON from the standard input ...\n"
    assert warrenctl("import_definitions") == (0, output, "")
    assert warrenctl("delete_vhost café")[0] == 0
    read(b"\xff", "latin-1")
    says = "Error:\ncannot read standard input: not UTF-8, as JSON has to be\n"
    assert warrenctl("import_definitions -")[::2] == (65, says)
    read(b"\xff\n", "utf-8")
    assert warrenctl("add_user u")[::2] == (65, "Error:\nPassword is not utf-8, the encoding of the locale\n")


def test_a_reset_without_output_deletes_nothing(
    controlled: Controlled, in_process: Warrenctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_process("add_vhost v")[0] == 0
    monkeypatch.setattr(node_control, "default_user", full_disk)
    controlled.host.control.app_is_stopped = True
    assert in_process("reset")[0] == 69
    assert "v" in in_process("list_vhosts -s")[1].split()


@pytest.mark.parametrize("command", ["reset", "force_reset"])
def test_a_reset_at_a_terminal_asks_first(
    controlled: Controlled, in_process: Warrenctl, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert in_process("add_vhost v")[0] == 0
    controlled.host.control.app_is_stopped = True
    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as terminal, open(ours, "wb", buffering=0) as keys:
        monkeypatch.setattr(sys, "stdin", terminal)
        for typed in (b"\n", b"no\n", b"\x04"):
            keys.write(typed)
            status, _, err = in_process(command)
            assert status == 69 and "Nothing was deleted. To keep a copy first: warrenctl backup" in err
        assert err.startswith(
            "This deletes all definitions and messages of node node: 2 virtual hosts, 1 users, 0 queues with"
            " 0 messages, and all policies and parameters.\nType yes to delete all of it: "
        )
        assert "v" in in_process("list_vhosts -s")[1].split()
        keys.write(b"yes\n")
        assert in_process(command)[0] == 0
        assert in_process("list_vhosts -s")[1] == "/\n"
        assert in_process(f"{command} -q") == (0, "", "")


def test_a_stopped_application_serves_nobody_and_a_started_one_does(tmp_path: Path, run_with: RunWith) -> None:
    with broker_process(tmp_path) as broker:
        ready = broker.addresses
        warrenctl = run_with("--data", str(Path(ready["control"][0]).parent))
        by_http = run_with("--url", f"http://guest:guest@{ready['http'][0]}")
        connection = pika.BlockingConnection(parameters(ready))
        channel = connection.channel()
        channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
        assert warrenctl("drain -t 10")[0] == 0
        with pytest.raises(pika.exceptions.ConnectionClosed, match="maintenance mode"):
            channel.start_consuming()
        assert warrenctl("is_running")[0] == by_http("is_running")[0] == 69
        assert json.loads(warrenctl("status --formatter json")[1])["is_under_maintenance"] is True
        assert warrenctl("revive")[0] == warrenctl("is_running")[0] == 0
        assert json.loads(warrenctl("status --formatter json")[1])["is_under_maintenance"] is False
        listeners = json.loads(warrenctl("listeners --formatter json")[1])["listeners"]
        port = next(one["port"] for one in listeners if one["protocol"] == "amqp")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
        assert warrenctl("suspend_listeners")[0] == 0
        status, _, err = warrenctl("reset")  # a client is still connected
        assert status == 69 and "stop it first with stop_app, or delete less: purge_queue" in err
        assert warrenctl("stop_app")[0] == 0
        with pytest.raises(pika.exceptions.ConnectionClosed, match="shutdown"):
            channel.start_consuming()
        assert warrenctl("check_running")[0] == by_http("check_running")[0] == 69
        assert warrenctl("stop_app")[0] == warrenctl("reset")[0] == warrenctl("force_reset")[0] == 0
        assert warrenctl("start_app")[0] == warrenctl("start_app")[0] == 0
        assert warrenctl("check_running")[0] == 0
        assert warrenctl("reset")[0] == 69
        listeners = json.loads(warrenctl("listeners --formatter json")[1])["listeners"]
        ports = {one["protocol"]: one["port"] for one in listeners}
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", ports["amqp"])) as again:
            assert again.is_open
        url = f"http://guest:guest@127.0.0.1:{ports['http']}"
        assert run_with("--url", url)("check_running")[0] == 0


def test_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    from warren.broker.control_socket import address_in
    from warren.broker.ctl.call import Call
    from warren.broker.ctl.node import connect_to_socket
    from warren.broker.operator import local_socket

    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with local_socket.bind(folder) as listening:
        with address_in(folder) as name:
            assert len(name) < 108
        listening.settimeout(5)
        with pytest.raises(TimeoutError):
            connect_to_socket(Call("ping", [], {}), folder, 0.05)  # it is connected and gets no response


def test_no_node_at_the_socket_is_reported_with_69(run_with: RunWith, tmp_path: Path) -> None:
    status, _, output = run_with("--data", str(tmp_path))("list_queues")
    assert status == 69 and output.startswith("Error: unable to perform an operation on node 'warren@")
    assert f"{tmp_path}/ctl.sock: No such file" in output and "It may be down" in output
    assert "--data DIR" in output and "--url URL" in output
