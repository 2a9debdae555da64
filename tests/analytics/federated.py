"""Three brokers that federate and export, under a load whose counts the log must have.

a --proxy--> b --> c    the exchange `fed.news`, on two hops
a ---------------> c    the queue `fed.work`
"""

from collections import Counter
from pathlib import Path

from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Content
from tests.support.federated_broker import FederatedBroker
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy
from warren.plugins.message_log.file_format import schema

NEWS, KEY, WORK = "fed.news", "k", "fed.work"
PERSISTENT = {"delivery_mode": 2}
CUT_AFTER, WHILE_CUT, LOCAL, WORKS = 150, 50, 40, 30
SETTLED_S = 60.0


class Load:
    """The load of one broker, and its counts: `counts` by the names of `totals`, `entered` by queue."""

    def __init__(self, warren: FederatedBroker) -> None:
        self.warren = warren
        self.counts: Counter[str] = Counter()
        self.entered: Counter[str] = Counter()
        self.confirming = warren.connect().channel()
        self.confirming.confirm()
        self.plain = warren.connect().channel()
        self._numbers = 0

    def publish(self, count: int, exchange: str, key: str, *queues: str, refused: int = 0) -> None:
        """Publish with confirms, of which `refused` are negative, into these queues. Every second message has an id."""
        numbers = range(self._numbers + 1, self._numbers + count + 1)
        self._numbers += count
        for number in numbers:
            named = {"message_id": f"{self.warren.name}-{number}"} if number % 2 else {}
            self.confirming.publish(exchange, key, b"%s %d" % (self.warren.name.encode(), number), PERSISTENT | named)
        told, told_no = self.confirming.confirms(numbers)
        assert (len(told), len(told_no)) == (count - refused, refused)
        self.count(published=count, confirmed=len(told), refused=len(told_no))
        for queue in queues:
            self.entered[queue] += count - refused

    def count(self, **more: int) -> None:
        self.counts.update(more)

    def queue(self, name: str, **arguments: object) -> None:
        declared = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        self.plain.declare(name, durable=True, arguments=declared)

    def gets(self, queue: str, count: int, no_ack: bool = False) -> list[Content]:
        found = [one for _ in range(count) if (one := self.plain.get(queue, no_ack)) is not None]
        assert len(found) == count
        self.count(delivered=count)
        return found

    def consumed(self, queue: str, count: int) -> None:
        """Consume and acknowledge messages, with one multiple acknowledgement."""
        channel = self.warren.connect().channel()
        channel.consume(queue)
        last = channel.deliveries(count)[-1]
        channel.ack(last.tag, multiple=True)
        channel.sync()
        self.count(delivered=count, acknowledged=count)
        channel.client.close()

    def drained(self, queue: str) -> int:
        """Consume all messages without acknowledgement. Returns their number."""
        count = self.plain.count(queue)
        channel = self.warren.connect().channel()
        channel.consume(queue, no_ack=True)
        channel.deliveries(count)
        self.count(delivered=count)
        channel.client.close()
        return count

    # The events of messages at one broker

    def run(self) -> None:
        """Cause all events of messages."""
        for name in ("acked", "got", "again", "dead", "kept", "purged", "gone"):
            self.queue(name)
        self.queue("rejecting", dead_letter_exchange="", dead_letter_routing_key="dead")
        self.queue("timed", message_ttl=1)
        self.queue("late", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="dead")
        self.queue("short", max_length=4)
        self.queue("full", max_length=3, overflow="reject-publish")
        self.unroutable()
        self.settled()
        self.given_up()
        self.transacted()
        self.publish(4, "", "kept", "kept")
        self.gets("kept", 2)  # which are never settled

    def unroutable(self) -> None:
        self.publish(7, NEWS, "nowhere")
        for _ in range(5):
            self.plain.publish(NEWS, "nowhere", b"back", mandatory=True)
        for _ in range(5):
            assert isinstance(self.plain.next().method, Basic.Return)
        self.count(published=5, returned=5, unroutable=12)

    def settled(self) -> None:
        self.publish(30, "", "acked", "acked")
        self.consumed("acked", 30)
        self.publish(20, "", "got", "got")
        self.gets("got", 20, no_ack=True)
        self.publish(6, "", "again", "again")
        for message in self.gets("again", 6):
            self.plain.nack(message.tag)
        self.plain.sync()
        for message in self.gets("again", 6):
            self.plain.ack(message.tag)
        self.plain.sync()
        self.count(rejected=6, requeued=6, redelivered=6, acknowledged=6)

    def given_up(self) -> None:
        self.publish(8, "", "rejecting", "rejecting", "dead")
        for message in self.gets("rejecting", 8):
            self.plain.reject(message.tag, requeue=False)
        self.publish(5, "", "late", "late", "dead")
        self.publish(6, "", "timed", "timed")
        for queue, count in (("dead", 13), ("timed", 0)):
            until(lambda queue=queue, count=count: self.plain.count(queue) == count, queue)  # type: ignore[misc]
        self.count(rejected=8, dead_lettered=13, expired=6)
        self.consumed("dead", 13)
        self.publish(10, "", "short", "short")
        self.publish(5, "", "full", "full", refused=2)
        self.publish(3, "", "purged", "purged")
        self.plain.call(Queue.Purge, queue="purged")
        self.publish(2, "", "gone", "gone")
        self.plain.delete("gone")
        self.count(dropped=6 + 3 + 2)

    def transacted(self) -> None:
        channel = self.warren.connect().channel()
        channel.transact()
        for finish in (channel.commit, channel.rollback):
            for _ in range(4):
                channel.publish("", "kept", b"together", PERSISTENT)
            finish()
        self.count(published=4, confirmed=4)
        self.entered["kept"] += 4


