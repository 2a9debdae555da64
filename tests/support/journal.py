"""Journals without a worker thread, and messages for them."""

from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.storage.journal import Journal


def new_message(body: bytes) -> Message:
    """Return a persistent message of the queue q."""
    return Message(RoutingAddress("", "q"), content_frames(1, b"\0\0", body), 1, len(body), 0, True)


def store(journal: Journal, queues: list[int], *bodies: bytes) -> list[Message]:
    """Store messages in these queues, each in a batch of its own."""
    messages = [new_message(body) for body in bodies]
    for each in messages:
        journal.append(queues, [each])
        commit(journal)
    return messages


def commit(journal: Journal) -> None:
    """Commit the batch that is being filled, which must not be empty."""
    assert commit_any(journal)


def commit_any(journal: Journal) -> bool:
    """Commit the batch that is being filled; return False if it is empty."""
    batch = journal.seal()
    if batch is None:
        return False
    batch.write()
    batch.sync()
    journal.committed(batch.number)
    return True
