"""Omissions from the export by sampling, a full buffer and for privacy; and data that must not be omitted."""

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.amqp_client import Channel
from tests.support.hypothesis_settings import examples
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.queues import ready_messages as line_module
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.traffic_log import Origin
from warren.plugins.message_log.export import name_codes
from warren.plugins.message_log.export.message_identity import hops, identity
from warren.plugins.message_log.export.sampling import TOGETHER, Sampling
from warren.plugins.message_log.file_format import schema

from .exporting import Exporting, imbalance, whole_files

MESSAGES = 1000
Make = Callable[..., Exporting]


def filled(export: Exporting, count: int, arguments: dict[str, Any] | None = None) -> None:
    """Publish and consume some messages."""
    ch = export.peer.connect().channel()
    ch.declare("q", arguments=arguments or {})
    ch.confirm()
    ch.fill("q", *[b"body"] * count)
    ch.consume("q", consumer_tag="c", no_ack=False)
    ch.sync()
    ch.ack(count, multiple=True)
    ch.sync()


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}, {"x-max-length": 100_000}])
def test_of_a_sampled_log_a_message_has_all_its_rows_or_none(exporting: Make, arguments: dict[str, Any]) -> None:
    export = exporting(one_in=10)
    filled(export, MESSAGES, arguments)
    rows = export.events()
    published = [row["msg_seq"] for row in rows if row["event"] == "publish"]
    assert 0 < len(published) <= MESSAGES / 10 + TOGETHER
    counts = Counter((row["msg_seq"], row["event"]) for row in rows)
    assert counts == Counter(
        {(seq, event): 1 for seq in published for event in ("publish", "enqueue", "confirm", "deliver", "ack")}
    )
    assert [row["row"] for row in rows] == list(range(len(rows)))
    assert [row["sample_rate"] for row in rows] == pytest.approx([0.1] * len(rows))


def test_a_sampled_message_is_found_whatever_way_it_leaves_its_queue_or_comes_back(exporting: Make) -> None:
    export = exporting(one_in=2)
    ch = export.peer.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-max-length": 60, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", *[b"body"] * 100)
    for _ in range(10):
        found = ch.get("q", no_ack=False)
        assert found is not None
        ch.nack(found.tag)
    ch.sync()
    export.vhost.queues["dead"].purge()
    ch.fill("q", *[b"more"] * 20)
    for tag in ("one", "two", "three"):
        ch.consume("q", consumer_tag=tag, no_ack=True)
    ch.sync()
    rows = export.events()
    of_q = [row for row in rows if row["queue"] == "q"]
    left = Counter(row["msg_seq"] for row in of_q if row["event"] == "dlx" or row["no_ack"])
    assert left == Counter(row["msg_seq"] for row in of_q if row["event"] == "enqueue")
    purged = [row for row in rows if row["queue"] == "dead" and row["event"] == "drop"]
    assert len(purged) == pytest.approx(20, abs=TOGETHER)
    assert sum(row["event"] == "publish" for row in rows) == pytest.approx(60, abs=TOGETHER)


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(2, 7))
@examples(50)
def test_a_sample_has_runs_of_each_batch_in_order(sizes: list[int], one_in: int) -> None:
    sampling = Sampling(one_in)
    for size in sizes:
        end = 0
        for place, length in sampling.runs(size):
            assert end <= place < place + length <= size and 1 <= length <= TOGETHER
            end = place + length


