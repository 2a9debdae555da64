"""Sessions of a node in this process, before the login and after it; another client must be able to work on.

An input of the session after the login is a list of steps, so that mutations reach its methods: a byte below 0x80 is a
frame of a recorded session, any other byte is followed by the length of a payload, and makes a frame of it.
"""

from tests.faults.fuzz import test_sessions as sessions
from tests.support import codec
from tests.support.session import SlowJournal, SureJournal, dial, new_node, pipe_of

from .target import Target, Turn, pieces

RECORDED = [*sessions.consuming(), *sessions.transacting()]
GREETING = b"".join(sessions.greeting())
RAW = 0xFF  # the payload is sent without a frame
CHANNELS = 4


def before_login(data: bytes, turn: Turn) -> None:
    """Unauthenticated bytes end in a documented error, or wait for more."""
    node = new_node(SureJournal())
    pipe = pipe_of(dial(node))
    sent = b""
    turn()
    for part in pieces(data):
        pipe.connection.receive(part)
        turn()
        sent += sessions.taken(pipe)
        if pipe.link.closing == 0.0:
            break
    sessions.check_output(sent)
    pipe.close()
    assert not node.open_connections and not node.pending


def after_login(data: bytes, turn: Turn) -> None:
    """A session with any frames sends valid ones only, and leaves nothing behind."""

    def after_each(journal: SlowJournal) -> None:
        turn()
        sessions.at_once(journal)
        turn()

    turn()
    sessions.run([GREETING, *steps(data)], after_each)


def steps(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        step = data[at]
        at += 1
        if step < 0x80:
            found.append(RECORDED[step % len(RECORDED)])
            continue
        size = data[at] if at < len(data) else 0
        payload = data[at + 1 : at + 1 + size]
        at += 1 + size
        channel = step >> 2 & 0x1F
        found.append(payload if step == RAW else codec.frame(1 + step % 4 % 3, channel % CHANNELS, payload))
    return found


def framed(frame: bytes) -> bytes:
    """Return the step of a recorded frame, in full."""
    kind, channel, payload = frame[0], frame[2], frame[7:-1]
    return bytes((0x80 | channel << 2 | kind - 1, len(payload))) + payload if kind < 4 and len(payload) < 256 else b""


HANDSHAKE = Target("handshake", before_login, [b"\0" + GREETING, b"\2\7\1" + GREETING])
SESSION = Target(
    "session",
    after_login,
    [
        bytes(range(len(sessions.consuming()))),
        bytes((*range(len(sessions.consuming()), len(RECORDED)),)),
        b"".join(map(framed, sessions.consuming())),
        b"".join(map(framed, sessions.transacting())),
    ],
)
