from tests.support.in_process import InProcessPeer
from warren.plugins.management.stats import counters
from warren.plugins.management.stats.counters import KINDS
from warren.plugins.management.stats.history import LENGTHS, Samples
from warren.plugins.management.stats.rates import Range
from warren.plugins.management.stats.sampler import Sampler

MINUTE = {"lengths": Range(60, 5), "msg_rates": Range(60, 5)}


class Looked:
    """A broker that is sampled every five seconds."""

    def __init__(self, mode: str = "basic") -> None:
        self.broker = InProcessPeer()
        self.samples = Samples(KINDS, mode=mode)
        connections = self.broker.server.connections.values
        self.sampler = Sampler(self.broker.node, self.samples, connections, lambda: (1, 2, 3, 4, 5))

    def tick(self) -> None:
        self.broker.wait(5000)
        for _ in self.sampler.sample_all(self.broker.clock.now_ms()):
            pass

    def rate(self, kind: str, key: tuple[str, ...], name: str) -> object:
        details = self.samples.details(kind, key, {name: 0})[f"{name}_details"]
        assert isinstance(details, dict)
        return details["rate"]


def test_every_kind_of_object_is_sampled() -> None:
    looked = Looked()
    client = looked.broker.connect()
    channel = client.channel()
    channel.declare("q")
    looked.tick()
    for _ in range(50):
        channel.publish("", "q", b"body")
    looked.tick()
    (connection,) = looked.broker.server.connections.values()
    channel_key = counters.channel_key(connection, connection.channels[1])
    assert looked.rate("queue", ("/", "q"), "publish") == 10.0
    assert looked.rate("queue", ("/", "q"), "messages_ready") == 10.0
    assert looked.rate("exchange", ("/", ""), "publish_in") == 10.0
    assert looked.rate("exchange", ("/", ""), "publish_out") == 10.0
    assert looked.rate("vhost", ("/",), "publish") == 10.0
    assert looked.rate("vhost", ("/",), "messages") == 10.0
    assert looked.rate("channel", channel_key, "publish") == 10.0
    assert looked.rate("overview", counters.OVERVIEW, "publish") == 10.0
    assert looked.rate("overview", counters.OVERVIEW, "messages") == 10.0
    received = looked.rate("connection", counters.connection_key(connection), "recv_oct")
    assert isinstance(received, float) and received > 500
    assert looked.rate("vhost", ("/",), "recv_oct") == received
    assert looked.rate("node", counters.OVERVIEW, "mem_used") == 0.0
    looked.tick()
    assert looked.rate("queue", ("/", "q"), "publish") == 0.0


def test_byte_counts_of_a_virtual_host_outlast_its_connections() -> None:
    looked = Looked()
    client = looked.broker.connect()
    client.channel().declare("q")
    looked.tick()
    (connection,) = looked.broker.server.connections.values()
    looked.broker.close_connection(client, "enough")
    looked.tick()
    assert looked.broker.node.vhosts["/"].statistics.received_bytes == connection.received_bytes > 100
    assert looked.rate("vhost", ("/",), "recv_oct") == 0.0


def test_churn_is_part_of_the_overview() -> None:
    looked = Looked()
    looked.tick()
    looked.broker.connect().channel().declare("q")
    looked.tick()
    for name in ("connection_created", "channel_created", "queue_declared", "queue_created"):
        assert looked.rate("overview", counters.OVERVIEW, name) == 0.2


def test_nothing_is_sampled_without_rates() -> None:
    looked = Looked("none")
    looked.tick()
    assert list(looked.sampler.sample_all(looked.broker.clock.now_ms())) == []


def test_names_and_values_are_of_one_length() -> None:
    looked = Looked()
    client = looked.broker.connect()
    client.channel().declare("q")
    node = looked.broker.node
    (connection,) = looked.broker.server.connections.values()
    queue, exchange = node.vhosts["/"].queues["q"], node.vhosts["/"].exchanges[""]
    assert counters.queue_counters(queue).keys() | set(LENGTHS) == set(KINDS["queue"])
    assert tuple(counters.exchange_counters(exchange)) == KINDS["exchange"]
    assert tuple(counters.channel_counters(connection.channels[1])) == KINDS["channel"]
    assert tuple(counters.churn_counters(node.churn)) == counters.CHURN
    assert counters.length_counters(counters.lengths(queue)) == dict.fromkeys(LENGTHS, 0)
