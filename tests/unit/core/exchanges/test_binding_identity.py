"""The identity of a binding."""

from warren.broker.amqp.field_table import Table
from warren.broker.core.exchanges.exchange import binding_key
from warren.broker.core.messages.binding import Destination


def test_names_with_any_bytes_do_not_collide() -> None:
    one = binding_key("source", Destination("a"), "b\0c", Table.EMPTY)
    other = binding_key("source", Destination("a\0b"), "c", Table.EMPTY)
    assert one != other


def test_the_order_of_arguments_does_not_matter() -> None:
    queue = Destination("queue")
    one = binding_key("source", queue, "key", Table.of({"a": 1, "b": 2}))
    assert one == binding_key("source", queue, "key", Table.of({"b": 2, "a": 1}))
    assert one != binding_key("source", queue, "key", Table.of({"a": 1}))
