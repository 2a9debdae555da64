"""The pages of the analysis's reports."""

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

from .reports import publish_run, write_report


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
