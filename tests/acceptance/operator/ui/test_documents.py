"""The documents in the browser: each page leads to a part of one, and they are shown as they are written."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import expect

from tests.support.browser import UI
from tests.support.checkout import ROOT

FOLDER = ROOT / "docs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))
BLOCKS = "h1, h2, h3, h4, p, li, th, td, pre"
SHOWN = """all => all.map((one) => {
  const own = one.cloneNode(true);
  own.querySelectorAll("button, ul, ol, .code").forEach((inner) => inner.remove());
  return [one.localName, own.textContent.replace(/\\s+/g, " ").trim()];
}).filter(([name, text]) => text)"""
ABOUT = """import("/pages/index.js").then(({ PAGES, partAbout }) =>
  PAGES.map((page) => [page.route, partAbout(page) ?? null]))"""


class Blocks(HTMLParser):
    """The elements of a rendered document that have text, in order: names and texts without those of inner lists."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = []
        self._open: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS.split(", "):
            self._open.append([tag, ""])
            self.found.append(self._open[-1])

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][1] += data


def blocks(name: str) -> list[list[str]]:
    """The same by a renderer of CommonMark; paragraphs in items of lists are of the items."""
    parser = Blocks()
    parser.feed(MarkdownIt("commonmark").enable("table").render((FOLDER / f"{name}.md").read_text(encoding="utf-8")))
    return [[tag, text] for tag, given in parser.found if (text := re.sub(r"\s+", " ", given).strip())]


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_shown_as_it_is_written(ui: UI, name: str) -> None:
    page = ui.open(f"documents/{name}").page
    expect(page.locator("article h1")).to_have_count(1)
    page.wait_for_function("document.querySelectorAll('article > *').length > 1")
    shown = page.locator("article").locator(BLOCKS).evaluate_all(SHOWN)
    assert shown == blocks(name)
    for image in page.locator("article img").all():
        assert image.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0


def test_all_documents_are_listed(ui: UI) -> None:
    page = ui.open("documents/start").page
    links = page.get_by_role("navigation", name="Documents").get_by_role("link")
    addresses = links.evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert sorted(address.rpartition("/")[2] for address in addresses) == NAMES


def test_links_of_documents_lead_to_parts_that_exist(ui: UI) -> None:
    page, parts, wanted = ui.page, set(), set()
    for name in NAMES:
        ui.open(f"documents/{name}")
        page.wait_for_function("document.querySelectorAll('article > *').length > 1")
        ids = page.locator("article [id]").evaluate_all("all => all.map((one) => one.id)")
        parts |= {name, *(f"{name}#{one}" for one in ids)}
        found = page.locator("article a[href^='#/']").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        wanted |= {address.removeprefix("#/documents/").replace("?at=", "#") for address in found}
    wanted |= {part for route, part in page.evaluate(ABOUT) if part is not None}
    assert len(wanted) > 50
    assert wanted - parts == set()


def test_each_page_leads_to_the_documentation(ui: UI) -> None:
    about = dict(ui.page.evaluate(ABOUT))
    assert [route for route, part in about.items() if part is None] == ["documents/:name"]
    page = ui.open("log").page
    page.locator("main").get_by_role("link", name="Documentation").click()
    heading = page.get_by_role("heading", name="Logs", exact=True)
    expect(heading).to_be_in_viewport()
    expect(page.locator("article h1")).to_have_text("Operations")


def test_code_of_a_document_is_copied(new_ui: Callable[..., UI]) -> None:
    ui = new_ui(permissions=["clipboard-read", "clipboard-write"]).sign_in()
    page = ui.open("documents/start").page
    code = page.locator(".code").first
    code.get_by_role("button", name="Copy").click()
    expect(code.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == code.locator("pre").inner_text()


def test_a_document_that_is_not_there_says_so(ui: UI) -> None:
    page = ui.open("documents/nowhere").page
    expect(page.get_by_text("This document is not installed with the broker.")).to_be_visible()
