"""The content of a publish, frame by frame."""

import pytest

from tests.support import codec
from warren.broker.amqp.errors import FrameError, UnexpectedFrame
from warren.broker.wire.content_assembler import MAX_BODY, Content, check_header


def begun(body_bytes: int, body_max: int = 1000) -> Content:
    content = Content(b"method", 1)
    content.header(codec.header_frame(1, body_bytes), body_max)
    return content


def body(data: bytes) -> bytes:
    return codec.frame(codec.BODY, 1, data)


@pytest.mark.parametrize("pieces", [[b"whole body"], [b"whole", b" ", b"body"], [b"", b"whole body"]])
def test_the_frames_are_kept_as_they_came_but_for_empty_ones(pieces: list[bytes]) -> None:
    content = begun(10)
    for piece in pieces:
        assert content.missing
        content.body(body(piece))
    frames = codec.header_frame(1, 10) + b"".join(body(piece) for piece in pieces if piece)
    assert content.missing == 0
    assert b"".join(content.frames) == frames and content.kept_bytes == len(frames)
    assert content.largest_frame == max(22, *[8 + len(piece) for piece in pieces])


@pytest.mark.parametrize("size", [17, 1000])
def test_a_body_in_very_many_frames_is_joined_to_one(size: int) -> None:
    content = begun(size)
    whole = bytes([number % 251 for number in range(size)])
    for number in range(size):
        content.body(body(whole[number : number + 1]))
        assert len(content.frames) <= 18
    assert b"".join(content.frames) == codec.header_frame(1, size) + body(whole)
    assert content.missing == content.largest_frame == 0


def test_frames_of_a_usual_length_are_kept_however_many_there_are() -> None:
    content = begun(100 * 4096, 1 << 20)
    for _ in range(100):
        content.body(body(bytes(4096)))
    assert len(content.frames) == 101 and content.largest_frame == 4104


def test_nothing_is_missing_of_an_empty_body() -> None:
    assert begun(0).missing == 0


def test_a_body_longer_than_announced_is_a_frame_error() -> None:
    content = begun(10)
    content.body(body(b"123456"))
    with pytest.raises(FrameError, match="content body frame exceeds remaining content size"):
        content.body(body(b"12345"))


def test_a_body_above_the_limit_is_counted_and_not_kept() -> None:
    content = begun(1001)
    content.body(body(bytes(1000)))
    content.body(body(b"x"))
    assert (content.missing, content.frames, content.kept_bytes, content.body_bytes) == (0, [], 0, 1001)


def test_the_error_says_what_was_expected() -> None:
    content = Content(b"method", 1)
    assert content.expected(codec.METHOD).text.startswith("expected content header for class 60, got non content")
    content.header(codec.header_frame(1, 5), 1000)
    error = content.expected(codec.METHOD)
    assert error.text == "expected content body, got non content body frame instead"
    assert (error.class_id, error.method_id) == (60, 40)


@pytest.mark.parametrize("body_bytes", [0, MAX_BODY])
def test_a_header_as_it_should_be_passes(body_bytes: int) -> None:
    check_header(codec.header_frame(1, body_bytes))


@pytest.mark.parametrize(
    "frame, error, text",
    [
        (codec.header_frame(1, 1, class_id=50), UnexpectedFrame, "got one for class 50 instead"),
        (codec.header_frame(1, 1, weight=1), UnexpectedFrame, "got non content header frame instead"),
        (codec.header_frame(1, MAX_BODY + 1), FrameError, "exceeds maximum allowed size 536870912"),
        (codec.header_frame(1, (1 << 64) - 1), FrameError, "exceeds maximum allowed size 536870912"),
        (codec.header_frame(1, 1, b""), FrameError, "malformed content header"),
        (codec.frame(codec.HEADER, 1, b""), FrameError, "malformed content header"),
    ],
)
def test_any_other_header_is_refused(frame: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_header(frame)
