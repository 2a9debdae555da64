"""Screenshots of every page, light and dark, at the size of a desktop and of a phone.

    python -m tests.acceptance.operator.ui.screenshots FOLDER

Without FOLDER it makes the pictures of the documents (`make pictures`), and only on a machine that is calm: the
overview shows how late the broker's event loop is. All show two brokers that federate, with live traffic.
"""

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pika

from tests.support.browser import UI, browser
from tests.support.checkout import ROOT
from tests.support.federated_broker import FederatedBroker
from tests.support.polling import WITHIN_S

from .objects import ROUTES, encode
from .reports import write_report

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")
QUEUES = {
    "orders": {}, "orders.priority": {"x-max-priority": 5}, "invoices": {"x-message-ttl": 3_600_000},
    "emails": {"x-max-length": 10_000, "x-dead-letter-exchange": "dead"}, "audit": {"x-queue-type": "quorum"},
    "dead-letters": {}, "thumbnails": {},
}  # fmt: skip
BINDINGS = {"orders": "order.#", "orders.priority": "order.urgent", "invoices": "order.paid", "audit": "#"}
KEYS = ("order.created", "order.paid", "order.urgent", "user.changed")
CONSUMED = ("orders", "invoices", "orders.priority")
PAUSE_S = 0.02  # between messages
DOCUMENTS = ROOT / "docs" / "images"
# The file of each picture of the documents, by page, size and scheme
PICTURES = {
    ("overview", "desktop", "light"): "overview", ("federation-topology", "desktop", "light"): "topology",
    ("queues", "desktop", "dark"): "queues-dark", ("overview", "phone", "light"): "overview-phone",
}  # fmt: skip
CALM = {"p99 of the loop's lag": 10.0, "the longest turn": 50.0}  # milliseconds
CALM_WITHIN_S = 300.0
WARM_UP_MS = 75_000  # until the charts have samples of a minute
SETTLED_MS = 400  # until charts and texts are drawn


def declare(broker: FederatedBroker) -> None:
    for name, kind in (("shop", "topic"), ("dead", "fanout")):
        broker.ask("PUT", f"/exchanges/%2f/{name}", {"type": kind, "durable": True})
    for name, arguments in QUEUES.items():
        broker.ask("PUT", f"/queues/%2f/{name}", {"durable": True, "arguments": arguments})
    for name, key in BINDINGS.items():
        broker.ask("POST", f"/bindings/%2f/e/shop/q/{name}", {"routing_key": key})
    broker.ask("POST", "/bindings/%2f/e/dead/q/dead-letters", {})


def publish(port: int, end: threading.Event) -> None:
    """Publish to the exchange, and consume from some of the queues, until the end."""
    properties = pika.ConnectionParameters("127.0.0.1", port, client_properties={"connection_name": "web-shop"})
    with pika.BlockingConnection(properties) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for queue in CONSUMED:
            channel.basic_consume(queue, lambda own, method, *_: own.basic_ack(method.delivery_tag))
        number = 0
        while not end.is_set():
            key = KEYS[number % len(KEYS)]
            headers = pika.BasicProperties(delivery_mode=2, headers={"customer": number % 100}, message_id=str(number))
            channel.basic_publish("shop", key, b'{"order": %d, "total": 42.5}' % number, headers)
            if number % 40 == 0:
                channel.basic_publish("", "thumbnails", b"x" * 2000)
            number += 1
            connection.process_data_events(PAUSE_S)


