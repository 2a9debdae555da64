"""Blocking of connections by resource alarms: a connection is served until it publishes.

It blocks at the content header. A message without a body is complete then and is taken, unless the disk is full, as
very many connections could fill the rest of it with long headers; any other waits, with all input after it, until
every alarm has cleared. While memory is low, a declaration or binding of something new waits as well once a connection
has created CREATE_LIMIT objects, because they stay in memory. That many let a worker declare what it needs before it
consumes, which frees more than they take. A consumer waits only for long arguments, which none needs: behind it the
acknowledgements of its connection wait, which free memory. While the disk is full, declarations with long arguments
wait, and all that would be stored once STORED_LIMIT objects of the virtual host were. What exists already can be
declared and bound without limit.
"""

from ..core.telemetry.resource_alarms import DISK, MEMORY
from ..wire.frame_reader import Publishes
from .channel_host import ChannelHost

BODY_SIZE = slice(11, 19)  # the size of the body in a header frame
CREATE_LIMIT = 100  # new queues, exchanges and bindings of one connection while memory is low: a few 100 KB
CONSUMER_BYTES = 1 << 10  # of the tag and arguments of a consumer that does not wait


class Blocked(Exception):
    """A declaration or binding has to be served again once the alarm of this resource has ended."""

    def __init__(self, resource: str) -> None:
        super().__init__()
        self.resource = resource


def check_new(connection: ChannelHost, size: int, stored: bool) -> None:
    """Raise Blocked for a new object that the disk is too full for, or that is one too many while memory is low."""
    alarms = connection.node.alarms
    if not alarms.reason:
        return
    if alarms.refuses_new(size, connection.vhost_name, stored):
        raise Blocked(DISK)
    if MEMORY in alarms.on():
        if connection.created >= CREATE_LIMIT:
            raise Blocked(MEMORY)
        connection.created += 1


def check_new_consumer(connection: ChannelHost, size: int) -> None:
    """Raise Blocked for a consumer of this size while memory is low."""
    if size > CONSUMER_BYTES and MEMORY in connection.node.alarms.on():
        raise Blocked(MEMORY)


def split(publishes: Publishes, disk_full: bool) -> tuple[Publishes | None, Publishes | None]:
    """Return the publish of these that is still taken during an alarm, and the rest; each is None if there is none."""
    contents = publishes.contents
    if not contents or any(contents[0][BODY_SIZE]) or disk_full:
        return None, publishes
    first = Publishes(publishes.channel, publishes.methods[:1], contents[:1], True)
    return first, publishes.after(1) if len(contents) > 1 else None
