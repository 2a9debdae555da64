"""Forms whose page loads anew while something is entered: what is entered stays."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI, wait_for

API = "**/api/**"
UPSTREAMS = "/parameters/federation-upstream/%2F"
OBJECTS = {
    "/users/some": {"password": "secret", "tags": "none"},
    "/policies/%2F/some": {"pattern": "^none$", "definition": {"max-length": 1}},
    f"{UPSTREAMS}/some": {"value": {"uri": "amqp://127.0.0.1:1"}},
    "/parameters/federation-upstream-set/%2F/some": {"value": [{"upstream": "none"}]},
}
# The page of an object, its form, the button that sends it, and a field
FORMS = {
    "user": ("users/some", "Update this user", "Update user", "Tags"),
    "virtual host": ("vhosts/%2F", "Update this virtual host", "Update virtual host", "Description"),
    "policy": ("policies/%2F/some", "Update this policy", "Update policy", "Pattern"),
    "upstream": ("federation-upstreams/%2F/some", "Edit upstream some", "Save upstream", "Queue"),
    "set": ("federation-upstream-sets/%2F/some", "Edit upstream set some", "Save upstream set", "Upstream"),
}


class Held:
    """Requests of a page by one method, or those that follow one by `after`: they wait for their release."""

    def __init__(self, page: Page, address: str, method: str = "GET", after: str = "") -> None:
        self._page = page
        self._method = method
        self._after = after
        self._routes: list[Route] = []
        page.route(address, self._take)

    def _take(self, route: Route) -> None:
        method = route.request.method
        if method == self._method and not self._after:
            self._routes.append(route)
            return
        if method == self._after:
            self._after = ""
        route.continue_()

    def wait(self) -> None:
        """Wait until there is one."""
        wait_for(self._page, lambda: self._routes)

    def release(self) -> None:
        """Let them through, and the later ones."""
        self._method = ""
        for route in self._routes:
            route.continue_()


@pytest.fixture(autouse=True)
def objects(running: BrokerProcess) -> Iterator[None]:
    http = running.http()
    for path, body in OBJECTS.items():
        assert http.put(path, body).status == 201
    yield
    for path in OBJECTS:
        http.delete(path)


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_entered_after_saving_stays(ui: UI, kind: str) -> None:
    address, name, submit, label = FORMS[kind]
    page = ui.open(f"{address}?edit=true").page
    form = page.get_by_role("form", name=name, exact=True)
    field = form.get_by_label(label, exact=True)
    field.fill("first")
    held = Held(page, API, after="PUT")
    form.get_by_role("button", name=submit).click()
    held.wait()
    field.fill("second")
    page.locator("main h1").click()  # so that the field has not the focus
    held.release()
    expect(page.locator("main")).to_contain_text("first")
    expect(field).to_have_value("second")
    form.get_by_role("button", name=submit).click()
    expect(page.locator("main")).to_contain_text("second")
    expect(field).to_have_value("second")


def test_a_field_keeps_the_focus_after_saving(ui: UI) -> None:
    page = ui.open("policies/%2F/some?edit=true").page
    field = page.get_by_role("form", name="Update this policy").get_by_label("Pattern")
    field.fill("first")
    field.press("Enter")
    expect(page.locator("main")).to_contain_text("first")
    expect(field).to_be_focused()
    page.keyboard.type("-second")
    expect(field).to_have_value("first-second")


def test_a_form_shows_what_another_user_has_changed(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("policies/%2F/some").page
    page.get_by_role("heading", name="Update this policy").click()
    running.http().put("/policies/%2F/some", {"pattern": "^theirs$", "definition": {"max-length": 2}})
    form = page.get_by_role("form", name="Update this policy")
    page.get_by_label("Refresh").select_option("10")
    expect(form.get_by_label("Pattern")).to_have_value("^theirs$")


def test_what_is_entered_while_an_object_is_added_stays(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    page.get_by_text("Add a queue").click()
    form = page.get_by_role("form", name="Add a queue")
    field, button = form.get_by_label("Name"), form.get_by_role("button", name="Add queue")
    form.get_by_role("button", name="x-max-length", exact=True).click()
    form.get_by_label("Arguments: value").fill("7")
    field.fill("first")
    held = Held(page, API, "PUT")
    button.click()
    held.wait()
    field.fill("second")
    held.release()
    expect(page.locator(".tasks")).to_contain_text("first is declared")
    expect(field).to_have_value("second")
    expect(form.get_by_label("Arguments: value")).to_have_value("7")
    button.click()
    expect(field).to_have_value("")
    expect(form.get_by_label("Arguments: value")).to_have_count(0)
    for name in ("first", "second"):
        assert running.http().get(f"/queues/%2F/{name}").json["arguments"]["x-max-length"] == 7
        running.http().delete(f"/queues/%2F/{name}")


def test_an_upstream_that_is_chosen_while_the_list_loads_stays(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("federation-upstreams").page
    page.get_by_text("Federate exchanges or queues").click()
    choice = page.get_by_role("form", name="Federate exchanges or queues").get_by_label("Upstreams")
    expect(choice.locator("option")).to_have_count(3)
    running.http().put(f"{UPSTREAMS}/other", {"value": {"uri": "amqp://127.0.0.1:1"}})
    held = Held(page, "**/parameters/federation-upstream/**")
    page.get_by_label("Refresh").select_option("10")
    held.wait()
    choice.select_option("upstream some")
    held.release()
    expect(choice.locator("option")).to_have_count(4)
    expect(choice).to_have_value("federation-upstream=some")
    running.http().delete(f"{UPSTREAMS}/other")


def test_a_row_that_is_chosen_while_others_are_deleted_stays_chosen(ui: UI, running: BrokerProcess) -> None:
    for name in ("going", "staying"):
        running.http().put(f"/queues/%2F/{name}", {})
    page = ui.open("queues").page
    page.get_by_label("Choose //going").check()
    held = Held(page, API, "DELETE")
    page.locator(".actions").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    held.wait()
    page.get_by_label("Choose //staying").check()
    held.release()
    expect(page.get_by_label("Choose //going")).to_have_count(0)
    expect(page.get_by_label("Choose //staying")).to_be_checked()
    expect(page.locator(".actions span")).to_have_text("1 chosen")
    running.http().delete("/queues/%2F/staying")
