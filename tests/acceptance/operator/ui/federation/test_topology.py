"""The picture of the topology, with two brokers."""

from playwright.sync_api import expect

from tests.support.browser import UI
from tests.support.federated_broker import FederatedBroker

from .actions import exchange


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
