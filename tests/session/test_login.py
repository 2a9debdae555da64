"""Who may come in, and under what name the log speaks of them."""

from pamqp.commands import Channel, Connection

from tests.support.in_process import InProcessPeer


def test_anonymous_is_bound_by_the_same_loopback_rule_as_the_user_it_stands_for() -> None:
    broker = InProcessPeer()
    broker.settings(
        mechanisms=("ANONYMOUS",), anonymous_login_user="guest", anonymous_login_pass="guest", loopback_users=("guest",)
    )
    near, far = broker.dial("127.0.0.1"), broker.dial("192.0.2.1")
    for client in (near, far):
        client.start()
        client.login("ANONYMOUS", "")
    assert isinstance(near.next(), Connection.Tune)
    far.expect_close(403)


def test_the_log_names_the_user_whose_connection_failed() -> None:
    broker = InProcessPeer()
    client = broker.connect()
    client.channel(1).send(Channel.Open)
    client.expect_close(504)
    assert [fields["user"] for event, _, fields in broker.log if event == "connection_closing"] == ["guest"]
