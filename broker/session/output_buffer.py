"""The output of a connection before it is written to the socket, and its limits."""

from __future__ import annotations

from typing import Final

# Bytes of deliveries in one write; beyond this, consumers wait until it is done. A write that fits one segment of the
# loopback (64 KiB) reaches the client in one piece, which it can process while the next is made.
DELIVERY_LIMIT: Final = 56 << 10
# Contents from this size are written without a copy. They count a fraction, because few long writes are cheaper then.
LARGE_BYTES: Final = 1 << 14
LARGE_SHARE: Final = 8
# Bytes of all output, beyond which a client that sends requests and reads no replies is not read. Deliveries alone
# never reach it, so the acknowledgements of a slow consumer are always read.
LIMIT: Final = 1 << 20


class OutputBuffer:
    """Frames that wait for the next write.

    buffer    frames are appended here
    writable  False while the socket's own buffer is full
    limit     bytes of deliveries: DELIVERY_LIMIT, or 0 after the last delivery
    """

    __slots__ = ("buffer", "writable", "limit", "_large", "_large_bytes")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.writable = True
        self.limit = DELIVERY_LIMIT
        self._large: list[bytes | bytearray] = []  # output before `buffer`, with contents too long to copy
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

    @property
    def held_bytes(self) -> int:
        """The bytes of all output that no write has taken."""
        return len(self.buffer) + self._large_bytes

    def full(self) -> bool:
        """Whether the client has to read some of it before it is served again."""
        return len(self.buffer) + self._large_bytes > LIMIT
