"""Actions of the tests of federation: objects and messages by the API, and folded sections of pages."""

from urllib.parse import quote

from playwright.sync_api import Page

from tests.support.federated_broker import FederatedBroker


def exchange(broker: FederatedBroker, name: str, queue: str = "") -> None:
    """Declare a topic exchange, and a queue that gets all of its messages if named."""
    path = quote(name, "")
    broker.ask("PUT", f"/exchanges/%2f/{path}", {"type": "topic"})
    if queue:
        broker.ask("PUT", f"/queues/%2f/{queue}", {})
        broker.ask("POST", f"/bindings/%2f/e/{path}/q/{queue}", {"routing_key": "#"})


def publish(broker: FederatedBroker, name: str, payload: str) -> None:
    body = {"properties": {}, "routing_key": "k", "payload": payload, "payload_encoding": "string"}
    broker.ask("POST", f"/exchanges/%2f/{quote(name, '')}/publish", body)


def unfold(page: Page, title: str) -> None:
    page.locator("summary").get_by_text(title, exact=True).click()
