"""The rights that each method needs, as RabbitMQ's guide to access control says.

A method is a row of RULES. It is tried with exactly the rights on exactly the names that the table says, and with all
rights but one of these. A method that the broker serves and that has no row fails a test of its own.
"""

import re
from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Confirm, Exchange, Queue, Tx
from pamqp.commands import Channel as ChannelMethods

from tests.support.amqp_client import Channel, Content
from tests.support.session import connected, new_node, pipe_of
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.node.node import Node
from warren.broker.session.methods.handlers import HANDLERS, IGNORED

CONFIGURE, WRITE, READ = "configure", "write", "read"
RIGHTS = (CONFIGURE, WRITE, READ)
GENERATED = "amq.gen-*"  # in place of generated names
ALTERNATE = {"alternate-exchange": "other"}
DEAD_LETTERS = {"x-dead-letter-exchange": "other"}

Need = tuple[str, str, str]  # right, kind, name


def access_to(right: str, kind: str, name: str) -> str:
    return f"{right} access to {kind} '{name.rstrip('*')}"


class Rule:
    """A row of RULES: all of `needs` are required, or any one of them if `anyone`."""

    def __init__(self, name: str, do: Callable[[Channel], object], index: int, *needs: Need, anyone: bool = False):
        self.name = name
        self.do = do
        self.index = index
        self.needs = needs
        self.anyone = anyone


def publish(exchange: str, **properties: object) -> Callable[[Channel], object]:
    def do(ch: Channel) -> None:
        ch.publish(exchange, "q", b"", properties or None)
        ch.sync()

    return do


def settled(kind: type[Basic.Ack | Basic.Nack | Basic.Reject]) -> Callable[[Channel], object]:
    """Expect 406 for an unknown tag in place of a delivery: without the right to read nothing is delivered."""

    def do(ch: Channel) -> None:
        ch.client.channel().refused(406, kind, delivery_tag=1)

    return do


def any_of(kind: str, name: str) -> tuple[Need, ...]:
    return tuple((right, kind, name) for right in RIGHTS)


def calls(kind: type, **fields: object) -> Callable[[Channel], object]:
    return lambda ch: ch.call(kind, **fields)


C_X, W_X, R_X = [(right, "exchange", "x") for right in RIGHTS]
C_Q, W_Q, R_Q = [(right, "queue", "q") for right in RIGHTS]
W_OTHER = (WRITE, "exchange", "other")
C_NEW = (CONFIGURE, "exchange", "new")
DECLARE_X, DELETE_X = Exchange.Declare, Exchange.Delete

