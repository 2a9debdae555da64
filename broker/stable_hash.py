"""A hash that is the same on every machine, with every version of Python and after every restart."""

from hashlib import blake2b


def stable_hash(data: bytes) -> int:
    """Return 64 bits: the first eight bytes of BLAKE2b, big-endian. Routes depend on it, so it must never change."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
