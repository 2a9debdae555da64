"""The pages of links, upstreams and sets: messages of site-b reach site-a by the settings of the pages."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.browser import UI
from tests.support.federated_broker import FederatedBroker
from tests.support.polling import until

from ..actions import send, unfold_form
from .actions import exchange, publish, unfold


def test_an_upstream_and_a_policy_set_in_the_pages_bring_messages_through_a_link(
    ui: UI, new_ui: Callable[..., UI], running: FederatedBroker, other: FederatedBroker
) -> None:
    exchange(running, "federated.news", "inbox")
    exchange(other, "federated.news")
    status = new_ui().sign_in().open("federation").page
    expect(status.get_by_text("no links")).to_be_visible()

    page = ui.open("federation-upstreams").page
    form = unfold_form(page, "Add a new upstream")
    form.get_by_label("Name", exact=True).fill("origin")
    form.get_by_label("URI").fill(f"amqp://guest:guest@127.0.0.1:{other.port}/%2f  {other.uri}")
    form.get_by_label("Prefetch count").fill("50")
    form.get_by_label("Reconnect delay").fill("0.5")
    form.get_by_label("Trust User-ID").select_option("yes")
    form.get_by_role("button", name="Add upstream").click()
    upstreams = page.get_by_role("table", name="Upstreams", exact=True)
    expect(upstreams).to_contain_text(f"amqp://guest:[redacted]@127.0.0.1:{other.port}/%2f")
    assert running.ask("GET", "/parameters/federation-upstream/%2f/origin")["value"] == {
        "uri": [f"amqp://guest:guest@127.0.0.1:{other.port}/%2f", other.uri], "prefetch-count": 50,
        "reconnect-delay": 0.5, "trust-user-id": True,
    }  # fmt: skip

    form = unfold_form(page, "Federate exchanges or queues")
    form.get_by_label("Name of the policy").fill("federate")
    form.get_by_label("Pattern").fill("^federated\\.")
    expect(form.get_by_role("status")).to_contain_text("1 exchange: federated.news")
    form.get_by_label("Upstreams").select_option("upstream origin")
    form.get_by_role("button", name="Federate").click()
    expect(page.get_by_role("table", name="Policies that federate")).to_contain_text("upstream origin")

    row = status.get_by_role("row").filter(has_text="federated.news")
    expect(row.locator(".state.good")).to_have_text("running")  # without a reload
    running.running()
    other.bound("federated.news", "#")
    publish(other, "federated.news", "hello")
    until(lambda: running.queues()["inbox"] == 1, "the message")
    expect(row).to_contain_text("/s")

    row.get_by_role("link", name=running.rows()[0]["id"]).click()
    expect(status.locator("main h1")).to_contain_text("origin → federated.news")
    facts = status.locator("dl.facts")
    expect(facts).to_contain_text("site-b")
    expect(status.get_by_role("img", name="Inbound messages")).to_be_visible()


def test_a_link_that_is_down_shows_why_and_is_restarted_after_a_question(ui: UI, running: FederatedBroker) -> None:
    exchange(running, "federated.down")
    running.federate("^federated.down$", "amqp://guest:secret@127.0.0.1:1/%2f", reconnect_delay=60)
    row = running.down()
    page = ui.open("federation").page
    shown = page.get_by_role("row").filter(has_text="federated.down")
    expect(shown.locator(".state.bad")).to_have_text("error")
    expect(shown).to_contain_text("connection refused")
    expect(shown).to_contain_text("1 attempt failed, next")
    page.get_by_label("only links that are down").check()
    expect(shown).to_be_visible()
    shown.get_by_role("button", name="Restart").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("exchange federated.down in /, upstream u0, error")
    dialog.get_by_role("button", name="Cancel").click()
    assert running.down()["changed_at"] == row["changed_at"]
    shown.get_by_role("checkbox").check()
    page.locator(".actions").get_by_role("button", name="Restart").click()
    dialog.get_by_role("button", name="Restart").click()
    expect(page.get_by_text("done: 1 of 1")).to_be_visible()
    until(lambda: running.down()["changed_at"] != row["changed_at"], "another attempt")
    assert "secret" not in page.content()


def test_an_edited_upstream_keeps_its_password_and_its_other_settings(ui: UI, running: FederatedBroker) -> None:
    uri = "amqp://user:p%40ss@127.0.0.1:1/%2f?password=phrase&heartbeat=5"
    running.upstream("kept", uri, max_hops=3, ack_mode="on-publish", queue="work")
    page = ui.open("federation-upstreams").page
    page.get_by_role("link", name="Edit kept").click()
    shown = "amqp://user:[redacted]@127.0.0.1:1/%2f?password=[redacted]&heartbeat=5"
    expect(page.locator("dl.facts").first).to_contain_text(shown)
    form = page.get_by_role("form", name="Edit upstream kept")
    expect(form.get_by_label("URI")).to_be_focused()
    expect(form.get_by_label("Max hops")).to_have_value("3")
    expect(form.get_by_label("Acknowledgement mode")).to_have_value("on-publish")
    expect(form.get_by_label("Queue", exact=True)).to_have_value("work")
    send(form, "Save upstream", {"Max hops": "", "Prefetch count": "7"})
    expect(page.get_by_text("Upstream kept is saved")).to_be_visible()
    value = running.ask("GET", "/parameters/federation-upstream/%2f/kept")["value"]
    settings = {"ack-mode": "on-publish", "queue": "work", "prefetch-count": 7, "reconnect-delay": 0.1}
    assert value == {"uri": uri, **settings}
    send(form, "Save upstream", {"URI": "amqp://user:[redacted]@127.0.0.2:1/%2f"})
    saved = "/parameters/federation-upstream/%2f/kept"
    until(lambda: running.ask("GET", saved)["value"]["uri"] == "amqp://user:p%40ss@127.0.0.2:1/%2f", "the new host")


def test_deleting_an_upstream_names_the_policies_that_use_it(ui: UI, running: FederatedBroker) -> None:
    for name in ("one", "two"):
        running.upstream(name, "amqp://127.0.0.1:1/%2f")
    running.ask("PUT", "/parameters/federation-upstream-set/%2f/near", {"value": [{"upstream": "one"}]})
    running.policy("^a$", {"federation-upstream": "one"}, "direct")
    running.policy("^b$", {"federation-upstream-set": "near"}, "by-set")
    running.policy("^c$", {"federation-upstream-pattern": "^o"}, "by-pattern")
    page = ui.open("federation-upstreams").page
    page.get_by_label("Choose //one").check()
    page.get_by_label("Choose //two").check()
    page.locator(".actions").get_by_role("button", name="Delete").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("one (/): used by the policies direct, by-set, by-pattern")
    expect(dialog).to_contain_text("two (/): used by no policy")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("no upstreams")).to_be_visible()
    assert running.ask("GET", "/parameters/federation-upstream") == []


def test_a_set_is_added_with_settings_of_its_members_and_edited(ui: UI, running: FederatedBroker) -> None:
    running.upstream("one", "amqp://127.0.0.1:1/%2f")
    page = ui.open("federation-upstream-sets").page
    form = unfold_form(page, "Add a new upstream set")
    send(form, "max-hops", {"Name": "near", "Upstream": "one"})
    send(form, "Add upstream set", {"Settings that differ in this set: value": "2"})
    table = page.get_by_role("table", name="Upstream sets")
    expect(table).to_contain_text("one (max-hops 2)")
    table.get_by_role("link", name="near", exact=True).click()
    unfold(page, "Edit")
    form = page.get_by_role("form", name="Edit upstream set near")
    form.get_by_role("button", name="Add a member").click()
    form.get_by_label("Upstream", exact=True).last.fill("two")
    form.get_by_role("button", name="Save upstream set").click()
    expect(page.get_by_role("link", name="two")).to_be_visible()
    stored = running.ask("GET", "/parameters/federation-upstream-set/%2f/near")["value"]
    assert stored == [{"upstream": "one", "max-hops": 2}, {"upstream": "two"}]
    page.get_by_role("button", name="Delete upstream set").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("no upstream sets")).to_be_visible()


def test_the_pages_follow_the_tags_of_the_user(new_ui: Callable[..., UI], running: FederatedBroker) -> None:
    exchange(running, "federated.tags")
    running.federate("^federated.tags$", "amqp://user:secret@127.0.0.1:1/%2f")
    maker = new_ui().sign_in("maker", "maker")
    page = maker.page
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Federation").click()
    expect(page.locator("main h1")).to_have_text("Federation upstreams")
    table = page.get_by_role("table", name="Upstreams", exact=True)
    expect(table).to_contain_text("amqp://user:[redacted]@127.0.0.1:1/%2f")
    pages, sections = page.locator("nav.side a"), page.locator("nav.sections a")
    general = ["Overview", "Connections", "Channels", "Exchanges", "Queues", "Federation"]
    expect(pages).to_have_text(["Upstreams", "Upstream sets", "Wizard"])
    expect(sections).to_have_text([*general, "Admin"])
    maker.open("policies")
    expect(page.get_by_role("heading", name="Add or update")).to_have_text("Add or update a policy")
    expect(pages).to_have_text(["Virtual hosts", "Policies", "Parameters", "Feature flags"])
    for address in ("federation", "federation/topology"):
        maker.open(address)
        expect(page.locator("main h1")).to_have_text("Not found")
    maker.open("federation-upstreams/%2F/u0")
    unfold(page, "Edit")
    form = page.get_by_role("form", name="Edit upstream u0")
    expect(form).to_contain_text("enter them again")
    form.get_by_role("button", name="Save upstream").click()
    expect(form.get_by_role("alert")).to_contain_text("has to be given again")
    maker.problems.clear()  # the browser reports the response 400
    assert "secret" not in page.content()

    watch = new_ui().sign_in("watch", "watch")
    page = watch.open("federation?name=u0").page
    expect(page.get_by_role("row").filter(has_text="federated.tags")).to_be_visible()
    expect(page.get_by_role("button", name="Restart")).to_have_count(0)
    expect(page.locator("nav.side a")).to_have_text(["Status", "Topology"])
    expect(page.locator("nav.sections a")).to_have_text([*general, "Messages", "Admin"])
    for address in ("federation-upstreams", "federation/wizard"):
        watch.open(address)
        expect(page.locator("main h1")).to_have_text("Not found")
