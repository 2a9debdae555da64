"""The pages of exchanges."""

import re

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .actions import answer, section, send, unfold_form
from .traffic import Traffic


def test_an_exchange_is_added_with_an_alternate_and_listed_and_deleted(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("exchanges").page
    expect(page.get_by_role("link", name="(AMQP default)")).to_be_visible()
    form = unfold_form(page, "Add a new exchange")
    offered = form.get_by_label("Type", exact=True).locator("option").all_inner_texts()
    assert {"direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random"} <= set(offered)
    form.get_by_label("Name").fill("news")
    form.get_by_label("Type", exact=True).select_option("topic")
    form.get_by_label("Auto delete").select_option(label="Yes")
    form.get_by_role("button", name="alternate-exchange").click()
    send(form, "Add exchange", {"Arguments: value": "amq.fanout"})
    row = page.get_by_role("row").filter(has_text="news")
    expect(row).to_contain_text("topic")
    expect(row).to_contain_text("AE")
    declared = running.http().get("/exchanges/%2F/news").json
    assert (declared["durable"], declared["auto_delete"]) == (True, True)
    assert declared["arguments"] == {"alternate-exchange": "amq.fanout"}
    row.get_by_role("checkbox").check()
    page.get_by_role("row").filter(has_text="amq.topic").get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    text = answer(page, "Delete")
    assert "news (/), topic" in text and "amq.topic" not in text
    expect(row).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="amq.topic")).to_have_count(1)


def test_the_page_shows_rates_and_its_bindings_both_ways(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/exchanges/%2F/hub", {"type": "topic", "arguments": {"alternate-exchange": "amq.direct"}})
    http.put("/queues/%2F/spoke", {})
    http.post("/bindings/%2F/e/hub/q/spoke", {"routing_key": "live"})
    with Traffic(("127.0.0.1", running.port), "hub", "live", "spoke"):
        row = ui.open("exchanges").page.get_by_role("row").filter(has_text="hub")
        expect(row).to_contain_text("/s")
        page = ui.open("exchanges/%2F/hub").page
        overview = section(page, "Overview")
        expect(overview.get_by_role("button", name=re.compile(r"^Publish .in. [1-9]"))).to_be_visible()
        expect(overview.locator("canvas")).to_have_count(1)
        expect(section(page, "Details").get_by_role("link", name="amq.direct")).to_be_visible()
        outgoing = section(page, "Bindings from this exchange")
        expect(outgoing.get_by_role("row").filter(has_text="spoke")).to_contain_text("queue")
        form = page.get_by_role("form", name="Add binding from this exchange")
        form.get_by_label("To").select_option("exchange")
        send(form, "Bind", {"Name of the destination": "amq.fanout", "Routing key": "out"})
        added = outgoing.get_by_role("row").filter(has_text="amq.fanout")
        expect(added).to_contain_text("out")
        form = page.get_by_role("form", name="Add binding to this exchange")
        send(form, "Bind", {"From exchange": "amq.topic"})
        incoming = section(page, "Bindings to this exchange")
        expect(incoming.get_by_role("row").filter(has_text="amq.topic")).to_be_visible()
        added.get_by_role("button", name="Unbind").click()
        answer(page, "Unbind")
        expect(added).to_have_count(0)
        assert [one["destination"] for one in http.get("/exchanges/%2F/hub/bindings/source").json] == ["spoke"]


def test_a_message_is_published_and_an_unrouted_one_reported(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/exchanges/%2F/post", {"type": "direct"})
    http.put("/queues/%2F/box", {})
    http.post("/bindings/%2F/e/post/q/box", {"routing_key": "known"})
    page = ui.open("exchanges/%2F/post").page
    form = section(page, "Publish message").get_by_role("form")
    send(form, "Publish message", {"Routing key": "unknown"})
    expect(form.get_by_role("alert")).to_contain_text("not routed")
    send(form, "Publish message", {"Routing key": "known"})
    expect(page.get_by_text("Message published.")).to_be_visible()
    assert http.get("/queues/%2F/box").json["messages"] == 1


def test_an_exchange_is_deleted_only_if_unused(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/exchanges/%2F/used", {"type": "fanout"})
    http.put("/queues/%2F/user", {})
    http.post("/bindings/%2F/e/used/q/user", {})
    page = ui.open("exchanges/%2F/used").page
    form = section(page, "Delete this exchange").get_by_role("form")
    form.get_by_label("Only if it has no bindings").check()
    form.get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(form.get_by_role("alert")).to_contain_text("in use")
    form.get_by_label("Only if it has no bindings").uncheck()
    form.get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(page.locator("main h1")).to_have_text("Exchanges")
    assert http.get("/exchanges/%2F/used").status == 404


def test_the_default_exchange_explains_its_bindings_and_cannot_be_deleted(ui: UI) -> None:
    page = ui.open("exchanges/%2F/amq.default").page
    expect(page.locator("main h1")).to_contain_text("(AMQP default)")
    expect(section(page, "Bindings from this exchange")).to_contain_text("bound to each queue")
    expect(page.get_by_text("Delete this exchange")).to_have_count(0)