@contextlib.contextmanager
def traffic(*brokers: FederatedBroker) -> Iterator[None]:
    end = threading.Event()
    threads = [threading.Thread(target=publish, args=(broker.port, end), daemon=True) for broker in brokers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join(WITHIN_S)


@contextlib.contextmanager
def sites(folder: Path) -> Iterator[FederatedBroker]:
    """Two brokers that federate with each other; the first one has objects of every kind."""
    with FederatedBroker(folder / "a", "berlin") as first, FederatedBroker(folder / "b", "lisbon") as second:
        for broker, other in ((first, second), (second, first)):
            declare(broker)
            broker.upstream(other.name, other.uri)
            broker.policy("^shop$", {"federation-upstream-set": "all"}, "federate-shop")
        first.ask("PUT", "/parameters/federation-upstream-set/%2f/sites", {"value": [{"upstream": "lisbon"}]})
        policy = {"pattern": "^orders", "definition": {"max-length": 100_000}, "priority": 1}
        first.ask("PUT", "/policies/%2f/limits", policy)
        operator = {"pattern": ".", "definition": {"max-length-bytes": 10**9}, "apply-to": "queues"}
        first.ask("PUT", "/operator-policies/%2f/memory", operator)
        for user, tags in (("shop", ""), ("monitor", "monitoring"), ("anna", "policymaker")):
            first.ask("PUT", f"/users/{user}", {"password": user, "tags": tags})
            first.ask("PUT", f"/permissions/%2f/{user}", {"configure": "", "write": "^shop$", "read": "^orders"})
        for vhost in ("staging", "analytics"):
            first.ask("PUT", f"/vhosts/{vhost}", {"description": f"the {vhost} of the shop"})
        first.ask("PUT", "/vhost-limits/staging/max-connections", {"value": 100})
        write_report(first.folder, "2026-11-22", "orders")
        first.running()
        with traffic(first, second):
            yield first


def addresses(ui: UI, broker: FederatedBroker) -> dict[str, str]:
    """The address of each page by the name of its picture."""
    channel = next(one["name"] for one in broker.ask("GET", "/channels") if one["consumer_count"])
    names = {
        "queues": "orders", "exchanges": "shop", "users": "shop", "vhosts": "/", "policies": "federate-shop",
        "operator-policies": "memory", "federation-upstreams": "lisbon", "federation-upstream-sets": "sites",
        "reports": "2026-11-22", "documents": "operations", "channels": channel,
        "connections": channel.rpartition(" (")[0],
    }  # fmt: skip
    found = {}
    for route in ui.page.evaluate(ROUTES):
        first = route.partition("/")[0]
        given = {"vhost": "/", "name": names.get(first, ""), "node": "berlin@test", "id": broker.rows()[0]["id"]}
        parts = [given[part[1:]] if part[:1] == ":" else part for part in route.split("/")]
        found[route.replace("/:vhost", "").replace("/:", "-").replace("/", "-")] = encode(*parts)
    return found


def await_calm(ui: UI, broker: FederatedBroker) -> None:
    """Wait until the event loop is no later than `CALM`; the figures are of the last two minutes."""
    deadline_s = time.monotonic() + CALM_WITHIN_S
    while True:
        loop = broker.ask("GET", "/nodes")[0]["event_loop"]
        found = dict(zip(CALM, (loop["lag"]["p99_ms"], loop["longest_turn_ms"]), strict=True))
        late = [f"{name} is {found[name]:.0f} ms" for name, most_ms in CALM.items() if found[name] > most_ms]
        if not late:
            return
        if time.monotonic() > deadline_s:
            sys.exit(f"no pictures, the machine is not calm: {', '.join(late)}")
        ui.page.wait_for_timeout(2000)


def take(ui: UI, broker: FederatedBroker, folder: Path, pictures: Mapping[tuple[str, str, str], str] | None) -> None:
    """Take the pictures of the documents, or one of each page, size and scheme if `pictures` is None."""
    page = ui.page
    for name, address in addresses(ui, broker).items():
        views = [(name, size, scheme) for size in SIZES for scheme in SCHEMES]
        files = {view: "-".join(view) for view in views} if pictures is None else pictures
        page.set_viewport_size({"width": SIZES["desktop"][0], "height": SIZES["desktop"][1]})
        ui.open(address)
        if name == "trace":
            page.get_by_role("button", name="Start").click()
            page.locator("tbody tr").nth(5).wait_for()
        for view in filter(files.__contains__, views):
            _, size, scheme = view
            page.set_viewport_size({"width": SIZES[size][0], "height": SIZES[size][1]})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.wait_for_timeout(SETTLED_MS)
            page.screenshot(path=folder / f"{files[view]}.png")


def main(folder: Path, pictures: Mapping[tuple[str, str, str], str] | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sites(Path(data)) as broker, browser() as chrome:
        ui = UI(chrome.new_page(), f"http://{broker.addresses['http'][0]}/").sign_in()
        ui.page.wait_for_timeout(WARM_UP_MS)
        if pictures is not None:
            await_calm(ui, broker)
        take(ui, broker, folder, pictures)
        assert ui.problems == []


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), None)
    else:
        main(DOCUMENTS, PICTURES)
