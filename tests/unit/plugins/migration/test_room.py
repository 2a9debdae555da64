"""A target that runs fewer links than there are queues: the queues take turns, and without a link the command ends."""

import io
from collections.abc import Collection
from typing import Any, cast

import pytest

from warren.broker.ctl.errors import UNAVAILABLE, ExitError
from warren.plugins.migration import migration as module
from warren.plugins.migration.brokers import QueueName, QueueState
from warren.plugins.migration.migration import Migration, Options
from warren.plugins.migration.movers import LinkState
from warren.plugins.migration.progress import Display

QUEUES = [QueueName("/", f"q{number}") for number in range(5)]


class Source:
    """A source with two messages in each queue."""

    def __init__(self) -> None:
        self.ready = dict.fromkeys(QUEUES, 2)

    def queues(self) -> dict[QueueName, QueueState]:
        return {name: QueueState(count, 0, 0, {}) for name, count in self.ready.items()}

    def connections(self) -> list[tuple[str, str]]:
        return []


class Places:
    """A mover whose target runs some links; a link stays, and empties its queue before the next request."""

    def __init__(self, source: Source, places: int) -> None:
        self.source = source
        self.places = places
        self.linked: list[QueueName] = []
        self.running: list[QueueName] = []

    def queues(self) -> set[QueueName]:
        return set(self.linked)

    def set(self, queues: Collection[QueueName]) -> None:
        self.linked = sorted(queues)
        kept = [name for name in self.running if name in queues]
        self.running = [*kept, *(name for name in self.linked if name not in kept)][: self.places]
        for name in self.running:
            self.source.ready[name] = 0

    def state(self) -> dict[QueueName, LinkState]:
        return {name: LinkState(0, refused=name not in self.running) for name in self.linked}

    def is_link(self, connection: str) -> bool:
        return False


def migration(places: int) -> tuple[Migration, Source, Places, io.StringIO]:
    source, out = Source(), io.StringIO()
    mover = Places(source, places)
    made = Migration(cast(Any, source), cast(Any, None), mover, Options(), Display(out))
    return made, source, mover, out


def test_the_link_of_an_empty_queue_leaves_its_place_to_another() -> None:
    made, source, _, out = migration(2)
    for _ in range(6):
        made._look(set(QUEUES))
    assert not any(source.ready.values())
    says = "the target has places for 2 of 5 links (warren.federation_link_limit): queues take turns"
    assert out.getvalue().count(says) == 1


def test_a_target_that_has_more_places_by_now_gets_more_links() -> None:
    made, source, mover, _ = migration(1)
    source.ready = dict.fromkeys(QUEUES, 1)
    made._look(set(QUEUES))
    made._look(set(QUEUES))
    assert len(mover.linked) == 1
    mover.places = 5
    for _ in QUEUES:
        made._look(set(QUEUES))
    assert len(mover.running) == 5


def test_no_place_for_long_is_an_error_that_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    made, *_ = migration(0)
    made._look(set(QUEUES))
    made._look(set(QUEUES))
    monkeypatch.setattr(module, "NO_ROOM_S", 0.0)
    with pytest.raises(ExitError, match=r"warren\.federation_link_limit is reached there") as caught:
        made._look(set(QUEUES))
    assert caught.value.status == UNAVAILABLE