class Federated:
    """Three brokers that write into `export`. `total` has the sum of their counts after `run`."""

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self.export = folder / "export"
        self.warrens = {name: FederatedBroker(folder / name, name) for name in "abc"}
        self._settings = folder / "warren.conf"
        self._settings.write_text(f"message_log.enabled = true\nmessage_log.directory = {self.export}\n")
        for warren in self.warrens.values():
            warren.launch(config=self._settings)
        for warren in self.warrens.values():
            warren.wait_ready()
        self.proxy = Proxy(loop, self.warrens["a"].address)
        self.loads = {name: Load(warren) for name, warren in self.warrens.items()}
        self._federate()

    def close(self) -> None:
        self.proxy.close()
        for warren in self.warrens.values():
            warren.close()

    @property
    def total(self) -> Counter[str]:
        return sum((load.counts for load in self.loads.values()), Counter())

    def _federate(self) -> None:
        a, b, c = self.warrens.values()
        for load in self.loads.values():
            load.plain.exchange(NEWS, "direct", durable=True)
            load.queue("inbox")
            load.plain.bind("inbox", NEWS, KEY)
        for name in "ac":
            self.loads[name].queue(WORK)
        b.upstream("news", f"amqp://127.0.0.1:{self.proxy.port}/%2f", max_hops=2, prefetch_count=20)
        c.upstream("news", b.uri, max_hops=2)
        c.upstream("work", a.uri)
        for warren in (b, c):
            warren.policy("^fed\\.news", {"federation-upstream": "news"}, "news")
        c.policy("^fed\\.work", {"federation-upstream": "work"}, "work")
        b.running()
        c.running(2)
        a.bound(NEWS, KEY, KEY)  # for b, and for c behind it
        b.bound(NEWS, KEY)

    def run(self) -> None:
        """Run the load, and stop the brokers."""
        a = self.loads["a"]
        for load in self.loads.values():
            load.run()
            load.publish(LOCAL, NEWS, KEY)
        a.publish(CUT_AFTER, NEWS, KEY)
        self.proxy.cut()
        a.publish(WHILE_CUT, NEWS, KEY)
        self.proxy.restore()
        self._work()
        self._settle()
        self._count_news()
        for warren in self.warrens.values():
            warren.stop()

    def kill(self, name: str, export: Path) -> None:
        """Start a stopped broker on its data, kill it at work, and start and stop it again."""
        settings = self._settings.with_name("alone.conf")
        settings.write_text(f"message_log.enabled = true\nmessage_log.directory = {export}\n")
        warren, manifests = self.warrens[name], export / schema.MANIFEST
        count = len(list(manifests.iterdir()))
        warren.start(config=settings)
        load = Load(warren)
        load.publish(LOCAL, "", "acked", "acked")
        load.drained("acked")
        until(lambda: len(list(manifests.iterdir())) > count, "the writer")
        warren.kill()
        warren.start(config=settings)
        warren.stop()

    def _work(self) -> None:
        """Publish at one broker, and consume at another."""
        self.loads["a"].publish(WORKS, "", WORK, WORK)
        self.loads["c"].consumed(WORK, WORKS)
        self.loads["c"].entered[WORK] += WORKS
        self.loads["a"].counts["federated_out"] += WORKS
        self.loads["c"].counts["federated_in"] += WORKS

    def _settle(self) -> None:
        """Wait until no message is between two brokers."""

        def settled() -> bool:
            queues = {name: warren.queues() for name, warren in self.warrens.items()}
            waiting = [count for found in queues.values() for name, count in found.items() if name.startswith("fed")]
            rows = [row for warren in self.warrens.values() for row in warren.rows()]
            return not any(waiting) and all(row["status"] == "running" and not row["unconfirmed"] for row in rows)

        until(settled, lambda: str([(warren.queues(), warren.rows()) for warren in self.warrens.values()]), SETTLED_S)

    def _count_news(self) -> None:
        """Count arrivals by broker; they exceed the publishes if the cut caused repeats."""
        a, b, c = self.loads.values()
        came = {name: load.drained("inbox") for name, load in self.loads.items()}
        at_least = LOCAL + CUT_AFTER + WHILE_CUT
        assert came["a"] == at_least and came["b"] >= at_least + LOCAL and came["c"] == came["b"] + LOCAL
        for name, load in self.loads.items():
            load.entered["inbox"] += came[name]
        a.entered[upstream_queue("b")] += came["a"]
        b.entered[upstream_queue("c")] += came["b"]
        a.count(federated_out=came["a"])
        b.count(federated_out=came["b"], federated_in=came["b"] - LOCAL)
        c.count(federated_in=came["c"] - LOCAL)


def upstream_queue(downstream: str) -> str:
    return f"federation: {NEWS} -> {downstream}"
