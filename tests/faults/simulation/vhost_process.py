"""A virtual host of a simulated node that is created and deleted, with a queue and messages in it.

A deleted one does not return in part, and an existing one loses nothing, whenever the node stops.
"""

from contextlib import suppress
from random import Random

from tests.faults.simulation.model import ALWAYS, NEVER
from tests.support.amqp_client import Channel, Client, Silence
from tests.support.session import dial, pipe_of
from warren.broker.core.messages.journal_port import Journal
from warren.broker.core.node.node import Node

NAME = "other"
QUEUE = "queue"


class Incarnation:
    """One virtual host of this name, identified by its description. `messages` are the tickets of its bodies."""

    __slots__ = ("number", "declared", "deleted", "messages")

    def __init__(self, number: int, declared: int) -> None:
        self.number = number
        self.declared = declared
        self.deleted: int | None = None
        self.messages: dict[bytes, int] = {}


class VHostModel:
    """The virtual hosts of this name. `durable` is the last batch of the previous process, `synced` the last certain
    one.
    """

    def __init__(self) -> None:
        self.incarnations: list[Incarnation] = []
        self.durable = self.synced = ALWAYS
        self.made = 0

    def found(self, description: str | None, ready: int) -> None:
        """Check what a start has found: `ready` messages, or no virtual host (None). It is certain from then on."""
        there = [each for each in self.incarnations if str(each.number) == description]
        assert there or description is None, f"virtual host {description} never existed"
        for each in self.incarnations:
            if each not in there:
                assert each.declared > self.synced or each.deleted is not None, f"virtual host {each.number} is LOST"
        for each in there:
            assert each.deleted is None or each.deleted > self.synced, f"virtual host {each.number} came back"
            sure = [body for body, ticket in each.messages.items() if ticket <= self.durable]
            assert len(sure) <= ready <= len(each.messages), f"{ready} of {len(sure)} to {len(each.messages)} messages"
            each.declared, each.deleted = ALWAYS, None
            each.messages = {body: ALWAYS if body in sure else NEVER for body in each.messages}
        self.incarnations = there


class VHostActions:
    """The actions on this virtual host in one process."""

    def __init__(self, node: Node, journal: Journal, model: VHostModel, random: Random) -> None:
        self._node = node
        self._journal = journal
        self._model = model
        self._random = random
        self._client: Client | None = None
        vhost = node.vhosts.get(NAME)
        ready = vhost.queues[QUEUE].ready if vhost is not None and QUEUE in vhost.queues else 0
        model.found(vhost.metadata.description if vhost is not None else None, ready)

    def work(self) -> str:
        """Create it, publish to it, or delete it; return a line for the trace."""
        incarnations = self._model.incarnations
        if NAME not in self._node.vhosts:
            return self._make()
        if self._random.random() < 0.2:
            incarnations[-1].deleted = self._delete()
            return f"delete virtual host {incarnations[-1].number} in {incarnations[-1].deleted}"
        channel = self._channel()
        for _ in range(self._random.choice((1, 5))):
            self._model.made += 1
            body = b"%d:" % self._model.made + bytes(self._random.choice((0, 300)))
            channel.publish("", QUEUE, body, {"delivery_mode": 2})
            incarnations[-1].messages[body] = self._journal.ticket()
        return f"publish to virtual host {incarnations[-1].number} in {self._journal.ticket()}"

    def _make(self) -> str:
        number = self._model.made = self._model.made + 1
        vhost = self._node.add_vhost(NAME, str(number))
        self._node.users.set_permission("guest", NAME, ".*", ".*", ".*")
        vhost.declare_queue(QUEUE, durable=True)
        self._model.incarnations.append(Incarnation(number, self._journal.ticket()))
        return f"make virtual host {number} in {self._journal.ticket()}"

    def _delete(self) -> int:
        if self._client is not None:
            pipe_of(self._client).connection.lost("its virtual host is deleted")
            self._client = None
        self._node.delete_vhost(NAME)
        return self._journal.ticket()

    def _channel(self) -> Channel:
        if self._client is None:
            self._client = dial(self._node).open(vhost=NAME)
            return self._client.channel(1)
        return Channel(self._client, 1)

    def drain(self) -> None:
        """Check that its messages are those that must exist."""
        if NAME not in self._node.vhosts:
            return
        expected = self._model.incarnations[-1].messages
        channel = self._channel()
        found = channel.drain(QUEUE)
        assert not set(found) - expected.keys() and len(set(found)) == len(found)
        lost = [body for body, ticket in expected.items() if ticket != NEVER and body not in found]
        assert not lost, f"{len(lost)} messages of a virtual host are LOST"
        with suppress(Silence):
            channel.client.pump()
