"""Commands over the HTTP API of a running broker."""

import json

import pika
import pytest

from tests.support.polling import until
from tests.support.warrenctl import Ready, RunWith, Warrenctl, parameters
from warren.broker.ctl.commands import COMMANDS

from .recorded import expected

pytestmark = pytest.mark.sockets

LOCAL_ONLY = (
    "cipher_suites consume_event_stream disable drain eval force_reset list_ciphers list_hashes"
    " list_policies_that_match list_unresponsive_queues log_tail log_tail_stream reset resume_listeners revive"
    " rotate_logs set set_disk_free_limit set_log_level set_vm_memory_high_watermark shutdown start_app stop"
    " stop_app suspend_listeners tls_versions"
)


def test_commands_print_over_http_as_over_the_socket(ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    lines = [one for one in expected(ready) if runs_over_http(one[0].split())]
    assert len(lines) > 50
    assert warrenctl("add_vhost v")[0] == 0  # over HTTP the creator of a vhost gets permissions, which would be listed
    assert [(line, *by_http(line)) for line, *_ in lines] == lines


def runs_over_http(words: list[str]) -> bool:
    """True if the command can run over HTTP; the lines about alarms need one that only the socket can set."""
    return "alarms" not in words and not set(words) & set(LOCAL_ONLY.split())


ALIKE = [
    "list_vhosts name description tags default_queue_type protected_from_deletion tracing cluster_state metadata",
    "list_exchanges -s name type durable auto_delete internal arguments policy",
    "list_queues name durable auto_delete arguments policy operator_policy effective_policy_definition exclusive "
    "messages messages_ready messages_unacknowledged message_bytes consumers state type pid",
    "list_queues --formatter json",
    "list_bindings",
    "list_users --formatter csv",
    "list_consumers queue_name consumer_tag ack_required prefetch_count active activity_status exclusive arguments",
    "list_channels -q user vhost number transactional confirm consumer_count messages_unacknowledged prefetch_count",
    "list_connections -q user peer_host peer_port state client_properties channels protocol auth_mechanism frame_max",
    "list_feature_flags",
    "list_deprecated_features",
    "list_global_parameters",
    "cluster_status",
    "cluster_status --formatter json",
    "listeners",
    "listeners --formatter json",
    "alarms",
    "check_alarms",
    "check_local_alarms",
    "check_running",
    "check_virtual_hosts",
    "check_port_connectivity",
    "restart_vhost",
    "restart_vhost -p nowhere",
    "is_enabled rabbitmq_management",
    "enable",
    "check_protocol_listener http",
    "check_protocol_listener mqtt",
    "check_port_listener none",
    "check_certificate_expiration --within 1 --unit months",
    "check_certificate_expiration --unit centuries",
    "server_version",
    "environment",
    "log_location",
    "federation_status",
    "restart_federation_link abcd1234",
    "set_cluster_name one",
    "enable_feature_flag all",
    "enable_feature_flag none",
    "await_startup",
    "list_queues none",
    "-n other@nowhere list_users",
    "delete_queue --if-empty kept",
    "delete_queue --if-unused kept",
    "purge_queue kept",
    "import_definitions nowhere.json",
]


def test_lists_over_http_equal_those_over_the_socket(ready: Ready, warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    with pika.BlockingConnection(parameters(ready)) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", arguments={"x-max-length": 5})
        channel.queue_declare("lone", arguments={"x-single-active-consumer": True})
        for tag, body in (("first", b"1"), ("second", b"2")):
            channel.basic_consume("lone", lambda *_: None, consumer_tag=tag)
            channel.basic_publish("", "kept", body)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("kept", lambda *_: None, consumer_tag="tag")
        until(lambda: "1" in warrenctl("list_queues -s messages_unacknowledged")[1].splitlines())
        for line in ALIKE:
            assert (line, *sorted_lines(by_http(line))) == (line, *sorted_lines(warrenctl(line)))
        found = warrenctl("list_consumers -s consumer_tag active activity_status")[1].splitlines()
        assert sorted(found) == ["first\ttrue\tsingle_active", "second\tfalse\twaiting", "tag\ttrue\tup"]


def sorted_lines(output: tuple[int, str, str]) -> tuple[int, list[str], str]:
    """Sort lists, which the socket and HTTP return in different orders, and leave out the repeated command line."""
    status, out, err = output
    return status, sorted(out.splitlines()), err.partition("Arguments given")[0]


@pytest.mark.parametrize(("close", "reason"), [
    ("close_connection '{pid}' 'bye ☂'", "bye ☂"),
    ("close_all_user_connections guest bye", "bye"),
    ("close_all_connections --per-connection-delay 1 bye", "bye"),
])  # fmt: skip
def test_connections_are_closed_for_a_reason(ready: Ready, by_http: Warrenctl, close: str, reason: str) -> None:
    connection = pika.BlockingConnection(parameters(ready))
    channel = connection.channel()
    channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
    until(lambda: by_http("list_connections -s pid")[1] != "")
    pid = by_http("list_connections -s pid")[1].strip()
    assert by_http(close.format(pid=pid))[0] == 0
    with pytest.raises(pika.exceptions.ConnectionClosed, match=reason):
        channel.start_consuming()
    until(lambda: by_http("list_connections -s pid")[1] == "")


def test_status_over_http_has_the_sections_of_the_socket(warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    output = by_http("status")[1]
    for section in ("Runtime", "Plugins", "Data directory", "Config files", "Log file(s)", "Alarms", "Tags", "Memory"):
        assert f"\n{section}\n\n" in output
    facts = json.loads(by_http("status --formatter json")[1])
    same = json.loads(warrenctl("status --formatter json")[1])
    assert facts.keys() == same.keys()
    tasks = [{task["name"] for task in one["event_loop"]["tasks"]} for one in (facts, same)]
    assert "event_loop_watch" in tasks[0] & tasks[1]
    assert "\nEvent loop\n\nLongest turn of the last minute or two: " in output
    assert "\nTask: event_loop_watch, running: 1, restarts: 0, failures: 0\n" in output
    moving = {"uptime", "memory", "disk_free", "event_loop"}  # change between two requests
    for key in facts.keys() - moving:
        assert facts[key] == same[key], key
    assert facts["product_name"] == "Warren"
    assert "\nFlag: quorum_queue, state: enabled\n" in by_http("cluster_status")[1]
    assert "\nmessage_log.enabled = false\n" in by_http("environment")[1]
    assert f"\nWarren version: {facts['product_version']}\nRabbitMQ version: " in by_http("status")[1]
    assert by_http("memory_breakdown --unit mb")[1].startswith("Reporting memory breakdown on node rabbit@here...\n")


def test_a_report_covers_the_node_and_each_vhost_over_both_transports(warrenctl: Warrenctl, by_http: Warrenctl) -> None:
    for run in (warrenctl, by_http):
        status, out, err = run("report")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "Reporting server status of node rabbit@here ..."
        for banner in (
            "Status of node rabbit@here ...", "Cluster status of node rabbit@here ...",
            "Application environment of node rabbit@here ...", "Listing connections ...", "Listing channels ...",
            "Listing queues for vhost / ...", "Listing exchanges for vhost / ...", "Listing bindings for vhost /...",
            'Listing permissions for vhost "/" ...', 'Listing policies for vhost "/" ...',
        ):  # fmt: skip
            assert banner in lines
        assert "guest\t.*\t.*\t.*" in lines


def test_a_vhost_is_protected_and_described(by_http: Warrenctl) -> None:
    assert by_http("add_vhost w --description d --tags a,b")[0] == 0
    assert by_http("enable_vhost_deletion_protection w")[0] == 0
    assert by_http("delete_vhost w")[0] == 69
    assert by_http("update_vhost_metadata w --description e")[0] == 0
    assert "w\te\t[a, b]\n" in by_http("list_vhosts name description tags")[1]
    assert by_http("disable_vhost_deletion_protection w")[0] == 0
    assert by_http("set_permissions_globally guest .* .* .*")[0] == 0
    assert by_http("set_permissions -p x guest .* .* .*")[::2] == (69, "Error:\nVirtual host x does not exist\n")
    assert by_http("delete_vhost w")[0] == 0


@pytest.mark.parametrize("command", LOCAL_ONLY.split())
def test_socket_commands_over_http_fail_in_one_line_without_a_request(command: str, run_with: RunWith) -> None:
    needed = " ".join(["1"] * COMMANDS[command].least)
    output = run_with("--url", "http://127.0.0.1:1")(f"{command} {needed}")
    assert output == (64, "", f"warrenctl: {command} goes by the control socket, not by --url\n")


def test_credentials_are_never_shown(ready: Ready, run_with: RunWith) -> None:
    address = ready["http"][0]
    run = run_with("--url", f"http://me:secret@{address}")
    status, out, err = run("list_users")
    says = (
        f"Error: unable to perform an operation on the broker of --url: {address}: user or password is wrong: http://"
    )
    assert (status, out) == (69, "") and err.startswith(says) and "--password-file or WARRENCTL_PASSWORD" in err
    status, out, err = run("list_users too many")
    assert status == 64 and f"--url http://{address}" in err
    assert "secret" not in out + err and "me:" not in out + err
    for address in (
        "http://me:se/cret@host",
        "http://me:1/secret@host",
        "http://me:secret@host:x",
        "amqp://me:se/cret@h",
    ):
        status, out, err = run_with("--url", address)("ping")
        assert (status, out) == (64, "") and "se" not in err.replace("percent-encoded in a password", "")
        assert "cret" not in run_with("--url", address)("list_users too many")[2]


def test_a_changed_user_keeps_the_rest_and_one_without_a_password_cannot_log_in(by_http: Warrenctl) -> None:
    assert by_http("add_user changed pw -q")[0] == 0
    assert by_http("set_user_tags changed management")[0] == 0
    assert by_http("authenticate_user changed pw")[0] == 0
    assert by_http("change_password changed other")[0] == 0
    assert "changed\t[management]" in by_http("list_users")[1]
    assert by_http("authenticate_user changed pw")[0] == 65
    assert by_http("authenticate_user changed other")[0] == 0
    assert by_http("clear_password changed")[0] == 0
    assert by_http("authenticate_user changed other")[0] == 65
    assert by_http("delete_user changed")[0] == 0


def test_users_without_the_right_get_an_error(ready: Ready, by_http: Warrenctl, run_with: RunWith) -> None:
    assert by_http("add_user looker pw -q")[0] == 0
    run = run_with("--url", f"http://looker:pw@{ready['http'][0]}")
    assert "access refused: Not management user" in run("list_users")[2]
    assert by_http("set_user_tags looker management")[0] == 0
    assert run("list_users") == (69, "Listing users ...\n", "Error:\naccess refused: Not administrator user\n")
    assert by_http("delete_user looker")[0] == 0


def test_plugins_over_http_are_the_enabled_ones(by_http: Warrenctl) -> None:
    assert by_http("list -m -s '^rabbitmq_management$'") == (0, "rabbitmq_management\n", "")
    assert by_http("enable rabbitmq_management")[0] == 0
    assert by_http("enable rabbitmq_mqtt")[0] == 70
    assert by_http("is_enabled rabbitmq_mqtt")[0] == 69
