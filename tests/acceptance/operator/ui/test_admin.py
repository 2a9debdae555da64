"""The pages of the section Admin."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import send, unfold_form


def test_a_user_is_added_with_permissions_and_the_question_box_explains_them(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("users").page
    form = unfold_form(page, "Add a user")
    send(form, "monitoring", {"Name": "reader", "Password": "secret", "Password again": "other"})
    form.get_by_role("button", name="Add user").click()
    expect(form.get_by_role("alert")).to_contain_text("the two passwords differ")
    send(form, "Add user", {"Password again": "secret"})
    row = page.get_by_role("table", name="Users").get_by_role("row").filter(has_text="reader")
    expect(row).to_contain_text("no access")
    row.get_by_role("link", name="reader", exact=True).click()
    permission = page.get_by_role("form", name="Set permission")
    send(permission, "Set permission", {"Write regexp": "^mine"})
    expect(page.get_by_role("table", name="Permissions", exact=True)).to_contain_text("^mine")
    question = page.get_by_role("form", name="What may this user do?")
    send(question, "Ask", {"Exchange or queue": "yours"})
    expect(question.get_by_role("status")).to_contain_text("No: the write pattern '^mine' is not found in 'yours'")
    send(question, "Ask", {"Exchange or queue": "mine.x"})
    expect(question.get_by_role("status")).to_contain_text("Yes")
    running.http().delete("/users/reader")


def test_a_policy_shows_its_matches_before_it_is_saved(ui: UI, running: BrokerProcess) -> None:
    http, page = running.http(), ui.page
    for name in ("orders.eu", "orders.us", "other"):
        http.put(f"/queues/%2F/{name}")
    ui.open("policies")
    form = unfold_form(page, "Add or update a policy")
    form.get_by_label("Name").fill("short")
    form.get_by_label("Pattern").fill("^orders")
    form.get_by_label("Apply to").select_option("queues")
    expect(form.get_by_role("status")).to_contain_text("Matches 2 queues and 0 exchanges: orders.eu, orders.us")
    assert http.get("/policies").json == []
    form.get_by_role("button", name="max-length", exact=True).click()
    send(form, "Add policy", {"Definition: value": "7"})
    page.get_by_role("table", name="User policies").get_by_role("link", name="Edit short").click()
    expect(page.locator("main")).to_contain_text("2 queues and 0 exchanges")
    form = page.get_by_role("form", name="Update this policy")
    expect(form.get_by_label("Pattern")).to_be_focused()
    expect(form.get_by_label("Pattern")).to_have_value("^orders")
    expect(form.get_by_label("Definition: value")).to_have_value("7")
    assert http.get("/queues/%2F/orders.eu").json["policy"] == "short"
    ui.open("policies")
    row = page.get_by_role("table", name="User policies").get_by_role("row").filter(has_text="short")
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Clear").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(row).to_have_count(0)


def test_virtual_hosts_and_limits_are_set(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("vhosts").page
    form = unfold_form(page, "Add a virtual host")
    send(form, "Add virtual host", {"Name": "a/b%", "Description": "slashes"})
    page.get_by_role("table", name="Virtual hosts").get_by_role("link", name="a/b%", exact=True).click()
    expect(page.locator("main h1")).to_contain_text("a/b%")
    limit = page.get_by_role("form", name="Set a virtual host limit")
    limit.get_by_label("Limit").select_option("max-queues")
    send(limit, "Set limit", {"Value": "3"})
    expect(page.get_by_role("table", name="Virtual host limits")).to_contain_text("3")
    assert running.http().get("/vhost-limits/a%2Fb%25").json == [{"vhost": "a/b%", "value": {"max-queues": 3}}]
    page.get_by_role("button", name="Start tracing").click()
    expect(page.get_by_role("button", name="Stop tracing")).to_be_visible()
    page.get_by_role("button", name="Protect from deletion").click()
    allow = page.get_by_role("button", name="Allow deletion")
    expect(allow).to_be_visible()
    page.get_by_role("heading", name="Delete this virtual host").click()
    delete = page.get_by_role("button", name="Delete virtual host")
    delete.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".tasks")).to_contain_text("1 refused")
    expect(page.locator("main h1")).to_contain_text("a/b%")
    allow.click()
    expect(allow).to_have_count(0)
    delete.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("main h1")).to_have_text("Virtual hosts")


def test_the_log_is_followed_and_other_pages_of_the_cluster_open(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("log").page
    expect(page.get_by_role("log")).to_contain_text("Server startup complete")
    running.connect().close()
    expect(page.get_by_role("log")).to_contain_text("connection")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download these lines").click()
    assert "Server startup complete" in Path(download.value.path()).read_text(encoding="utf-8")
    ui.open("configuration")
    expect(page.get_by_label("Effective configuration")).to_contain_text("listeners")
    ui.open("features")
    expect(page.get_by_role("table", name="Feature flags")).to_be_visible()
    ui.open("cluster")
    page.get_by_role("textbox", name="Name").fill("burrow")
    page.get_by_role("button", name="Change name").click()
    expect(page.locator(".tasks")).to_contain_text("burrow")
    ui.open("parameters")
    expect(page.get_by_role("table", name="Global parameters")).to_contain_text("burrow")


def test_a_user_sees_the_pages_that_the_api_allows(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    http = running.http()
    http.put("/users/plain", {"password": "p", "tags": "management"})
    http.put("/permissions/%2F/plain", {"configure": "^$", "write": "^$", "read": "^$"})
    ui = new_ui().sign_in("plain", "p")
    page = ui.page
    expect(page.get_by_role("table", name="Nodes")).to_have_count(0)
    expect(page.get_by_role("heading", name="Import definitions")).to_have_count(0)
    expect(page.locator("nav.sections").get_by_role("link", name="Federation")).to_have_count(0)
    ui.open("vhosts")
    expect(page.locator("nav.side a")).to_have_text(["Virtual hosts", "Policies", "Feature flags"])
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(page.get_by_role("heading", name="Add a virtual host")).to_have_count(0)
    ui.open("policies")
    expect(page.get_by_role("heading", name="Add or update")).to_have_count(0)
    ui.open("users")
    expect(page.locator("main")).to_contain_text("you have no right to see it")
    ui.open("queues")
    form = unfold_form(page, "Add a queue")
    send(form, "Add queue", {"Name": "refused"})
    expect(form.get_by_role("alert")).to_contain_text("Access refused")
    http.delete("/users/plain")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_users_are_chosen_from_a_list_and_permissions_are_said_to_be_replaced(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/users/chosen", {"password": "p", "tags": ""})
    page = ui.open("vhosts/%2F").page
    form = page.get_by_role("form", name="Set permission")
    expect(form.get_by_label("User").locator("option")).to_have_text(["chosen", "guest"])
    form.get_by_label("User").select_option("chosen")
    for verb in ("set", "replaced"):
        form.get_by_role("button", name="Set permission").click()
        expect(page.get_by_text(f"The permissions of chosen in / are {verb}.")).to_be_visible()
        expect(form.get_by_label("User")).to_have_value("chosen")
    limit = ui.open("limits").page.get_by_role("form", name="Set a user limit")
    limit.get_by_label("User").select_option("chosen")
    send(limit, "Set limit", {"Value": "3"})
    expect(page.get_by_text("The limit max-connections of chosen is 3.")).to_be_visible()
    http.delete("/users/chosen")


def test_empty_pages_say_what_to_do_next(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    for queue in running.http().get("/queues").json:
        running.http().delete(f"/queues/%2F/{queue['name']}")
    ui = new_ui(permissions=["clipboard-read", "clipboard-write"]).sign_in()
    uri = f"amqp://127.0.0.1:{running.port}"
    expected = {
        "connections": f"clients connect to {uri}", "channels": "clients open them", "consumers": "basic.consume",
        "queues": "“Add a queue” below", "federation": "one needs an upstream and a policy",
        "reports": "warren analyze",
        "federation-upstreams": "the wizard sets up several", "policies": "“Add or update a policy” below",
        "federation-upstream-sets": "the set “all” is always there", "limits": "the form below sets one",
        "parameters": "“Set a parameter” below",
    }  # fmt: skip
    for address, text in expected.items():
        expect(ui.open(address).page.locator("p.empty", has_text=text).first).to_be_visible()
    page = ui.open("connections").page
    page.get_by_role("button", name=f"Copy {uri}").click()
    assert page.evaluate("navigator.clipboard.readText()") == uri
