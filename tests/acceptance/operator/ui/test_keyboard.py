"""Whole tasks with the keyboard alone: no click, and no focus but by keys."""

from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

MOST_TABS = 90  # to an element of a page
MOST_PARTS = 15
FOCUSED = """() => {
  const one = document.activeElement;
  const label = one.labels?.[0]?.textContent ?? one.closest("summary")?.textContent ?? one.textContent;
  return [one.localName, (one.getAttribute("aria-label") ?? label).trim()];
}"""
# Counts keys, but not those that enter text in a field
COUNT = """() => {
  globalThis.keys = 0;
  document.addEventListener("keydown", ({ key, target }) => {
    if (key !== "Control" && (key.length > 1 || !target.closest("input, textarea, select"))) globalThis.keys += 1;
  }, true);
}"""
# The same tasks in the pages of RabbitMQ 4.0.5. Its parts are opened with the mouse alone: each time counts as one key.
RABBITMQ_QUEUE, RABBITMQ_FEDERATION = 34 + 6 + 4, 79 + 5 + 2


def tab_to(page: Page, element: str, label: str, key: str = "Tab") -> None:
    """Press Tab, or another key, until an element of this kind and label has the focus, which must be visible."""
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        if page.evaluate(FOCUSED) == [element, label]:
            assert page.evaluate("document.activeElement.matches(':focus-visible')")
            return
    raise AssertionError(f"no {element} {label!r} within {MOST_TABS} tabs of {page.url}")


def tab_back_to(page: Page, element: str, label: str) -> None:
    tab_to(page, element, label, "Shift+Tab")


def open_part(page: Page, title: str) -> None:
    """Press `n` until the title of a part of the page has the focus, and unfold the part."""
    for _ in range(MOST_PARTS):
        page.keyboard.press("n")
        if page.evaluate(FOCUSED) == ["summary", title]:
            if not page.evaluate("document.activeElement.parentElement.open"):
                page.keyboard.press("Enter")
            return
    raise AssertionError(f"no part {title!r} of {page.url}")


def enter(page: Page, label: str, text: str) -> None:
    tab_to(page, "input", label)
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type(text)


def go(page: Page, keys: str, title: str) -> None:
    """Go to a section by two keys; they count while no field has the focus."""
    page.locator("main:not([aria-busy]) h1").first.wait_for()
    for key in keys.split():
        page.keyboard.press(key)
    expect(page.locator("main:not([aria-busy]) h1")).to_have_text(title)


def follow(page: Page, label: str, title: str) -> None:
    tab_to(page, "a", label)
    page.keyboard.press("Enter")
    expect(page.locator("main:not([aria-busy]) h1")).to_have_text(title)


def press(page: Page, element: str, label: str) -> None:
    tab_to(page, element, label)
    page.keyboard.press("Enter")


def test_a_queue_is_declared_and_gets_a_policy(ui: UI, running: BrokerProcess) -> None:
    page, http = ui.page, running.http()
    go(page, "g q", "Queues")
    press(page, "summary", "Add a queue")
    enter(page, "Name", "typed")
    tab_to(page, "select", "Type")
    page.keyboard.type("quorum")
    press(page, "button", "x-max-length")
    page.keyboard.type("7")  # the value of the new row has the focus
    press(page, "button", "Add queue")
    expect(page.get_by_text("Queue typed is declared.")).to_be_visible()
    assert http.get("/queues/%2F/typed").json["arguments"] == {"x-queue-type": "quorum", "x-max-length": 7}

    page.keyboard.press("Shift+Tab")  # to a button, where letters are keys of the page
    go(page, "g a", "Users")
    follow(page, "Policies", "Policies")
    press(page, "summary", "Add or update a policy")
    enter(page, "Name", "by-keys")
    enter(page, "Pattern", "^typed$")
    expect(page.get_by_text("Matches 1 queue and 0 exchanges: typed.")).to_be_visible()
    press(page, "button", "message-ttl")
    page.keyboard.type("60000")
    press(page, "button", "Add policy")
    expect(page.get_by_text("The policy by-keys is set.")).to_be_visible()
    assert http.get("/policies/%2F/by-keys").json["definition"] == {"message-ttl": 60000}
    assert http.get("/queues/%2F/typed").json["policy"] == "by-keys"
    http.delete("/policies/%2F/by-keys")
    http.delete("/queues/%2F/typed")


