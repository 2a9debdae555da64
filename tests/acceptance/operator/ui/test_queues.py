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
    page.get_by_text("Add a queue", exact=True).click()
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
        if address == "exchanges":
            form.get_by_label("Durability").select_option(label="Transient")
        form.get_by_role("button", name=submit).click()
        expect(form.get_by_label("Name", exact=True)).to_have_value("")
        expect(form.get_by_label("Virtual host")).to_have_value("shop")
        if address == "exchanges":
            expect(form.get_by_label("Durability")).to_have_value("false")
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


def test_all_queues_of_all_pages_are_chosen_and_deleted(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    names = [f"many-{number:04}" for number in range(1, 506)]
    queue = {"vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
    assert http.post("/definitions", {"queues": [{**queue, "name": name} for name in [*names, "kept"]]}).status == 204
    page = ui.open("queues?name=many-").page
    bar = page.locator(".actions")
    page.get_by_label("Choose all rows of this page").check()
    expect(bar.locator("span")).to_have_text("100 chosen")
    bar.get_by_role("button", name="Choose all 505").click()
    expect(bar.locator("span")).to_have_text("505 chosen")
    expect(bar.get_by_role("button", name="Choose all")).to_have_count(0)
    page.get_by_role("navigation", name="Queues: pages").get_by_role("button", name="2", exact=True).click()
    expect(page.get_by_label("Choose //many-0101")).to_be_checked()
    page.get_by_label("Choose //many-0101").uncheck()
    expect(bar.locator("span")).to_have_text("504 chosen")
    bar.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete 504 queues?")
    expect(dialog).to_contain_text("and 484 more")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_label("Work in progress")).to_contain_text("done: 504 of 504", timeout=60_000)
    left = {one["name"] for one in http.get("/queues").json}
    assert left & {*names, "kept"} == {"kept", "many-0101"}
    expect(bar).to_be_hidden()
    for name in ("kept", "many-0101"):
        http.delete(f"/queues/%2F/{name}")


def test_rows_that_are_chosen_are_let_go_by_another_filter(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    queue = {"vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
    assert http.post("/definitions", {"queues": [{**queue, "name": f"q-{at:03}"} for at in range(120)]}).status == 204
    page = ui.open("queues?name=q-").page
    page.get_by_label("Choose all rows of this page").check()
    page.locator(".actions").get_by_role("button", name="Choose all 120").click()
    expect(page.locator(".actions span")).to_have_text("120 chosen")
    page.get_by_label("Queues: filter by name").fill("q-11")
    expect(page.locator(".summary")).to_contain_text("Displaying 10 of 10")
    expect(page.locator(".actions")).to_be_hidden()
    page.get_by_label("Queues: filter by name").fill("none")
    expect(page.get_by_text("no queues match the filter")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.get_by_label("Queues: filter by name")).to_have_value("")
    expect(page.locator(".summary")).to_contain_text("Displaying 100 of 1")
    for at in range(120):
        http.delete(f"/queues/%2F/q-{at:03}")


def test_an_object_that_exists_is_replaced_after_a_question_only(ui: UI, running: BrokerProcess) -> None:
    http, page = running.http(), ui.page
    stored = {
        "/parameters/federation-upstream/%2F/same": {"value": {"uri": "amqp://127.0.0.1:1"}},
        "/parameters/federation-upstream-set/%2F/same": {"value": [{"upstream": "old"}]},
        "/global-parameters/same": {"value": 1},
        "/policies/%2F/same": {"pattern": "^old$", "definition": {"max-length": 1}},
        "/users/same": {"password": "old", "tags": "monitoring"},
        "/vhosts/same": {"description": "old"},
    }
    for path, body in stored.items():
        assert http.put(path, body).status < 300
    forms = {
        "federation-upstreams": ("Add a new upstream", "upstream", {"URI": "amqp://127.0.0.2:1"}),
        "federation-upstream-sets": ("Add a new upstream set", "upstream set", {"Upstream": "new"}),
        "parameters": ("Set a parameter", "parameter", {"Component": "global", "Value (JSON)": "2"}),
        "policies": ("Add or update a policy", "policy", {"Pattern": "^new$"}),
        "vhosts": ("Add a virtual host", "virtual host", {"Description": "new"}),
        "users": ("Add a user", "user", {"Password": "new", "Password again": "new", "Tags": "management"}),
    }
    without_counts = "?columns=name,description"
    before = [http.get(path + without_counts * ("vhosts" in path)).json for path in stored]
    for address, (title, kind, texts) in forms.items():
        form = unfold_form(ui.open(address).page, title)
        for label, text in {"Name": "same", **texts}.items():
            form.get_by_label(label, exact=True).fill(text)
        if kind == "policy":
            form.get_by_role("button", name="max-length", exact=True).click()
            form.get_by_label("Definition: value").fill("2")
        form.locator("[type=submit]").click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Replace {kind} same?")
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(form.get_by_label("Name", exact=True)).to_have_value("same")
    assert [http.get(path + without_counts * ("vhosts" in path)).json for path in stored] == before
    form.get_by_role("button", name="Add user").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(form.get_by_label("Name", exact=True)).to_have_value("")
    assert http.get("/users/same").json["tags"] == ["management"]
    for path in stored:
        http.delete(path)


def test_a_queue_that_exists_is_said_to_exist(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    form = unfold_form(page, "Add a queue")
    for text in ("Queue same is declared.", "Queue same was there already, with these properties."):
        send(form, "Add queue", {"Name": "same"})
        expect(page.get_by_text(text)).to_be_visible()
    running.http().delete("/queues/%2F/same")


def test_a_refusal_names_the_right_that_the_user_lacks(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/theirs", {})
    http.put("/users/reader", {"password": "p", "tags": "management"})
    http.put("/permissions/%2F/reader", {"configure": "^mine", "write": "", "read": ""})
    ui = new_ui().sign_in("reader", "p").open("queues")
    page = ui.page
    form = unfold_form(page, "Add a queue")
    send(form, "Add queue", {"Name": "theirs-too"})
    expect(form.get_by_role("alert")).to_have_text("Access refused: you need the right to configure theirs-too.")
    form.get_by_role("button", name="x-dead-letter-exchange").click()
    send(form, "Add queue", {"Name": "mine", "Arguments: value": "amq.fanout"})
    lacking = "Access refused: you need the right to read mine and to write amq.fanout."
    expect(form.get_by_role("alert")).to_have_text(lacking)
    page.get_by_label("Choose //theirs").check()
    for action, right in (("Purge", "read"), ("Delete", "configure")):
        page.locator(".actions").get_by_role("button", name=action).click()
        page.get_by_role("dialog").get_by_role("button", name=action).click()
        expect(page.locator(".tasks")).to_contain_text(f"you need the right to {right} theirs.")
        page.get_by_label("Choose //theirs").check()
    assert http.get("/queues/%2F/theirs").status == 200
    http.delete("/users/reader")
    http.delete("/queues/%2F/theirs")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_monitoring_user_without_permissions_is_told_why_lists_are_empty(
    new_ui: Callable[..., UI], running: BrokerProcess
) -> None:
    http = running.http()
    http.put("/queues/%2F/unseen", {})
    http.put("/users/watch", {"password": "p", "tags": "monitoring"})
    ui = new_ui().sign_in("watch", "p")
    for address, kinds in (("queues", "queues"), ("exchanges", "exchanges")):
        expect(ui.open(address).page.get_by_text(f"no {kinds} that you may see: an administrator")).to_be_visible()
    http.delete("/users/watch")
    http.delete("/queues/%2F/unseen")


def test_names_of_queues_and_exchanges_are_offered(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    for name in ("offered-1", "offered-2", "other"):
        http.put(f"/queues/%2F/{name}", {})
    page = ui.open("exchanges/%2F/amq.topic").page
    form = page.get_by_role("form", name="Add binding from this exchange")
    field = form.get_by_label("Name of the destination")
    offered = form.locator("[data-field=destination] option")
    field.fill("offered")
    expect(offered).to_have_count(2)
    assert offered.evaluate_all("all => all.map((one) => one.value)") == ["offered-1", "offered-2"]
    form.get_by_label("To").select_option("exchange")
    field.fill("amq.fan")
    expect(offered).to_have_count(1)
    for name in ("offered-1", "offered-2", "other"):
        http.delete(f"/queues/%2F/{name}")