@pytest.mark.parametrize("size", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize("one_in", [2, 10, 100])
def test_a_sample_is_one_in_so_many_of_batches_of_any_size_and_of_clients_that_take_turns(
    size: int, one_in: int
) -> None:
    sampling, taken, begun = Sampling(one_in), [], 0
    while begun < 4_000_000 and len(taken) < 30_000:
        taken += [begun + place + index for place, length in sampling.runs(size) for index in range(length)]
        begun += size
    assert len(taken) == pytest.approx(begun / one_in, rel=0.2)
    turns = Counter(number // size % 2 for number in taken)
    assert turns[0] == pytest.approx(turns[1], rel=0.35)


def test_what_there_is_no_room_for_is_dropped_and_counted_and_leaves_a_gap(exporting: Make) -> None:
    export = exporting(limit_bytes=4000)
    ch = export.peer.connect().channel()
    ch.declare("q")
    for number in range(200):
        ch.fill("q", b"x")
        if number == 150:
            export.flush()
    lost, rows = export.buffer.lost, export.events()
    assert 0 < lost < 400 and len(rows) + lost == 400 == export.buffer.row
    numbers = [row["row"] for row in rows]
    assert len(set(numbers)) == len(numbers) and max(numbers) == 399
    assert export.soon > 0, "nobody was asked to take it in time"
    assert export.snapshot()[-1]["lost_records"] == lost


def test_who_publishes_never_waits_for_the_writer(exporting: Make) -> None:
    export = exporting(limit_bytes=0)
    export.buffer.waiting_bytes = 1  # the writer has not read its last batch
    filled(export, MESSAGES)
    assert export.vhost.statistics.publishing.confirm == MESSAGES
    assert export.buffer.lost == export.buffer.row and export.events() == []


def test_no_body_and_no_header_but_those_of_the_list_is_anywhere_in_the_files(exporting: Make, tmp_path: Path) -> None:
    export = exporting(headers=("tenant", "retries", "absent"))
    ch = export.peer.connect().channel()
    ch.declare("q")
    for number, tenant in enumerate(("alpha", "beta")):
        ch.fill("q", b"SECRET-BODY", headers={"tenant": tenant, "token": "SECRET-HEADER", "retries": number})
    rows = export.events()
    told = [dict(row["headers"]) for row in rows if row["event"] == "publish"]
    assert told == [{"tenant": "alpha", "retries": "0"}, {"tenant": "beta", "retries": "1"}]
    assert all(row["headers"] is None for row in rows if row["event"] != "publish")
    assert "SECRET" not in repr(rows) and not any(b"SECRET" in path.read_bytes() for path in whole_files(tmp_path))


def test_without_a_list_no_header_leaves_the_broker(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.fill("q", b"SECRET-BODY", headers={"token": "SECRET-HEADER"})
    assert b"SECRET" not in b"".join(export.buffer.take())


def test_text_that_is_no_utf_8_is_exported_with_escapes(export: Exporting, ch: Channel) -> None:
    ch.publish("amq.topic", b"key\xff")
    ch.sync()
    (publish,) = export.events()
    assert publish["routing_key"] == "key\\xff"


def test_a_message_keeps_its_number_while_it_lies_on_the_disk(
    export: Exporting, ch: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_module, "PAGE_ABOVE", 2)
    export.peer.node.ledger.limit_bytes = 1
    before = export.snapshot(schema.START)
    ch.declare("q", durable=True)
    ch.fill("q", *[bytes([number]) for number in range(6)], delivery_mode=2)
    ch.fill("q", *[bytes([number]) for number in range(6)])
    assert export.vhost.queues["q"].ready_messages.default.chunks.stored > 0
    for _ in range(4):
        assert ch.get("q")
    export.vhost.queues["q"].purge()
    rows = export.events()
    published = [row["msg_seq"] for row in rows if row["event"] == "publish"]
    left = [row["msg_seq"] for row in rows if row["event"] in ("deliver", "drop")]
    assert published == left and len(left) == 12
    assert imbalance(rows, before, export.snapshot()) == {}


def test_a_message_that_was_there_before_the_log_gets_a_number_but_no_age(export: Exporting, ch: Channel) -> None:
    export.vhost.traffic_log = None
    ch.declare("q")
    ch.fill("q", b"old")
    export.vhost.traffic_log = export.recording
    ch.fill("q", b"new")
    for _ in range(2):
        found = ch.get("q", no_ack=False)
        assert found is not None
        ch.ack(found.tag)
    ch.sync()
    rows = export.events()
    new = rows[0]["msg_seq"]
    ages = [(row["event"], row["msg_seq"] == new, row["lat_us"] is not None) for row in rows]
    assert ages == [
        ("publish", True, True),
        ("enqueue", True, True),
        ("deliver", False, False),
        ("ack", False, False),
        ("deliver", True, True),
        ("ack", True, True),
    ]
    assert len({row["msg_seq"] for row in rows}) == 2


def test_codes_are_given_anew_when_there_are_very_many(
    export: Exporting, ch: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_codes, "MOST_BYTES", 10_000)
    ch.declare("q")
    ch.exchange("topics", "topic")
    ch.bind("q", "topics", "#")
    for round_ in range(3):
        for number in range(20):
            ch.publish("topics", f"key.{round_}.{number}", b"")
        ch.sync()
        export.flush()
    keys = [row["routing_key"] for row in export.events("publish")]
    assert keys == [f"key.{round_}.{number}" for round_ in range(3) for number in range(20)]


def test_names_that_nobody_uses_any_more_are_forgotten_with_a_group_of_rows(
    export: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_codes, "KEPT_BYTES", 20_000)
    monkeypatch.setattr(name_codes, "GROUP_ROWS", 100)
    kept = []
    for number in range(100):
        client = export.peer.connect()
        ch = client.channel()
        ch.confirm()
        name = ch.declare(exclusive=True).queue
        ch.fill(name, b"x")
        ch.get(name)
        client.vanish()
        export.peer._sockets.clear()
        export.flush()
        if number % 10 == 9:
            kept.append(sum(isinstance(one, Origin) for one in gc.get_objects()))
    assert max(kept) < 50
    assert len({row["queue"] for row in export.events("enqueue")}) == 100


@pytest.mark.parametrize("together", [False, True])
def test_records_that_are_dropped_leave_no_names_in_memory(exporting: Make, together: bool) -> None:
    export = exporting(limit_bytes=10_000)
    ch = export.peer.connect().channel()
    ch.declare("q")
    ch.exchange("topics", "topic")
    ch.bind("q", "topics", "#")
    for number in range(1000):
        ch.publish("topics", f"key.{number}", b"")
        if not together:
            ch.sync()
    ch.sync()
    export.vhost.queues["q"].purge()
    assert len(export.buffer.names.news) * name_codes.ENTRY_BYTES <= 10_000 and export.buffer.lost
    for number in range(3):
        export.flush()
        ch.publish("topics", f"key.{number}", b"")
        ch.sync()
    assert [row["routing_key"] for row in export.events("publish")][-3:] == ["key.0", "key.1", "key.2"]
    assert len(export.events()) + export.buffer.lost == export.buffer.row


def test_a_sampled_log_forgets_a_queue_that_was_deleted_before_its_deliveries_came_back(exporting: Make) -> None:
    export = exporting(one_in=2)
    client = export.peer.connect()
    ch = client.channel()
    for name in ("one", "two"):
        ch.declare(name)
        ch.fill(name, *[b"body"] * MESSAGES)
        ch.get(name, no_ack=False)
        ch.consume(name)
        ch.sync()
        ch.delete(name)
    client.vanish()
    export.snapshot()  # which has deleted queues with deliveries
    scheduler = export.peer.node.scheduler  # other tests may have left queues of theirs
    assert not [one for one in gc.get_objects() if isinstance(one, Queue) and one.host.scheduler is scheduler]


def test_an_idle_link_has_metrics_after_its_name_was_forgotten(exporting: Make) -> None:
    export, link = exporting(), Origin("link to up", 1, "/", "guest")
    link.link = "federation: x -> down"
    export.buffer.names.origin(link)
    export.buffer._assign_anew()
    assert list(export.buffer.links) == [link]
    del link
    assert not export.buffer.links


# The identity of a message


def message(body: bytes = b"body", **properties: Any) -> Message:
    given = Properties(**properties)
    return Message(RoutingAddress("x", "k"), content_frames(1, given.encode(), body), 1, len(body), 0, False)


def test_the_identity_of_a_message_is_its_id_where_it_has_one() -> None:
    assert identity(message(message_id="mine")) == "mine"


def test_the_identity_of_a_message_is_the_same_on_both_sides_of_a_link() -> None:
    headers = Table.of({"own": "kept"})
    stamped = headers.with_items([("x-received-from", ("A", [("F", Table.of({"uri": "amqp://a"}))]))])
    twice = headers.with_items([("x-received-from", ("A", [("F", Table.EMPTY), ("F", Table.EMPTY)]))])
    there = identity(message(headers=headers, user_id="u"))
    assert identity(message(headers=stamped)) == there == identity(message(headers=twice))
    assert identity(message()) == identity(message(headers=stamped.without(("own",))))
    assert len({there, identity(message()), identity(message(b"other")), identity(message(type="t"))}) == 4
    assert [hops(message()), hops(message(headers=stamped)), hops(message(headers=twice))] == [0, 1, 2]
