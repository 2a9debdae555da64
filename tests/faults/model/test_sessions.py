"""The broker agrees with the model of sessions and queues in every frame, whatever its clients do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pamqp.commands import Basic, Tx
from pamqp.commands import Queue as QueueMethods

from tests.support.hypothesis_settings import FUZZ, examples

from .channel_model import ACK, NACK, REJECT, Channel
from .machine import FANOUT, PROFILES, SessionMachine
from .queue_model import Message

STEPS = 40
FIRST, SECOND, OTHER = (0, 1), (0, 2), (1, 1)  # channels


# Parts of the examples: a history may take a second to explain
@pytest.mark.parametrize("part", [0, *[pytest.param(n, marks=pytest.mark.rest("runs more examples")) for n in (1, 2)]])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_broker_and_the_model_agree(profile: str, part: int) -> None:
    """Fixed histories, or other ones in each run of `make fuzz`."""
    machine: Any = type("SessionMachine", (SessionMachine,), {"profile": profile})
    if not FUZZ:
        machine = seed(part)(machine)
    bounded = settings(examples(10), stateful_step_count=STEPS, report_multiple_bugs=False)
    run_state_machine_as_test(machine, settings=bounded)


@contextmanager
def history(**queues: dict[str, Any]) -> Iterator[SessionMachine]:
    """A history of clients with these quorum queues, which dead-letter at least once."""
    always = {"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
    machine = SessionMachine()
    try:
        machine.open_all()
        machine.declare_exchange_of(FIRST, FANOUT, fanout=True)
        for name, arguments in queues.items():
            machine.declare_queue(FIRST, name, always | {"x-dead-letter-exchange": ""} | arguments, "durable")
        yield machine
    finally:
        machine.teardown()


def message(body: bytes, key: str, exchange: str = "", **properties: Any) -> Message:
    return Message(body, exchange, key, properties)


def test_the_messages_show_which_queue_published_its_dead_letters_first() -> None:
    """Two queues have a dead letter each for a third one, which has room for one of them."""
    to_q1 = {"x-dead-letter-routing-key": "q1", "x-message-ttl": 0}
    with history(q0=to_q1, q2=to_q1, q1={"x-max-length": 1}) as machine:
        machine.publish_all(FIRST, [message(b"1", "q0"), message(b"2", "q2")], mandatory=False)
        assert len(machine.models) == 1
        machine.add_consumer(FIRST, "q1", "a", no_ack=True, exclusive=False, priority=None)


def test_full_queues_exchange_dead_letters_for_each_other() -> None:
    names = ("q0", "q2")
    with history(q0={"x-dead-letter-routing-key": "q2"}, q2={"x-dead-letter-routing-key": "q0"}) as machine:
        for name in names:
            machine.add_consumer(FIRST, name, name, no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"%d" % at, name) for name in names for at in range(2)], mandatory=False)
        for name in names:
            machine.apply_policy(name, {"max-length": 1})
        machine.settle_one(FIRST, 4, True, REJECT)
        assert [len(channel.outstanding) for channel in machine.models[0].channels.values()] == [4, 0, 0, 0]


def test_dead_letters_that_two_full_queues_keep_count_for_each_other() -> None:
    to_q0 = {"x-dead-letter-routing-key": "q0", "x-max-length-bytes": 1, "x-message-ttl": 0}
    with history(q0={"x-dead-letter-routing-key": "q2", "x-max-length-bytes": 2}, q2=to_q0) as machine:
        machine.publish_all(FIRST, [message(b"1", "q2"), message(b"2", "q0", expiration="0")], mandatory=False)
        machine.publish_all(FIRST, [message(b"3", "q0")], mandatory=False)


def test_dead_letters_for_their_own_full_queue_do_not_count_for_each_other() -> None:
    with history(q0={"x-dead-letter-routing-key": "q0"}) as machine:
        machine.add_consumer(FIRST, "q0", "a", no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"1", "q0"), message(b"2", "q0")], mandatory=False)
        machine.apply_policy("q0", {"max-length-bytes": 1})
        machine.settle_one(FIRST, 2, True, REJECT)


def test_each_copy_of_a_message_may_be_for_another_consumer() -> None:
    to_q0 = {"x-dead-letter-routing-key": "q0", "x-message-ttl": 0}
    with history(q0={"x-dead-letter-routing-key": "q2"}, q2=to_q0) as machine:
        for name in ("q0", "q2"):
            machine.bind(FIRST, name, FANOUT)
        for key, tag in ((OTHER, "a"), ((1, 2), "b"), (SECOND, "c")):
            machine.add_consumer(key, "q0", tag, tag == "b", exclusive=False, priority=None)
        burst = [message(b"1", "q0"), message(b"2", "", FANOUT), message(b"3", "q0")]
        machine.publish_all(FIRST, burst, mandatory=False)


def test_a_full_queue_works_again_after_it_published_dead_letters_to_itself() -> None:
    to_q0 = {"x-dead-letter-routing-key": "q0", "x-dead-letter-strategy": "at-most-once"}
    with history(q0=to_q0 | {"x-overflow": "drop-head", "x-max-length": 1}, q2=to_q0) as machine:
        machine.add_consumer(FIRST, "q2", "a", no_ack=False, exclusive=False, priority=None)
        machine.limit(FIRST, 1, shared=False)
        machine.add_consumer(FIRST, "q0", "b", no_ack=False, exclusive=False, priority=None)
        for body, name in ((b"1", "q2"), (b"2", "q2"), (b"3", "q0")):
            machine.publish_all(FIRST, [message(body, name)], mandatory=False)
        machine.settle_one(FIRST, 3, True, REJECT)
        assert [entry.message.body for entry in machine.model.queues["q0"].ready] == [b"3"]


def test_dead_letters_of_one_queue_may_leave_before_those_of_another_with_a_higher_priority_come() -> None:
    to_q0 = {"x-dead-letter-routing-key": "q0", "x-dead-letter-strategy": "at-most-once"}
    with history(q0=to_q0, q2=to_q0) as machine:
        for name in ("q0", "q2"):
            machine.add_consumer(FIRST, name, name, no_ack=False, exclusive=False, priority=None)
        for body, name, priority in ((b"1", "q2", 0), (b"2", "q0", 1)):
            machine.publish_all(FIRST, [message(body, name, priority=priority)], mandatory=False)
        machine.settle_one(FIRST, 2, True, REJECT)


def test_copies_that_died_in_other_queues_are_told_apart() -> None:
    """The copy of q1 expires, and then pushes copies out of q0 and q2, which are full."""
    with history() as machine:
        for name, arguments in (("q0", {"x-max-length": 2}), ("q1", {"x-message-ttl": 0}), ("q2", {"x-max-length": 2})):
            to_all = {"x-queue-type": "classic", "x-dead-letter-exchange": FANOUT}
            machine.declare_queue(FIRST, name, to_all | arguments, "durable")
            machine.bind(FIRST, name, FANOUT)
        machine.publish_all(FIRST, [message(b"1", "", FANOUT, expiration="0")], mandatory=False)
        get = (Basic.Get, {"queue": "q2", "no_ack": True})
        machine.request(OTHER, lambda channel: machine.model.get(channel, "q2", no_ack=True), get)


def test_a_queue_may_publish_its_dead_letters_in_parts() -> None:
    """Long headers take long to be changed: the first message is delivered before the second one is published."""
    to_q0 = {"x-dead-letter-routing-key": "q0", "x-dead-letter-strategy": "at-most-once"}
    with history(q0={}, q2=to_q0) as machine:
        for name in ("q0", "q2"):
            machine.add_consumer(FIRST, name, name, no_ack=False, exclusive=False, priority=None)
        for body, priority in ((b"1", 0), (b"2", 1)):
            long = message(body, "q2", priority=priority, headers={"long": "x" * 20_000})
            machine.publish_all(FIRST, [long], mandatory=False)
        machine.settle_one(FIRST, 2, True, REJECT)
        assert [one.entry.message.body for one in machine.model.channels[FIRST].unacked.values()] == [b"1", b"2"]


def test_a_message_that_may_not_wait_comes_after_deliveries_of_a_full_queue() -> None:
    with history(q0={"x-max-length": 2}, q2={"x-message-ttl": 0}) as machine:
        for name in ("q0", "q2"):
            machine.bind(FIRST, name, FANOUT)
            machine.add_consumer(OTHER, name, f"{name}-a", no_ack=False, exclusive=False, priority=None)
        burst = [message(b"1", "q0"), message(b"2", "", FANOUT), message(b"3", "", FANOUT)]
        machine.publish_all(FIRST, burst, mandatory=False)


def test_deliveries_of_a_full_queue_come_after_those_of_another_on_their_channel() -> None:
    """q2 takes each message, since its consumer has room, but q0 has handed over all of its own by then."""
    with history(q0={"x-message-ttl": 0}, q2={"x-max-length": 1}) as machine:
        for name in ("q0", "q2"):
            machine.bind(FIRST, name, FANOUT)
            machine.add_consumer(OTHER, name, f"{name}-a", no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"%d" % at, "", FANOUT) for at in range(3)], mandatory=False)


def test_a_commit_delivers_what_it_publishes_before_what_it_requeues() -> None:
    with history(q0={}) as machine:
        machine.add_consumer(FIRST, "q0", "a", no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"1", "q0")], mandatory=False)
        machine.call(FIRST, Tx.Select, Channel.select_transaction)
        machine.publish_all(FIRST, [message(b"2", "q0")], mandatory=False)
        machine.settle_one(FIRST, 1, False, NACK)
        machine.end_transaction(FIRST, commit=True)
        assert [one.entry.message.body for one in machine.model.channels[FIRST].unacked.values()] == [b"2", b"1"]


def test_what_a_commit_settles_makes_no_room_for_what_it_publishes() -> None:
    with history() as machine:
        machine.declare_queue(FIRST, "q0", {"x-queue-type": "classic"}, "durable")
        machine.limit(FIRST, 1, shared=True)
        machine.add_consumer(FIRST, "q0", "a", no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"1", "q0")], mandatory=False)
        machine.call(FIRST, Tx.Select, Channel.select_transaction)
        machine.publish_all(FIRST, [message(b"2", "q0", expiration="0")], mandatory=False)
        machine.settle_one(FIRST, 1, False, ACK)
        machine.end_transaction(FIRST, commit=True)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_commit_fails_if_a_queue_was_deleted_since_the_publish(kind: str) -> None:
    with history(q0={}) as machine:
        machine.declare_queue(FIRST, "q1", {"x-queue-type": kind}, "durable")
        for name in ("q0", "q1"):
            machine.bind(FIRST, name, FANOUT)
        machine.call(OTHER, Tx.Select, Channel.select_transaction)
        machine.publish_all(OTHER, [message(b"1", "", FANOUT), message(b"2", "q0")], mandatory=True)
        delete = (QueueMethods.Delete, {"queue": "q1"})
        machine.request(FIRST, lambda channel: machine.model.delete_queue(channel, "q1", ""), delete)
        machine.declare_queue(FIRST, "q1", {"x-queue-type": kind}, "durable")
        machine.end_transaction(OTHER, commit=True)
        assert OTHER not in machine.model.channels
        counts = {name: len(queue.ready) for name, queue in machine.model.queues.items()}
        assert counts == {"q0": 2, "q1": 0}


@pytest.mark.parametrize("how", ["connection", "lost", "hard"])
def test_what_returns_to_an_exclusive_queue_at_the_end_of_its_connection_has_expired(how: str) -> None:
    with history(q0={}) as machine:
        arguments = {"x-queue-type": "classic", "x-message-ttl": 0, "x-dead-letter-exchange": ""}
        machine.declare_queue(FIRST, "q1", arguments | {"x-dead-letter-routing-key": "q0"}, "exclusive")
        machine.add_consumer(FIRST, "q1", "a", no_ack=False, exclusive=True, priority=None)
        machine.publish_all(FIRST, [message(b"1", "q1")], mandatory=False)
        machine.end(FIRST, how)
        assert [entry.message.body for entry in machine.model.queues["q0"].ready] == [b"1"]


def test_messages_for_several_channels_keep_their_places() -> None:
    """A dead letter has come behind the others: it is not the first of what comes back."""
    with history() as machine:
        to_all = {"x-dead-letter-exchange": FANOUT, "x-message-ttl": 0}
        for name, arguments in (("q0", to_all), ("q1", {})):
            machine.declare_queue(FIRST, name, {"x-queue-type": "classic"} | arguments, "durable")
        machine.bind(FIRST, "q1", FANOUT)
        for key in (SECOND, FIRST):
            machine.add_consumer(key, "q1", "a", no_ack=False, exclusive=False, priority=None)
        burst = [message(b"%d" % at, "q1") for at in range(3)]
        copied = Message(b"3", "", "q1", {"headers": {"CC": ["q0"]}}, copies=("q0",))
        machine.publish_all(FIRST, [*burst, copied], mandatory=False)
        machine.settle_one(SECOND, 1, False, ACK)
        machine.recover_all(SECOND)
        machine.end(FIRST, "refused")


def test_another_copy_of_a_message_may_push_it_out() -> None:
    """The message that came back to q0 is beyond the limit once the copy that q2 drops has come."""
    with history() as machine:
        for name, arguments in (("q2", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q0"}), ("q0", {})):
            machine.declare_queue(FIRST, name, {"x-queue-type": "classic", "x-max-length": 1} | arguments, "durable")
            machine.bind(FIRST, name, FANOUT)
            machine.add_consumer(FIRST, name, name, no_ack=False, exclusive=False, priority=None)
        machine.publish_all(FIRST, [message(b"1", "", FANOUT)], mandatory=False)
        machine.publish_all(FIRST, [message(b"2", "q2")], mandatory=False)
        machine.recover_all(FIRST)
        bodies = [one.entry.message.body for one in machine.model.channels[FIRST].unacked.values()]
        assert sorted(bodies) == [b"1", b"2"]


@pytest.mark.parametrize("expires", [False, True])
def test_the_exclusive_queues_of_a_connection_end_side_by_side(expires: bool) -> None:
    """A dead letter of one for the other is lost if that is gone, else it goes on to the third queue."""
    to_all = {"x-queue-type": "classic", "x-dead-letter-exchange": FANOUT}
    with history() as machine:
        machine.declare_queue(FIRST, "q0", to_all, "exclusive")
        machine.declare_queue(FIRST, "q1", {"x-message-ttl": 0} if expires else {}, "auto_delete")
        machine.declare_queue(FIRST, "q2", to_all | {"x-message-ttl": 0}, "exclusive")
        for name in ("q1", "q2"):
            machine.bind(FIRST, name, FANOUT)
        for key, name in ((SECOND, "q0"), (SECOND, "q2"), (OTHER, "q1")):
            machine.add_consumer(key, name, name, no_ack=False, exclusive=False, priority=None)
        burst = [message(b"1", "q0", expiration="0"), message(b"2", "q2")]
        machine.publish_all(FIRST, burst[: 1 + expires], mandatory=False)
        machine.end(FIRST, "hard")
