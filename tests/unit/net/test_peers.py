"""The peer of a socket, and whether it is on this machine, as guest has to be."""

import asyncio

import pytest

from warren.broker.net.peers import peer_of


@pytest.mark.parametrize(
    "name, host, loopback",
    [
        (("127.0.0.1", 50000), "127.0.0.1", True),
        (("127.8.9.10", 50000), "127.8.9.10", True),
        (("::1", 50000, 0, 0), "::1", True),
        (("::ffff:127.0.0.1", 50000, 0, 0), "127.0.0.1", True),
        (("", 50000), "", False),
        ("", "", True),  # a Unix socket
        ("/run/client", "/run/client", True),
        (None, "", False),  # the peer has reset the connection, and sent before that
        (("192.0.2.1", 50000), "192.0.2.1", False),
        (("::ffff:192.0.2.1", 50000, 0, 0), "192.0.2.1", False),
        (("fe80::1", 50000, 0, 2), "fe80::1", False),
        (("::ffff:7f00:1", 50000, 0, 0), "::ffff:7f00:1", False),  # no system says it like this
    ],
)
def test_who_comes_from_this_machine(name: object, host: str, loopback: bool) -> None:
    socket = asyncio.Transport({"peername": name, "sockname": ("127.0.0.1", 5672)})
    peer = peer_of(socket, None)
    assert (peer.host, peer.loopback) == (host, loopback)
