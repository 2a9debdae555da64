"""The benchmark itself: what its generator builds and counts, and short runs against a sink. No timing is asserted."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench import churn, latency, process, report
from tools.bench.bindings import LOAD, pattern
from tools.bench.client import (
    BODY,
    HEADER,
    METHOD,
    Connection,
    LoadFailed,
    acks,
    frame,
    longstr,
    method,
    rejects,
    shortstr,
    table,
)
from tools.bench.confirms import TimedConfirms, confirms, disk
from tools.bench.consuming import Acks, Deliveries, check_numbers
from tools.bench.generator import Result, Workers, run
from tools.bench.loads import LOADS, Load
from tools.bench.pairs import FEDERATED, QUEUE, pairs
from tools.bench.process import Broker, cpu_s, rss_bytes
from tools.bench.progress import RUNNING
from tools.bench.publishing import BATCH, Confirms, batch_of
from tools.bench.sink import Chunk, sink
from tests.support.broker_process import NotStarted
from tests.support.polling import until

LOAD_OF = {load.letter: load for load in LOADS}
SAMPLED = 10_000  # messages: more than one read of a consumer, so that the latency of some is sampled


def frames(octets: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(octets):
        kind, _channel, size = struct.unpack_from(">BHI", octets, at)
        assert octets[at + 7 + size] == 0xCE
        yield kind, octets[at + 7 : at + 7 + size]
        at += size + 8


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(5)
        yield near, far


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.letter)
@pytest.mark.parametrize(("first", "count"), [(0, 1), (19_990, BATCH), (64, 5)])
def test_a_batch_is_whole_publishes_of_the_announced_size(load: Load, first: int, count: int) -> None:
    found = list(frames(batch_of(load, 0, 131072).build(first, count)))
    assert [kind for kind, _ in found] == [METHOD, HEADER, BODY] * count
    assert {len(payload) for kind, payload in found if kind == BODY} == {load.body_bytes}
    assert {payload[:12] for kind, payload in found if kind == HEADER} == {struct.pack(">HHQ", 60, 0, load.body_bytes)}
    stamps = {payload[:8] for kind, payload in found if kind == BODY}
    assert len(stamps) == 1 and stamps != {bytes(8)}


def test_numbered_messages_have_their_number_behind_the_stamp() -> None:
    load = replace(LOAD_OF["K"], numbered=True)
    bodies = [payload for kind, payload in frames(batch_of(load, 0, 131072).build(7, 3)) if kind == BODY]
    assert [struct.unpack_from("<Q", body, 8)[0] for body in bodies] == [7, 8, 9]
    assert {len(body) for body in bodies} == {load.body_bytes} and len({body[:8] for body in bodies}) == 1


def test_a_message_that_is_missing_or_out_of_order_is_told() -> None:
    check_numbers([4, 5], 4)
    with pytest.raises(LoadFailed, match="message 5 was to come, and 6 came"):
        check_numbers([4, 6], 4)


def test_a_body_longer_than_frame_max_is_split() -> None:
    found = list(frames(batch_of(LOAD_OF["M"], 0, 8192).build(0, 2)))
    assert sum(len(payload) for kind, payload in found if kind == BODY) == 2 * 65536
    assert max(len(payload) for _, payload in found) == 8192 - 8


def test_the_routing_keys_of_load_k_take_turns() -> None:
    batch = batch_of(LOAD_OF["K"], 0, 131072)
    keys = [payload for kind, payload in frames(batch.build(19_999, 3)) if kind == METHOD]
    assert [key[-6:-1] for key in keys] == [b"19999", b"00000", b"00001"]


def test_the_priorities_of_load_n_take_turns() -> None:
    batch = batch_of(LOAD_OF["N"], 0, 131072)
    headers = [payload for kind, payload in frames(batch.build(18, 4)) if kind == HEADER]
    assert [header[-1] for header in headers] == [8, 9, 0, 1]


def test_each_message_of_load_p_says_when_it_expires() -> None:
    batch = batch_of(LOAD_OF["P"], 0, 131072)
    headers = [payload for kind, payload in frames(batch.build(0, 2)) if kind == HEADER]
    assert all(header.endswith(b"\x0560000") for header in headers)


def test_who_has_the_queue_of_dead_letters_rejects_nothing() -> None:
    rejected, expired = LOAD_OF["S"], LOAD_OF["X"]
    assert [rejected.source(index) for index in range(2)] == ["bench.S.0", "bench.S.dead"]
    assert [rejected.rejects(index) for index in range(2)] == [True, False]
    assert (expired.source(0), expired.queue(0)) == ("bench.X.dead", "bench.X.0")


def test_no_two_bindings_are_the_same_and_the_keys_are_bound() -> None:
    patterns = {pattern(LOAD, number) for number in range(10_000)}
    assert len(patterns) == 10_000
    key = next(payload for kind, payload in frames(batch_of(LOAD, 0, 131072).build(7, 1)) if kind == METHOD)
    assert b"bench.V.0.00007" in key and "bench.V.0.00007" in patterns


def test_arguments_are_a_field_table() -> None:
    octets = table((("a", True), ("b", 7), ("c", "x")))
    assert octets == longstr(b"\x01at\x01" + b"\x01bl" + bytes(7) + b"\x07" + b"\x01cS" + longstr(b"x"))


def test_refusals_are_told_apart_only_where_they_are_expected(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    confirms = Confirms(near, refusals=True)
    far.sendall(acks((2,), True) + method(60, 120, struct.pack(">QB", 3, 0)))
    confirms.take(wait=True)
    assert confirms.count == 3


def test_rejections_are_of_one_delivery_each() -> None:
    assert Acks(1, reject=True).due(2) == rejects((1, 2))


def test_each_message_of_load_l_has_an_id_of_its_own() -> None:
    batch = batch_of(LOAD_OF["L"], 0, 131072)
    headers = [payload for first in (0, 64) for kind, payload in frames(batch.build(first, 64)) if kind == HEADER]
    assert len(set(headers)) == 128


def feed(pair: tuple[socket.socket, socket.socket], octets: bytes, step: int) -> tuple[int, Deliveries]:
    near, far = pair
    deliveries, taken = Deliveries(100), 0
    for at in range(0, len(octets), step):
        far.sendall(octets[at : at + step])
        deliveries.receive(near)
        taken += len(deliveries.take())
    return taken, deliveries


@pytest.mark.parametrize("step", [1, 7, 1000, 60_000])
def test_deliveries_are_counted_however_they_are_cut(pair: tuple[socket.socket, socket.socket], step: int) -> None:
    chunk = Chunk(LOAD_OF["A"])
    taken, deliveries = feed(pair, chunk.build(1, 3) + chunk.build(4, 200), step)
    assert (taken, deliveries.tag) == (203, 203)


def test_deliveries_of_changing_length_are_walked(pair: tuple[socket.socket, socket.socket]) -> None:
    short, long = Chunk(LOAD_OF["A"]), Chunk(replace(LOAD_OF["A"], body_bytes=321))
    octets = short.build(1, 5) + long.build(6, 5) + short.build(11, 20)
    taken, deliveries = feed(pair, octets, 900)
    assert (taken, deliveries.tag) == (30, 30)


def test_a_delivery_in_several_body_frames_counts_once(pair: tuple[socket.socket, socket.socket]) -> None:
    deliver = shortstr("tag") + struct.pack(">QB", 1, 0) + shortstr("") + shortstr("key")
    header = frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 30, 0))
    octets = method(60, 60, deliver) + header + frame(BODY, 1, bytes(20)) + frame(BODY, 1, bytes(10))
    assert feed(pair, octets, 1000)[0] == 1


@pytest.mark.parametrize("step", [10, 1000])
def test_a_close_among_deliveries_is_told(pair: tuple[socket.socket, socket.socket], step: int) -> None:
    close = method(20, 40, struct.pack(">H", 406) + shortstr("PRECONDITION_FAILED - no") + bytes(4))
    with pytest.raises(LoadFailed, match="406 PRECONDITION_FAILED - no"):
        feed(pair, Chunk(LOAD_OF["A"]).build(1, 5) + close, step)


def test_confirms_count_single_and_multiple_in_any_order(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    confirms = Confirms(near)
    for octets, count in [
        (acks((2, 4), False), 2), (acks((3,), True), 4), (acks((7, 6), False), 6), (acks((5,), False), 7),
    ]:  # fmt: skip
        far.sendall(octets)
        confirms.take(wait=True)
        assert confirms.count == count
    far.sendall(method(60, 120, struct.pack(">QB", 8, 0)))
    with pytest.raises(LoadFailed):
        confirms.take(wait=True)


def test_acks_are_single_or_multiple_as_the_load_says() -> None:
    each, tens = Acks(1), Acks(10)
    assert each.due(3) == acks((1, 2, 3), False)
    assert each.rest(3) == b""
    assert tens.due(25) == acks((10, 20), True)
    assert tens.due(29) == b""
    assert tens.rest(29) == acks((29,), True)
    assert tens.due(38) == b""
    assert tens.due(39) == acks((39,), True)


def test_a_broker_is_named_with_its_port_and_pid() -> None:
    assert Broker.parse("rabbitmq=5673:99") == Broker("rabbitmq", 5673, 99)
    assert Broker.parse("rabbitmq=5673") == Broker("rabbitmq", 5673)
    with pytest.raises(ValueError):
        Broker.parse("rabbitmq")


def test_the_report_shows_the_median_and_the_ratio_to_the_first() -> None:
    ours = report.median([Result(0, rate, p99_ms=rate) for rate in (100, 900, 300)])
    assert (ours.received_per_s, ours.p50_ms) == (300, None)
    first, second = report.load_rows(LOAD_OF["A"], {"warren": ours, "rabbitmq": Result(0, 100)})
    assert [cell.strip() for cell in second.split("|")][-3:-1] == ["3.00", ">= 2.5"]
    _, own = report.load_rows(LOAD_OF["A"], {"warren": ours, "one warren": Result(0, 100)}, ours=("one warren",))
    assert [cell.strip() for cell in own.split("|")][-3:-1] == ["3.00", ""]
    assert len(first) == len(second) == len(report.header(report.COLUMNS).splitlines()[0])


@pytest.mark.sockets
@pytest.mark.parametrize("letter", ["A", "C", "D", "E", "G", "H", "I", "N", "R", "S"])
def test_a_load_runs_and_is_measured(letter: str) -> None:
    load = LOAD_OF[letter]
    with sink() as broker:
        assert broker.pid is not None
        result = run(load, broker, seconds=0.2, warmup_s=0.05, fewest=latency.FEWEST if load.rate_per_s else SAMPLED)
        assert cpu_s(broker.pid) > 0
        assert rss_bytes(broker.pid) > 0
    assert result.published_per_s > 0
    assert (result.received_per_s > 0) == (load.consumers > 0)
    assert (result.p99_ms is not None) == (load.consumers > 0)


@pytest.mark.sockets
def test_each_confirm_is_timed() -> None:
    with sink() as broker:
        latency = confirms(broker, 1000, "classic", seconds=0.2, warmup_s=0.05)
    assert latency.per_s > 0
    assert 0 < latency.p50_ms <= latency.p99_ms <= latency.p999_ms
    cells = [cell.strip() for cell in report.confirm_row("what", "sink", [latency, disk(), latency]).split("|")]
    assert cells[1:3] == ["what", "sink"] and all(map(float, cells[4:7]))


def test_an_early_confirm_is_timed_once() -> None:
    near, far = socket.socketpair()
    with near, far:
        timed = TimedConfirms(near)
        timed.sent_ns.extend([0] * 4)
        for tag, multiple, count in ((2, False, 1), (3, True, 3), (4, False, 4)):
            far.sendall(acks((tag,), multiple))
            timed.take(wait=True)
            assert timed.count == len(timed.samples_ns) == count


@pytest.mark.sockets
def test_numbered_messages_go_over_links_of_both_kinds(tmp_path: Path) -> None:
    with pairs(tmp_path, alone=True) as (pair,):
        for load in (FEDERATED, QUEUE):
            with pair.linked(load):
                workers = Workers(load, pair.up.broker, pair.down.broker)
                try:
                    workers.wait_until_ready()
                    workers.progress.phase = RUNNING
                    until(lambda: workers.progress.counted(workers.consumers) > 1000, "a thousand messages")  # noqa: B023
                finally:
                    workers.stop()


@pytest.mark.sockets
def test_a_broker_that_is_not_there_fails_the_load() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError):
        run(LOAD_OF["A"], Broker("nobody", port), seconds=0.1, warmup_s=0)


@pytest.mark.sockets
def test_warren_is_started_on_a_port_of_its_own_and_stopped() -> None:
    with process.warren(["--memory"]) as broker:
        assert broker.start_s is not None and broker.start_s > 0
        socket.create_connection(("127.0.0.1", broker.port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port))


@pytest.mark.sockets
def test_what_comes_and_goes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "CONSUMING_CONNECTIONS", 2)
    monkeypatch.setattr(churn, "CHANNELS", 3)
    with process.warren(["--memory"]) as broker:
        figures = [*churn.connections(broker, 0.2), *churn.declares(broker, 0.1), *churn.spread(broker, 0.2)]
        figures += [*churn.queues(broker, 300), *churn.idle_connections(broker, 150)]
        control = Connection(broker.port)
        assert control.declare_queue(churn.object_name(0), durable=True) == 0, "nothing is left of what was measured"
        control.close()
    assert [figure for figure in figures if figure.value <= 0 and not figure.what.startswith("memory")] == []
    assert len({figure.what for figure in figures}) == len(figures)


@pytest.mark.sockets
def test_latency_is_measured_beside_idle_connections() -> None:
    with process.warren(["--memory"]) as broker:
        rows = dict(latency.compare([broker, broker], idle=5, rounds=1, seconds=0.5, warmup_s=0.1))
    assert [name.rpartition(" ")[2] for name in rows] == ["p50", "p99", "p99.9"] * len(latency.RATES)
    for figures in rows.values():
        assert all(figure is not None and figure.value > 0 and figure.lower_is_better for figure in figures)


@pytest.mark.sockets
def test_idle_connections_have_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "HEARTBEAT_S", 1)
    with process.warren(["--memory"]) as broker, latency.idle_connections(broker, 3):
        control = Connection(broker.port)
        with control.socket:
            time.sleep(2.5)  # a connection without heartbeats is closed after two intervals
            control.call(method(20, 40, struct.pack(">H", 200) + shortstr("") + bytes(4)), (20, 41))


@pytest.mark.sockets
def test_a_refused_change_is_reported() -> None:
    with process.warren(["--memory"]) as broker:
        control = Connection(broker.port)
        with control.socket:
            control.declare_queue(churn.object_name(2))
            with pytest.raises(LoadFailed, match="406"):
                churn.change(control.socket, churn.QUEUE_DECLARE, 0, 9, in_flight=4)


def test_a_ratio_of_figures_is_above_one_where_the_first_broker_is_better() -> None:
    rate, time = churn.Figure("rate", 200, "/s"), churn.Figure("time", 2, "s", lower_is_better=True)
    assert report.figure_cells("rate", [rate, replace(rate, value=100), None]) == [
        "rate (/s)",
        "200",
        "100",
        "2.00",
        "",
        "",
    ]
    assert report.figure_cells("time", [time, replace(time, value=3)]) == ["time (s)", "2.00", "3.00", "1.50"]


@pytest.mark.sockets
def test_a_warren_that_does_not_come_up_tells_why() -> None:
    with pytest.raises(NotStarted, match="--bogus"), process.warren(["--memory", "--bogus"]):
        pass
