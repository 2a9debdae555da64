"""Messages whose bodies are numbers."""

from tests.support.amqp_client import Channel


def fill(ch: Channel, queue: str, count: int, start: int = 1) -> list[bytes]:
    """Publish the numbers from `start` on a channel that is closed again, and return the bodies."""
    bodies = [str(at).encode() for at in range(start, start + count)]
    publisher = ch.client.channel()
    publisher.fill(queue, *bodies)
    publisher.close()
    return bodies
