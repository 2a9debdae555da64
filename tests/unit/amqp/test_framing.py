"""Contents framed anew for another channel and frame_max."""

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import CONTENT_FIXED, FRAME_HEAD, FRAME_OVERHEAD, content_frames, reframe
from warren.broker.amqp.properties import Properties

FRAME_MIN = 4096


def header_of(frames: bytes) -> Properties:
    """Decode the header frame, which has the length of one at most."""
    size = int.from_bytes(frames[3:7], "big")
    assert size + FRAME_OVERHEAD <= FRAME_MIN
    return Properties.decode(frames[FRAME_HEAD + CONTENT_FIXED : FRAME_HEAD + size])


@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(0, 9000))
def test_a_header_frame_is_never_longer_than_frame_max(lengths: list[int], body_bytes: int) -> None:
    """The longest headers are left out and counted, all other properties and the body are sent."""
    sent = {f"h{number}": "x" * length for number, length in enumerate(lengths)}
    raw = Properties(headers=Table.of(sent), correlation_id="c" * 255, reply_to="r" * 255).encode()
    frames = reframe(content_frames(1, raw, b"b" * body_bytes), 2, FRAME_MIN)
    properties = header_of(frames)
    assert (properties.correlation_id, properties.reply_to) == ("c" * 255, "r" * 255)
    assert frames.count(b"b") >= body_bytes
    received = properties.headers or Table.EMPTY
    omitted = received.integer("x-headers-omitted") or 0
    assert len(received) - (omitted > 0) == len(lengths) - omitted
    assert all(received.text(name) == text for name, text in sent.items() if name in received)
    if sum(lengths) < 3000:
        assert not omitted


def test_the_oldest_entries_of_x_death_are_left_out_before_other_headers() -> None:
    deaths = [{"queue": f"q{number}", "exchange": "x" * 200} for number in range(50)]
    raw = Properties(headers=Table.of({"x-death": deaths, "own": "x" * 1000})).encode()
    headers = header_of(reframe(content_frames(1, raw, b""), 2, FRAME_MIN)).headers or Table.EMPTY
    assert headers.text("own") == "x" * 1000 and "x-headers-omitted" not in headers
    value = headers.get("x-death")
    assert value is not None and isinstance(value[1], list)
    queues = [entry.text("queue") for _, entry in value[1]]
    assert len(queues) >= 10 and queues == [f"q{number}" for number in range(len(queues))]
