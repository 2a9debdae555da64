"""The overview: charts, node, alarms, and definitions."""

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .reports import publish_run, write_report


def test_charts_and_totals_show_live_traffic(ui: UI, running: BrokerProcess) -> None:
    client = running.connect()
    channel = client.channel()
    channel.declare("seen")
    channel.fill("seen", *[b"x"] * 30)
    charts = ui.page.locator("figure.chart")
    queued = charts.filter(has_text="Queued messages")
    expect(queued.get_by_role("button", name="Ready")).to_contain_text("30")
    expect(queued.locator("canvas")).to_be_visible()
    ui.page.get_by_label("Time range of the charts").select_option(label="last 10 minutes")
    expect(queued.get_by_role("button", name="Ready")).to_contain_text("30")
    expect(ui.page.locator(".totals")).to_contain_text("Queues 1")
    channel.delete("seen")
    client.close()


def test_the_node_shows_its_health_and_advice_for_an_alarm(ui: UI, running: BrokerProcess) -> None:
    node = ui.page.get_by_role("table", name="Nodes")
    expect(node).to_contain_text("warren@test")
    running.http().put("/warren/limits/memory", {"bytes": 1})
    expect(ui.page.locator(".alarms")).to_contain_text("publishers are blocked")
    running.http().put("/warren/limits/memory", {"fraction": 0.6})
    expect(ui.page.locator(".alarms")).to_be_hidden()
    node.get_by_role("button", name="This node").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(ui.page.get_by_text("The statistics of warren@test are reset.")).to_be_visible()
    expect(ui.page.get_by_role("table", name="Web contexts")).to_contain_text("RabbitMQ Management")
    node.get_by_role("link", name="warren@test").click()
    expect(ui.page.locator("main")).to_contain_text("Longest turn since the start")


def test_definitions_are_exported_and_imported_with_a_preview(ui: UI, running: BrokerProcess, tmp_path: Path) -> None:
    http, page = running.http(), ui.page
    http.put("/queues/%2F/exported", {"durable": True})
    page.get_by_role("heading", name="Export definitions").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download definitions").click()
    document = json.loads(Path(download.value.path()).read_bytes())
    assert [queue["name"] for queue in document["queues"]] == ["exported"]
    policy = {"vhost": "/", "name": "short", "pattern": "^a", "apply-to": "queues"}
    document["policies"] = [policy | {"definition": {"max-length": 3}}]
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    http.delete("/queues/%2F/exported")
    page.get_by_role("heading", name="Import definitions").click()
    page.get_by_label("Definitions file").set_input_files(file)
    page.get_by_role("button", name="Check definitions").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row").filter(has_text="queues")).to_contain_text("1")
    dialog.get_by_text("New policies (1)").click()
    expect(dialog).to_contain_text("short")
    assert http.get("/policies").json == []
    dialog.get_by_role("button", name="Import").click()
    expect(page.get_by_text("is imported")).to_be_visible()
    assert http.get("/policies/%2F/short").json["definition"] == {"max-length": 3}
    assert http.get("/queues/%2F/exported").status == 200


def test_a_file_that_cannot_be_imported_is_refused(ui: UI, running: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"vhost": "nowhere", "name": "q"}]}))
    page = ui.page
    page.get_by_role("heading", name="Import definitions").click()
    page.get_by_label("Definitions file").set_input_files(file)
    page.get_by_role("button", name="Check definitions").click()
    expect(page.get_by_role("form", name="Import definitions").get_by_role("alert")).to_contain_text("nowhere")


def test_a_report_shows_its_verdict_lag_and_top_talkers(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("reports").page
    expect(page.get_by_text("no reports")).to_be_visible()
    write_report(running.folder, "night", "<b>orders</b>")
    row = page.get_by_role("table", name="Reports").get_by_role("row").filter(has_text="night")
    expect(row).to_contain_text("imbalanced")
    expect(row).to_contain_text("see report")
    expect(row).to_contain_text("12,345")
    row.get_by_role("link", name="night").click()
    expect(page.locator("main")).to_contain_text("1 imbalance.")
    expect(page.locator("main")).to_contain_text("1 thing is wrong now, the worst: <b>orders</b>: stuck.")
    expect(page.get_by_role("table", name="What is wrong now")).to_contain_text("warren trace b1/7")
    expect(page.get_by_role("table", name="Imbalances")).to_contain_text("<b>orders</b>")
    expect(page.locator("main")).to_contain_text("It does not add up")
    expect(page.get_by_role("table", name="Durability")).to_contain_text("11")
    expect(page.get_by_role("table", name="Durability")).to_contain_text("At risk, at most")
    expect(page.get_by_role("table", name="Lag")).to_contain_text("2.5 s")
    expect(page.get_by_role("table", name="Top talkers: users")).to_contain_text("9,876")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the page").click()
    assert download.value.suggested_filename == "night.html"
    assert download.value.path().read_text() == "<title>a page</title>"


def test_a_report_is_shown_anew_when_another_run_is_published(ui: UI, running: BrokerProcess) -> None:
    write_report(running.folder, "stream", "orders")
    page = ui.open("reports/stream").page
    expect(page.locator("main")).to_contain_text("1 imbalance.")
    for run in ("first", "second"):
        publish_run(running.folder, "stream", run, f"The verdict of the {run} run.")
        expect(page.locator("main")).to_contain_text(f"The verdict of the {run} run.")
    expect(page.get_by_role("table", name="Durability")).to_contain_text("11")
