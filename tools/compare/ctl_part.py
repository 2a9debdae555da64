"""The command line part: run every line with both tools, and compare output, error text and status."""

import re
from collections.abc import Iterator

from . import ctl_probes
from .brokers import Broker, Output, decoded
from .ctl_probes import ERLANG_ONLY, USER, Line, V
from .documents import Difference, differences, shown, text_of

RULES = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),  # colours
    (re.compile(r"\d+(\.\d+)? (seconds|gb|mb|gib|mib|bytes)"), r"{number} \2"),
    (re.compile(r"warrenctl|rabbitmqctl|rabbitmq-diagnostics|rabbitmq-plugins"), "{tool}"),
)


def run(warren: Broker, reference: Broker) -> tuple[int, list[Difference]]:
    """Return the number of compared lines, and the differences."""
    found: list[Difference] = []
    for broker in (warren, reference):
        broker.names["amqp_port"] = broker.amqp.rpartition(":")[2]
        clean(broker)
    count = 0
    try:
        for line in lines(warren, reference):
            ours, theirs = (broker.command(with_port(line.text, broker)) for broker in (warren, reference))
            found += list(compare(line, normalised(ours, warren.names), normalised(theirs, reference.names)))
            count += 1
    finally:
        clean(warren)
        clean(reference)
    return count, found


def lines(warren: Broker, reference: Broker) -> Iterator[Line]:
    """Yield all lines; after those that make objects, queues and bindings are made over HTTP."""
    yield from ctl_probes.objects()
    yield from ctl_probes.settings()
    for broker in (warren, reference):
        arguments = {"x-max-length": 9}
        broker.request("PUT", f"/permissions/{V}/{broker.user}", {"configure": ".*", "write": ".*", "read": ".*"})
        broker.request("PUT", f"/queues/{V}/q", {"durable": True, "arguments": arguments})
        broker.request("PUT", f"/queues/{V}/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        broker.request("PUT", f"/exchanges/{V}/x", {"type": "topic", "durable": True})
        broker.request("POST", f"/bindings/{V}/e/x/q/q", {"routing_key": "k", "arguments": {"a": "b"}})
    yield from ctl_probes.lists()
    yield from ctl_probes.ends()
    yield from ctl_probes.node()


def clean(broker: Broker) -> None:
    """Remove the objects of this run, or of an earlier one that was interrupted."""
    for vhost in (V, "compare-ctl2", "compare-ctl3"):
        broker.request("DELETE", f"/vhosts/{vhost}")
    for user in (USER, "compare-ctl-empty"):
        broker.request("DELETE", f"/users/{user}")
    broker.request("DELETE", "/global-parameters/compare-ctl")


def with_port(text: str, broker: Broker) -> str:
    return text.replace("{amqp_port}", broker.names["amqp_port"])


def compare(line: Line, warren: Output, reference: Output) -> Iterator[Difference]:
    """Compare the statuses and the lines of both streams."""
    if warren.status != reference.status:
        yield Difference(line.title, "status", str(warren.status), str(reference.status))
    for name in ("stdout", "stderr"):
        ours, theirs = text_lines(getattr(warren, name), line), text_lines(getattr(reference, name), line)
        if ours == theirs:
            continue
        if name == "stdout" and "--formatter json" in line.text:
            yield from differences_in_json(line, ours, theirs)
            continue
        only_ours = [text for text in ours if text not in theirs]
        only_theirs = [text for text in theirs if text not in ours]
        if only_ours or only_theirs:
            yield Difference(line.title, name, shown(only_ours), shown(only_theirs))
        else:
            yield Difference(line.title, f"{name}'s order", shown(ours), shown(theirs))


def differences_in_json(line: Line, warren: list[str], reference: list[str]) -> Iterator[Difference]:
    """Compare two documents, in which the order of lists is ignored."""
    ours, theirs = decoded("\n".join(warren)), decoded("\n".join(reference))
    if line.unordered and isinstance(ours, list) and isinstance(theirs, list):
        ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
    yield from differences(line.title, "stdout", ours, theirs)


def text_lines(text: str, line: Line) -> list[str]:
    """Return the lines, sorted after the first if their order is ignored."""
    lines = [one.rstrip() for one in text.splitlines() if not any(word in one for word in ERLANG_ONLY)]
    while lines and not lines[-1]:
        lines.pop()
    if line.unordered:
        return [*lines[:2], *sorted(lines[2:])]
    return lines


def normalised(output: Output, names: dict[str, str]) -> Output:
    def plain(text: str) -> str:
        text = text_of(text, names)
        for pattern, word in RULES:
            text = pattern.sub(word, text)
        return text

    return Output(output.status, plain(output.stdout), plain(output.stderr))
