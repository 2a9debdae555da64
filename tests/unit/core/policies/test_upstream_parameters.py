"""Parameters of federation: the values of upstreams and of upstream sets."""

import pytest

from warren.broker.amqp.errors import Invalid
from warren.broker.core.node.node import Node
from warren.broker.core.policies.upstream_parameters import safe_uri, uri_fault

URI = "amqp://u:secret@host:5672/%2f?heartbeat=5"


def lines(node: Node, component: str, value: object, name: str = "up") -> list[str]:
    """Return the errors in a value."""
    try:
        node.parameters.set("/", component, name, value)
    except Invalid as error:
        first, _, rest = error.text.partition("\n\n")
        assert first == "Validation failed" and rest.endswith("\n")
        return rest.splitlines()
    return []


def test_an_upstream_may_have_all_options(node: Node) -> None:
    value = {
        "uri": [URI, "amqps://other"],
        "exchange": "e",
        "queue": "q",
        "consumer-tag": "t",
        "prefetch-count": 0,
        "reconnect-delay": 0.5,
        "max-hops": 5.0,
        "expires": 1,
        "message-ttl": 0,
        "trust-user-id": True,
        "ack-mode": "no-ack",
        "queue-type": "quorum",
        "bind-nowait": False,
        "resource-cleanup-mode": "never",
        "channel-use-mode": "single",
    }
    assert lines(node, "federation-upstream", value) == []
    assert node.parameters.get("/", "federation-upstream", "up") == value, "it is stored as it was given"


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({}, ['Key "uri" not found in up']),
        ([], ["Unrecognised terms [] in up"]),
        ({"uri": 5}, ["uri should be list, actually was 5"]),
        ({"uri": ["amqp://a", 5, 6]}, ["uri should be list, actually was 5"]),
        ({"uri": ["amqp://a", "http://b"]}, ['"http://b" not a valid URI: {unexpected_uri_scheme,<<"http">>}']),
        (
            {"uri": "amqp://u:secret@h:70000/v?password=secret"},
            ['"amqp://h:70000/v" not a valid URI: port_out_of_range'],
        ),
        ({"uri": URI, "ha-policy": "all"}, ['Unrecognised terms [{<<"ha-policy">>,<<"all">>}] in up']),
        ({"uri": URI, "upstream": "x"}, ['Unrecognised terms [{<<"upstream">>,<<"x">>}] in up']),
        (
            {"uri": URI, "max-hops": "x", "ack-mode": "zz", "trust-user-id": 1, "exchange": 5},
            [
                "exchange should be binary, actually was 5",
                'max-hops should be a number, actually was <<"x">>',
                "trust-user-id should be boolean, actually was 1",
                'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"zz">>',
            ],
        ),
    ],
)
def test_all_errors_of_an_upstream_are_reported(node: Node, value: object, errors: list[str]) -> None:
    assert lines(node, "federation-upstream", value) == errors
    assert node.parameters.get("/", "federation-upstream", "up") is None


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("prefetch-count", ("5", True)),
        ("max-hops", ("1", None)),
        ("expires", ([],)),
        ("message-ttl", ({},)),
        ("reconnect-delay", ("5", False)),
    ],
)
def test_what_is_no_number_is_refused_and_numbers_are_taken_as_rabbitmq_takes_them(
    node: Node, key: str, bad: tuple[object, ...]
) -> None:
    for value in (-1, 0, 1.5, 70_000, 10**30, -(10**30)):
        assert lines(node, "federation-upstream", {"uri": URI, key: value}) == []
    for value in bad:
        (line,) = lines(node, "federation-upstream", {"uri": URI, key: value})
        assert line.startswith(f"{key} should be a number, actually was ")


def test_a_set_is_a_list_of_upstreams_with_options_of_its_own(node: Node) -> None:
    assert lines(node, "federation-upstream-set", []) == []
    assert lines(node, "federation-upstream-set", [{"upstream": "a", "exchange": "x"}, {"upstream": "a"}]) == []
    assert lines(node, "federation-upstream-set", [{"upstream": "a"}], "all") == []
    assert lines(node, "federation-upstream-set", {}) == ["up should be list, actually was #{}"]
    assert lines(node, "federation-upstream-set", [5, {"uri": URI}, {"upstream": 5}]) == [
        "Unrecognised terms 5 in up",
        'Key "upstream" not found in up',
        f'Unrecognised terms [{{<<"uri">>,<<"{URI}">>}}] in up',
        "upstream should be binary, actually was 5",
    ]


