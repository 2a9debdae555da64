"""Request heads that a proxy may parse differently are refused."""

import h11
import pytest

from warren.plugins.http.h11_input import StrictBuffer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na\nbc"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n"


def requests(data: bytes, step: int) -> int:
    """Return how many requests h11 reads from data that arrives in such steps. Raises RemoteProtocolError."""
    connection = h11.Connection(h11.SERVER)
    connection._receive_buffer = StrictBuffer()
    found = 0
    for start in range(0, len(data), step):
        connection.receive_data(data[start : start + step])
        while True:
            event = connection.next_event()
            if event is h11.PAUSED:
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
            elif event is h11.NEED_DATA:
                break
            found += isinstance(event, h11.Request)
            if isinstance(event, h11.EndOfMessage):
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
    return found


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_valid_heads_are_accepted_and_bodies_may_contain_anything(step: int) -> None:
    assert requests(GET + POST + CHUNKED + GET, step) == 4


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("before", [b"", POST])
def test_lines_without_cr_and_two_lengths_are_refused(head: bytes, before: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        requests(before + head, 10_000)
