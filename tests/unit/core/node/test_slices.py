"""Operations on very many queues, exchanges or channels are done in slices, turn by turn of the loop."""

from collections.abc import Callable

from pamqp.commands import Basic
from pamqp.commands import Connection as ConnectionMethods

from tests.support import codec
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node, pipe_of
from warren.broker.amqp.field_table import Table
from warren.broker.core.jobs.scheduler import OBJECT_COST, TURN_COST, Job
from warren.broker.core.node.node import Node
from warren.broker.core.vhost.vhost import VHost

MANY = 5 * TURN_COST // OBJECT_COST
MOST = 2 * TURN_COST // OBJECT_COST  # in one turn, with some tolerance


def declared(vhost: VHost, count: int, **arguments: object) -> None:
    table = Table.of({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    for number in range(count):
        vhost.declare_queue(f"q{number}", arguments=table)


def turns(node: Node, left: Callable[[], int], ms: int = 0) -> list[int]:
    """Let time pass until nothing is left; return the number of objects that each turn processed."""
    clock, before = fake_clock(node.clock), left()
    done: list[int] = []

    def turned() -> None:
        nonlocal before
        done.append(before - left())
        before = left()

    clock.after_each = turned
    clock.advance(ms)
    clock.after_each = lambda: None
    assert left() == 0
    return done


def test_a_policy_is_applied_to_very_many_queues_in_slices() -> None:
    node = new_node()
    vhost = node.vhosts["/"]
    count = 2_000
    declared(vhost, count)

    def left() -> int:
        return sum(queue.settings.max_length != 7 for queue in vhost.queues.values())

    node.policies.set("/", "short", "^q", {"max-length": 7})
    assert 0 < left() < count
    vhost.declare_queue("q-new")
    assert vhost.queues["q-new"].settings.max_length == 7
    done = turns(node, left)
    assert len(done) > 2 and max(done) <= 500
    node.policies.clear("/", "short")
    node.policies.set("/", "other", "^q", {"max-length": 7}, priority=1)
    turns(node, left)


def test_a_virtual_host_disappears_at_once_and_its_objects_in_slices() -> None:
    node = new_node(SureJournal())
    vhost = node.add_vhost("v")
    declared(vhost, MANY)
    node.delete_vhost("v")
    assert "v" not in node.vhosts
    done = turns(node, lambda: len(vhost.queues))
    assert len(done) > 2 and max(done) <= MOST
    assert not vhost.exchanges and not len(node.scheduler)


def test_a_virtual_host_made_again_meanwhile_waits_for_no_other_job() -> None:
    node = new_node()
    old = node.add_vhost("v")
    declared(old, MANY)
    steps: list[int] = []

    def others() -> Job:
        for number in range(100):
            steps.append(number)
            yield TURN_COST

    node.scheduler.start("another", others())
    node.delete_vhost("v")
    done = len(steps)
    vhost = node.add_vhost("v")
    assert not old.queues, "observers, which know queues by name, are notified of their deletion before"
    declared(vhost, 3)
    assert len(steps) == done
    fake_clock(node.clock).advance(0)
    assert len(steps) == 100 and len(vhost.queues) == 3 and not len(node.scheduler)


def test_a_connection_that_closes_ends_very_many_channels_and_queues_in_slices_before_close_ok() -> None:
    node = new_node(SureJournal())
    client = connected(node)
    vhost = node.vhosts["/"]
    for number in range(MANY // 2):
        client.channel(number + 1)
    connection = pipe_of(client).connection
    channel = connection.channels[1]
    while len(connection.owned) < MANY // 2:
        name = f"x{len(connection.owned)}"
        connection.owned[name] = vhost.declare_queue(name, exclusive=True, owner=connection)
    channels = list(connection.channels.values())
    client.send(ConnectionMethods.Close, 0, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert channel.closing and vhost.queues
    assert pipe_of(client).link.closing is None, "close-ok is sent when all is done"

    def left() -> int:
        return len(vhost.queues) + sum(not each.closing for each in channels)

    done = turns(node, left)
    assert len(done) > 2 and max(done) <= MOST
    assert pipe_of(client).link.closing is not None and not connection.owned


def test_a_consumer_of_a_connection_that_is_ending_gets_nothing_more() -> None:
    node = new_node(SureJournal())
    client = connected(node)
    vhost = node.vhosts["/"]
    for number in range(MANY):
        client.channel(number + 1)
    last = client.channel(MANY + 1)
    last.declare("queue")
    last.consume("queue")
    pipe_of(client).connection.lost("gone")
    queue = vhost.queues["queue"]
    assert len(queue.consumers) == 1, "it has not been removed yet"
    publisher = connected(node).channel(1)
    publisher.fill("queue", b"body")
    assert queue.ready == 1 and not queue.unacked
    fake_clock(node.clock).advance(0)
    assert not len(queue.consumers)
    assert publisher.drain("queue") == [b"body"]


def test_messages_of_very_many_queues_expire_in_slices() -> None:
    node = new_node()
    vhost = node.vhosts["/"]
    count = 1_000
    declared(vhost, count, message_ttl=1000)
    ch = connected(node).channel(1)
    for number in range(count):
        ch.client.raw(publish_to(f"q{number}"))
    ch.sync()
    done = turns(node, lambda: sum(queue.ready for queue in vhost.queues.values()), 1000)
    assert max(done) <= 300


def test_very_many_queues_that_expire_are_deleted_in_slices() -> None:
    node = new_node()
    vhost = node.vhosts["/"]
    declared(vhost, MANY, expires=1000)
    done = turns(node, lambda: len(vhost.queues), 1000)
    assert max(done) <= MOST and sum(done) == MANY


def publish_to(queue: str) -> bytes:
    return codec.method_frame(1, Basic.Publish, {"routing_key": queue}) + codec.header_frame(1, 0)
