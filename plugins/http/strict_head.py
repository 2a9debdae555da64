"""Strict parsing of request heads as in RFC 9112, where h11 is lenient, and with a limit on their length.

A proxy that parses a lenient head in another way may forward as a body what this node reads as a request (request
smuggling).
"""

from __future__ import annotations

from h11 import RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer, blank_line_regex

BOTH_LENGTHS = {b"content-length", b"transfer-encoding"}
HEAD_BYTES = 16 << 10  # of a head, or of what follows the last chunk: to parse it takes up to 5 ms
TOO_LONG = 431
LINE_ENDS = (b"\r\n", b"\n")


class StrictBuffer(ReceiveBuffer):
    """A buffer of received bytes for h11 in which lines of a head have to end with CR LF and name one length only.

    head_bytes  the length of the last head
    """

    head_bytes = 0

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Raises RemoteProtocolError, which is answered with 400, or with 431 if the head is too long."""
        size = len(self._data)
        if size > HEAD_BYTES and not self._data.startswith(LINE_ENDS):  # h11 limits only a head without its end
            ends = blank_line_regex.search(self._data, self._multiple_lines_search, HEAD_BYTES)
            if ends is None:
                raise RemoteProtocolError("the head is too long", error_status_hint=TOO_LONG)
        before = bytes(self._data[:HEAD_BYTES])
        lines = super().maybe_extract_lines()
        if lines is None:
            return None
        self.head_bytes = size - len(self._data)
        head = before[: self.head_bytes]
        if head.count(b"\n") != head.count(b"\r\n"):
            raise RemoteProtocolError("a line of the head does not end with CR LF")
        if {bytes(line).partition(b":")[0].strip().lower() for line in lines} >= BOTH_LENGTHS:
            raise RemoteProtocolError("the head has both a content-length and a transfer-encoding")
        return lines
