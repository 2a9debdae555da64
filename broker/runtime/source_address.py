"""The network that an address of a client is counted by."""

from __future__ import annotations

import ipaddress

IPV6_SOURCE_BITS = 64  # what one customer of a network has
IPV6_NETWORK_BITS = 48  # the smallest block that is routed by itself, of IPv4 the first three bytes


def source_of(address: str) -> str:
    """The address that connections are counted by: an IPv4 address, or the network of an IPv6 address."""
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
    """The network that a source is in, which is what one provider or company has of many."""
    if ":" not in source:
        return source.rpartition(".")[0]
    try:
        return str(ipaddress.ip_network(source).supernet(new_prefix=IPV6_NETWORK_BITS))
    except ValueError:
        return source
