"""The page of a queue."""

import base64
import itertools
import json
import re
from collections.abc import Callable

import pika
from playwright.sync_api import Route, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI, wait_for
from tests.support.polling import until

from .actions import answer, section, send
from .traffic import Traffic

LIVE_WITHIN_MS = 10_000  # demanded of the charts after the page was opened
RANGES = (("last 10 minutes", 600, 5), ("last minute", 60, 5))  # label, age and step in seconds


def test_the_page_of_a_quorum_queue_shows_its_guarantee(ui: UI, running: BrokerProcess) -> None:
    for type_, count in (("quorum", 1), ("classic", 0)):
        running.http().put(f"/queues/%2F/{type_}", {"durable": True, "arguments": {"x-queue-type": type_}})
        details = section(ui.open(f"queues/%2F/{type_}").page, "Details")
        expect(details.locator("dd", has_text=re.compile(f"^{type_}$")).first).to_be_visible()
        expect(details.get_by_text("No: a confirmed message is on no disk")).to_have_count(count)


def test_the_page_shows_rates_consumers_and_sizes_of_live_traffic(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/busy", {"arguments": {"x-max-length": 1000}})
    http.post("/bindings/%2F/e/amq.topic/q/busy", {"routing_key": "live.#"})
    with Traffic(("127.0.0.1", running.port), "amq.topic", "live.x", "busy"):
        page = ui.open("queues/%2F/busy").page
        overview = section(page, "Overview")
        expect(overview.get_by_role("button", name=re.compile(r"^Publish [1-9]"))).to_be_visible()
        expect(overview.get_by_role("button", name=re.compile(r"^Consumer ack [1-9]"))).to_be_visible()
        expect(overview.locator("canvas")).to_have_count(2)
        with page.expect_response("**/queues/%2F/busy?**lengths_age=3600&lengths_incr=60**"):
            page.get_by_label("Time range of the charts").select_option(label="last hour")
        expect(overview.get_by_role("img", name="Queued messages")).to_be_visible()
        ready = overview.get_by_role("button", name="Ready")
        ready.click()
        expect(ready).to_have_attribute("aria-pressed", "false")
        consumer = section(page, "Consumers").get_by_role("row").filter(has_text="reader")
        expect(consumer).to_contain_text("●○7●up")
        expect(consumer.get_by_role("link").first).to_have_attribute("href", re.compile("^#/channels/"))
        details = section(page, "Details")
        expect(details).to_contain_text("x-max-length")
        expect(details).to_contain_text("Effective policy definition")
        expect(details.get_by_role("table", name="Messages by class")).to_contain_text("Message body bytes")


def test_both_charts_have_live_data_soon_and_follow_the_range(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/charted", {})
    with Traffic(("127.0.0.1", running.port), "", "charted", "charted"):
        until(lambda: "ack_details" in http.get("/queues/%2F/charted").json.get("message_stats", {}))
        page = ui.open("queues/%2F/charted").page
        lengths = page.get_by_role("img", name=re.compile(r"^Queued messages: Ready \d+, Unacked \d+, Total \d+"))
        rates = page.get_by_role("img", name=re.compile(r"^Message rates: Publish [1-9].*Consumer ack [1-9]"))
        for chart in (lengths, rates):
            expect(chart.locator("canvas")).to_be_visible(timeout=LIVE_WITHIN_MS)
        for label, age_s, step_s in RANGES:
            queries = [f"{family}_age={age_s}&{family}_incr={step_s}" for family in ("lengths", "msg_rates")]
            with page.expect_response(f"**/queues/%2F/charted?{'&'.join(queries)}") as answered:
                page.get_by_label("Time range of the charts").select_option(label=label)
            stats = answered.value.json()
            for samples in (stats["messages_details"]["samples"], stats["message_stats"]["publish_details"]["samples"]):
                times = [sample["timestamp"] for sample in samples]
                assert {later - earlier for later, earlier in itertools.pairwise(times)} <= {step_s * 1000}
            for chart in (lengths, rates):
                expect(chart.locator("canvas")).to_be_visible()


def test_bindings_are_added_with_arguments_and_removed(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/bound", {})
    page = ui.open("queues/%2F/bound").page
    bindings = section(page, "Bindings to this queue")
    expect(bindings.get_by_role("row").filter(has_text="(AMQP default)")).to_contain_text("cannot be removed")
    form = page.get_by_role("form", name="Add binding to this queue")
    send(form, "add a key", {"From exchange": "amq.headers", "Routing key": "a/b %2F"})
    send(form, "Bind", {"Arguments: key": "x-match", "Arguments: value": "any"})
    row = bindings.get_by_role("row").filter(has_text="a/b %2F")
    expect(row).to_contain_text("x-matchany")
    assert http.get("/bindings/%2F/e/amq.headers/q/bound").json[0]["arguments"] == {"x-match": "any"}
    row.get_by_role("button", name="Unbind").focus()
    http.post("/bindings/%2F/e/amq.fanout/q/bound", {})
    expect(bindings.get_by_role("row").filter(has_text="amq.fanout")).to_be_visible()
    expect(row.get_by_role("button", name="Unbind")).to_be_focused()  # as the refresh left the row alone
    row.get_by_role("button", name="Unbind").click()
    assert "amq.headers to queue bound" in answer(page, "Unbind")
    expect(row).to_have_count(0)
    assert http.get("/bindings/%2F/e/amq.headers/q/bound").json == []


def test_a_refused_binding_is_explained(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/unbound", {})
    page = ui.open("queues/%2F/unbound").page
    form = page.get_by_role("form", name="Add binding to this queue")
    send(form, "Bind", {"From exchange": "nowhere"})
    expect(form.get_by_role("alert")).to_be_visible()


def test_a_message_is_published_with_headers_and_properties_and_peeked_at(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/letters", {"durable": True})
    page = ui.open("queues/%2F/letters").page
    form = section(page, "Publish message").get_by_role("form")
    form.get_by_label("Delivery mode").select_option("2")
    headers = form.get_by_role("group", name="Headers")
    headers.get_by_role("button", name="add a key").click()
    headers.get_by_label("Headers: key").fill("shape")
    headers.get_by_label("Headers: value").fill('{"sides": 3}')
    headers.get_by_label("Headers: type").select_option("json")
    form.get_by_role("button", name="content_type").click()
    send(form, "Publish message", {"Properties: value": "application/json", "Payload": '{"a":[1]}'})
    expect(page.get_by_text("Message published.")).to_be_visible()

    get = section(page, "Get messages")
    get.get_by_role("button", name="Get messages").click()
    message = get.get_by_role("article", name="Message 1")
    for text in ("letters", "application/json", "shape", '{"sides":3}', "Payload: 9 bytes", "○  no"):
        expect(message).to_contain_text(text)
    expect(message.get_by_label("Payload")).to_have_text('{"a":[1]}')
    message.get_by_role("button", name="JSON formatted").click()
    assert message.get_by_label("Payload").inner_text() == json.dumps({"a": [1]}, indent=2)
    message.get_by_role("button", name="Base64").click()
    expect(message.get_by_label("Payload")).to_have_text(base64.b64encode(b'{"a":[1]}').decode())
    get.get_by_role("button", name="Get messages").click()
    expect(message).to_contain_text("●  yes")  # it was put back
    expect(get).to_contain_text("1 shown; 0 ready messages were behind them.")


def test_destructive_modes_warn_and_ask(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/taken", {})
    running.http().publish("taken", "only copy")
    page = ui.open("queues/%2F/taken").page
    get = section(page, "Get messages")
    expect(get.get_by_label("Ack mode")).to_have_value("ack_requeue_true")
    get.get_by_label("Ack mode").select_option("ack_requeue_false")
    expect(get).to_contain_text("This page then has the only copy.")
    get.get_by_role("button", name="Get messages").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(get.get_by_role("article")).to_have_count(0)
    get.get_by_role("button", name="Get messages").click()
    assert "Automatic ack" in answer(page, "Remove")
    expect(get.get_by_role("article")).to_contain_text("only copy")
    get.get_by_label("Ack mode").select_option("ack_requeue_true")
    get.get_by_role("button", name="Get messages").click()
    expect(get).to_contain_text("The queue has no ready messages.")


def test_binary_and_long_payloads(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/odd", {})
    running.http().publish("odd", "é" * 40_000)
    page = ui.open("queues/%2F/odd").page
    form = section(page, "Publish message").get_by_role("form")
    form.get_by_label("Payload", exact=True).fill("//79")
    form.get_by_label("Payload encoding").select_option("base64")
    form.get_by_role("button", name="Publish message").click()
    expect(page.get_by_text("Message published.")).to_be_visible()
    get = section(page, "Get messages")
    send(get, "Get messages", {"Messages": "5"})
    expect(get.get_by_role("article", name="Message 1")).to_contain_text("80,000 bytes, the first 50,000 shown")
    assert get.get_by_role("article", name="Message 1").get_by_label("Payload").inner_text() == "é" * 25_000
    binary = get.get_by_role("article", name="Message 2")
    expect(binary).to_contain_text("not text")
    expect(binary.get_by_label("Payload")).to_have_text("//79")
    expect(binary.get_by_role("button", name="JSON formatted")).to_be_disabled()


def test_purge_and_delete(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/doomed", {})
    running.http().publish("doomed", "one")
    page = ui.open("queues/%2F/doomed").page
    remove = section(page, "Delete").get_by_role("form")
    remove.get_by_label("Only if it is empty").check()
    remove.get_by_role("button", name="Delete queue").click()
    answer(page, "Delete")
    expect(remove.get_by_role("alert")).to_contain_text("not empty")
    section(page, "Purge").get_by_role("button", name="Purge messages").click()
    assert "doomed (/)" in answer(page, "Purge")
    expect(page.get_by_text("Queue doomed is purged.")).to_be_visible()
    assert http.get("/queues/%2F/doomed").json["messages"] == 0
    remove.get_by_role("button", name="Delete queue").click()
    answer(page, "Delete")
    expect(page.locator("main h1")).to_have_text("Queues")
    assert http.get("/queues/%2F/doomed").status == 404


def test_policies_and_the_owner_of_an_exclusive_queue_are_shown(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/policies/%2F/short", {"pattern": "^owned$", "definition": {"max-length": 9}, "apply-to": "queues"})
    operator_policy = {"pattern": "^owned$", "definition": {"expires": 60000}, "apply-to": "queues"}
    http.put("/operator-policies/%2F/safe", operator_policy)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", running.port)) as connection:
        connection.channel().queue_declare("owned", exclusive=True)
        details = section(ui.open("queues/%2F/owned").page, "Details")
        for text in ("short", "safe", "max-length9", "expires60000", "Exclusive owner", "127.0.0.1:"):
            expect(details).to_contain_text(text)


def test_messages_move_with_progress_to_a_queue_and_to_an_exchange(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    for name in ("wrong", "right"):
        http.put(f"/queues/%2F/{name}", {"durable": True})
    http.post("/bindings/%2F/e/amq.topic/q/right", {"routing_key": "sorted"})
    http.publish("wrong", *"01234")
    page = ui.open("queues/%2F/wrong").page
    form = section(page, "Move messages").get_by_role("form")
    expect(form.get_by_label("Routing key")).to_be_hidden()
    send(form, "Move messages", {"Name of the destination": "wrong"})
    expect(form.get_by_role("alert")).to_contain_text("cannot be moved to itself")
    send(form, "Move messages", {"Name of the destination": "right", "Messages": "2"})
    assert "Move 2 messages of wrong?" in answer(page, "Move")
    expect(page.get_by_label("Work in progress")).to_contain_text("done: 2 of 2")
    form.get_by_label("To", exact=True).select_option("exchange")
    send(form, "Move messages", {"Name of the destination": "amq.topic", "Routing key": "unknown", "Messages": ""})
    assert "Move 3 messages of wrong?" in answer(page, "Move")
    expect(page.get_by_label("Work in progress")).to_contain_text("ended: no binding of exchange 'amq.topic'")
    send(form, "Move messages", {"Routing key": "sorted"})
    answer(page, "Move")
    expect(page.get_by_label("Work in progress")).to_contain_text("done: 3 of 3")
    assert [one["payload"] for one in http.messages("right")] == list("01234")


def test_a_long_move_is_stopped(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    for name in ("long", "target"):
        http.put(f"/queues/%2F/{name}", {})
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", running.port)) as connection:
        channel = connection.channel()
        for _ in range(50_000):
            channel.basic_publish("", "long", b"")
    page = ui.open("queues/%2F/long").page
    form = section(page, "Move messages").get_by_role("form")
    send(form, "Move messages", {"Name of the destination": "target"})
    held: list[Route] = []  # requests of the move, which wait here
    page.route("**/move", lambda route: held.append(route))
    answer(page, "Move")
    wait_for(page, lambda: len(held) == 1)
    held[0].continue_()
    wait_for(page, lambda: len(held) == 2)
    work = page.get_by_label("Work in progress")
    work.get_by_role("button", name="Stop").click()
    held[1].continue_()
    expect(work).to_contain_text("stopped after")
    there = http.get("/queues/%2F/target").json["messages"]
    assert 0 < there < 50_000
    assert http.get("/queues/%2F/long").json["messages"] == 50_000 - there


def test_unacknowledged_messages_name_consumer_channel_and_age(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put("/queues/%2F/slow", {})
    http.publish("slow", *"012")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", running.port)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume("slow", lambda *_: None, consumer_tag="sleeper")
        connection.process_data_events(1)
        page = ui.open("queues/%2F/slow").page
        unacked = section(page, "Unacknowledged messages")
        rows = unacked.get_by_role("row").filter(has_text="sleeper")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("1 B")
        expect(rows.first.get_by_role("link").first).to_have_attribute("href", re.compile("^#/channels/"))
        expect(rows.first).to_contain_text(re.compile(r"\d s|a few seconds"))
        expect(section(page, "Details")).to_contain_text("Oldest ready message")


def test_unacknowledged_messages_of_an_exclusive_queue_are_not_asked_for(ui: UI, running: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", running.port)) as connection:
        channel = connection.channel()
        channel.queue_declare("own", exclusive=True)
        channel.basic_publish("", "own", b"1")
        channel.basic_consume("own", lambda *_: None)
        connection.process_data_events(0.2)
        unacked = section(ui.open("queues/%2F/own").page, "Unacknowledged messages")
        expect(unacked).to_contain_text("an exclusive queue are not shown")


def test_forms_that_a_user_may_not_send_are_not_offered(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    """A reader with the tag management; then the same user with all permissions."""
    http = running.http()
    http.put("/queues/%2F/guarded", {})
    http.put("/exchanges/%2F/guarded", {"type": "fanout"})
    http.put("/users/reader", {"password": "reader", "tags": "management"})
    reading = {"Get messages", "Move messages", "Purge"}
    changing = {"Delete", "Publish message", "Delete this exchange"}
    for permission, offered in (("^$", reading), (".*", reading | changing)):
        http.put("/permissions/%2F/reader", {"configure": permission, "write": permission, "read": ".*"})
        ui = new_ui().sign_in("reader", "reader")
        shown: set[str] = set()
        for kind in ("queues", "exchanges"):
            ui.open(f"{kind}/%2F/guarded")
            shown |= set(ui.page.locator("summary h2:visible").all_inner_texts())
        assert shown & (reading | changing) == offered
    http.delete("/users/reader")


def test_milder_actions_are_before_harsher_ones(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/ordered", {})
    page = ui.open("queues/%2F/ordered").page
    titles = page.locator("main summary h2").all_inner_texts()
    assert titles[-4:] == ["Get messages", "Move messages", "Purge", "Delete"]
    page = ui.open("queues?name=ordered").page
    page.get_by_label("Choose //ordered").check()
    assert page.locator(".actions button").filter(visible=True).all_inner_texts() == ["Purge", "Delete"]
    running.http().delete("/queues/%2F/ordered")


def test_labels_stand_on_the_line_of_their_inputs(ui: UI, running: BrokerProcess) -> None:
    running.http().put("/queues/%2F/lined", {})
    page = ui.open("queues/%2F/lined").page
    for title in ("Publish message", "Move messages", "Delete"):
        for field in section(page, title).locator(".field:has(> label)").filter(visible=True).all():
            label, given = (
                field.locator("label").bounding_box(),
                field.locator("input, select, textarea").first.bounding_box(),
            )
            assert label is not None and given is not None
            middle = given["y"] + min(given["height"], 30) / 2  # of a text of several lines: of its first
            assert abs(label["y"] + label["height"] - 10 - middle) < 5, (title, field.inner_text(), label, given)
    running.http().delete("/queues/%2F/lined")
