"""Any topology that is exported and imported by an empty broker is exported the same."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.definitions import as_text, new_node
from tests.support.hypothesis_settings import examples
from warren.broker.amqp.errors import AMQPError
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.exporter import export_definitions
from warren.broker.core.definitions.files import parse_json
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.node.node import Node

VHOSTS = ("/", "v", "é")
NAMES = st.sampled_from(["a", "b", "c", "ü.ö", "a b", "%2f", '"'])
PATTERNS = st.sampled_from(["", ".*", "^a", "b|c"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 40), 1 << 40)
    | st.text(max_size=5)
    | st.sampled_from([0.25, "a\udcff"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
ODD = st.dictionaries(NAMES, VALUES, max_size=3)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x-message-ttl": st.integers(0, 9),
        "x-max-length": st.integers(0, 9),
        "x-dead-letter-exchange": NAMES,
        "x-single-active-consumer": st.booleans(),
        "x-queue-type": st.sampled_from(["classic", "quorum"]),
    },
)
STEPS = st.one_of(
    st.tuples(st.just("queue"), NAMES, st.booleans(), st.booleans(), ARGUMENTS, ODD),
    st.tuples(
        *(st.just("exchange"), NAMES, st.sampled_from(["direct", "fanout", "topic", "headers"])),
        *(st.booleans(), st.booleans(), st.booleans(), ODD),
    ),
    st.tuples(st.just("bind"), NAMES, NAMES, st.booleans(), NAMES, ODD),
    st.tuples(st.just("policy"), NAMES, PATTERNS, st.integers(-5, 5), st.booleans(), st.integers(0, 9)),
    st.tuples(st.just("upstream"), NAMES, st.sampled_from(["amqp://a", ["amqp://a", "amqp://b"]])),
    st.tuples(st.just("limits"), st.integers(-1, 5)),
    st.tuples(st.just("user"), NAMES, PATTERNS, PATTERNS, st.lists(NAMES, max_size=2)),
    st.tuples(st.just("global"), NAMES, VALUES),
    st.tuples(st.just("vhost"), NAMES, st.lists(NAMES, max_size=2), st.sampled_from(["", "classic", "quorum"])),
)


def build(node: Node, vhost: str, step: Any) -> None:
    """Take one step of clients or operators in this virtual host."""
    kind, *given = step
    there = node.vhosts[vhost]
    if kind == "queue":
        name, durable, auto_delete, arguments, odd = given
        there.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=Table.of({**odd, **arguments}))
    elif kind == "exchange":
        name, type_, durable, auto_delete, internal, odd = given
        there.declare_exchange(
            name, type_, durable=durable, auto_delete=auto_delete, internal=internal, arguments=Table.of(odd)
        )
    elif kind == "bind":
        source, end, to_queue, key, odd = given
        there.bind(source, there.queue(end) if to_queue else there.exchange(end), key, Table.of(odd))
    elif kind == "policy":
        name, pattern, priority, operator, length = given
        node.policies.set(vhost, name, pattern, {"max-length": length}, priority, "queues", operator)
    elif kind == "upstream":
        node.parameters.set(vhost, "federation-upstream", given[0], {"uri": given[1]})
    elif kind == "limits":
        node.limits.set_vhost(vhost, {"max-queues": given[0]})
    elif kind == "user":
        name, pattern, other, tags = given
        if node.users.get(name) is None:
            node.users.add(name, tags=tags, limits={"max-channels": len(pattern)})
        node.users.set_permission(name, vhost, pattern, other, "")
        node.users.set_topic_permission(name, vhost, "amq.topic", other, pattern)
    elif kind == "global":
        node.parameters.set_global(*given)
    else:
        node.update_vhost(vhost, *given)


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(VHOSTS), STEPS), max_size=40))
def test_imported_definitions_are_exported_the_same(steps: list[tuple[str, Any]]) -> None:
    node = new_node()
    for vhost in VHOSTS:
        node.add_vhost(vhost)
    for vhost, step in steps:
        try:
            build(node, vhost, step)
        except AMQPError:
            pass  # as a client would be refused
    text = as_text(node)
    other = new_node()
    assert import_definitions(other, parse_json(text.encode())) == []
    assert as_text(other) == text
    assert import_definitions(other, parse_json(text.encode())) == []  # again, which changes nothing
    assert as_text(other) == text
    single = new_node()
    single.add_vhost("v")
    assert import_definitions(single, parse_json(as_text(node, "v").encode()), "v") == []
    for section in ("parameters", "policies", "exchanges", "queues", "bindings"):
        assert export_definitions(single, "v")[section] == export_definitions(node, "v")[section]
