"""A hash that is the same on every machine, with every version of Python and after every restart."""

from hashlib import blake2b


def stable_hash(octets: bytes) -> int:
    """64 bits: the first eight octets of BLAKE2b, big-endian. Routes depend on it, so it may never change."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")
