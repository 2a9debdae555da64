"""The pages of the analysis's reports."""

import json

from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI

QUEUE = {"node": "warren@test", "vhost": "/", "queue": "<b>orders</b>"}
REPORT = {
    "schema": 1,
    "totals": {"published": 12345, "delivered": 12344},
    "conservation": {
        "status": "imbalanced",
        "balanced": False,
        "reasons": [],
        "imbalance_count": 1,
        "imbalances": [{**QUEUE, "problem": "lost", "records": 1}],
        "links": [],
    },
    "latency": [{**QUEUE, "stage": "publish_deliver", "p50_us": 1500, "p99_us": 2_500_000, "max_us": 3_000_000}],
    "throughput": [
        {"scope": "user", "name": "guest", "node": "warren@test", "flow": "enqueued", "grain": "1s", "messages": 9876}
    ],
    "backlog": [],
}


def test_a_report_shows_its_verdict_lag_and_top_talkers(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("reports").page
    expect(page.get_by_text("no reports")).to_be_visible()
    folder = running.folder / "reports" / "night"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(REPORT))
    row = page.get_by_role("table", name="Reports").get_by_role("row").filter(has_text="night")
    expect(row).to_contain_text("imbalanced")
    expect(row).to_contain_text("12,345")
    row.get_by_role("link", name="night").click()
    expect(page.locator("main")).to_contain_text("1 imbalances")
    expect(page.get_by_role("table", name="Imbalances")).to_contain_text("<b>orders</b>")
    expect(page.get_by_role("table", name="Lag")).to_contain_text("2.5 s")
    expect(page.get_by_role("table", name="Top talkers: users")).to_contain_text("9,876")
