"""Output of a connection that is not handed to its socket yet, and its limits."""

from __future__ import annotations

# Bytes of deliveries that are gathered for one write; then consumers wait until it is done. A write that fits one
# segment of the loopback (64 KiB) reaches the consumer in one piece, and lets it start while the next is made.
DELIVERY_LIMIT = 56 << 10
# Contents that are written as they lie, without a copy, count a fraction: for them a few long writes are the cheaper.
LARGE_BYTES = 1 << 14
LARGE_SHARE = 8
# Bytes of any kind. A client that asks on and on and does not read what it gets is not listened to beyond that; far
# above what deliveries alone can reach, so that a slow consumer's acknowledgements are always read.
LIMIT = 1 << 20


class OutputBuffer:
    """Frames that wait for the next write.

    buffer    frames are appended here
    writable  False while the socket's own buffer is full
    limit     bytes of deliveries: DELIVERY_LIMIT, or 0 once nothing is delivered any more
    """

    __slots__ = ("buffer", "writable", "limit", "_large", "_large_bytes")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.writable = True
        self.limit = DELIVERY_LIMIT
        self._large: list[bytes | bytearray] = []  # what comes before `buffer`, with contents too long to copy
        self._large_bytes = 0

    def add_large(self, frames: bytes) -> bytearray:
        """Append frames without copying them, and return the buffer for the frames that follow."""
        self._large += (self.buffer, frames)
        self._large_bytes += len(self.buffer) + len(frames)
        self.buffer = bytearray()
        return self.buffer

    def take(self) -> list[bytes | bytearray]:
        """Remove and return all output in order."""
        taken = self._large
        if self.buffer:
            taken.append(self.buffer)
            self.buffer = bytearray()
        self._large = []
        self._large_bytes = 0
        return taken

    def room(self) -> int:
        """Return how many bytes of deliveries may be added before consumers must wait."""
        return self.limit - len(self.buffer) - self._large_bytes // LARGE_SHARE if self.writable else 0

    def waits(self) -> bool:
        """Whether there is output."""
        return bool(self.buffer) or bool(self._large)

    def full(self) -> bool:
        """Whether the client must read before it is served again."""
        return len(self.buffer) + self._large_bytes > LIMIT
