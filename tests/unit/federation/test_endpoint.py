"""Endpoints: URIs of upstreams, parsed."""

import traceback

import pytest

from warren.broker.amqp.errors import Invalid
from warren.federation.upstream.endpoint import Endpoint, Secret, parse_endpoint


def test_a_plain_uri_has_the_defaults_of_rabbitmq_but_for_the_time_to_connect() -> None:
    found = parse_endpoint("amqp://host")
    assert found == Endpoint(
        direct=False,
        tls=False,
        host="host",
        port=5672,
        user="guest",
        password=Secret("guest"),
        vhost=None,
        heartbeat_s=10,
        connection_timeout_s=10.0,
        channel_max=2047,
        frame_max=0,
        mechanisms=(),
        verify=True,
        server_name=None,
        safe="amqp://host",
    )
    assert parse_endpoint("AMQPS://host").port == 5671 and parse_endpoint("AMQPS://host").tls


@pytest.mark.parametrize(
    ("uri", "vhost"),
    [
        ("amqp://h", None),
        ("amqp://h/", ""),
        ("amqp://h/%2f", "/"),
        ("amqp://h/%2Fa%20b", "/a b"),
        ("amqp://h/%C3%A4?heartbeat=1", "ä"),
        ("amqp://", None),
        ("amqp:///", ""),
        ("amqp:///v", "v"),
    ],
)
def test_the_path_is_the_virtual_host_where_there_is_one(uri: str, vhost: str | None) -> None:
    assert parse_endpoint(uri).vhost == vhost


@pytest.mark.parametrize(
    ("uri", "user", "password"),
    [
        ("amqp://u:p@h", "u", "p"),
        ("amqp://a%40b:p%3Aq%2F%25@h", "a@b", "p:q/%"),
        ("amqp://u@h", "u", "guest"),
        ("amqp://u:@h", "u", ""),
        ("amqp://u:p@/v", "u", "p"),
    ],
)
def test_user_and_password_are_unescaped(uri: str, user: str, password: str) -> None:
    found = parse_endpoint(uri)
    assert found.user == user and found.password == Secret(password)


def test_an_empty_host_is_this_broker_and_needs_nobody() -> None:
    found = parse_endpoint("amqp:///v?heartbeat=5")
    assert found.direct and not found.tls
    assert (found.host, found.port, found.user, found.password, found.heartbeat_s) == ("", 0, None, None, 5)


def test_an_ipv6_host_stands_in_brackets() -> None:
    found = parse_endpoint("amqp://[::1]:5673/v")
    assert (found.host, found.port) == ("::1", 5673)


def test_options_of_tls_count_with_tls_alone() -> None:
    options = (
        "cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&password=pass&verify=verify_none"
        "&server_name_indication=other&depth=3&fail_if_no_peer_cert=true"
    )
    found = parse_endpoint(f"amqps://h?{options}")
    assert (found.cacertfile, found.certfile, found.keyfile) == ("/ca.pem", "/c.pem", "/k.pem")
    assert (found.key_password, found.verify, found.server_name) == (Secret("pass"), False, "other")
    plain = parse_endpoint("amqp://h?cacertfile=/ca.pem&verify=verify_none&password=x")
    assert (plain.cacertfile, plain.verify, plain.key_password, plain.password) == ("", True, None, Secret("guest"))
    assert parse_endpoint("amqps://h?server_name_indication=disable").server_name == ""
    assert parse_endpoint("amqps://h").server_name is None


def test_options_of_the_connection_are_numbers_and_mechanisms_a_list() -> None:
    found = parse_endpoint(
        "amqp://h?heartbeat=0&connection_timeout=1500&channel_max=10&frame_max=8192"
        "&auth_mechanism=external&auth_mechanism=PLAIN&auth_mechanism=external&unknown=1"
    )
    assert (found.heartbeat_s, found.connection_timeout_s, found.channel_max, found.frame_max) == (0, 1.5, 10, 8192)
    assert found.mechanisms == ("external", "plain")
    huge = parse_endpoint("amqp://h?heartbeat=9999999999&channel_max=9999999999&frame_max=9999999999")
    assert (huge.heartbeat_s, huge.channel_max, huge.frame_max) == (65_535, 65_535, 4_294_967_295)


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("http://u:secret@h", "unexpected_uri_scheme"),
        ("amqp://u:secret@h:0", "port_out_of_range"),
        ("amqp://u:secret@:5672", "port_requires_host"),
        ("amqp://u:secret@h/a/b", "invalid_vhost"),
        ("amqp://u:secret@h?heartbeat=secret", "not_an_integer"),
        ("amqp://u:sec%zzret@h", "invalid_escape"),
        ("amqps://u:secret@h?verify=secret", "unsupported_value"),
        ("amqp://h?username=secret", "parameter_unconfigurable_in_query"),
    ],
)
def test_what_is_no_uri_is_refused_without_a_secret(uri: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as caught:
        parse_endpoint(uri)
    text = "".join(traceback.format_exception_only(caught.value))
    assert "secret" not in text and "ret@" not in text


def test_an_endpoint_can_be_printed_without_its_secrets() -> None:
    found = parse_endpoint("amqps://user:secret@h/v?password=secret&heartbeat=5")
    assert "secret" not in repr(found) and "[redacted]" in repr(found)
    assert "secret" not in f"{found.password}"
    assert found.password is not None and found.password.reveal() == "secret"
    assert found.safe == "amqps://h/v"


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("amqp://user:pass@localhost:5672/foo", "amqp://localhost:5672/foo"),
        ("amqps://user:pass@localhost:5672/foo?password=p", "amqps://localhost:5672/foo"),
        ("amqp://user:pass@/foo", "amqp:///foo"),
    ],
)
def test_credentials_are_removed(uri: str, safe: str) -> None:
    assert parse_endpoint(uri).safe == safe
