"""Connections from within the process: AMQP over a pair of sockets, with credentials or without."""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest
import uvloop
from pamqp.commands import Connection

from tests.support.amqp_client import Client
from tests.support.listening_server import ListeningServer
from tests.support.peer import SocketPipe
from warren.broker.core.access.users import InternalUser
from warren.broker.session.transport import Peer

pytestmark = pytest.mark.sockets


class InsidePipe(SocketPipe):
    def __init__(self, end: socket.socket) -> None:
        end.setblocking(True)
        self._socket = end


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def listening(request: pytest.FixtureRequest) -> Iterator[ListeningServer]:
    loop: Callable[[], asyncio.AbstractEventLoop] = request.param
    server = ListeningServer(loop)
    yield server
    server.close()


def inside(listening: ListeningServer, user: InternalUser | None) -> Client:
    peer = Peer("inside", 7, "inside", 0, True, internal_user=user)
    client = Client(InsidePipe(listening.run(listening.server.connect_inside(peer))))
    client.start()
    return client


def test_an_internal_user_may_do_everything_in_its_vhost_whatever_login_it_sends(listening: ListeningServer) -> None:
    listening.call(listening.node.add_vhost, "other")
    client = inside(listening, InternalUser("other"))
    client.login("PLAIN", "\0nobody\0wrong")
    client.tune()
    client.call(Connection.Open, virtual_host="other")
    channel = client.channel(1)
    channel.declare("q")
    channel.publish("", "q", b"body")
    channel.consume("q", no_ack=True)
    assert channel.delivery().body == b"body"
    [connection] = listening.call(lambda: list(listening.server.connections.values()))
    assert connection.name == "inside:7 -> inside:0" and connection.peer.loopback
    client.vanish()


def test_an_internal_user_has_no_right_in_another_vhost(listening: ListeningServer) -> None:
    client = inside(listening, InternalUser("other"))
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.send(Connection.Open, virtual_host="/")
    assert "access to vhost '/' refused" in client.next().reply_text
    client.vanish()


def test_without_an_internal_user_the_login_counts_as_one_from_this_machine(listening: ListeningServer) -> None:
    right, wrong = inside(listening, None), inside(listening, None)
    right.login("PLAIN", "\0guest\0guest")
    right.tune()
    right.call(Connection.Open, virtual_host="/")
    wrong.login("PLAIN", "\0guest\0wrong", {"authentication_failure_close": True})
    wrong.expect_close(403)
    right.vanish()
    wrong.vanish()


def test_the_server_ends_what_came_from_within_as_it_ends_others(listening: ListeningServer) -> None:
    client = inside(listening, InternalUser("/"))
    client.login("PLAIN", "\0\0")
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    listening.call(listening.server.close_connections, lambda one: True, "enough")
    assert client.next().reply_text == "CONNECTION_FORCED - enough"
    client.vanish()
