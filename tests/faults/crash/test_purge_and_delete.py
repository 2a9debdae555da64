"""kill -9 while a long queue is purged, or has just been deleted, alone or with its virtual host.

A deletion is answered before all messages of the queue are freed, so the broker is killed in the middle of that.
"""

import pytest
from pamqp.commands import Basic, Queue

from tests.support import codec
from tests.support.amqp_client import Client
from tests.support.broker_process import BrokerProcess
from tests.support.polling import until

PERSISTENT = {"delivery_mode": 2}
MANY = 50_000  # ten slices: a kill right behind the answer comes while they are let go of
BLOCK = 2_000  # messages in one write to the socket
OTHERS = [b"%d" % number for number in range(500)]
LATE = [b"late %d" % number for number in range(100)]

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]


def control(daemon: BrokerProcess, *words: str) -> str:
    """Run `warrenctl` on this broker and return its output."""
    done = daemon.warrenctl(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def fill_queue(client: Client, queue: str) -> None:
    """Declare a durable queue with very many messages, all on the disk."""
    channel = client.channel()
    channel.declare(queue, durable=True)
    channel.transact()
    publish = codec.method_frame(channel.number, Basic.Publish, {"exchange": "", "routing_key": queue})
    one = publish + codec.header_frame(channel.number, 3, PERSISTENT)
    one += codec.body_frames(channel.number, b"old", client.frame_max)
    for _ in range(MANY // BLOCK):
        client.raw(one * BLOCK)
        channel.commit()
    channel.close()


def publish_and_store(client: Client, queue: str, bodies: list[bytes]) -> None:
    """Publish, and return when all is on the disk."""
    channel = client.channel()
    channel.confirm()
    for body in bodies:
        channel.publish("", queue, body, PERSISTENT)
    assert channel.confirms(range(1, len(bodies) + 1))[1] == set()
    channel.close()


def kill_and_restart(daemon: BrokerProcess) -> Client:
    """Kill the broker and start it with the stored data."""
    daemon.kill()
    daemon.start()
    return daemon.connect()


def check_sound(daemon: BrokerProcess) -> None:
    daemon.stop()
    checked = daemon.doctor()
    assert checked.returncode == 0, checked.stdout + checked.stderr


def drain_queue(client: Client, queue: str) -> list[bytes]:
    """Return the bodies of all messages of a queue in order."""
    channel = client.channel()
    count = channel.count(queue)
    channel.consume(queue, no_ack=True)
    return [content.body for content in channel.deliveries(count)]


def test_what_is_published_behind_a_purge_is_not_lost_with_it(daemon: BrokerProcess) -> None:
    daemon.start()
    client, other = daemon.connect(), daemon.connect()
    fill_queue(client, "long")
    other.channel().declare("other", durable=True)
    publish_and_store(other, "other", OTHERS)
    client.channel().send(Queue.Purge, queue="long")
    looking = other.channel()
    until(lambda: not looking.count("long"), "the queue is purged", every_s=0.0)
    publish_and_store(other, "long", LATE)
    after = kill_and_restart(daemon)
    there = drain_queue(after, "long")
    assert there[-len(LATE) :] == LATE
    assert set(there[: -len(LATE)]) <= {b"old"}, "what was published since is there twice"
    assert drain_queue(after, "other") == OTHERS
    check_sound(daemon)


def test_nothing_of_a_deleted_queue_comes_back(daemon: BrokerProcess) -> None:
    daemon.start()
    client, other = daemon.connect(), daemon.connect()
    fill_queue(client, "long")
    other.channel().declare("other", durable=True)
    publish_and_store(other, "other", OTHERS)
    client.channel().delete("long")
    after = kill_and_restart(daemon)
    after.channel().refused(404, Queue.Declare, queue="long", passive=True)
    assert after.channel(2).declare("long", durable=True).message_count == 0
    assert drain_queue(after, "other") == OTHERS
    assert kill_and_restart(daemon).channel().count("long") == 0
    check_sound(daemon)


def test_nothing_of_a_deleted_virtual_host_comes_back(daemon: BrokerProcess) -> None:
    daemon.start()
    control(daemon, "add_vhost", "gone")
    control(daemon, "set_permissions", "-p", "gone", "guest", ".*", ".*", ".*")
    other, client = daemon.connect(), daemon.connect(vhost="gone")
    fill_queue(client, "long")
    other.channel().declare("other", durable=True)
    client.close()
    publish_and_store(other, "other", OTHERS)
    control(daemon, "delete_vhost", "gone")
    assert drain_queue(kill_and_restart(daemon), "other") == OTHERS
    assert "gone" not in control(daemon, "list_vhosts", "--quiet")
    check_sound(daemon)