def test_a_federation_link_is_set_up(ui: UI, running: BrokerProcess) -> None:
    page, http = ui.page, running.http()
    http.put("/vhosts/far", {})
    http.put("/exchanges/far/news", {"type": "topic"})
    http.put("/exchanges/%2F/news", {"type": "topic"})
    page.reload()
    go(page, "g f", "Federation status")
    follow(page, "Upstreams", "Federation upstreams")
    press(page, "summary", "Add a new upstream")
    enter(page, "Name", "far")
    tab_to(page, "textarea", "URI")
    page.keyboard.type(f"amqp://127.0.0.1:{running.port}/far")
    press(page, "button", "Add upstream")
    expect(page.get_by_text("Upstream far is set.")).to_be_visible()
    press(page, "summary", "Federate exchanges or queues")
    enter(page, "Name of the policy", "by-keys")
    enter(page, "Pattern", "^news$")
    press(page, "button", "Federate")
    expect(page.get_by_text("Policy by-keys is set.")).to_be_visible()
    expect(page.get_by_role("button", name="Federate")).to_be_focused()
    tab_to(page, "a", "HTTP API")
    go(page, "g f", "Federation status")
    row = page.get_by_role("row").filter(has_text="news")
    expect(row.locator(".state.good")).to_have_text("running")
    http.delete("/policies/%2F/by-keys")
    http.delete("/parameters/federation-upstream/%2F/far")
    http.delete("/vhosts/far")
    http.delete("/exchanges/%2F/news")


def test_a_message_goes_through_a_new_queue_with_no_more_keys_than_in_rabbitmq(ui: UI, running: BrokerProcess) -> None:
    page, http = ui.page, running.http()
    page.evaluate(COUNT)
    go(page, "g q", "Queues")
    open_part(page, "Add a queue")
    tab_to(page, "input", "Name")
    page.keyboard.type("counted")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Queue counted is declared.")).to_be_visible()
    page.get_by_role("link", name="counted").wait_for()
    tab_back_to(page, "a", "counted")
    page.keyboard.press("Enter")
    expect(page.locator("main:not([aria-busy]) h1")).to_contain_text("counted")
    open_part(page, "Bindings to this queue")
    tab_to(page, "input", "From exchange")
    page.keyboard.type("amq.topic")
    tab_to(page, "input", "Routing key")
    page.keyboard.type("news")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The binding is added.")).to_be_visible()
    page.keyboard.press("Tab")  # to a button, where letters are keys of the page
    open_part(page, "Publish message")
    tab_to(page, "textarea", "Payload")
    page.keyboard.type("hello")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Message published.")).to_be_visible()
    tab_to(page, "button", "add a key")
    open_part(page, "Get messages")
    press(page, "button", "Get messages")
    expect(page.locator(".message pre")).to_have_text("hello")
    assert page.evaluate("keys") <= RABBITMQ_QUEUE
    tab_to(page, "summary", "Get messages", "p")
    tab_to(page, "summary", "Publish message", "p")
    keys = [binding["routing_key"] for binding in http.get("/queues/%2F/counted/bindings").json]
    assert sorted(keys) == ["counted", "news"]
    http.delete("/queues/%2F/counted")


def test_an_upstream_and_its_policy_are_set_with_no_more_keys_than_in_rabbitmq(ui: UI, running: BrokerProcess) -> None:
    page, http = ui.page, running.http()
    page.evaluate(COUNT)
    go(page, "g f", "Federation status")
    tab_back_to(page, "a", "Upstreams")
    page.keyboard.press("Enter")
    expect(page.locator("main:not([aria-busy]) h1")).to_have_text("Federation upstreams")
    open_part(page, "Add a new upstream")
    enter(page, "Name", "near")
    tab_to(page, "textarea", "URI")
    page.keyboard.type("amqp://127.0.0.1:1")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Upstream near is set.")).to_be_visible()
    press(page, "summary", "Federate exchanges or queues")
    enter(page, "Name of the policy", "counted")
    enter(page, "Pattern", "^none$")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Policy counted is set.")).to_be_visible()
    assert page.evaluate("keys") <= RABBITMQ_FEDERATION
    http.delete("/policies/%2F/counted")
    http.delete("/parameters/federation-upstream/%2F/near")
