"""The source and network by which clients' addresses are grouped."""

import ipaddress
from functools import lru_cache

IPV6_SOURCE_BITS = 64  # the network of one customer
IPV6_NETWORK_BITS = 48  # the smallest block that is routed by itself; 24 bits in IPv4

SOURCES = 1000  # addresses whose sources are kept: each connection asks for that of its own


@lru_cache(SOURCES)
def source_of(address: str) -> str:
    """Return the source of an address: an IPv4 address itself, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_SOURCE_BITS), strict=False))


def network_of(source: str) -> str:
    """Return the network of a source: /24 of IPv4, /48 of IPv6."""
    if ":" not in source:
        return source.rpartition(".")[0]
    try:
        return str(ipaddress.ip_network(source).supernet(new_prefix=IPV6_NETWORK_BITS))
    except ValueError:
        return source