def test_upstreams_and_sets_have_a_limit_of_elements_and_errors_too(node: Node) -> None:
    uri, member = "amqp://u", {"upstream": "u"}
    assert not lines(node, "federation-upstream", {"uri": [uri] * 64})
    assert lines(node, "federation-upstream", {"uri": [uri] * 65}) == ["uri may have 64 elements"]
    assert lines(node, "federation-upstream", {"uri": uri + "x" * 8_185}) == ["uri may have 8192 characters"]
    assert not lines(node, "federation-upstream-set", [member] * 256)
    assert lines(node, "federation-upstream-set", [member] * 257) == ["up may have 256 elements"]
    assert len(lines(node, "federation-upstream-set", [{}] * 200)) == 10


def test_the_legacy_component_accepts_nothing(node: Node) -> None:
    assert lines(node, "federation", {}) == ["name not recognised"]


GOOD = """amqp:// amqp:///vh amqp:/// amqp://h AMQPS://h:1 amqp://[::1]:5672/%2f amqp://u:p%40@h amqp://h:/v
amqp://h?auth_mechanism=plain&auth_mechanism=external&foo=1 amqp://h?verify=whatever amqps://h?verify=verify_none&depth=2
amqps://h?server_name_indication=disable&fail_if_no_peer_cert=true&customize_hostname_check=https"""
BAD = {
    "http://h": '{unexpected_uri_scheme,<<"http">>}',
    "amqp:h": '{unexpected_uri_scheme,<<"amqp">>}',
    "": '{unexpected_uri_scheme,<<"">>}',
    "amqp://h:65536": "port_out_of_range",
    "amqp://h:0": "port_out_of_range",
    "amqp://h:x": "port_out_of_range",
    "amqp://:5672": "port_requires_host",
    "amqp://[::1": "invalid_host",
    "amqp://h/a/b": "invalid_vhost",
    "amqp://h/%zz": "invalid_escape",
    "amqp://h/%ff": "invalid_utf8",
    "amqp://\th": "invalid_character",
    "amqp://h\n": "invalid_character",
    "amqp://h?heartbeat=x": "{not_an_integer,heartbeat}",
    "amqp://h?connection_timeout=": "{not_an_integer,connection_timeout}",
    "amqps://h?depth=x": "{not_an_integer,depth}",
    "amqps://h?verify=x": "{unsupported_value,verify}",
    "amqps://h?fail_if_no_peer_cert=1": "{unsupported_value,fail_if_no_peer_cert}",
    "amqp://h?host=x": "{parameter_unconfigurable_in_query,host}",
    "amqp://h?auth_mechanism=zz": "unknown_mechanism",
}


@pytest.mark.parametrize("uri", GOOD.split())
def test_these_are_uris_of_upstreams(uri: str) -> None:
    assert uri_fault(uri) == ""


@pytest.mark.parametrize("uri", BAD)
def test_these_are_no_uris_of_upstreams(uri: str) -> None:
    assert uri_fault(uri) == BAD[uri]


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("amqp://h/v", "amqp://h/v"),
        ("amqp://u:p@h/v?password=x", "amqp://h/v"),
        ("amqp://u:p/w@h/v#x", "amqp://h/v"),
        ("amqp://u:p@q@h/v?p", "amqp://h/v"),
        ("amqp://u:p?w@h/v", "amqp://"),
        ("amqp:/u:p@h/v", "amqp:..."),
        ("u:p@h", "u:..."),
        ("amqp:h/v", "amqp:h/v"),
        ("amqp://u:p@h/v?password=x@y", "amqp://"),
    ],
)
def test_a_safe_uri_has_no_secrets(uri: str, safe: str) -> None:
    assert safe_uri(uri) == safe
