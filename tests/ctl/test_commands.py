"""Commands against a running broker. What is expected was recorded from rabbitmqctl: 3.10, or 4.0 where it differs."""

import json
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest

from broker.control.commands import COMMANDS as ANSWERED
from broker.ctl.commands import COMMANDS
from broker.ctl.main import main

pytestmark = pytest.mark.sockets

ROOT = Path(__file__).parent.parent.parent
Told = tuple[int, str, str]
Warrenctl = Callable[[str], Told]


@pytest.fixture(scope="module")
def ready() -> Iterator[dict[str, list[str]]]:
    line = [sys.executable, "-m", "broker.cli", "serve", "--amqp", "127.0.0.1:0", "--memory", "--node", "rabbit@here"]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            events = (json.loads(text) for text in process.stderr)
            yield next(event for event in events if event["event"] == "ready")
        finally:
            process.terminate()


@pytest.fixture
def warrenctl(
    ready: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Warrenctl:
    def run(line: str) -> Told:
        folder = str(Path(ready["control"][0]).parent)
        monkeypatch.setattr(sys, "argv", ["warrenctl", *shlex.split(line), "--data", folder])
        status = main()
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


ERROR = "Error:\n{}\n"
IN_ORDER: list[tuple[str, int, str, str]] = [
    ("add_vhost v", 0, 'Adding vhost "v" ...\n', ""),
    ("add_vhost v", 0, 'Adding vhost "v" ...\n', ""),
    ("add_user u pw -q", 0, "", ""),
    ("add_user u pw", 70, 'Adding user "u" ...\n', ERROR.format('User "u" already exists')),
    ("change_password x pw", 67, 'Changing password for user "x" ...\n', ERROR.format('User "x" does not exist')),
    ("authenticate_user u pw", 0, 'Authenticating user "u" ...\nSuccess\n', ""),
    (
        "authenticate_user u bad",
        65,
        'Authenticating user "u" ...\n',
        ERROR.format("Error: failed to authenticate user \"u\"\nuser 'u' - invalid credentials"),
    ),
    ("set_user_tags u a b", 0, 'Setting tags for user "u" to [a, b] ...\n', ""),
    ("list_users -q", 0, "user\ttags\nguest\t[administrator]\nu\t[a, b]\n", ""),
    ("list_users -s", 0, "guest\t[administrator]\nu\t[a, b]\n", ""),
    ("set_user_tags u", 0, 'Setting tags for user "u" to [] ...\n', ""),
    ("set_permissions -p v u .* .* .*", 0, 'Setting permissions for user "u" in vhost "v" ...\n', ""),
    ("list_permissions -p v -q", 0, "user\tconfigure\twrite\tread\nu\t.*\t.*\t.*\n", ""),
    ("list_permissions -p x", 65, 'Listing permissions for vhost "x" ...\n', "Virtual host 'x' does not exist\n"),
    ("list_user_permissions u -q", 0, "vhost\tconfigure\twrite\tread\nv\t.*\t.*\t.*\n", ""),
    (
        "set_topic_permissions -p v u amq.topic a b",
        0,
        'Setting topic permissions on "amq.topic" for user "u" in vhost "v" ...\n',
        "",
    ),
    ("list_topic_permissions -p v -q", 0, "user\texchange\twrite\tread\nu\tamq.topic\ta\tb\n", ""),
    (
        "clear_topic_permissions -p v u amq.topic",
        0,
        'Clearing topic permissions on "amq.topic" for user "u" in vhost "v" ...\n',
        "",
    ),
    ("clear_permissions -p v u", 0, 'Clearing permissions for user "u" in vhost "v" ...\n', ""),
    (
        """set_parameter -p v nonsense o '{}'""",
        69,
        'Setting runtime parameter "o" for component "nonsense" to "{}" in vhost "v" ...\n',
        ERROR.format("Validation failed\n\ncomponent nonsense not found\n"),
    ),
    (
        """set_parameter federation-upstream origin '{"uri":"amqp://localhost:5672"}'""",
        0,
        'Setting runtime parameter "origin" for component "federation-upstream" '
        'to "{"uri":"amqp://localhost:5672"}" in vhost "/" ...\n',
        "",
    ),
    (
        "list_parameters -q",
        0,
        'component\tname\tvalue\nfederation-upstream\torigin\t{"uri":"amqp://localhost:5672"}\n',
        "",
    ),
    (
        "clear_parameter federation-upstream no",
        69,
        'Clearing runtime parameter "no" for component "federation-upstream" on vhost "/" ...\n',
        ERROR.format("Parameter does not exist"),
    ),
    ("""set_global_parameter g '{"a":1}'""", 0, 'Setting global runtime parameter "g" to "{"a":1}" ...\n', ""),
    ("clear_global_parameter g", 0, 'Clearing global runtime parameter "g" ...\n', ""),
    (
        r"""set_policy exchange-federation "^federated\." '{"federation-upstream-set":"all"}' """
        "--priority 10 --apply-to exchanges",
        0,
        r'Setting policy "exchange-federation" for pattern "^federated\." to "{"federation-upstream-set":"all"}" '
        'with priority "10" for vhost "/" ...\n',
        "",
    ),
    (
        "list_policies",
        0,
        'Listing policies for vhost "/" ...\nvhost\tname\tpattern\tapply-to\tdefinition\tpriority\n'
        '/\texchange-federation\t^federated\\.\texchanges\t{"federation-upstream-set":"all"}\t10\n',
        "",
    ),
    ("clear_policy exchange-federation", 0, 'Clearing policy "exchange-federation" on vhost "/" ...\n', ""),
    (
        "clear_policy exchange-federation",
        69,
        'Clearing policy "exchange-federation" on vhost "/" ...\n',
        ERROR.format("Parameter does not exist"),
    ),
    (
        """set_policy -p v p ^a '{"zz":5}'""",
        69,
        'Setting policy "p" for pattern "^a" to "{"zz":5}" with priority "0" for vhost "v" ...\n',
        ERROR.format('Validation failed\n\n[{<<"zz">>,5}] are not recognised policy settings\n'),
    ),
    (
        """set_operator_policy -p v p ^a '{"max-length":5}'""",
        0,
        'Setting operator policy override "p" for pattern "^a" to "{"max-length":5}" '
        'with priority "0" for vhost "v" ...\n',
        "",
    ),
    ("clear_operator_policy -p v p", 0, 'Clearing operator policy "p" on vhost "v" ...\n', ""),
    ("""set_vhost_limits -p v '{"max-queues":5}' -q""", 0, "", ""),
    ("list_vhost_limits -p v", 0, 'Listing limits for vhost "v" ...\n{"max-queues":5}\n', ""),
    ("clear_vhost_limits -p v", 0, 'Clearing vhost "v" limits ...\n', ""),
    ("""set_user_limits u '{"max-channels":5}' -q""", 0, "", ""),
    ("list_user_limits --user u", 0, 'Listing limits for user "u" ...\n{"max-channels":5}\n', ""),
    ("clear_user_limits u max-channels", 0, 'Clearing "max-channels" limit for user "u" ...\n', ""),
    ("list_queues -p v", 0, "Timeout: 60.0 seconds ...\nListing queues for vhost v ...\n", ""),
    ("list_queues -p x", 0, "Timeout: 60.0 seconds ...\nListing queues for vhost x ...\n", ""),
    ("list_bindings -p v", 0, "Listing bindings for vhost v...\n", ""),
    ("list_consumers -p v", 0, "Listing consumers in vhost v ...\n", ""),
    ("list_connections", 0, "Listing connections ...\n", ""),
    ("list_channels", 0, "Listing channels ...\n", ""),
    ("trace_on -p v", 0, 'Starting tracing for vhost "v" ...\nTrace enabled for vhost v\n', ""),
    ("trace_off -p v", 0, 'Stopping tracing for vhost "v" ...\nTrace disabled for vhost v\n', ""),
    ("purge_queue -p v q", 69, "Purging queue 'q' in vhost 'v' ...\n", ERROR.format("not_found")),
    ("delete_queue -p v q", 64, "Deleting queue 'q' on vhost 'v' ...\n", ERROR.format("Queue not found")),
    ("close_connection '<x.1.2.3>' bye", 0, "Closing connection <x.1.2.3>, reason: bye...\n", ""),
    (
        "close_all_connections -p v bye",
        0,
        "Closing all connections in vhost v, reason: bye...\nClosed 0 connections\n",
        "",
    ),
    ("delete_user u", 0, 'Deleting user "u" ...\n', ""),
    ("delete_user u", 0, 'Deleting user "u" ...\n', ""),
    ("add_vhost v --formatter json", 0, '{"result":"ok","node":"rabbit@here"}\n', ""),
    ("delete_vhost v", 0, 'Deleting vhost "v" ...\n', ""),
    ("delete_vhost v", 65, 'Deleting vhost "v" ...\n', "Virtual host 'v' does not exist\n"),
    ("ping -q", 0, "Ping succeeded\n", ""),
    ("-n rabbit@localhost ping -q", 0, "Ping succeeded\n", ""),
    ("eval 'application:set_env(rabbit, channel_max, 512).'", 0, "ok\n", ""),
    ("eval '{ok, Max} = application:get_env(rabbit, channel_max), Max.'", 0, "512\n", ""),
    ("""eval 'application:set_env(rabbit, loopback_users, [<<"a">>]).'""", 0, "ok\n", ""),
    ("""eval '{ok, V} = application:get_env(rabbit, loopback_users), V.'""", 0, '[<<"a">>]\n', ""),
    ("eval 'rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []}).'", 0, "ok\n", ""),
    ("alarms -q", 0, "Disk alarm on node rabbit@here\n", ""),
    ("eval 'rabbit_alarm:clear_alarm({resource_limit, disk, node()}).'", 0, "ok\n", ""),
    ("eval '1+1.'", 70, "", ERROR.format("eval is not supported")),
    ("check_port_listener 1 -q", 69, "", ERROR.format("No listener on port 1 is active on node rabbit@here.")),
    ("federation_status --formatter json", 0, "[\n]\n", ""),
]


def test_commands_say_and_end_as_rabbitmqctl_does(warrenctl: Warrenctl) -> None:
    found = [(line, *warrenctl(line)) for line, *_ in IN_ORDER]
    assert found == IN_ORDER


def test_each_command_has_an_answer_in_the_node() -> None:
    assert COMMANDS.keys() - {"version"} == ANSWERED.keys()


def test_the_socket_is_for_its_owner_alone(ready: dict[str, list[str]]) -> None:
    path = Path(ready["control"][0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_unknown_column_is_named(warrenctl: Warrenctl) -> None:
    status, out, err = warrenctl("list_queues name nonsense")
    assert (status, out) == (64, "")
    assert err.startswith("Error (argument validation): Info key(s) nonsense are not supported\n")


def test_connections_are_listed_and_closed(ready: dict[str, list[str]], warrenctl: Warrenctl) -> None:
    port = int(ready["amqp"][0].rpartition(":")[2])
    properties = {"connection_name": "mine"}
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, client_properties=properties))
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
    told = warrenctl("delete_queue listed")[1].splitlines()
    assert told[1] == "Queue was successfully deleted with 1 ready messages"


def test_events_tell_that_it_was_the_command_line(ready: dict[str, list[str]], warrenctl: Warrenctl) -> None:
    port = int(ready["amqp"][0].rpartition(":")[2])
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(name, "amq.rabbitmq.event", "user.created")
        assert warrenctl("add_user told pw")[0] == 0
        assert warrenctl("delete_user told")[0] == 0
        _, properties, _ = channel.basic_get(name, auto_ack=True)
    assert properties.headers["name"] == "told"
    assert properties.headers["user_who_performed_action"] == "rmq-cli"


def test_a_long_list_comes_whole(ready: dict[str, list[str]], warrenctl: Warrenctl) -> None:
    port = int(ready["amqp"][0].rpartition(":")[2])
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        names = [f"many.{number:03}" for number in range(250)]
        for name in names:
            channel.queue_declare(name, exclusive=True)
        listed = json.loads(warrenctl("list_queues name --formatter json")[1])
    assert [one["name"] for one in listed] == names


def test_definitions_go_out_and_come_in(warrenctl: Warrenctl, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    assert warrenctl("set_global_parameter kept 5")[0] == 0
    assert warrenctl(f"export_definitions {file}")[0] == 0
    assert warrenctl("clear_global_parameter kept")[0] == 0
    assert warrenctl(f"import_definitions {file}")[0] == 0
    assert "kept\t5\n" in warrenctl("list_global_parameters")[1]
    assert json.loads(warrenctl("export_definitions -")[1])["global_parameters"] == [{"name": "kept", "value": 5}]
    file.write_text('{"users":')
    assert warrenctl(f"import_definitions {file}")[0] == 69


def test_a_stopped_application_has_no_listeners_and_a_started_one_has(warrenctl: Warrenctl) -> None:
    assert warrenctl("stop_app")[0] == 0
    assert warrenctl("check_running")[0] == 70
    assert warrenctl("reset")[0] == 0
    assert warrenctl("start_app")[0] == 0
    assert warrenctl("check_running")[0] == 0
    assert warrenctl("reset")[0] == 69


def test_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    from broker.control import place
    from broker.ctl.node import RemoteNode

    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with place.bind(folder) as listening:
        with place.address(folder) as address:
            assert len(address) < 108
        listening.settimeout(5)
        with pytest.raises(TimeoutError):
            RemoteNode(folder, 0.05)  # it is connected, and nobody says anything


def test_nobody_at_the_socket_is_told_with_69(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["warrenctl", "--data", str(tmp_path), "list_queues"])
    assert main() == 69
    assert capsys.readouterr().err.startswith("Error: unable to perform an operation on node 'rabbit@localhost'")
