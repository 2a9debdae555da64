"""Probes, the comparison of answers and the report, tested without a RabbitMQ."""

import socket

import pytest
from pika.frame import Method as Frame
from pika.spec import Queue

from . import bad_bodies, http_probes
from .__main__ import main
from .amqp_part import method_name as described_reply
from .amqp_probes import PROBES
from .brokers import Answer, Output, tools_of
from .ctl_part import compare as compare_output
from .ctl_probes import Line
from .documents import Difference
from .http_part import compare, shared_routes, swept, uncovered
from .http_probes import Probe
from .known import KNOWN, Known, reason_of
from .report import Totals, lines_of

PROBE = Probe("GET", "/x")


def test_every_route_has_a_probe() -> None:
    table = shared_routes()
    probes = [*http_probes.setup(), *swept(table), *http_probes.checks(), *bad_bodies.probes()]
    assert uncovered(table, probes) == []


def test_every_amqp_probe_has_a_name_of_its_own() -> None:
    names = [probe.name for probe in PROBES]
    assert len(names) == len(set(names))


def test_a_reply_is_described_by_its_method() -> None:
    assert described_reply(Frame(1, Queue.DeclareOk("q", 5, 0))) == "Queue.DeclareOk"
    assert described_reply((None, None, None)) == "tuple"


def test_no_probe_has_a_part_of_its_path_left_open() -> None:
    known = {"{node}", "{connection}", "{channel}", "{amqp_port}"}
    for probe in swept(shared_routes()):
        parts = [part for part in probe.path.split("/") if part.startswith("{")]
        assert set(parts) <= known, probe


def test_a_different_status_is_reported_with_both_bodies() -> None:
    (one,) = compare(PROBE, Answer(404, {}, {"error": "x"}), Answer(200, {}, []))
    assert (one.place, one.warren, one.reference) == ("status", "404 {'error': 'x'}", "200 []")


def test_methods_that_are_allowed_are_a_set() -> None:
    ours = Answer(200, {"allow": "GET, HEAD"}, None)
    assert list(compare(PROBE, ours, Answer(200, {"allow": "HEAD, GET"}, None))) == []
    assert len(list(compare(PROBE, ours, Answer(200, {"allow": "HEAD"}, None)))) == 1


def test_a_media_type_is_compared_without_its_parameters() -> None:
    ours = Answer(200, {"content-type": "text/plain; charset=utf-8"}, None)
    assert list(compare(PROBE, ours, Answer(200, {"content-type": "text/plain"}, None))) == []


def test_what_commands_print_is_compared_line_by_line() -> None:
    line = Line("list", unordered=True)
    assert list(compare_output(line, Output(0, "a\nb\nc\nd\n", ""), Output(0, "a\nb\nd\nc\n", ""))) == []
    found = list(compare_output(line, Output(0, "a\nb\n", "e"), Output(64, "a\nx\n", "e")))
    assert [(one.place, one.warren, one.reference) for one in found] == [
        ("status", "0", "64"),
        ("stdout", "['b']", "['x']"),
    ]


def test_a_known_difference_has_a_reason_and_stars_match_anything() -> None:
    table = (Known("GET /queues*", "body*.x", "because", reference="no such field"),)
    one = Difference("GET /queues/{vhost}", "body[].x", "1", "no such field")
    assert reason_of(one, table) == "because"
    assert reason_of(Difference("GET /queues", "body[].y", "1", "no such field"), table) is None
    assert reason_of(Difference("GET /queues", "body[].x", "1", "2"), table) is None


def test_brackets_in_a_known_difference_are_literal() -> None:
    table = (Known("*[as somebody]", "body[].x", "because"),)
    assert reason_of(Difference("GET /x [as somebody]", "body[].x", "1", "2"), table) == "because"
    assert reason_of(Difference("GET /x s", "body[].x", "1", "2"), table) is None


def test_every_known_difference_has_a_reason() -> None:
    assert [entry for entry in KNOWN if len(entry.reason) < 10] == []


def test_the_report_counts_and_names_what_is_new() -> None:
    known, new = Difference("a", "p", "1", "2"), Difference("b", "p", "1", "2")
    totals = Totals.of(5, [known, new, new], (Known("a", "*", "a good reason"),))
    first, reason, last = lines_of(totals, all_known=False)
    assert first == "compared 5, equal 3, known differences 1, NEW differences 1"
    assert reason == "known: a good reason (1)"
    assert last == "NEW: b: p: Warren 1, RabbitMQ 2"


def test_differences_that_are_alike_share_a_line() -> None:
    totals = Totals.of(9, [Difference(f"GET /{n}", "p", "1", "2") for n in range(5)], ())
    line = list(lines_of(totals, all_known=False))[-1]
    assert line == "NEW: GET /0, GET /1, GET /2 and 2 more: p: Warren 1, RabbitMQ 2"


def test_the_tools_beside_rabbitmqctl_are_run_alike() -> None:
    assert tools_of([]) == {}
    command = tools_of(["docker", "exec", "x", "/sbin/rabbitmqctl", "-n", "a@b"])
    assert command["rabbitmq-diagnostics"] == ["docker", "exec", "x", "/sbin/rabbitmq-diagnostics", "-n", "a@b"]


@pytest.mark.sockets
def test_without_a_reference_it_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound without listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["--http", address, "--amqp", address]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "does not answer" in output.err and "docker run" in output.err
