"""The picture of the topology, with two brokers."""

import json
import shlex
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support.browser import UI
from tests.support.federated_broker import FederatedBroker
from tests.support.polling import until

from .actions import exchange, publish


def test_the_picture_shows_both_brokers_and_the_links_of_both_directions(
    ui: UI, running: FederatedBroker, other: FederatedBroker
) -> None:
    page = ui.open("federation/topology").page
    expect(page.get_by_text("No broker federates with this one.")).to_be_visible()
    for broker, peer in ((running, other), (other, running)):
        peer.ask("PUT", "/users/link", {"password": "link", "tags": ""})
        peer.ask("PUT", "/permissions/%2f/link", {"configure": ".*", "write": ".*", "read": ".*"})
        exchange(broker, "federated.both", "both")
        broker.federate("^federated.both$", f"amqp://link:link@127.0.0.1:{peer.port}/%2f")
    for broker in (running, other):
        broker.running()
    picture = page.get_by_role("group", name="Topology")
    inbound = picture.get_by_role("link", name="site-b to site-a: 1 link, running")
    outbound = picture.get_by_role("link", name="site-a to site-b: 1 link, running")
    expect(inbound).to_be_visible()
    expect(outbound).to_be_visible()
    expect(picture.locator(".broker text")).to_have_text(["site-a", "site-b"])
    table = page.get_by_role("table", name="Links of the topology")
    expect(table.get_by_role("row").filter(has_text="federated.both")).to_have_count(2)
    expect(table.locator(".state.good")).to_have_count(2)

    page.get_by_label("Refresh").select_option("never")
    width = str(picture.get_attribute("width"))
    page.set_viewport_size({"width": 360, "height": 700})
    expect(picture).not_to_have_attribute("width", width)
    page.get_by_label("Refresh").select_option("every 5 s")

    outbound.focus()
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_contain_text("federation: federated.both -> site-b")
    ui.open("federation/topology")
    inbound.dispatch_event("click")
    expect(page.locator("main h1")).to_contain_text("u0 → federated.both")

    ui.open("federation/topology")
    other.ask("DELETE", "/users/link")
    link = running.rows()[0]
    running.ask("DELETE", f"/federation-links/vhost/%2f/{link['id']}/{link['node']}/restart")
    expect(picture.locator(".edge.bad")).to_contain_text("site-b to site-a: 1 link, error")
    expect(table.locator(".detail.bad")).to_be_visible()


def cells(page: Page, label: str, values: list[str]) -> None:
    for at, value in enumerate(values):
        page.get_by_label(label, exact=True).nth(at).fill(value)


def words(page: Page, broker: str) -> list[list[str]]:
    """The commands for a broker, as a shell splits them."""
    shown = page.get_by_label(f"Commands for {broker}", exact=True).locator("pre").inner_text()
    return [shlex.split(line) for line in shown.splitlines()]


POLICY = ["^federated\\.", '{"federation-upstream-set":"all"}']


def test_the_wizard_shows_the_commands_of_all_brokers_and_applies_its_own(
    ui: UI, running: FederatedBroker, other: FederatedBroker
) -> None:
    exchange(running, "federated.pair", "pair")
    exchange(other, "federated.pair")
    page = ui.open("federation/wizard").page
    expect(page.get_by_text("Not complete yet")).to_be_visible()
    cells(page, "Cluster name", ["site-a", "site-b"])
    cells(page, "URI", [running.uri, f"amqp://guest:guest@127.0.0.1:{other.port}/%2f"])
    upstream = {"uri": f"amqp://guest:guest@127.0.0.1:{other.port}/%2f", "max-hops": 1}
    assert words(page, "site-a") == [
        ["warrenctl", "set_parameter", "federation-upstream", "site-b", json.dumps(upstream, separators=(",", ":"))],
        ["warrenctl", "set_policy", "federate", *POLICY, "--apply-to", "exchanges"],
    ]
    for line in words(page, "site-b"):
        assert other.warrenctl(*line[1:]).returncode == 0
    page.get_by_role("button", name="Apply to this broker").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"add upstream site-b: amqp://guest:[redacted]@127.0.0.1:{other.port}/%2f")
    expect(dialog).to_contain_text("add policy federate: exchanges that match ^federated\\.")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("This broker is set.")).to_be_visible()
    running.running()
    other.running()
    other.bound("federated.pair", "#")
    publish(other, "federated.pair", "hello")
    until(lambda: running.queues()["pair"] == 1, "the message")


