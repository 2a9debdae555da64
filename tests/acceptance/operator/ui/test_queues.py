"""The pages of queues."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import send, unfold_form


def test_a_queue_is_added_and_listed_and_deleted(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    form = unfold_form(page, "Add a queue")
    form.get_by_label("Name").fill("orders")
    form.get_by_role("button", name="x-max-length", exact=True).click()
    send(form, "Add queue", {"Arguments: value": "5"})
    row = page.get_by_role("row").filter(has_text="orders")
    expect(row).to_contain_text("Lim")
    assert running.http().get("/queues/%2F/orders").json["arguments"]["x-max-length"] == 5
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("orders (/): 0 messages")
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert running.http().get("/queues/%2F/orders").status == 404


def test_chosen_queues_are_purged_with_progress_and_more_columns_shown(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    for name in ("full-1", "full-2", "kept"):
        http.put(f"/queues/%2F/{name}", {})
        http.publish(name, "12345678")
    page = ui.open("queues").page
    page.get_by_text("Columns").click()
    for column in ("Consumers", "Consumer capacity", "Message bytes", "Average size", "Oldest ready message"):
        page.get_by_label(column, exact=True).check()
    row = page.get_by_role("row").filter(has_text="full-1")
    expect(row).to_contain_text("8 B8 B")
    page.get_by_label("Queues: filter by name").fill("full-")
    expect(page.get_by_role("row").filter(has_text="kept")).to_have_count(0)
    page.get_by_label("Choose all rows of this page").check()
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("full-2 (/): 1 message")
    dialog.get_by_role("button", name="Purge").click()
    expect(page.get_by_label("Work in progress")).to_contain_text("done: 2 of 2")
    counts = [http.get(f"/queues/%2F/{name}").json["messages"] for name in ("full-1", "full-2", "kept")]
    assert counts == [0, 0, 1]


def test_a_queue_named_by_dots_is_opened(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/..", {"durable": True})
    page = ui.open("queues").page
    page.get_by_role("link", name="..", exact=True).click()
    expect(page.locator("main:not([aria-busy]) h1")).to_contain_text("Queue ..")
    expect(page.get_by_role("table", name="Bindings to this queue")).to_contain_text("..")
    expect(page.locator(".banner")).to_be_hidden()
    running.http().delete("/queues/%2F/..")


def test_queues_whose_names_join_to_the_same_text_are_rows_of_their_own(ui: UI, running: BrokerProcess) -> None:
    """Queue `b/c` of virtual host `a`, and queue `c` of virtual host `a/b`."""
    http = running.http()
    for vhost, queue in (("a", "b%2Fc"), ("a%2Fb", "c")):
        http.put(f"/vhosts/{vhost}", {})
        http.put(f"/queues/{vhost}/{queue}", {})
    page = ui.open("queues").page
    rows = page.get_by_role("row").filter(has=page.get_by_label("Choose a/b/c"))
    expect(rows).to_have_count(2)
    assert sorted(row.get_by_role("link").first.inner_text() for row in rows.all()) == ["b/c", "c"]
    for vhost in ("a", "a%2Fb"):
        http.delete(f"/vhosts/{vhost}")


def test_a_form_keeps_the_virtual_host_and_the_type_for_the_next_queue(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    page = ui.open("queues").page
    form = unfold_form(page, "Add a queue")
    expect(form.get_by_label("Virtual host")).to_be_hidden()  # there is one
    http.put("/vhosts/shop", {})
    page = ui.open("vhosts").open("queues").page
    page.get_by_text("Add a queue").click()
    form.get_by_label("Virtual host").select_option("shop")
    form.get_by_label("Type", exact=True).select_option("quorum")
    for name in ("one", "two"):
        send(form, "Add queue", {"Name": name})
        expect(form.get_by_label("Name")).to_have_value("")
    queues = http.get("/queues/shop").json
    assert [(queue["name"], queue["type"]) for queue in queues] == [("one", "quorum"), ("two", "quorum")]
    http.delete("/vhosts/shop")


def test_forms_keep_the_virtual_host_after_each_object(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/vhosts/shop", {})
    page = ui.page
    forms = {
        "exchanges": ("Add a new exchange", "Add exchange", {"Name": "one"}),
        "federation-upstreams": ("Add a new upstream", "Add upstream", {"Name": "one", "URI": "amqp://127.0.0.9:1"}),
        "policies": ("Add or update a policy", "Add policy", {"Name": "one", "Pattern": "^none$"}),
    }
    for address, (title, submit, texts) in forms.items():
        ui.open(address)
        page.get_by_text(title, exact=True).click()
        form = page.get_by_role("form", name=title)
        form.get_by_label("Virtual host").select_option("shop")
        for label, text in texts.items():
            form.get_by_label(label, exact=True).fill(text)
        if address == "policies":
            form.get_by_role("button", name="message-ttl", exact=True).click()
            form.get_by_label("Definition: value").fill("1")
        form.get_by_role("button", name=submit).click()
        expect(form.get_by_label("Name", exact=True)).to_have_value("")
        expect(form.get_by_label("Virtual host")).to_have_value("shop")
    http.delete("/vhosts/shop")


def test_a_phone_shows_the_counts_beside_the_name(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/orders", {})
    page = new_ui(viewport={"width": 390, "height": 844}).sign_in().open("queues").page
    row = page.get_by_role("row").filter(has_text="orders")
    for column in ("name", "ready", "unacked"):
        box = row.locator(f".column-{column}").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, column
    expect(row.locator(".column-vhost")).to_be_hidden()  # there is one
    header = page.locator("header").bounding_box()
    assert header is not None and header["height"] < 90
    http.delete("/queues/%2F/orders")
