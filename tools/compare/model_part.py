"""The model's part of the comparison: histories of sessions, drawn by a seed, in which the model explains each frame.

Warren agrees with the model (tests/faults/model), so a difference between the model and the reference is one between
the two brokers. A history ends at its first difference. Times are real, so near a deadline both answers are accepted.
"""

import copy
import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.model.channel_model import ACK
from tests.faults.model.machine import Rules, SessionMachine
from tests.faults.model.queue_model import RABBITMQ_40, Message
from tests.faults.model.session_model import Choices, Key, Mismatch, Model
from tests.support.amqp_client import Client, Closed
from tests.support.peer import Peer, SocketPeer

from .brokers import Broker
from .documents import PREFIX, Difference

VHOST = f"{PREFIX}-model-{os.getpid()}"
PROFILES = ("plain", "limits", "expiry", "priorities", "single_active", "quorum", "at_least_once")
EXAMPLES, STEPS = 4, 30  # of one history; the first example of hypothesis is the simplest, in which little happens
PATIENCE_S = 2.0  # until a frame that is missing counts as a difference
QUIET_MS = 4  # without a frame, until no more are expected
RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}


class ReferencePeer(SocketPeer):
    """The reference, with a new virtual host for each history."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.amqp)
        self.broker = broker
        broker.request("DELETE", f"/vhosts/{VHOST}")
        broker.request("PUT", f"/vhosts/{VHOST}", {})
        broker.request("PUT", f"/permissions/{VHOST}/{broker.user}", RIGHTS)

    def connect(self, *_: Any, **__: Any) -> Client:
        return super().connect(self.broker.user, self.broker.password, VHOST)

    def set_policy(self, name: str, pattern: str, definition: Any, *_: Any, **__: Any) -> None:
        policy = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
        self.broker.request("PUT", f"/policies/{VHOST}/{name}", policy)

    def clear_policy(self, name: str, operator: bool = False) -> None:
        self.broker.request("DELETE", f"/policies/{VHOST}/{name}")

    def close(self) -> None:
        Peer.close(self)
        self.broker.request("DELETE", f"/vhosts/{VHOST}")


class ReferenceMachine(SessionMachine):
    """A history with the reference. After `difference` it does nothing any more."""

    broker: ClassVar[Broker]
    difference: ClassVar[Mismatch | None]
    patience_ms = QUIET_MS
    dialect = RABBITMQ_40

    def __init__(self) -> None:
        if self.difference is not None:
            raise self.difference  # hypothesis repeats a failed history
        self._started_s = time.monotonic()
        self._now_ms = 0
        super().__init__()

    def new_peer(self) -> Peer:
        return ReferencePeer(self.broker)

    def now_ms(self) -> int:
        return self._now_ms

    def publish_all(self, key: Key, burst: list[Message], mandatory: bool) -> None:
        """Publish one by one: of a burst, the reference may deliver some before it has the others."""
        for message in burst:
            if key in self.keys:
                super().publish_all(key, [message], mandatory)

    def message(self, data: st.DataObject, exchange: str, routing_key: str) -> Message:
        """A message without a time to live of 0, if there are priorities.

        RabbitMQ lets it expire some seconds later if others have a lower priority and there is no consumer.
        """
        message = super().message(data, exchange, routing_key)
        if self.profile != "priorities" or message.properties.get("expiration") != "0":
            return message
        rest = {name: value for name, value in message.properties.items() if name != "expiration"}
        return replace(message, properties=rest)

    def settle_one(self, key: Key, tag: int, multiple: bool, how: str) -> None:
        """Settle all deliveries of a transaction in one way.

        A commit of Warren settles all of them before it delivers what comes next, so that what was requeued is first.
        The reference may deliver between two ways, and its classic queues serve acknowledgements before the requeues
        that wait with them: "nack 1, ack 2" delivers 3 before 1, which is open without a transaction.
        What several consumers of one queue have is acknowledged (`is_shared`).
        """
        if multiple and self.is_shared(key):
            how = ACK
        transaction = self.model.channels[key].transaction
        if transaction is not None and transaction.settlements:
            how = transaction.settlements[0][1]
        super().settle_one(key, tag, multiple, how)

    def recover_all(self, key: Key) -> None:
        if not self.is_shared(key):
            super().recover_all(key)

    def is_shared(self, key: Key) -> bool:
        """Whether several consumers of one queue have deliveries of this channel.

        The reference requeues those of one after the other, and may deliver in between.
        """
        consumers = {each.consumer for each in self.model.channels[key].outstanding if each.consumer is not None}
        return len(consumers) > len({consumer.queue for consumer in consumers})

    def pass_time(self, ms: int) -> None:
        """Wait in real time, if something is due at the end of it."""
        if any(due <= self.model.now_ms + ms for queue in self.model.queues.values() if (due := queue.next_ms())):
            super().pass_time(ms)

    def same_rules(self, arguments: dict[str, Any], quorum: bool, policy: bool) -> dict[str, Any]:
        """Leave out limits of quorum queues that may reject: RabbitMQ lets an open number of messages pass them."""
        if not quorum or not policy and arguments.get("x-overflow") != "reject-publish":
            return arguments
        limits = ("x-max-length", "x-max-length-bytes", *(["x-overflow"] if policy else []))
        return {name: value for name, value in arguments.items() if name not in limits}

    def explain(self, rules: Rules) -> None:
        """Explain the frames at the time of their cause, before or after it; wait for more of them if that fails.

        At the time before, nothing has become due since the last frames.
        """
        before, came = self.model, dict[Key, list[Any]]()
        failed: Mismatch | None = Mismatch("frames", "", "")
        deadline_s = time.monotonic() + PATIENCE_S
        begun_ms = self._passed_ms()
        while True:
            more = self.collect()
            if failed is None and not any(more.values()):
                return
            came = {key: [*came.get(key, ()), *frames] for key, frames in more.items()}
            for time_ms in (begun_ms, before.now_ms, self._passed_ms()):
                self._now_ms = time_ms
                failed = self._failure(before, rules, came)
                if failed is None:
                    self.models = [self.model]
                    break
            if failed is not None and time.monotonic() > deadline_s:
                type(self).difference = failed
                raise failed

    def _passed_ms(self) -> int:
        return round((time.monotonic() - self._started_s) * 1000)

    def _failure(self, before: Model, rules: Rules, came: dict[Key, list[Any]]) -> Mismatch | None:
        """Apply the rules to a copy of the model; return the mismatch, or None.

        It has no choices, as no queue that may reject has a limit (`same_rules`).
        """
        try:
            self.attempt(copy.deepcopy(before), Choices(), rules, came)
        except Mismatch as mismatch:
            return mismatch
        except Closed as closed:  # a passive declaration
            self.admin = self.peer.connect().channel()
            return Mismatch("queue", "exists", closed)
        return None


def run(reference: Broker, histories: int) -> tuple[int, list[Difference]]:
    """Return the number of histories, and the first difference of each that has one."""
    differences = []
    for number in range(histories):
        profile = PROFILES[number % len(PROFILES)]
        subject = f"model {profile} {number}"
        if (mismatch := difference_of(reference, profile, number)) is not None:
            differences.append(Difference(subject, mismatch.place, mismatch.expected, mismatch.came))
    return histories, differences


def difference_of(reference: Broker, profile: str, number: int) -> Mismatch | None:
    """Run the history with this seed; return its first difference."""
    members = {"broker": reference, "profile": profile, "difference": None}
    machine: Any = seed(number)(type("ReferenceMachine", (ReferenceMachine,), members))
    bounded = settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, phases=(Phase.generate,), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with suppress(Mismatch, Flaky):
        run_state_machine_as_test(machine, settings=bounded)
    difference: Mismatch | None = machine.difference
    return difference