def test_the_wizard_knows_rings_graphs_and_trees(ui: UI, running: FederatedBroker) -> None:
    running.ask("PUT", "/vhosts/a%20b", {})
    page = ui.open("vhosts").open("federation/wizard").page
    names = ["site-a", "b", "it's"]
    page.get_by_label("Topology", exact=True).select_option("Ring")
    cells(page, "Cluster name", names)
    cells(page, "URI", [f"amqp://{number}" for number in range(3)])
    page.get_by_label("Virtual host", exact=True).last.select_option("a b")
    page.get_by_label("Priority").fill("7")
    ring = {name: json.loads(words(page, name)[-2][-1]) for name in names}
    assert ring == {name: {"uri": f"amqp://{(at - 1) % 3}", "max-hops": 2} for at, name in enumerate(names)}
    assert words(page, "it's")[0] == ["warrenctl", "set_cluster_name", "it's"]
    first, policy = words(page, "site-a")
    assert first[2:6] == ["--vhost", "a b", "federation-upstream", "it's"]
    assert policy[2:] == ["--vhost", "a b", "federate", *POLICY, "--priority", "7", "--apply-to", "exchanges"]

    page.get_by_label("Topology", exact=True).select_option("Complete graph")
    assert [line[5] for line in words(page, "b")[1:3]] == ["site-a", "it's"]
    page.get_by_label("Federate", exact=True).select_option("Queues")
    assert json.loads(words(page, "b")[1][-1]) == {"uri": "amqp://0"}
    page.get_by_label("Federate", exact=True).select_option("Exchanges")

    page.get_by_label("Topology", exact=True).select_option("Fan-out")
    page.get_by_label("Broker above").last.select_option("b")
    expect(page.get_by_label("Commands for site-a")).to_contain_text("Nothing to set")
    assert words(page, "b")[1][-2:] == ["site-a", '{"uri":"amqp://0","max-hops":1}']
    assert words(page, "it's")[1][-2:] == ["b", '{"uri":"amqp://1","max-hops":2}']
    page.get_by_label("Cluster name").last.fill("b")
    expect(page.get_by_text("Not complete yet: two brokers are called b")).to_be_visible()
    running.ask("DELETE", "/vhosts/a%20b")


def test_the_wizard_names_a_renamed_cluster_warns_of_guest_and_copies_commands(
    new_ui: Callable[..., UI], running: FederatedBroker
) -> None:
    ui = new_ui(permissions=["clipboard-read", "clipboard-write"]).sign_in()
    page = ui.open("federation/wizard").page
    cells(page, "Cluster name", ["site-a", "b"])
    guest = page.get_by_text("lets the user guest in from its own machine only")
    for uri, count in (("amqp://guest:x@10.0.0.7", 1), ("amqp://10.0.0.7", 1), ("amqp://link:x@10.0.0.7", 0)):
        cells(page, "URI", ["amqp://127.0.0.1", uri])
        expect(guest.filter(visible=True)).to_have_count(count)
    assert words(page, "site-a")[0][1] == "set_parameter"  # it has its name already
    cells(page, "Cluster name", ["renamed"])
    commands = page.get_by_label("Commands for renamed", exact=True)
    assert words(page, "renamed")[0] == ["warrenctl", "set_cluster_name", "renamed"]
    commands.get_by_role("button", name="Copy commands").click()
    expect(commands.get_by_role("button", name="Copy commands")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == commands.locator("pre").inner_text()
    commands.get_by_role("button", name="Apply to this broker").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("name this cluster renamed")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("This broker is set.")).to_be_visible()
    assert running.ask("GET", "/cluster-name") == {"name": "renamed"}
    running.ask("PUT", "/cluster-name", {"name": "site-a"})
