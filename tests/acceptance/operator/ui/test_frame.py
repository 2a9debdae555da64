"""Sign-in, sign-out, navigation and the frame of the pages."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI


def test_a_wrong_password_is_refused_and_the_right_one_opens_the_overview(
    new_ui: Callable[..., UI],
) -> None:
    ui = new_ui()
    ui.page.goto(ui.url)
    ui.page.get_by_label("User").fill("guest")
    ui.page.get_by_label("Password").fill("wrong")
    ui.page.get_by_role("button", name="Sign in").click()
    expect(ui.page.get_by_role("alert")).to_contain_text("Sign-in failed")
    expect(ui.page.get_by_label("User")).to_have_value("guest")
    expect(ui.page.get_by_label("Password")).to_be_focused()
    ui.sign_in()
    expect(ui.page.locator("main h1")).to_have_text("Overview")


def test_the_session_lives_in_its_tab_and_ends_with_sign_out(new_ui: Callable[..., UI]) -> None:
    ui = new_ui().sign_in()
    ui.page.reload()
    expect(ui.page.locator("nav.sections")).to_be_visible()
    other = ui.page.context.new_page()
    other.goto(ui.url)
    expect(other.get_by_role("button", name="Sign in")).to_be_visible()
    ui.page.get_by_role("button", name="Log out").click()
    expect(ui.page.get_by_role("button", name="Sign in")).to_be_visible()
    ui.page.reload()
    expect(ui.page.get_by_role("button", name="Sign in")).to_be_visible()


def test_the_menu_marks_the_list_of_an_object_whose_page_is_open(ui: UI, running: BrokerProcess) -> None:
    policy = {"pattern": "^none$", "definition": {"max-length": 1}}
    assert running.http().put("/operator-policies/%2F/marked", policy).status == 201
    menu = ui.page.get_by_role("navigation", name="Pages")
    for address, entry in (("users/guest", "Users"), ("operator-policies/%2F/marked", "Policies"), ("vhosts", None)):
        ui.open(address)
        expect(menu.locator("[aria-current=page]")).to_have_count(0 if entry else 1)
        expect(menu.locator("[aria-current=true]")).to_have_text([entry] if entry else [])
    running.http().delete("/operator-policies/%2F/marked")


def test_keys_go_to_sections_and_to_the_filter(ui: UI) -> None:
    ui.page.keyboard.press("g")
    ui.page.keyboard.press("q")
    expect(ui.page.locator("main h1")).to_have_text("Queues")
    ui.page.keyboard.press("/")
    expect(ui.page.locator(".filter")).to_be_focused()


def test_the_theme_is_chosen_and_kept(ui: UI) -> None:
    page = ui.page
    shade = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(shade)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(shade)
    assert dark != light
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert page.evaluate(shade) == dark
    page.get_by_label("Theme").select_option("auto")
    assert page.evaluate(shade) == light


def test_a_lost_broker_shows_a_banner_and_recovers(new_ui: Callable[..., UI], running: BrokerProcess) -> None:
    ui = new_ui().sign_in().open("queues")
    ui.page.route("**/api/**", lambda route: route.abort())
    expect(ui.page.locator(".banner")).to_contain_text("does not answer")
    ui.page.unroute("**/api/**")
    expect(ui.page.locator(".banner")).to_be_hidden()


# What a fetch gives when the broker ends in the middle of a body, and what a proxy answers for a broker that is away.
BROKEN_BODY = """() => {
  window.fetched = window.fetch;
  window.fetch = async () => new Response(new ReadableStream({ pull(body) { body.error(new TypeError("cut")); } }));
}"""
PAGE_OF_PROXY = """() => {
  window.fetched = window.fetch;
  window.fetch = async () => new Response("<html>the broker is down for maintenance</html>");
}"""


@pytest.mark.parametrize(
    ("answer", "banner"), [(BROKEN_BODY, "The broker does not answer"), (PAGE_OF_PROXY, "a proxy, perhaps")]
)
def test_an_invalid_body_shows_a_banner_and_polling_continues(ui: UI, answer: str, banner: str) -> None:
    page = ui.open("queues").page
    page.evaluate(answer)
    expect(page.locator(".banner")).to_contain_text(banner)
    page.evaluate("window.fetch = window.fetched")
    expect(page.locator(".banner")).to_be_hidden()


def test_a_page_with_an_error_shows_it_and_polling_continues(ui: UI) -> None:
    page = ui.open("queues").page
    page.evaluate(PAGE_OF_PROXY.replace("<html>the broker is down for maintenance</html>", "{}"))
    expect(page.locator(".banner")).to_contain_text("This page has failed")
    page.evaluate("window.fetch = window.fetched")
    expect(page.locator(".banner")).to_be_hidden()
    assert ui.problems
    ui.problems.clear()


def test_the_choices_of_the_header_have_labels(ui: UI) -> None:
    for label, choice in (("Refresh", "every 5 s"), ("Theme", "auto")):
        shown = ui.page.locator("header label").filter(has_text=label)
        expect(shown).to_be_visible()
        expect(shown.locator("option:checked")).to_have_text(choice)
