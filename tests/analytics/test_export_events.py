"""The rows of the log for each event of a message."""

from collections import Counter

import pytest
from pamqp.commands import Basic, Queue

from tests.support import codec
from tests.support.amqp_client import Channel
from warren.broker.amqp.field_table import Table
from warren.plugins.message_log.analysis import health
from warren.plugins.message_log.file_format import schema

from .exporting import Exporting, imbalance


def taken(ch: Channel, queue: str) -> int:
    """Get the next message of a queue. Returns its tag."""
    found = ch.get(queue, no_ack=False)
    assert found is not None
    return found.tag


def test_a_message_is_followed_by_one_number_from_publish_to_ack(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.confirm()
    ch.consume("q", consumer_tag="c", no_ack=False)
    ch.publish("", "q", b"body")
    assert ch.confirms([1]) == ({1}, set())
    ch.ack(ch.delivery().tag)
    ch.sync()
    rows = export.events()
    assert {row["msg_seq"] for row in rows} == {rows[0]["msg_seq"]} and rows[0]["msg_seq"] > 0
    assert sorted(row["event"] for row in rows) == ["ack", "confirm", "deliver", "enqueue", "publish"]
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["event"] for row in rows][:2] == ["publish", "enqueue"]
    by_event = {row["event"]: row for row in rows}
    publish, deliver = by_event["publish"], by_event["deliver"]
    assert (publish["exchange"], publish["routing_key"], publish["size"], publish["routed"]) == ("", "q", 4, 1)
    assert (publish["user"], publish["chan"], publish["vhost"]) == ("guest", ch.number, "/")
    assert (publish["persistent"], publish["queue"], deliver["persistent"]) == (False, None, None)
    assert (deliver["queue"], deliver["consumer_tag"], deliver["no_ack"], deliver["size"]) == ("q", "c", False, 4)
    assert (by_event["ack"]["queue"], by_event["ack"]["consumer_tag"]) == ("q", "c")
    assert by_event["confirm"]["size"] is None and by_event["confirm"]["reason"] is None
    assert all(row["lat_us"] >= 0 for row in rows)
    assert {row["schema"] for row in rows} == {schema.SCHEMA} and {row["sample_rate"] for row in rows} == {1.0}


