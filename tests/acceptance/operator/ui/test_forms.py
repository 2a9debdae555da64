"""Forms whose page is refreshed during an entry: the entry stays, and other fields show the stored values."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI, wait_for

from .actions import send, unfold_form

API = "**/api/**"
REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"  # the page loads anew, and no field loses the focus
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
    """Requests of a page by one method, or the requests after one by `after`, which wait for their release."""

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
def test_text_entered_after_saving_stays(ui: UI, kind: str) -> None:
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


def test_a_form_shows_the_changes_of_another_user(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("policies/%2F/some").page
    page.get_by_role("heading", name="Update this policy").click()
    running.http().put("/policies/%2F/some", {"pattern": "^theirs$", "definition": {"max-length": 2}})
    form = page.get_by_role("form", name="Update this policy")
    page.get_by_label("Refresh").select_option("10")
    expect(form.get_by_label("Pattern")).to_have_value("^theirs$")


def test_unchanged_fields_follow_the_stored_object_also_with_the_focus(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("policies/%2F/some?edit=true").page
    form = page.get_by_role("form", name="Update this policy")
    pattern, definition = form.get_by_label("Pattern"), form.get_by_label("Definition: value")
    form.get_by_label("Priority").fill("7")
    pattern.focus()
    running.http().put("/policies/%2F/some", {"pattern": "^theirs$", "definition": {"max-length": 2}, "priority": 5})
    page.evaluate(REFRESH)
    expect(pattern).to_have_value("^theirs$")
    expect(pattern).to_be_focused()
    expect(definition).to_have_value("2")
    expect(form.get_by_label("Priority")).to_have_value("7")
    definition.fill("3")
    running.http().put("/policies/%2F/some", {"pattern": "^other$", "definition": {"max-length": 4}})
    form.get_by_role("button", name="Update policy").click()  # before the page loads anew
    expect(page.locator("main")).to_contain_text("^other$")
    stored = running.http().get("/policies/%2F/some").json
    assert (stored["pattern"], stored["definition"], stored["priority"]) == ("^other$", {"max-length": 3}, 7)


def test_keys_of_a_definition_that_are_not_changed_follow_it(ui: UI, running: BrokerProcess) -> None:
    keys = {"max-length": 1, "max-length-bytes": 2, "expires": 1000, "message-ttl": 3}
    running.http().put("/policies/%2F/some", {"pattern": "^none$", "definition": keys})
    page = ui.open("policies/%2F/some?edit=true").page
    form = page.get_by_role("form", name="Update this policy")
    expect(form.locator(".argument")).to_have_count(4)
    rows = {form.locator(".argument").nth(at).locator("input").first.input_value(): at for at in range(4)}
    form.locator(".argument").nth(rows["max-length"]).get_by_label("Definition: value").fill("5")
    form.locator(".argument").nth(rows["expires"]).get_by_label("Definition: remove").click()
    form.get_by_role("button", name="delivery-limit").click()
    page.keyboard.type("9")
    theirs = {"max-length": 4, "max-length-bytes": 6, "expires": 2000, "overflow": "reject-publish"}
    running.http().put("/policies/%2F/some", {"pattern": "^none$", "definition": theirs})
    page.evaluate(REFRESH)
    expect(page.locator("main")).to_contain_text("reject-publish")
    form.get_by_role("button", name="Update policy").click()
    expect(page.locator(".tasks")).to_contain_text("some is set")
    expected = {"max-length": 5, "max-length-bytes": 6, "overflow": "reject-publish", "delivery-limit": 9}
    assert running.http().get("/policies/%2F/some").json["definition"] == expected
    expect(form.locator(".argument")).to_have_count(4)


def test_members_of_a_set_that_are_not_changed_follow_it(ui: UI, running: BrokerProcess) -> None:
    path = "/parameters/federation-upstream-set/%2F/some"
    page = ui.open("federation-upstream-sets/%2F/some?edit=true").page
    form = page.get_by_role("form", name="Edit upstream set some")
    form.get_by_role("button", name="Add a member").click()
    page.keyboard.type("mine")
    running.http().put(path, {"value": [{"upstream": "none", "max-hops": 2}, {"upstream": "theirs"}]})
    form.get_by_role("button", name="Save upstream set").click()
    expect(page.locator("main")).to_contain_text("theirs")
    value = running.http().get(path).json["value"]
    assert value == [{"upstream": "none", "max-hops": 2}, {"upstream": "mine"}, {"upstream": "theirs"}]


def test_a_password_that_is_saved_leaves_the_form(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("users/some?edit=true").page
    form = page.get_by_role("form", name="Update this user")
    way, password = form.get_by_label("Log in with"), form.get_by_label("Password", exact=True)
    way.select_option("password")
    password.fill("new")
    form.get_by_label("Password again").fill("new")
    running.http().put("/users/some", {"password": "theirs", "tags": "monitoring"})
    form.get_by_label("Password again").press("Enter")
    expect(way).to_have_value("keep")
    expect(password).to_have_value("")
    expect(password).to_be_hidden()
    stored = running.http().get("/users/some").json
    assert stored["tags"] == ["monitoring"]
    send(form, "Update user", {"Tags": "management"})
    expect(page.locator("main")).to_contain_text("management")
    assert running.http().get("/users/some").json["password_hash"] == stored["password_hash"]


def test_an_unchanged_uri_is_stored_as_it_is_then(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("federation-upstreams/%2F/some?edit=true").page
    form = page.get_by_role("form", name="Edit upstream some")
    form.get_by_label("Queue", exact=True).fill("mine")
    uris = ["amqp://u:one@127.0.0.9:1", "amqp://u:two@127.0.0.9:1"]
    running.http().put(f"{UPSTREAMS}/some", {"value": {"uri": uris, "prefetch-count": 7}})
    form.get_by_role("button", name="Save upstream").click()
    expect(page.locator("main")).to_contain_text("mine")
    assert running.http().get(f"{UPSTREAMS}/some").json["value"] == {"uri": uris, "prefetch-count": 7, "queue": "mine"}


def test_a_new_password_is_not_stored_for_another_broker(ui: UI, running: BrokerProcess) -> None:
    http = running.http()
    http.put(f"{UPSTREAMS}/some", {"value": {"uri": "amqp://u:old@127.0.0.2:1"}})
    page = ui.open("federation-upstreams/%2F/some?edit=true").page
    form = page.get_by_role("form", name="Edit upstream some")
    uri, save = form.get_by_label("URI"), form.get_by_role("button", name="Save upstream")
    uri.fill("amqp://u:[redacted]@127.0.0.2:1?heartbeat=5")
    theirs = {"value": {"uri": "amqp://u:new@127.0.0.9:1"}}
    http.put(f"{UPSTREAMS}/some", theirs)
    save.click()
    expect(form.get_by_role("alert")).to_contain_text("enter its password again")
    assert http.get(f"{UPSTREAMS}/some").json["value"] == theirs["value"]
    uri.fill("amqp://u:new@127.0.0.9:1")
    save.click()
    expect(uri).to_have_value("amqp://u:[redacted]@127.0.0.9:1")
    uri.fill("amqp://u:[redacted]@127.0.0.8:1")
    save.click()
    expect(page.locator("main")).to_contain_text("127.0.0.8")
    assert http.get(f"{UPSTREAMS}/some").json["value"] == {"uri": "amqp://u:new@127.0.0.8:1"}


def test_a_form_that_adds_an_object_keeps_later_text_only(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    form = unfold_form(page, "Add a queue")
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
    expect(form.get_by_label("Arguments: value")).to_have_count(0)
    button.click()
    expect(field).to_have_value("")
    for name, length in (("first", 7), ("second", None)):
        assert running.http().get(f"/queues/%2F/{name}").json["arguments"].get("x-max-length") == length
        running.http().delete(f"/queues/%2F/{name}")


def test_an_argument_entered_during_an_addition_is_for_the_next_object(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("queues").page
    form = unfold_form(page, "Add a queue")
    field, button = form.get_by_label("Name"), form.get_by_role("button", name="Add queue")
    field.fill("first")
    held = Held(page, API, "PUT")
    button.click()
    held.wait()
    form.get_by_role("button", name="x-max-length", exact=True).click()
    form.get_by_label("Arguments: value").fill("7")
    held.release()
    expect(field).to_have_value("")
    expect(form.get_by_label("Arguments: value")).to_have_value("7")
    running.http().delete("/queues/%2F/first")


def test_an_upstream_chosen_during_loading_stays_chosen(ui: UI, running: BrokerProcess) -> None:
    page = ui.open("federation-upstreams").page
    page.get_by_text("Federate exchanges or queues", exact=True).click()
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
    running.http().delete(f"{UPSTREAMS}/some")
    running.http().put(f"{UPSTREAMS}/more", {"value": {"uri": "amqp://127.0.0.1:1"}})
    page.evaluate(REFRESH)
    expect(choice.locator("option")).to_have_count(5)
    expect(choice).to_have_value("federation-upstream=some")
    for name in ("more", "other"):
        running.http().delete(f"{UPSTREAMS}/{name}")


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
