"""The HTTP part of the comparison: send every probe to both brokers and list the differences."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from warren.plugins.management.api import routes
from warren.plugins.management.framework.router import Route

from . import bad_bodies, http_probes
from .brokers import Answer, Broker
from .documents import Difference, differences, normalised, own, shown
from .http_probes import ALIKE, PASSWORD, Probe, V
from .reference_routes import PATHS

STATISTICS_S = 12.0  # RabbitMQ shows an object's statistics after its next report, and rates after the following one
CONNECTION = "compare-client"
HEADERS = ("location", "allow", "www-authenticate", "content-type")


class Comparison:
    """The differences so far, and the number of compared answers."""

    def __init__(self, warren: Broker, reference: Broker) -> None:
        self.warren = warren
        self.reference = reference
        self.compared = 0
        self.found: list[Difference] = []

    def send(self, probes: Iterable[Probe]) -> None:
        for probe in probes:
            ours, theirs = ask(self.warren, probe), ask(self.reference, probe)
            self.compared += 1
            self.found += list(compare(probe, ours, theirs))


def ask(broker: Broker, probe: Probe) -> Answer:
    """Return the answer of one broker with its own names replaced."""
    name, colon, password = probe.user.partition(":")
    credentials = (name, password) if colon else (name, PASSWORD) if name else None
    answer = broker.request(probe.method, broker.filled(probe.path), probe.body, credentials, probe.headers)
    body = normalised(answer.body, broker.names)
    headers = {name: normalised(answer.headers[name], broker.names) for name in HEADERS if name in answer.headers}
    return Answer(answer.status, headers, own(body) if probe.own else body)


def compare(probe: Probe, warren: Answer, reference: Answer) -> Iterator[Difference]:
    """Compare two answers: whole bodies if the statuses differ, otherwise place by place."""
    title = probe.title
    if warren.status != reference.status:
        said, wanted = f"{warren.status} {shown(warren.body)}", f"{reference.status} {shown(reference.body)}"
        yield Difference(title, "status", said, wanted)
        return
    for name in HEADERS:
        ours, theirs = header(name, warren), header(name, reference)
        if ours != theirs:
            yield Difference(title, f"header {name}", shown(ours), shown(theirs))
    ours, theirs = plain(warren.body), plain(reference.body)
    yield from differences(title, "body", ours, theirs)


def header(name: str, answer: Answer) -> Any:
    """Return a header's value: a set for a list without order, a media type without its parameters."""
    text = answer.headers.get(name)
    if text is None:
        return None
    if name == "allow":
        return sorted(word.strip() for word in text.split(","))
    return text.partition(";")[0] if name == "content-type" else text


def plain(body: Any) -> Any:
    """Return the body; texts that are not JSON are compared only by their presence."""
    return "a text" if isinstance(body, str) and len(body) > 200 else body


def uncovered(all_routes: Sequence[Route], probes: Iterable[Probe]) -> list[str]:
    """Return the routes of Warren's table without a probe."""
    asked = {f"{probe.method} {probe.route}" for probe in probes}
    return [str(route) for route in all_routes if route.path not in ALIKE and str(route) not in asked]


def shared_routes() -> list[Route]:
    """Return the routes that RabbitMQ has as well: all but those below /warren."""
    return [route for route in routes().all if not route.path.startswith("/warren/")]


def swept(all_routes: Sequence[Route]) -> list[Probe]:
    """Return the probes made from the table of routes, except those of single objects."""
    return [*http_probes.reads(all_routes), *http_probes.changes(all_routes), *http_probes.deletions(all_routes)]


@contextlib.contextmanager
def traffic(broker: Broker) -> Iterator[None]:
    """A connection with a channel, a consumer and messages, for the duration of the context."""
    connection = broker.connect("compare-manager", PASSWORD, V, CONNECTION)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=7)
        for number in range(3):
            channel.basic_publish("", "compare.args", f"message {number}".encode())
            channel.basic_publish("compare.x", "key.a", b"routed")
        channel.basic_consume("compare.qq", lambda *_: None, consumer_tag="compare-tag", arguments={"x-priority": 2})
        wait_until_listed(broker, connection)
        yield
    finally:
        with contextlib.suppress(Exception):
            connection.close()


def wait_until_listed(broker: Broker, connection: Any) -> None:
    """Find the listed names of the connection and its channel, once their statistics are present."""
    end = time.monotonic() + STATISTICS_S
    while time.monotonic() < end:
        connection.process_data_events(0.5)
    for row in broker.request("GET", "/connections").body:
        if row.get("client_properties", {}).get("connection_name") == CONNECTION:
            broker.names["connection"] = row["name"]
            broker.names["channel"] = f"{row['name']} (1)"


def run(warren: Broker, reference: Broker) -> Comparison:
    """Run everything, then remove the objects. Raises SystemExit if a route has no probe."""
    comparison = Comparison(warren, reference)
    table = shared_routes()
    probes = [*http_probes.setup(), *swept(table), *http_probes.checks(), *bad_bodies.probes()]
    if missing := uncovered(table, probes):
        raise SystemExit(f"routes that need a probe in {http_probes.__file__}: {', '.join(missing)}")
    paths = sorted({*PATHS, *(route.path for route in table)})
    known: dict[str, list[str]] = {}
    for route in table:
        known.setdefault(route.path, []).append(route.method)
    for broker in (warren, reference):
        broker.names |= {"amqp_port": broker.amqp.rpartition(":")[2], "http_port": broker.http.rpartition(":")[2]}
        for probe in http_probes.cleanup():
            ask(broker, probe)
    try:
        comparison.send(http_probes.setup())
        with traffic(warren), traffic(reference):
            comparison.send(http_probes.reads(table))
            comparison.send(http_probes.methods(paths, known))
            comparison.send(http_probes.lists())
            comparison.send(http_probes.checks())
            comparison.send(http_probes.logins())
        comparison.send(http_probes.changes(table))
        comparison.send(bad_bodies.probes())
        comparison.send(http_probes.deletions(table))
    finally:
        for broker in (warren, reference):
            for probe in http_probes.cleanup():
                ask(broker, probe)
    return comparison
