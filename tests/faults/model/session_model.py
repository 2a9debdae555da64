"""A model of a virtual host with its connections, which accepts or rejects the frames that a broker sends.

Each step is a request of one client. `Model.step` applies its rules, then lets messages move until none can, and takes
a frame that came for each delivery, reply, confirm and return. Where AMQP leaves a choice, the frames decide, and the
comment there says why. A frame that is missing, wrong or left over is a `Mismatch`. A choice that no frame shows yet is
one of `Choices`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pamqp import base
from pamqp.commands import Basic, Connection
from pamqp.commands import Channel as ChannelMethods
from pamqp.commands import Queue as QueueMethods

from tests.support.amqp_client import Content, describe

from .channel_model import Channel, Refused
from .queue_model import Consumer, Dialect, Entry, Letter, Message, Queue

T = TypeVar("T")
Key = tuple[int, int]
"""A channel: the index of its connection, and its number. Number 0 is the connection itself."""
REJECTS = ("reject-publish", "reject-publish-dlx")


class Mismatch(AssertionError):
    """The broker and the model disagree. `place` says in what, for the table of known differences."""

    def __init__(self, place: str, expected: object, came: object) -> None:
        super().__init__(f"{place}: expected {expected}, got {came}")
        self.place, self.expected, self.came = place, str(expected), str(came)


class Exchange:
    """An exchange: bindings are (queue, key); a fanout exchange ignores the key."""

    def __init__(self, name: str, fanout: bool) -> None:
        self.name = name
        self.fanout = fanout
        self.bindings: list[tuple[str, str]] = []

    def route(self, keys: Sequence[str]) -> list[str]:
        return [queue for queue, key in self.bindings if self.fanout or key in keys]


class Frames:
    """The frames of one channel that came in a step, and are not explained yet, with their index."""

    def __init__(self, frames: Sequence[Any]) -> None:
        self.left = list(enumerate(frames))

    def next_delivery(self, tags: Collection[str]) -> tuple[int, Content] | None:
        """Return the first delivery to consumers with these tags, with its index."""
        for index, frame in self.left:
            if kind_of(frame) is Basic.Deliver and frame.method.consumer_tag in tags:
                return index, frame
        return None

    def take(self, *kinds: type[base.Frame]) -> tuple[int, Any]:
        """Remove and return the first frame of these kinds, with its index. Raises Mismatch."""
        for at, (index, frame) in enumerate(self.left):
            if kind_of(frame) in kinds:
                del self.left[at]
                return index, frame
        names = " or ".join(kind.name for kind in kinds)
        raise Mismatch("reply", names, ", ".join(describe(frame) for _, frame in self.left) or "nothing")


class Choices:
    """The choices of a broker in one step that only later steps may show: a path in the tree of all of them.

    wide  whether each queue may work at any time, also between the publishes that came at once
    """

    def __init__(self, wide: bool = False) -> None:
        self.wide = wide
        self._path: list[tuple[int, int]] = []  # the index of each choice, and the number of options
        self._at = 0
        self._known: set[str] = set()

    def choose(self, options: Sequence[T]) -> T:
        if self._at == len(self._path):
            self._path.append((0, len(options)))
        index, _ = self._path[self._at]
        self._at += 1
        return options[index]

    def is_known(self, state: str) -> bool:
        """Whether another path has come to this state, from which it was followed."""
        if self._at < len(self._path):
            return False  # on the way to where this path parts from the last one
        known = state in self._known
        self._known.add(state)
        return known

    def next_path(self) -> bool:
        """Take the next path from the start; return False after the last one."""
        self._at = 0
        while self._path:
            index, count = self._path.pop()
            if index + 1 < count:
                self._path.append((index + 1, count))
                return True
        return False


def kind_of(frame: Any) -> type[base.Frame]:
    return type(frame.method if isinstance(frame, Content) else frame)


class Model:
    """The model. `timestamp_s` is the time that x-death has at a time of the clock, 0 if it is not compared."""

    def __init__(self, timestamp_s: Callable[[int], int], dialect: Dialect) -> None:
        self.now_ms = 0
        self.dialect = dialect
        self._timestamp_s = timestamp_s
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.connections: set[int] = set()
        self.channels: dict[Key, Channel] = {}
        self.policies: dict[str, Mapping[str, Any]] = {}
        self._frames: dict[Key, Frames] = {}
        self._returns: dict[Key, list[tuple[int, Message]]] = {}
        self._cancels: list[tuple[Key, str]] = []
        self._replies: dict[tuple[Key, str], int] = {}  # index of consume-ok by consumer tag: deliveries follow it
        self.choices = Choices()  # of the step
        self._deleted: dict[Key, int] = {}  # index of delete-ok: basic.cancel follows it, as in RabbitMQ
        self._arrivals = 0
        self._passed: list[Consumer] = []  # that seemed to have room for a message that might not wait
        self._runs = 0  # of queues in any order, in all steps

    @property
    def chooses(self) -> bool:
        """Whether the order in which queues publish their dead letters may matter.

        Queues work side by side. Where one has dead letters for another that is full, AMQP 4.7 leaves open whether that
        one has published its own before.
        """
        return any(queue.at_least_once and queue.limited for queue in self.queues.values())

    @property
    def may_choose(self) -> bool:
        """Whether that may be so in a step, in which a policy may set a limit."""
        return any(queue.at_least_once for queue in self.queues.values())

    @property
    def may_choose_widely(self) -> bool:
        """Whether it may matter when a queue with a limit, or a time to live of 0, gets the dead letters of another."""
        queues = self.queues.values()
        return any(queue.limited or queue.never_waits for queue in queues) and any(
            queue.dead_letter_exchange is not None for queue in queues
        )

    @property
    def state(self) -> str:
        """The state that no frame has to show: the messages in queues, dead letters that wait, and until when."""
        queues = [
            (queue.name, queue.ready, queue.waiting, queue.retry_ms if queue.waiting else 0, queue.wait_ms)
            for queue in self.queues.values()
        ]
        return repr((queues, [one.entry for channel in self.channels.values() for one in channel.outstanding]))

    @property
    def _moving_state(self) -> str:
        """The state with all that moves in a step."""
        frames = [[index for index, _ in frames.left] for frames in self._frames.values()]
        confirms = [channel.unconfirmed for channel in self.channels.values()]
        outboxes = [queue.outbox for queue in self.queues.values()]
        return repr((self._runs, frames, confirms, outboxes, [one.tag for one in self._passed], self.state))

    # A step

    def step(
        self, frames: Mapping[Key, Sequence[Any]], now_ms: int, key: Key, request: Callable[[Channel], None]
    ) -> None:
        """Apply a request of this channel at this time, and explain all frames that came. Raises Mismatch."""
        self._begin(frames, now_ms)
        channel = self.channels.get(key) or Channel(*key)
        try:
            request(channel)
        except Refused as refused:
            self._refuse(channel, refused)
        self.run()
        self._explain()

    def wait(self, frames: Mapping[Key, Sequence[Any]], now_ms: int, change: Callable[[], None] = lambda: None) -> None:
        """Let time pass until `now_ms`, and make a change, as an operator does. Raises Mismatch."""
        self._begin(frames, now_ms)
        change()
        self.run()
        self._explain()

    def _begin(self, frames: Mapping[Key, Sequence[Any]], now_ms: int) -> None:
        """Check delivery tags; let messages expire, and dead letters be tried again, at their times up to `now_ms`."""
        self._frames = {one: Frames(came) for one, came in frames.items()}
        self._returns, self._cancels, self._replies, self._deleted, self._passed = {}, [], {}, {}, []
        for one, channel in self.channels.items():
            for frame in frames.get(one, ()):
                if kind_of(frame) in (Basic.Deliver, Basic.GetOk):
                    channel.tag += 1
                    check("delivery tag", channel.tag, frame.tag)
        while True:
            times = [due for queue in self.queues.values() if (due := queue.next_ms()) is not None]
            if min(times, default=now_ms + 1) > now_ms:
                break
            self.now_ms = max(self.now_ms, min(times))
            self._arrivals += 1
            self.run()
        self.now_ms = now_ms
        self._arrivals += 1

    def reply(self, channel: Channel, *kinds: type[base.Frame]) -> Any:
        return self._take(channel, *kinds)[1]

    def _take(self, channel: Channel, *kinds: type[base.Frame]) -> tuple[int, Any]:
        return self._frames.setdefault((channel.connection, channel.number), Frames(())).take(*kinds)

    def _refuse(self, channel: Channel, refused: Refused) -> None:
        """Expect channel.close, or connection.close, with the code; all that was outstanding is requeued."""
        key = channel.connection, 0 if refused.hard else channel.number
        frames = self._frames.setdefault(key, Frames(()))
        kind = Connection.Close if refused.hard else ChannelMethods.Close
        if not any(isinstance(frame, kind) for _, frame in frames.left):
            raise Mismatch(f"error {refused.code}", kind.name, [describe(frame) for _, frame in frames.left])
        check("reply code", refused.code, frames.take(kind)[1].reply_code)
        if refused.hard:
            self.end_connection(channel.connection)
        else:
            self.end_channel(channel)

    def _explain(self) -> None:
        for queue in self.queues.values():
            if queue.ready and (takers := queue.takers()):
                expected = f"{queue.ready[0].message.body!r} of {queue.name} to {[one.tag for one in takers]}"
                came = [describe(frame) for frames in self._frames.values() for _, frame in frames.left]
                raise Mismatch(f"delivery of {queue_type(queue)}", expected, came)
        if passed := [one.tag for one in self._passed if one in one.queue.consumers and one.has_room]:
            raise Mismatch("delivery of a message that may not wait", f"one to {passed}", "none")
        for key in dict.fromkeys(key for key, _ in self._cancels):
            tags = [tag for one, tag in self._cancels if one == key]  # in any order: they have none
            cancels = [self._frames[key].take(Basic.Cancel) for _ in tags]
            check("basic.cancel", sorted(tags), sorted(cancel.consumer_tag for _, cancel in cancels))
            if min(index for index, _ in cancels) < self._deleted.get(key, -1):
                raise Mismatch("basic.cancel before delete-ok", tags, describe(cancels[0][1]))
        for key, frames in self._frames.items():
            self._explain_publishes(self.channels.get(key), key, frames)
            # A connection that is closed may still get what its other channels leave (AMQP 0-9-1, connection.close).
            if frames.left and key[0] in self.connections:
                raise Mismatch("frame", "no more", ", ".join(describe(frame) for _, frame in frames.left))

    def _explain_publishes(self, channel: Channel | None, key: Key, frames: Frames) -> None:
        """Check returns, in the order of the publishes, and confirms, of which each follows the return.

        How many publishes a confirm covers, and their order, is open (Publisher Confirms). A channel that is closed may
        have sent some of them.
        """
        returned: dict[int, int] = {}
        for number, message in self._returns.get(key, ()):
            index, frame = frames.take(Basic.Return)
            self._check_content("return", frame, message)
            check("reply code of a return", 312, frame.method.reply_code)
            returned[number] = index
        waiting = channel.unconfirmed if channel is not None else None
        for at, frame in [one for one in frames.left if kind_of(one[1]) in (Basic.Ack, Basic.Nack)]:
            frames.left.remove((at, frame))
            if waiting is None:
                continue
            tag = frame.delivery_tag
            covered = [*[number for number in waiting if number < tag and frame.multiple], tag]
            for number in covered:
                check(f"confirm of {number}", waiting.pop(number, None), isinstance(frame, Basic.Ack))
                if returned.get(number, -1) > at:
                    raise Mismatch("confirm before return", number, describe(frame))
        if waiting:
            raise Mismatch("confirm", dict(waiting), "nothing")

    # Messages move

    def run(self) -> None:
        """Deliver, expire, drop and dead-letter until nothing can move."""
        if self.choices.wide:
            return self._run_in_any_order()
        moved = True
        while moved:
            moved = False
            for queue in self.queues.values():
                moved = self._advance(queue) or moved
            publishers = [queue for queue in self.queues.values() if self._publishes(queue)]
            if len(publishers) > 1 and self.chooses:
                publishers = [self.choices.choose(publishers)]
            for queue in publishers:
                self._dead_letter(queue)
            moved = moved or bool(publishers)

    def between(self) -> None:
        """Let queues work, or not, between two methods that came at once."""
        if self.choices.wide:
            self._run_in_any_order(may_stop=True)

    def _run_in_any_order(self, may_stop: bool = False) -> None:
        """Let one queue after the other drop and expire messages or publish dead letters, in an order that is chosen.

        AMQP 4.7 leaves it open: queues work side by side.
        """
        waiting: set[Queue] = set()  # for deliveries of other queues, before they drop
        self._runs += 1
        while True:
            steps: list[tuple[Callable[[Queue], object], Queue] | None] = []
            for queue in self.queues.values():
                if not queue.overdue(self.now_ms):
                    self._advance(queue)
                elif queue not in waiting:
                    steps.append((self._advance, queue))
                if self._publishes(queue):
                    steps.append((self._dead_letter, queue))
            if len(steps) + may_stop > 1 and self.choices.is_known(self._moving_state):
                raise Mismatch("state", "another one", "one that explains nothing")
            step = self.choices.choose([None, *steps] if may_stop or not steps else steps)
            if step is None:
                return
            work, queue = step
            work(queue)
            waits = work == self._advance and queue.overdue(self.now_ms)
            waiting = {queue} | waiting if waits else set()

    def _advance(self, queue: Queue) -> bool:
        """Deliver what the frames show; the limit applies when no consumer has room (Queue Length Limit)."""
        moved = False
        self._remove_overdue(queue)
        while queue.ready and (takers := queue.takers()):
            # The first message to any of them, before others that may be next: that changes no place.
            if not any(self._deliver(queue, taker, first) for first in (True, False) for taker in takers):
                return moved  # the next delivery to each of them is of another queue, or missing
            moved, queue.came_back = True, False
            queue.expire(self.now_ms)
        queue.came_back = False
        queue.trim()
        queue.expire(self.now_ms)
        return moved

    def _remove_overdue(self, queue: Queue) -> None:
        """Remove what has expired, and what came back beyond the limit before a consumer with room gets it."""
        queue.expire(self.now_ms)
        if queue.came_back and not queue.quorum:
            queue.trim()
            queue.expire(self.now_ms)

    def _advance_among_others(self, queue: Queue) -> bool:
        """Advance a queue; return whether its consumers still have room for a message that no frame delivers to them.

        Deliveries of other queues to the same channels may have taken the room before (`Channel.shared_limit`).
        """
        self._advance(queue)
        for taker in queue.takers() if queue.ready else ():
            for other in taker.channel.consumers.values():
                while other.queue is not queue and other.queue.ready and other in other.queue.takers():
                    if not self._deliver(other.queue, other):
                        break
        self._advance(queue)
        return bool(queue.ready and queue.takers())

    def _deliver(self, queue: Queue, consumer: Consumer, first: bool = False) -> bool:
        """Deliver the next message, or only the `first`, if it is the next delivery of the queue on the channel.

        Those of different queues come in any order there (AMQP 4.7): queues work side by side.
        """
        channel: Channel = consumer.channel
        frames = self._frames.get((channel.connection, channel.number))
        tags = [one.tag for one in channel.consumers.values() if one.queue is queue]
        delivery = frames.next_delivery(tags) if frames is not None else None
        if frames is None or delivery is None or delivery[1].method.consumer_tag != consumer.tag:
            return False
        index, content = delivery
        entry = self._next(queue, content, first)
        if entry is None:
            return False  # it may be a dead letter that is still to come
        if index < self._replies.get(((channel.connection, channel.number), consumer.tag), -1):
            raise Mismatch("delivery before consume-ok", consumer.tag, describe(content))
        frames.left.remove(delivery)
        queue.take(entry)
        channel.deliver(queue, consumer, entry, consumer.no_ack, content.tag)
        self._check_entry("delivery", queue, content, entry)
        return True

    def _next(self, queue: Queue, content: Content, first: bool = False) -> Entry | None:
        """Return the message that came, of those that may be next; copies of one message differ in their headers.

        One that differs is a mistake, unless another copy came too: each may be for another consumer, or come later. So
        may one that another queue has not published yet.
        """
        heads = queue.ready[:1] if first else queue.heads()
        alike = [entry for entry in heads if entry.message.body == content.body]
        for entry in alike:
            with suppress(Mismatch):
                self._check_entry("delivery", queue, content, entry)
                return entry
        left = [frame for frames in self._frames.values() for _, frame in frames.left]
        copies = [frame for frame in left if isinstance(frame, Content) and frame.body == content.body]
        mistaken = alike and len(copies) < 2 and not first and not self.choices.wide
        return alike[-1] if mistaken else None

    def _check_entry(self, place: str, queue: Queue, content: Content, entry: Entry) -> None:
        redelivered, delivery_count = entry.shown
        check(f"redelivered {queue_type(queue)}", redelivered, content.redelivered)
        self._check_content(place, content, entry.message, delivery_count)

    def _check_content(self, place: str, content: Content, message: Message, attempts: int = 0) -> None:
        check(f"{place}: body", message.body, content.body)
        check(f"{place}: exchange", message.exchange, content.method.exchange)
        check(f"{place}: routing key", message.key, content.method.routing_key)
        shown = {name: value for name, value in content.properties if value not in (None, "")}
        expected = message.content(attempts)
        headers, expected_headers = shown.pop("headers", {}), expected.pop("headers", {})
        for death in headers.get("x-death", ()):
            death["time"] = int(death["time"].timestamp()) if self._timestamp_s(0) else 0
        for name in sorted({*headers, *expected_headers}):
            check(f"{place}: header {name}", expected_headers.get(name), headers.get(name))
        check(f"{place}: properties", expected, shown)

    def _retries(self, queue: Queue) -> bool:
        return bool(queue.waiting) and (self.now_ms >= queue.retry_ms or not queue.at_least_once)

    def _publishes(self, queue: Queue) -> bool:
        """Whether the queue has dead letters to publish now."""
        return bool(queue.outbox) or self._retries(queue)

    def _dead_letter(self, queue: Queue) -> None:
        """Publish what left the queue to its dead letter exchange; retry what targets did not take."""
        if self._retries(queue):
            retried = len(queue.waiting)
            for _ in range(retried):
                self._offer(queue, queue.waiting.pop(0))
            # RabbitMQ's guide leaves the time of a retry open; ours comes soon once targets have taken a message.
            vain = len(queue.waiting) >= retried
            longest_ms, quick_ms = self.dialect.retry_ms, self.dialect.quick_retry_ms
            queue.wait_ms = min(2 * queue.wait_ms, longest_ms) if vain else quick_ms
            queue.retry_ms = self.now_ms + queue.wait_ms
        for _ in range(len(queue.outbox)):
            self._offer(queue, queue.outbox.pop(0))
        if not queue.waiting:
            queue.wait_ms = self.dialect.retry_ms

    def _offer(self, queue: Queue, letter: Letter) -> None:
        """Publish a dead letter, which waits for the next retry if it has to stay."""
        queue.offered = letter
        done = self._forward(queue, letter)
        queue.offered = None
        if not done:
            if not queue.waiting:
                queue.retry_ms = self.now_ms + queue.wait_ms
            queue.waiting.append(letter)

    def _forward(self, queue: Queue, letter: Letter) -> bool:
        """Publish a dead letter; return whether it is done with: at least once, when all its targets have it."""
        copy, targets = self._route_letter(queue, letter)
        if copy is None:
            return not queue.at_least_once
        for target in targets:
            if target.name not in letter.taken and self._enqueue(target, copy, queue.name, queue.at_least_once):
                letter.taken.add(target.name)
        if not queue.at_least_once:
            return True
        letter.lacks = last_of(targets, letter)
        if letter.lacks is not None:
            self._swap(queue, letter)
        return bool(targets) and {one.name for one in targets} <= letter.taken

    def _route_letter(self, queue: Queue, letter: Letter) -> tuple[Message | None, list[Queue]]:
        """Return the copy of a dead letter that is published now and its targets, or None without an exchange."""
        exchange = queue.dead_letter_exchange
        if exchange is None or exchange and exchange not in self.exchanges:
            return None, []
        copy = letter.message.dead_lettered(
            queue.name, letter.reason, exchange, queue.dead_letter_key, self._timestamp_s(self.now_ms)
        )
        targets = self.route(exchange, [*copy.keys, *copy.blind])
        if letter.reason != "rejected":
            targets = [target for target in targets if not copy.cycles(target.name)]
        return copy, targets

    def _swap(self, queue: Queue, letter: Letter) -> None:
        """Full queues that keep dead letters for each other in a circle pass one on each, at the same time.

        RabbitMQ's guides leave this open. So they do not wait for each other for ever, and none has more messages then.
        """
        circle = self._circle(queue, letter)
        passes: list[tuple[Queue, Letter, Message, Queue]] = []
        for giver, given in circle:
            copy, targets = self._route_letter(giver, given)
            taker = given.lacks
            given.lacks = last_of(targets, given)
            if copy is None or taker is None or given.lacks is not taker:
                return
            passes.append((giver, given, copy, taker))
        for _, _, copy, taker in passes:
            if taker.excess(copy.body, 1, swap=True):
                self._advance(taker)
            if taker.excess(copy.body, 1, swap=True):
                return
        for giver, given, copy, taker in passes:
            self._add(taker, copy, giver.name)
            given.taken.add(taker.name)
            if given is not letter:
                giver.waiting.remove(given)
                giver.wait_ms = giver.wait_ms if giver.waiting else self.dialect.retry_ms

    def _circle(self, queue: Queue, letter: Letter) -> list[tuple[Queue, Letter]]:
        """Return who gives what in the shortest circle that begins with this letter, or nothing."""
        paths = [[(queue, letter)]]
        reached: set[Queue] = set()
        for path in paths:
            given = path[-1][1]
            if given.lacks is queue and queue.swaps(letter, given):
                return path
            if given.lacks is None or given.lacks is queue or given.lacks in reached:
                continue
            reached.add(given.lacks)
            paths += [[*path, (given.lacks, one)] for one in given.lacks.waiting if given.lacks.swaps(one, given)]
        return []

    # Publishing

    def route(self, exchange: str, keys: Sequence[str]) -> list[Queue]:
        """The queues that a message reaches, each once; the default exchange routes to the queue of each key."""
        names = list(dict.fromkeys(self.exchanges[exchange].route(keys) if exchange else keys))
        return [self.queues[name] for name in names if name in self.queues]

    def publish(self, channel: Channel, message: Message, mandatory: bool) -> None:
        """basic.publish. Raises Refused: 404 without the exchange."""
        if message.exchange and message.exchange not in self.exchanges:
            raise Refused(404)
        targets = self.route(message.exchange, [*message.keys, *message.blind])
        if channel.transaction is not None:
            channel.transaction.publishes.append((message, targets, mandatory))
        else:
            self.enqueue(channel, message, targets, mandatory)

    def enqueue(self, channel: Channel, message: Message, targets: list[Queue], mandatory: bool) -> bool:
        """Enqueue a message where it was routed; return whether no queue has rejected it, or was deleted since.

        RabbitMQ 4.0 finds a quorum queue by its name, so it does not find out that one was deleted.
        """
        takers = targets
        if self.dialect.quorum_by_name:
            named = {queue.name: queue for queue in self.queues.values() if queue.quorum}
            takers = [named[queue.name] if queue.quorum else queue
                      for queue in targets if queue.name in named or not queue.quorum]  # fmt: skip
        results = [not queue.deleted and self._enqueue(queue, message, "") for queue in takers]
        accepted = all(results)
        channel.confirm(accepted)
        if mandatory and not targets:
            key = channel.connection, channel.number
            self._returns.setdefault(key, []).append((channel.published or 0, message))
        return accepted

    def _enqueue(self, queue: Queue, message: Message, source: str, keeps: bool = False) -> bool:
        """Add a message to a queue; return False if it rejects it. What its sender `keeps` is not dead-lettered."""
        if queue.overflow in REJECTS and queue.excess(message.body, 1):
            self._advance_among_others(queue)  # what a consumer has room for does not count
            if queue.excess(message.body, 1):
                if queue.overflow == "reject-publish-dlx" and not keeps:
                    queue.dead_letter(message, "maxlen")
                return False
        self._add(queue, message, source)
        return True

    def _add(self, queue: Queue, message: Message, source: str) -> None:
        """Add a message for which there is room."""
        if queue.ttl_ms(message) == 0:
            self._advance(queue)  # what is before it
        entry = queue.push(message, self.now_ms, (self._arrivals, source))
        if entry.deadline_ms == self.now_ms:  # Time-To-Live 0: to a consumer that has room now, or expired
            entry.deadline_ms = None
            if self._advance_among_others(queue) and entry in queue.ready:
                self._passed += queue.takers()
            entry.deadline_ms = self.now_ms

    # Objects

    def queue(self, name: str, channel: Channel) -> Queue:
        """The queue. Raises Refused: 404 without it, 405 if another connection has it exclusively."""
        queue = self.queues.get(name)
        if queue is None:
            raise Refused(404)
        if queue.owner not in (None, channel.connection):
            raise Refused(405)
        return queue

    def get(self, channel: Channel, name: str, no_ack: bool) -> None:
        """basic.get: the first message, with the number of those behind it. Raises Refused."""
        queue = self.queue(name, channel)
        if queue.quorum and queue.single_active:
            raise Refused(405)
        queue.expire(self.now_ms)
        came = self.reply(channel, Basic.GetOk, Basic.GetEmpty)
        if not isinstance(came, Content):
            return check(f"basic.get of {queue_type(queue)}", bool(queue.ready), False)
        check(f"basic.get of {queue_type(queue)}", bool(queue.ready), True)
        entry = self._next(queue, came) or queue.ready[0]
        queue.take(entry)
        with_due = len(queue.ready)
        queue.expire(self.now_ms)
        behind = with_due if queue.quorum and self.dialect.due_counted else len(queue.ready)
        channel.deliver(queue, None, entry, no_ack, came.tag)
        check(f"message count {queue_type(queue)}", behind, came.method.message_count)
        self._check_entry("basic.get", queue, came, entry)

    def consume(self, channel: Channel, name: str, consumer: Callable[[Queue], Consumer]) -> None:
        """basic.consume. Deliveries follow consume-ok. Raises Refused."""
        added = consumer(self.queue(name, channel))
        queue = added.queue
        if added.tag in channel.consumers:
            raise Refused(530)
        if queue.quorum and channel.shared_limit and not self.dialect.shared_prefetch:
            raise Refused(540)
        if not queue.quorum or self.dialect.exclusive_consumers:
            shared = queue.consumers or queue.single_active
            if any(one.exclusive for one in queue.consumers) or added.exclusive and shared:
                raise Refused(403)
        index, reply = self._take(channel, Basic.ConsumeOk)
        check("consumer tag", added.tag, reply.consumer_tag)
        self._replies[(channel.connection, channel.number), added.tag] = index
        channel.consumers[added.tag] = added
        queue.add(added)

    def purge(self, channel: Channel, name: str) -> None:
        queue = self.queue(name, channel)
        check(f"purge {queue_type(queue)}", len(queue.ready), self.reply(channel, QueueMethods.PurgeOk).message_count)
        queue.ready.clear()

    def unsettled_count(self, queue: Queue) -> int:
        """The number of deliveries of a queue that are not settled, or only in a transaction."""
        return sum(one.queue is queue for channel in self.channels.values() for one in channel.outstanding)

    def consumer_count(self, queue: Queue) -> int:
        """The number of consumers that a passive declaration returns."""
        if not queue.quorum or not self.dialect.settling_consumers:
            return len(queue.consumers)
        outstanding = [one for channel in self.channels.values() for one in channel.outstanding if one.queue is queue]
        gets = [one for one in outstanding if one.consumer is None]
        settling = {(one.consumer.channel, one.consumer.tag) for one in outstanding if one.consumer is not None}
        settling -= {(one.channel, one.tag) for one in queue.consumers}  # a new one with the same tag takes its place
        served = 1 if queue.single_active and queue.consumers else len(queue.consumers)
        return served + len(settling) + len(gets)

    def declare(self, channel: Channel, queue: Queue) -> None:
        queue.apply(self.policies.get(queue.name, {}))
        self.queues[queue.name] = queue

    def delete(self, queue: Queue) -> None:
        """Delete a queue with its bindings; its consumers are cancelled. Kept dead letters are tried once more.

        What another channel or queue returned to it before, beyond the limit or after its time, has left it already.
        """
        self._remove(queue)
        self._dead_letter(queue)

    def _remove(self, queue: Queue) -> None:
        """Delete a queue, but for the dead letters that it has to publish."""
        self._remove_overdue(queue)
        queue.deleted = True
        queue.ready.clear()
        del self.queues[queue.name]
        for exchange in self.exchanges.values():
            exchange.bindings = [one for one in exchange.bindings if one[0] != queue.name]
        for consumer in queue.consumers:
            channel: Channel = consumer.channel
            del channel.consumers[consumer.tag]
            self._cancels.append(((channel.connection, channel.number), consumer.tag))
        queue.consumers.clear()

    def delete_queue(self, channel: Channel, name: str, condition: str) -> None:
        """queue.delete, which returns the number of ready messages; a queue that does not exist is no error."""
        count = 0
        if name in self.queues:
            queue = self.queue(name, channel)
            if condition and queue.quorum:
                raise Refused(540)
            if condition == "if_unused" and queue.consumers or condition == "if_empty" and queue.ready:
                raise Refused(406)
            count = len(queue.ready)
            self.delete(queue)
        index, reply = self._take(channel, QueueMethods.DeleteOk)
        check("delete count", count, reply.message_count)
        self._deleted[channel.connection, channel.number] = index

    def set_policy(self, name: str, definition: Mapping[str, Any]) -> None:
        """Apply a policy, or none, from now on; messages keep their deadlines."""
        self.policies.pop(name, None)
        if definition:
            self.policies[name] = definition
        if name in self.queues:
            self.queues[name].apply(definition)

    def cancel(self, channel: Channel, tag: str) -> None:
        """Remove a consumer; an auto-delete queue is deleted with its last one."""
        consumer = channel.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.remove(consumer)
            if consumer.queue.auto_delete and not consumer.queue.consumers and not consumer.queue.deleted:
                self.delete(consumer.queue)

    def end_channel(self, channel: Channel) -> None:
        for tag in list(channel.consumers):
            self.cancel(channel, tag)
        channel.end()
        self.channels.pop((channel.connection, channel.number), None)

    def end_connection(self, connection: int) -> None:
        """End its channels, then delete its exclusive queues.

        AMQP 4.7 leaves their order open, and whether all are gone before one has published its dead letters.
        """
        self.connections.discard(connection)
        for channel in [one for one in self.channels.values() if one.connection == connection]:
            self.end_channel(channel)
        owned = [one for one in self.queues.values() if one.owner == connection]
        together = self.choices.wide and self.choices.choose((False, True))
        for queue in owned if together else ():
            self._remove(queue)
        while owned:
            queue = self.choices.choose(owned) if self.choices.wide else owned[0]
            owned.remove(queue)
            if not together:
                self._remove(queue)
            self._dead_letter(queue)


def last_of(targets: Sequence[Queue], letter: Letter) -> Queue | None:
    """Return the target that alone has no copy of a dead letter, if it may reject one."""
    missing = [target for target in targets if target.name not in letter.taken]
    return missing[0] if len(missing) == 1 and missing[0].overflow in REJECTS else None


def queue_type(queue: Queue) -> str:
    return "quorum" if queue.quorum else "classic"


def check(place: str, expected: object, came: object) -> None:
    if expected != came:
        raise Mismatch(place, expected, came)
