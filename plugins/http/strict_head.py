"""Strict parsing of request heads as in RFC 9112, where h11 is lenient.

A proxy that parses a lenient head in another way may forward as a body what this node reads as a request (request
smuggling).
"""

from __future__ import annotations

from h11 import RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer

BOTH_LENGTHS = {b"content-length", b"transfer-encoding"}


class StrictBuffer(ReceiveBuffer):
    """A buffer of received bytes for h11 in which lines of a head have to end with CR LF and name one length only."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Raises RemoteProtocolError, which is answered with 400."""
        before = bytes(self._data)
        lines = super().maybe_extract_lines()
        if lines is None:
            return None
        head = before[: len(before) - len(self._data)]
        if head.count(b"\n") != head.count(b"\r\n"):
            raise RemoteProtocolError("a line of the head does not end with CR LF")
        if {bytes(line).partition(b":")[0].strip().lower() for line in lines} >= BOTH_LENGTHS:
            raise RemoteProtocolError("the head has both a content-length and a transfer-encoding")
        return lines