def test_a_commit_confirms_the_publishes_of_its_transaction(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.transact()
    for finish, count in ((ch.rollback, 1), (ch.commit, 2), (ch.commit, 1)):
        for _ in range(count):
            ch.publish("", "q", b"body")
        finish()
    rows = export.events()
    assert [row["event"] for row in rows] == [
        *["publish", "enqueue"] * 2,
        *["confirm"] * 2,
        "publish",
        "enqueue",
        "confirm",
    ]
    assert [row["msg_seq"] for row in rows if row["event"] == "confirm"] == [
        row["msg_seq"] for row in rows if row["event"] == "publish"
    ]


def test_messages_published_together_with_different_keys_are_logged_with_their_own(
    export: Exporting, ch: Channel
) -> None:
    ch.declare("q")
    ch.exchange("topic", "topic")
    ch.bind("q", "topic", "in.#")
    keys = ["in.a", "in.b", "in.b", "out.c", "out.d", "in.e"]
    ch.client.raw(
        b"".join(
            codec.method_frame(ch.number, Basic.Publish, {"exchange": "topic", "routing_key": key, "mandatory": True})
            + codec.header_frame(ch.number, 0)
            for key in keys
        )
    )
    ch.sync()
    rows = export.events()
    assert [row["routing_key"] for row in rows if row["event"] == "publish"] == keys
    assert [row["routing_key"] for row in rows if row["event"] == "return"] == ["out.c", "out.d"]


def test_messages_of_several_keys_that_enter_the_same_queues_together_keep_their_keys_sizes_and_confirms(
    export: Exporting, ch: Channel
) -> None:
    ch.exchange("topic", "topic")
    for queue in ("first", "second"):
        ch.declare(queue)
        ch.bind(queue, "topic", "#")
    ch.confirm()
    keys = ["a", "b", "b", "c", "a"]
    ch.client.raw(
        b"".join(
            codec.method_frame(ch.number, Basic.Publish, {"exchange": "topic", "routing_key": key})
            + codec.header_frame(ch.number, size)
            + codec.body_frames(ch.number, b"x" * size, 0)
            for size, key in enumerate(keys, 1)
        )
    )
    assert ch.confirms([*range(1, 6)]) == ({*range(1, 6)}, set())
    rows = export.events()
    publishes = [row for row in rows if row["event"] == "publish"]
    assert [(row["routing_key"], row["size"], row["routed"]) for row in publishes] == [
        (key, size, 2) for size, key in enumerate(keys, 1)
    ]
    assert {row["exchange"] for row in publishes} == {"topic"}
    seqs = [row["msg_seq"] for row in publishes]
    assert [row["msg_seq"] for row in rows if row["event"] == "confirm"] == seqs
    for queue in ("first", "second"):
        entered = [row for row in rows if row["event"] == "enqueue" and row["queue"] == queue]
        assert [(row["msg_seq"], row["routing_key"], row["size"]) for row in entered] == [
            (seq, key, size) for seq, size, key in zip(seqs, range(1, 6), keys, strict=True)
        ]
    assert sorted(row["row"] for row in rows) == [*range(20)]


def test_messages_published_together_are_numbered_on_in_their_order(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    for body in (b"1", b"22", b"333"):
        ch.publish("", "q", body)
    ch.publish("", "q", b"4", {"delivery_mode": 2, "message_id": "mine", "correlation_id": "c", "priority": 7})
    ch.sync()
    rows = export.events("publish")
    assert [row["size"] for row in rows] == [1, 2, 3, 1]
    assert [row["persistent"] for row in rows] == [False, False, False, True]
    seqs = [row["msg_seq"] for row in rows]
    assert seqs == sorted(set(seqs))
    assert [(row["message_id"], row["correlation"], row["priority"]) for row in rows] == [
        (None, None, None),
        (None, None, None),
        (None, None, None),
        ("mine", "c", 7),
    ]
    enqueued = export.events("enqueue")
    assert [(row["msg_seq"], row["size"]) for row in enqueued] == [(row["msg_seq"], row["size"]) for row in rows]


def test_a_message_in_several_queues_has_a_row_for_each(export: Exporting, ch: Channel) -> None:
    for queue in ("a", "b", "c"):
        ch.declare(queue, arguments={"x-max-length": 100} if queue == "c" else {})
        ch.bind(queue, "amq.fanout")
    for body in (b"1", b"22"):
        ch.publish("amq.fanout", "key", body)
    ch.sync()
    rows = export.events()
    assert [(row["event"], row["routed"]) for row in rows][:2] == [("publish", 3), ("publish", 3)]
    numbers = Counter((row["queue"], row["msg_seq"]) for row in rows if row["event"] == "enqueue")
    seqs = [row["msg_seq"] for row in rows if row["event"] == "publish"]
    assert numbers == Counter({(queue, seq): 1 for queue in "abc" for seq in seqs})
    assert [row["row"] for row in rows] == list(range(8))


def test_a_message_enters_durable_and_transient_queues_as_such(export: Exporting, ch: Channel) -> None:
    durable = {"kept": True, "also": True, "passing": False}
    ch.exchange("fan", "fanout")
    for queue, lasts in durable.items():
        ch.declare(queue, durable=lasts)
        ch.bind(queue, "fan", "")
    ch.publish("fan", "", b"body")
    ch.publish("fan", "", b"other", {"message_id": "differs"})
    ch.sync()
    rows = export.events()
    found = {(row["queue"], row["durable"]) for row in rows if row["event"] == "enqueue"}
    assert found == set(durable.items()) and {row["durable"] for row in rows if row["event"] != "enqueue"} == {None}


def test_a_message_in_so_many_queues_that_it_enters_them_in_several_turns_has_a_row_for_each(
    export: Exporting, ch: Channel
) -> None:
    vhost = export.peer.node.vhosts["/"]
    names = [f"q{number}" for number in range(3_500)]
    for name in names:
        vhost.bind("amq.fanout", vhost.declare_queue(name), "", Table.EMPTY)
    ch.confirm()
    ch.publish("amq.fanout", "k", b"body")
    assert ch.confirms([1]) == ({1}, set())
    rows = export.events()
    assert [row["event"] for row in rows].count("publish") == 1
    assert sorted(row["queue"] for row in rows if row["event"] == "enqueue") == sorted(names)
    assert len({row["msg_seq"] for row in rows}) == 1


def test_what_no_queue_is_to_have_is_returned_if_it_must_not_be_lost(export: Exporting, ch: Channel) -> None:
    ch.publish("", "nowhere", b"lost")
    ch.publish("", "nowhere", b"back", mandatory=True)
    ch.sync()
    rows = export.events()
    assert [(row["event"], row["routed"], row["routing_key"]) for row in rows] == [
        ("publish", 0, "nowhere"),
        ("publish", 0, "nowhere"),
        ("return", None, "nowhere"),
    ]
    assert rows[2]["msg_seq"] == rows[1]["msg_seq"]


def test_what_a_queue_refuses_never_entered_it_and_its_confirm_says_so(export: Exporting, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    ch.confirm()
    for number in range(5):
        ch.publish("", "full", bytes([number]))
    ch.sync()
    rows = export.events()
    published = [row for row in rows if row["event"] == "publish"]
    assert [row["routed"] for row in published] == [1, 1, 0, 0, 0]
    confirms = {row["msg_seq"]: row["reason"] for row in rows if row["event"] == "confirm"}
    assert [confirms[row["msg_seq"]] for row in published] == [None, None, "nack", "nack", "nack"]
    assert sum(row["event"] == "enqueue" for row in rows) == 2


def test_what_one_queue_refuses_has_a_row_for_each_of_the_other_queues(export: Exporting, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.declare("other")
    for queue in ("full", "other"):
        ch.bind(queue, "amq.fanout")
    for number in range(3):
        ch.publish("amq.fanout", "", bytes([number]))
    ch.sync()
    rows = export.events()
    routed = [row["routed"] for row in rows if row["event"] == "publish"]
    assert routed == [2, 1, 1] and sum(row["event"] == "enqueue" for row in rows) == sum(routed)


@pytest.mark.parametrize("dead_letters", [False, True])
def test_what_leaves_a_queue_says_why_and_whether_it_is_dead_lettered(
    export: Exporting, ch: Channel, dead_letters: bool
) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"} if dead_letters else {}
    ch.declare("dead")
    ch.declare("short", arguments={"x-max-length": 1, **arguments})
    ch.declare("timed", arguments={"x-message-ttl": 100, **arguments})
    for queue in ("plain", "late"):
        ch.declare(queue, arguments=arguments)
    ch.declare("refusing", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    unattended = {row["queue"] for row in export.snapshot() if row["unattended"]}
    assert unattended == {"short", *(["timed"] if dead_letters else [])}
    ch.publish("", "late", b"0", {"expiration": "3600000"})
    ch.sync()
    assert ("late" in {row["queue"] for row in export.snapshot() if row["unattended"]}) is dead_letters
    ch.fill("short", b"1", b"2")
    ch.fill("timed", b"3")
    ch.fill("plain", b"4")
    export.peer.wait(200)
    ch.reject(taken(ch, "plain"), requeue=False)
    ch.sync()
    left = {(row["event"], row["queue"], row["reason"]) for row in export.events("dlx", "drop", "expire")}
    assert left == (
        {("dlx", "short", "maxlen"), ("dlx", "timed", "expired"), ("dlx", "plain", "rejected")}
        if dead_letters
        else {("drop", "short", "maxlen"), ("expire", "timed", "expired"), ("drop", "plain", "rejected")}
    )
    by_design = {(event, reason) for event, reasons in health.BY_DESIGN.items() for reason in reasons}
    assert {(event, reason) for event, _, reason in left if reason != "rejected"} <= by_design
    assert [row["event"] for row in export.events("nack")] == ["nack"]
    dead = [row for row in export.events("enqueue") if row["queue"] == "dead"]
    assert [row["reason"] for row in dead] == ["dlx"] * (3 if dead_letters else 0)
    seqs = {row["msg_seq"] for row in export.events("publish")}
    assert not seqs & {row["msg_seq"] for row in dead}, "a dead letter is a message of its own"
    sources = {row["msg_seq"]: row["queue"] for row in export.events("dlx")}
    assert sorted(sources[row["source_seq"]] for row in dead) == sorted(sources.values())


def test_a_dead_letter_in_several_queues_names_the_message_that_it_is_a_copy_of(export: Exporting, ch: Channel) -> None:
    ch.exchange("dead", "fanout")
    for queue, arguments in (("plain", {}), ("ranked", {"x-max-priority": 5}), ("limited", {"x-max-length": 10})):
        ch.declare(queue, arguments=arguments)
        ch.bind(queue, "dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "dead"})
    ch.publish("", "q", b"body", {"message_id": "order-7"})
    ch.reject(taken(ch, "q"), requeue=False)
    ch.sync()
    [published] = export.events("publish")
    copies = [row for row in export.events("enqueue") if row["reason"] == "dlx"]
    assert sorted(row["queue"] for row in copies) == ["limited", "plain", "ranked"]
    assert {row["source_seq"] for row in copies} == {published["msg_seq"]}
    assert {row["message_id"] for row in copies} == {"order-7"}
    assert {row["source_seq"] for row in export.events() if row not in copies} == {None}


@pytest.mark.parametrize(
    ("exchange", "queues"), [(None, 0), ({}, 0), ({}, 1), ({}, 700), ({"x-message-deduplication": True}, 1)]
)
def test_a_dead_letter_that_no_queue_gets_is_logged_after_it_has_left(
    export: Exporting, ch: Channel, exchange: dict[str, object] | None, queues: int
) -> None:
    """`exchange` are the arguments of the dead letter exchange, or None without one; `queues` are bound to it."""
    if exchange is not None:
        ch.exchange("dead", "fanout", arguments=exchange)
    for number in range(queues):
        ch.declare(f"dead {number}")
        ch.bind(f"dead {number}", "dead")
    ch.declare("timed", arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "dead"})
    keyed = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "key"}
    ch.declare("plain", arguments=keyed)
    for number in range(4):
        headers = {"x-deduplication-header": str(number)}
        ch.publish("", "timed" if number < 3 else "plain", b"body", {"headers": headers})
    ch.sync()
    export.peer.wait(200)
    ch.reject(taken(ch, "plain"), requeue=False)
    ch.sync()
    export.peer.wait(200)
    left, lost = export.events("dlx"), export.events("unrouted")
    assert len(left) == 4
    if queues:
        copies = [row for row in export.events("enqueue") if row["reason"] == "dlx"]
        assert len(copies) == 4 * queues
        assert lost == []
        return
    assert [row["msg_seq"] for row in lost] == [row["msg_seq"] for row in left]
    assert [(row["queue"], row["routing_key"]) for row in lost] == [("timed", "timed")] * 3 + [("plain", "key")]
    assert {row["exchange"] for row in lost} == {"dead"} and lost[0]["row"] > left[0]["row"]


def test_dead_letters_of_a_deleted_queue_are_lost_only_if_no_queue_gets_them(export: Exporting, ch: Channel) -> None:
    """Dead letters without a queue stay until theirs is deleted, with the strategy at-least-once."""
    arguments = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-queue-type": "quorum"}
    ch.exchange("dead", "fanout")
    ch.declare("q", durable=True, arguments={"x-dead-letter-exchange": "dead", **arguments})
    ch.fill("q", b"1")
    ch.reject(taken(ch, "q"), requeue=False)
    ch.sync()
    assert [row["queue"] for row in export.events("dlx")] == ["q"] and export.events("unrouted") == []
    ch.delete("q")
    export.peer.settle()
    assert [row["exchange"] for row in export.events("unrouted")] == ["dead"]


@pytest.mark.parametrize("others", [(), ("other",)])
def test_dead_letters_in_a_cycle_are_dropped_for_that_reason(
    export: Exporting, ch: Channel, others: tuple[str, ...]
) -> None:
    """Messages expire to their own queue, or to another one and back again."""
    queues = ("q", *others)
    for queue, target in zip(queues, (*others, "q"), strict=True):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, "x-message-ttl": 100}
        ch.declare(queue, arguments=arguments)
    ch.fill("q", b"1", b"2", b"3")
    for _ in queues:
        export.peer.wait(200)
    export.peer.wait(200)
    copies = [row["msg_seq"] for row in export.events("enqueue") if row["reason"] == "dlx" and row["queue"] == "q"]
    lost = export.events("unrouted")
    assert {(row["queue"], row["reason"], row["exchange"], row["routing_key"]) for row in lost} == {
        (queues[-1], "cycle", "", "q")
    }
    assert len(lost) == 3 and len(copies) == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_dead_letters_that_a_full_queue_refuses_are_dropped_for_that_reason(
    export: Exporting, ch: Channel, limit: int
) -> None:
    ch.declare("full", arguments={"x-max-length": limit, "x-overflow": "reject-publish"})
    ch.declare(
        "q",
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full", "x-message-ttl": 100},
    )
    ch.fill("q", b"1", b"2", b"3", b"4")
    export.peer.wait(200)
    left, lost = export.events("dlx"), export.events("unrouted")
    assert [row["msg_seq"] for row in lost] == [row["msg_seq"] for row in left][limit:]
    assert {(row["queue"], row["reason"], row["routing_key"]) for row in lost} == {("q", "refused", "full")}


def test_a_dead_letter_that_one_of_two_queues_refuses_is_not_lost(export: Exporting, ch: Channel) -> None:
    ch.exchange("dead", "fanout")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.declare("other")
    ch.declare("q", arguments={"x-dead-letter-exchange": "dead", "x-message-ttl": 100})
    for queue in ("full", "other"):
        ch.bind(queue, "dead")
    ch.fill("q", b"1", b"2", b"3")
    export.peer.wait(200)
    assert len(export.events("dlx")) == 3 and export.events("unrouted") == []


def test_what_goes_back_to_its_queue_says_who_sent_it(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.fill("q", b"1")
    ch.nack(taken(ch, "q"))
    ch.reject(taken(ch, "q"))
    taken(ch, "q")
    ch.call(Basic.Recover, requeue=True)
    taken(ch, "q")
    ch.close()
    events = [row for row in export.events() if row["event"] not in ("publish", "enqueue")]
    assert [(row["event"], row["reason"]) for row in events] == [
        *[("deliver", "get"), ("nack", None), ("requeue", "nack")],
        *[("deliver", "get"), ("nack", None), ("requeue", "reject")],
        *[("deliver", "get"), ("requeue", "recover")],
        *[("deliver", "get"), ("requeue", "channel")],
    ]
    assert [row["redelivered"] for row in events if row["event"] == "deliver"] == [False, True, True, True]
    assert len({row["msg_seq"] for row in events}) == 1


def test_what_is_purged_or_deleted_with_its_queue_is_dropped(export: Exporting, ch: Channel) -> None:
    ch.declare("q")
    ch.fill("q", b"1", b"2", b"3")
    taken(ch, "q")
    ch.call(Queue.Purge, queue="q")
    ch.fill("q", b"4")
    ch.call(Queue.Delete, queue="q")
    before = export.snapshot()
    ch.close()
    drops = export.events("drop")
    assert [row["reason"] for row in drops] == ["purged", "purged", "deleted", "deleted"]
    assert len({row["msg_seq"] for row in drops}) == 4
    assert [(row["queue"], row["unacked"]) for row in before[:-1]] == [("q", 1)], "a consumer still had one of them"


def test_every_queue_balances_from_one_snapshot_to_the_next(export: Exporting, ch: Channel) -> None:
    first = export.snapshot(schema.START)
    ch.declare("dead")
    arguments = {"x-max-length": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", arguments=arguments)
    ch.fill("q", *[bytes([number]) for number in range(9)])
    assert ch.get("q")
    ch.ack(taken(ch, "q"))
    ch.reject(taken(ch, "q"), requeue=False)
    taken(ch, "q")
    ch.sync()
    middle = export.snapshot()
    reply = export.peer.connect().channel()
    reply.consume("q", consumer_tag="c", no_ack=True)
    reply.sync()
    last = export.snapshot(schema.STOP)
    events = export.events()
    assert [snapshot[-1]["snapshot"] for snapshot in (first, middle, last)] == [0, 1, 2]
    assert all(len(snapshot) - 1 == snapshot[-1]["queues"] for snapshot in (first, middle, last))
    cut = middle[-1]["row"]
    assert last[-1]["row"] == len(events)
    assert imbalance(events[:cut], first, middle) == {}
    assert imbalance(events[cut:], middle, last) == {}
    assert imbalance([row for row in events if row["event"] != "dlx"], first, last) == {"q": 5}


def test_nothing_is_logged_of_a_virtual_host_that_is_not_exported(export: Exporting, ch: Channel) -> None:
    export.vhost.traffic_log = None
    ch.declare("q")
    ch.fill("q", b"1")
    assert ch.get("q") and export.events() == [] and export.buffer.row == 0
