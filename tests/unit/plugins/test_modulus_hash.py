"""x-modulus-hash: the slot of a key and the order of the bindings."""

import random
import subprocess
import sys
from collections import Counter

import pytest

from tests.support.checkout import ROOT
from tests.support.session import new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost
from warren.broker.stable_hash import stable_hash
from warren.plugins.exchanges.modulus_hash import ModulusHashExchange

MESSAGE = framed(RoutingAddress("x", "k"), Properties(), b"")
KEYS = [f"order-{number}" for number in range(500)]


@pytest.fixture
def vhost() -> VHost:
    node = new_node()
    node.registry.register("x-modulus-hash", ModulusHashExchange)
    declare(node.vhosts["/"], "x")
    return node.vhosts["/"]


def declare(vhost: VHost, name: str) -> Exchange:
    return vhost.declare_exchange(name, "x-modulus-hash")


def queue(vhost: VHost, name: str) -> Queue:
    return vhost.declare_queue(name)


def placed(vhost: VHost, exchange: str = "x") -> dict[str, str]:
    """Return the destination of each of KEYS."""
    type_ = vhost.exchanges[exchange].type
    return {key: destination.name for key in KEYS for destination in type_.route((key,), MESSAGE)}


def test_forty_queues_are_chosen_alike_whatever_the_order_in_which_they_were_bound(vhost):
    queues = [queue(vhost, f"q{number}") for number in range(40)]
    for each in queues:
        vhost.bind("x", each, "", Table.EMPTY)
    expected = placed(vhost)
    assert len(set(expected.values())) == 40
    declare(vhost, "y")
    random.Random(5).shuffle(queues)
    for number, each in enumerate(queues):
        vhost.bind("y", each, str(number), Table.of({"n": number}))
    assert placed(vhost, "y") == expected


def test_the_place_is_the_hash_modulo_the_number_of_bindings_in_the_order_of_names(vhost):
    names = sorted(["b", "a", "ä", "Z", "aa", "z"], key=lambda name: name.encode())
    for name in reversed(names):
        vhost.bind("x", queue(vhost, name), "ignored", Table.EMPTY)
    assert placed(vhost) == {key: names[stable_hash(key.encode()) % len(names)] for key in KEYS}


def test_exchanges_stand_before_queues(vhost):
    vhost.bind("x", queue(vhost, "a"), "", Table.EMPTY)
    vhost.declare_exchange("b", "fanout")
    vhost.bind("x", vhost.exchanges["b"], "", Table.EMPTY)
    assert placed(vhost) == {key: "ba"[stable_hash(key.encode()) % 2] for key in KEYS}


def test_a_binding_that_goes_leaves_the_others_of_its_queue(vhost):
    first, second = queue(vhost, "a"), queue(vhost, "b")
    for key in "123":
        vhost.bind("x", first, key, Table.EMPTY)
    vhost.bind("x", second, "1", Table.EMPTY)
    assert 0.70 < Counter(placed(vhost).values())["a"] / len(KEYS) < 0.80
    vhost.unbind("x", first, "2", Table.EMPTY)
    vhost.unbind("x", first, "3", Table.EMPTY)
    assert 0.45 < Counter(placed(vhost).values())["a"] / len(KEYS) < 0.55
    vhost.delete_queue(first)
    assert set(placed(vhost).values()) == {"b"}
    vhost.delete_queue(second)
    assert placed(vhost) == {}


def test_the_keys_of_cc_and_bcc_count_too():
    exchange = ModulusHashExchange("x", Table.EMPTY)
    for name in ("a", "b", "c", "d", "e"):
        exchange.on_bind(Binding("x", Destination(name), "", Table.EMPTY))
    alone = [exchange.route((key,), MESSAGE) for key in KEYS]
    copied = [exchange.route((key, "copy"), MESSAGE) for key in KEYS]
    assert all(len(found) == 1 for found in copied) and alone != copied


def test_the_hash_is_that_of_every_machine_and_python():
    """These numbers were computed once, by another program: `printf k | b2sum -l 64`."""
    assert [f"{stable_hash(data):016x}" for data in (b"", b"k", b"order-7", b"\xff\x00")] == [
        *("e4a6a0577479b2b4", "ac52cb5ff985d463", "e9b52cd6ff54f2f1", "8be98a3d14d420eb"),
    ]
    program = "from warren.broker.stable_hash import stable_hash; print(stable_hash(b'k'))"
    for seed in ("0", "1"):
        line = [sys.executable, "-c", program]
        done = subprocess.run(line, env={"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, text=True, check=True)
        assert int(done.stdout) == stable_hash(b"k")
