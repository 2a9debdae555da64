"""The choice of queues that are moved at the same time, and the output of their progress."""

import io

from warren.plugins.migration.brokers import QueueName, with_vhost
from warren.plugins.migration.migration import choose
from warren.plugins.migration.progress import Display, Progress, totals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rows(**ready: int) -> dict[QueueName, Progress]:
    names = {QueueName("/", name): count for name, count in ready.items()}
    return {name: Progress(name, ready=count) for name, count in names.items()}


def names(queues: list[QueueName]) -> list[str]:
    return [queue.name for queue in queues]


def test_all_queues_have_a_link_if_they_may() -> None:
    assert names(choose(rows(a=0, b=5), set(), 2)) == ["a", "b"]


def test_of_many_queues_those_with_messages_have_a_link_and_keep_it_until_they_are_empty() -> None:
    progress = rows(a=0, b=5, c=900, d=1)
    assert names(choose(progress, set(), 2)) == ["c", "b"]
    assert names(choose(progress, {QueueName("/", "d"), QueueName("/", "b")}, 2)) == ["b", "d"]
    progress[QueueName("/", "b")].ready = 0
    assert names(choose(progress, {QueueName("/", "d"), QueueName("/", "b")}, 2)) == ["d", "c"]


def test_a_name_stays_on_its_line() -> None:
    assert Progress(QueueName("/", "a\nb\x1b[31m")).title == r"a\nb\x1b[31m"


def test_a_virtual_host_takes_the_place_of_that_of_a_uri() -> None:
    assert with_vhost("amqp://u:p%40@host:5673/old?heartbeat=5", "a/b") == "amqp://u:p%40@host:5673/a%2Fb?heartbeat=5"
    assert with_vhost("amqps://u@[::1]", "/") == "amqps://u@[::1]/%2F"


def test_a_log_gets_a_line_with_the_totals_and_each_change_of_a_problem() -> None:
    out = io.StringIO()
    display = Display(out)
    progress = rows(a=1, b=2)
    shown = list(progress.values())
    display.show(shown, totals(shown, 3, 1.5))
    progress[QueueName("/", "b")].problem = "blocked: full"
    display.show(shown, "later")
    progress[QueueName("/", "b")].problem = ""
    display.show(shown, "later")
    assert out.getvalue().splitlines() == [
        "0 moved, 3 ready, 0 unacked; 0 of 2 queues empty; 3 connections of clients at the source; 2 s",
        "b: blocked: full",
        "b: moves again",
    ]


def test_a_terminal_shows_the_queues_with_most_messages_in_place() -> None:
    out = Terminal()
    display = Display(out)
    shown = list(rows(**{f"q{number:02}": number for number in range(60)}).values())
    display.show(shown, "the totals")
    first = out.getvalue().splitlines()
    assert len(first) <= 24 and first[-1] == "the totals" and "q59" in first[-2] and "q00" not in first[1]
    display.show(shown, "the totals")
    assert out.getvalue().splitlines()[len(first)].startswith(f"\x1b[{len(first)}F\x1b[J")


def test_a_terminal_shows_a_broker_without_queues() -> None:
    out = Terminal()
    Display(out).show([], "the totals")
    heading, last = out.getvalue().splitlines()
    assert heading.split() == ["queue", "moved", "ready", "unacked"] and last == "the totals"
