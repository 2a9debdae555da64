"""Mistakes of a broker that the model must see: frames that are almost right."""

from typing import Any

import pytest
from pamqp.commands import Basic

from tests.support.amqp_client import Content

from .channel_model import Channel
from .queue_model import WARREN, Consumer, Message, Queue
from .session_model import Mismatch, Model

KEY = (0, 1)


def model_with(consumers: int = 0, **arguments: Any) -> Model:
    """A model with a channel and a queue q, of which the channel has consumers."""
    model = Model(lambda now_ms: 0, WARREN)
    model.connections.add(KEY[0])
    channel = model.channels[KEY] = Channel(*KEY)
    queue = Queue("q", {"x-queue-type": "classic", **arguments}, None, False, WARREN)
    model.declare(channel, queue)
    for number in range(consumers):
        tag = f"c{number}"
        channel.consumers[tag] = Consumer(tag, channel, queue, False, False, 0, 0)
        queue.add(channel.consumers[tag])
    return model


def publish(model: Model, *bodies: bytes, came: list[Any]) -> None:
    """Publish messages, and explain the frames that came."""

    def rules(channel: Channel) -> None:
        for body in bodies:
            model.publish(channel, Message(body, "", "q", {}), False)

    model.step({KEY: came}, 0, KEY, rules)


def delivery(body: bytes, delivery_tag: int) -> Content:
    content = Content(Basic.Deliver("c0", delivery_tag, False, "", "q"))
    content.header, content.body = bytes(14), body
    return content


def test_a_delivery() -> None:
    publish(model_with(1), b"1", b"2", came=[delivery(b"1", 1), delivery(b"2", 2)])


def test_a_delivery_tag_that_is_left_out() -> None:
    with pytest.raises(Mismatch, match="delivery tag"):
        publish(model_with(1), b"1", b"2", came=[delivery(b"1", 1), delivery(b"2", 3)])


def test_messages_of_one_queue_in_another_order() -> None:
    with pytest.raises(Mismatch, match="delivery"):
        publish(model_with(1), b"1", b"2", came=[delivery(b"2", 1), delivery(b"1", 2)])


def test_a_message_that_may_not_wait_and_is_not_delivered() -> None:
    publish(model_with(**{"x-message-ttl": 0}), b"1", came=[])
    with pytest.raises(Mismatch, match="may not wait"):
        publish(model_with(1, **{"x-message-ttl": 0}), b"1", came=[])


@pytest.mark.parametrize("came", [[Basic.Ack(1), Basic.Ack(2)], [Basic.Ack(2, True)]])
def test_a_second_confirm(came: list[Basic.Ack]) -> None:
    publish(confirming(), b"1", b"2", came=came)
    with pytest.raises(Mismatch, match="confirm"):
        publish(confirming(), b"1", b"2", came=[*came, came[-1]])


def confirming() -> Model:
    model = model_with()
    model.channels[KEY].select_confirms()
    return model


def test_messages_that_wait_in_another_order() -> None:
    model = model_with()
    publish(model, b"1", b"2", came=[])
    queue = model.queues["q"]
    queue.take_order([("", "q", b"2", ()), ("", "q", b"1", ())])
    assert [entry.message.body for entry in queue.ready] == [b"1", b"2"]