RULES = [
    Rule("declare exchange", calls(DECLARE_X, exchange="new", exchange_type="direct"), DECLARE_X.index, C_NEW),
    Rule("declare exchange again", calls(DECLARE_X, exchange="x", exchange_type="topic"), DECLARE_X.index, C_X),
    Rule("declare exchange with an alternate",
     calls(DECLARE_X, exchange="new", exchange_type="direct", arguments=ALTERNATE), DECLARE_X.index,
     *(C_NEW, (READ, "exchange", "new"), W_OTHER)),
    Rule("declare exchange with an alternate again",
     calls(DECLARE_X, exchange="alternating", exchange_type="direct", arguments=ALTERNATE), DECLARE_X.index,
     (CONFIGURE, "exchange", "alternating")),
    Rule("declare exchange passively", calls(DECLARE_X, exchange="x", exchange_type="topic", passive=True),
     DECLARE_X.index, *any_of("exchange", "x"), anyone=True),
    Rule("delete exchange", calls(DELETE_X, exchange="x"), DELETE_X.index, C_X),
    Rule("delete no exchange", calls(DELETE_X, exchange="none"), DELETE_X.index, (CONFIGURE, "exchange", "none")),
    Rule("bind exchange", calls(Exchange.Bind, destination="other", source="x"), Exchange.Bind.index, W_OTHER, R_X),
    Rule("unbind exchange", calls(Exchange.Unbind, destination="other", source="x"), Exchange.Unbind.index, W_OTHER,
     R_X),
    Rule("declare queue", calls(Queue.Declare, queue="new"), Queue.Declare.index, (CONFIGURE, "queue", "new")),
    Rule("declare queue again", calls(Queue.Declare, queue="q"), Queue.Declare.index, C_Q),
    Rule("declare any queue", calls(Queue.Declare, queue=""), Queue.Declare.index, (CONFIGURE, "queue", GENERATED)),
    Rule("declare queue with dead letters", calls(Queue.Declare, queue="new", arguments=DEAD_LETTERS),
     Queue.Declare.index, *((CONFIGURE, "queue", "new"), (READ, "queue", "new"), W_OTHER)),
    Rule("declare queue with dead letters again", calls(Queue.Declare, queue="dead-lettering", arguments=DEAD_LETTERS),
     Queue.Declare.index, (CONFIGURE, "queue", "dead-lettering")),
    Rule("declare queue passively", calls(Queue.Declare, queue="q", passive=True), Queue.Declare.index,
     *any_of("queue", "q"), anyone=True),
    Rule("bind queue", calls(Queue.Bind, queue="q", exchange="x", routing_key="k"), Queue.Bind.index, W_Q, R_X),
    Rule("unbind queue", calls(Queue.Unbind, queue="q", exchange="x", routing_key="k"), Queue.Unbind.index, W_Q, R_X),
    Rule("purge queue", calls(Queue.Purge, queue="q"), Queue.Purge.index, R_Q),
    Rule("delete queue", calls(Queue.Delete, queue="q"), Queue.Delete.index, C_Q),
    Rule("delete no queue", calls(Queue.Delete, queue="none"), Queue.Delete.index, (CONFIGURE, "queue", "none")),
    Rule("publish", publish("x"), Basic.Publish.index, W_X),
    Rule("publish with CC", publish("x", headers={"CC": ["a"]}), Basic.Publish.index, W_X),
    Rule("publish to queue", publish(""), Basic.Publish.index, (WRITE, "exchange", "amq.default")),
    Rule("get", lambda ch: ch.get("q"), Basic.Get.index, R_Q),
    Rule("consume", lambda ch: ch.consume("q"), Basic.Consume.index, R_Q),
    Rule("cancel", lambda ch: ch.cancel("nobody's"), Basic.Cancel.index),
    Rule("qos", lambda ch: ch.qos(1), Basic.Qos.index),
    Rule("ack", settled(Basic.Ack), Basic.Ack.index),
    Rule("nack", settled(Basic.Nack), Basic.Nack.index),
    Rule("reject", settled(Basic.Reject), Basic.Reject.index),
    Rule("recover", calls(Basic.Recover, requeue=True), Basic.Recover.index),
    Rule("recover-async", lambda ch: ch.send(Basic.RecoverAsync, requeue=True), Basic.RecoverAsync.index),
    Rule("confirm", lambda ch: ch.confirm(), Confirm.Select.index),
    Rule("tx.select", lambda ch: ch.transact(), Tx.Select.index),
    Rule("tx.commit", lambda ch: (ch.transact(), ch.commit()), Tx.Commit.index),
    Rule("tx.rollback", lambda ch: (ch.transact(), ch.rollback()), Tx.Rollback.index),
    Rule("flow", calls(ChannelMethods.Flow, active=True), ChannelMethods.Flow.index),
    Rule("access.request", lambda ch: None, 0x001E000A),
]  # fmt: skip


def prepared() -> Node:
    """Return a node in which guest has made the objects of the rules."""
    node = new_node()
    client = connected(node)
    ch = client.channel()
    ch.exchange("x", "topic")
    ch.exchange("other", "fanout")
    ch.exchange("alternating", "direct", arguments=ALTERNATE)
    ch.declare("q")
    ch.declare("dead-lettering", arguments=DEAD_LETTERS)
    client.close()
    node.users.add("u", hash_password("u", b"salt"))
    return node


def exactly(needs: set[tuple[str, str]], right: str) -> str:
    """Return the pattern of a right that matches only the names for which it is needed."""
    names = [name for needed, name in needs if needed == right]
    patterns = ["amq\\.gen-.*" if name == GENERATED else re.escape(name) for name in sorted(names)]
    return f"^({'|'.join(patterns)})$" if patterns else ""


