"""A browser that tests of the user interface drive: Debian's Chromium, without a window.

Its headless shell is preferred, as it needs half of the processor time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect, sync_playwright

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 20_000  # on a machine that others use as well
# No request but the page's own: what a browser otherwise asks for in the background would only wait for an answer.
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
# The frame opens another page when it is notified of the changed address.
OPEN = """address => new Promise(opened => {
  if (new URL(address, location).href === location.href) return opened();
  addEventListener("hashchange", () => opened(), { once: true });
  location.hash = address;
})"""
REFUSED = "Failed to load resource"  # how a browser reports each response of 400 and above

expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str | None:
    """The path of Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser process. Its event loop runs in this thread until the end, so no other may run meanwhile."""
    path = chromium()
    assert path is not None, "no Chromium is installed"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            yield started
        finally:
            started.close()


def wait_for(page: Page, condition: Callable[[], object]) -> None:
    """Serve the events of the page until this is true."""
    while not condition():
        page.wait_for_timeout(10)


class UI:
    """A tab with the user interface of a broker. `problems` are messages of the console and of failed scripts."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.problems.append(f"{error}\n{error.stack}"))
        page.on("console", self._note_message)
        page.on("dialog", self._note_dialog)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(REFUSED):
            self.problems.append(message.text)

    def _note_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def sign_in(self, user: str = "guest", password: str = "guest") -> UI:
        """Open the page, sign in, and wait for the first page."""
        self.page.goto(self.url)
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.locator("nav.sections").wait_for()
        return self

    def open(self, address: str) -> UI:
        """Open a page by what follows `#/`, and wait until it has loaded once."""
        self.page.evaluate(OPEN, f"#/{address}")
        self.page.locator("main:not([aria-busy]) h1").first.wait_for()
        return self

    def text(self, selector: str = "main") -> str:
        return str(self.page.locator(selector).first.inner_text())
