"""The cache of the settings of queues."""

from warren.broker.amqp.field_table import Table
from warren.broker.core.queues.queue_settings import CACHED_BYTES, NO_POLICY, QueueSettingsCache


def test_queues_with_the_same_arguments_share_their_settings_unless_these_are_long() -> None:
    cache = QueueSettingsCache()
    short, long = (Table(Table.encode_items([("x-note", ("S", b"n" * size))])) for size in (9, CACHED_BYTES))
    assert cache.get(short, NO_POLICY) is cache.get(short, NO_POLICY)
    assert cache.get(long, NO_POLICY) is not cache.get(long, NO_POLICY)