def granted(node: Node, configure: str, write: str, read: str) -> Channel:
    node.users.set_permission("u", "/", configure, write, read)
    return connected(node, "u").channel()


def refusal(ch: Channel, rule: Rule) -> str:
    """Return the text with which the method is refused, or an empty one if it is served."""
    try:
        rule.do(ch)
        ch.sync()
    except AssertionError as error:
        text = str(error)
        assert "403" in text and " refused for user 'u'" in text, text
        return text
    return ""


def test_just_the_rights_on_just_the_names_are_enough() -> None:
    wrong = []
    for rule in RULES:
        needs = {(right, name) for right, _, name in rule.needs}
        for sufficient in [{need} for need in needs] if rule.anyone else [needs]:
            if text := refusal(granted(prepared(), *[exactly(sufficient, right) for right in RIGHTS]), rule):
                wrong.append(f"{rule.name} with {sufficient}: {text}")
    assert not wrong, "\n".join(wrong)


def test_without_one_of_them_all_others_on_all_names_do_not_help() -> None:
    wrong = []
    for rule in RULES:
        for right, kind, name in () if rule.anyone else rule.needs:
            pattern = "amq\\.gen-.*" if name == GENERATED else re.escape(name)
            but = f"^(?!{pattern}$)"
            text = refusal(granted(prepared(), *[but if other == right else ".*" for other in RIGHTS]), rule)
            if access_to(right, kind, name) not in text:
                wrong.append(f"{rule.name} without {right} {kind} {name}: {text or 'served'}")
    assert not wrong, "\n".join(wrong)


def test_no_method_is_without_a_rule() -> None:
    served = set(HANDLERS) | {Basic.Publish.index, Basic.Ack.index}
    assert served == {rule.index for rule in RULES} and not served & set(IGNORED)


@pytest.mark.parametrize(
    "do, right",
    [
        (lambda ch: ch.get("none"), READ),
        (lambda ch: ch.consume("none"), READ),
        (calls(Queue.Purge, queue="none"), READ),
        (publish("none"), WRITE),
        (calls(Queue.Bind, queue="none", exchange="x", routing_key=""), WRITE),
        (calls(Queue.Bind, queue="q", exchange="none", routing_key=""), READ),
        (calls(Exchange.Bind, destination="none", source="x"), WRITE),
        (calls(Queue.Declare, queue="none", passive=True), "anything"),
        (calls(Exchange.Declare, exchange="none", passive=True), "anything"),
    ],
)
def test_a_refusal_does_not_say_whether_a_name_exists(do: Callable[[Channel], object], right: str) -> None:
    node = prepared()
    granted_rights = [".*" if right not in (other, "anything") else "^q$" for other in RIGHTS]
    with pytest.raises(AssertionError, match=r"access to .* 'none' in vhost '/' refused for user 'u'"):
        do(granted(node, *granted_rights))
    with pytest.raises(AssertionError, match="404"):
        do(granted(node, ".*", ".*", ".*"))


def test_a_change_acts_at_once_also_on_what_was_published_before() -> None:
    node = prepared()
    ch = granted(node, "", ".*", ".*")
    ch.publish("", "q", b"1")
    ch.sync()
    node.users.set_permission("u", "/", "", "^x$", ".*")
    ch.publish("", "q", b"2")
    assert "write access to exchange 'amq.default'" in ch.expect_close(403).reply_text
    other = ch.client.channel()
    content = other.get("q")
    assert isinstance(content, Content) and content.body == b"1" and other.get("q") is None
    node.users.clear_permission("u", "/")
    other.refused(403, Basic.Get, queue="q")


def test_a_pattern_that_takes_too_long_refuses_and_is_reported() -> None:
    node = prepared()
    ch = granted(node, "", "", "^((a|aa|b?)+)+$")
    ch.refused(403, Basic.Get, queue="a" * 250 + "!")
    events = [fields for event, fields in pipe_of(ch.client).link.log if event == "permission_takes_too_long"]
    assert events == [{"vhost": "/", "user": "u", "patterns": ["^((a|aa|b?)+)+$"]}]
