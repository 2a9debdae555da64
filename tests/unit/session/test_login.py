"""Logins: who is accepted, and the name in the log."""

from pamqp.commands import Channel, Connection

from tests.support.amqp_client import Client
from tests.support.hashing import FakeHashing, fake_hash
from tests.support.in_process import InProcessPeer
from tests.support.session import dial, new_node, pipe_of
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import ARGON2ID


def test_anonymous_is_bound_by_the_same_loopback_rule_as_the_user_it_stands_for() -> None:
    broker = InProcessPeer()
    broker.settings(
        auth_mechanisms=("ANONYMOUS",),
        anonymous_login_user="guest",
        anonymous_login_pass="guest",
        loopback_users=("guest",),
    )
    near, far = broker.dial("127.0.0.1"), broker.dial("192.0.2.1")
    for client in (near, far):
        client.start()
        client.login("ANONYMOUS", "")
    assert isinstance(near.next(), Connection.Tune)
    far.expect_close(403)


def test_anonymous_has_to_know_the_password_of_the_user_it_stands_for() -> None:
    node = new_node()
    for anonymous_pass, reply in (("guest", Connection.Tune), ("other", Connection.Close), ("", Connection.Close)):
        client = dial(node, mechanisms=("ANONYMOUS",), anonymous_user="guest", anonymous_pass=anonymous_pass)
        client.start()
        client.login("ANONYMOUS", "whoever")
        assert isinstance(client.next(), reply)


def test_the_log_names_the_user_whose_connection_failed() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1).send(Channel.Open)
    client.expect_close(504)
    assert [fields["user"] for event, _, fields in broker.log if event == "connection_closing"] == ["guest"]


# A verification that takes its time


def waiting() -> tuple[FakeHashing, Client]:
    """A client whose password is being verified, and which has already sent more."""
    hashing = FakeHashing()
    node = new_node(hashing=hashing)
    node.users.add("u", fake_hash(b"right"), (), ARGON2ID)
    node.users.set_permission("u", "/", ".*", ".*", ".*")
    client = dial(node)
    client.start()
    hashing.slow = True
    return hashing, client


def test_a_connection_is_served_no_further_until_the_password_has_been_looked_at() -> None:
    hashing, client = waiting()
    client.login("PLAIN", "\0u\0right")
    client.send(Connection.TuneOk, channel_max=1, frame_max=4096, heartbeat=0)
    client.send(Connection.Open, virtual_host="/")
    assert not client.inbox(0) and len(hashing.waiting) == 1
    hashing.answer()
    assert [type(client.next()) for _ in range(2)] == [Connection.Tune, Connection.OpenOk]


def test_a_wrong_password_is_refused_when_it_has_been_looked_at() -> None:
    hashing, client = waiting()
    client.login("PLAIN", "\0u\0wrong")
    assert not client.inbox(0)
    hashing.answer()
    assert "Login was refused using authentication mechanism PLAIN" in client.expect_close(403).reply_text


def test_an_answer_for_a_connection_that_has_gone_changes_nothing() -> None:
    for password in ("right", "wrong"):
        hashing, client = waiting()
        client.login("PLAIN", f"\0u\0{password}")
        client.vanish()
        hashing.answer()
        connection = pipe_of(client).connection
        assert connection.user is None and not pipe_of(client).link.asked


def test_amqplain_waits_as_plain_does() -> None:
    hashing, client = waiting()
    client.login("AMQPLAIN", Table.of({"LOGIN": "u", "PASSWORD": "right"}).raw)
    hashing.answer()
    assert isinstance(client.next(), Connection.Tune)


# EXTERNAL


def external(name: str | None) -> Client:
    node = new_node()
    client = dial(node, mechanisms=("PLAIN", "EXTERNAL"))
    pipe_of(client).connection.peer.certificate_name = name
    return client


def test_external_is_offered_and_served_to_who_showed_a_certificate_of_a_user() -> None:
    client = external("guest")
    assert client.start().mechanisms == "PLAIN EXTERNAL"
    client.login("EXTERNAL", "")
    assert isinstance(client.next(), Connection.Tune)
    assert pipe_of(client).connection.login_name == "guest"


def test_external_is_neither_offered_nor_served_without_a_certificate() -> None:
    client = external(None)
    assert client.start().mechanisms == "PLAIN"
    client.login("EXTERNAL", "guest")
    client.expect_close(403)


def test_a_certificate_of_nobody_we_know_lets_nobody_in() -> None:
    client = external("O=other,CN=guest")
    client.start()
    client.login("EXTERNAL", "guest")
    client.expect_close(403)


def test_where_too_many_logins_wait_the_connection_is_closed_without_a_word_on_the_password() -> None:
    hashing, client = waiting()
    hashing.slow, hashing.busy = False, True
    client.login("PLAIN", "\0u\0right")
    client.expect_eof()


def test_a_login_whose_client_has_gone_is_forgotten() -> None:
    hashing, client = waiting()
    client.login("PLAIN", "\0u\0right")
    pipe_of(client).connection.lost("reset")
    assert not hashing.waiting
