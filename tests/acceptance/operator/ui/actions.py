"""Actions of the tests of pages: sections, forms and dialogs."""

from collections.abc import Mapping

from playwright.sync_api import Locator, Page


def section(page: Page, title: str) -> Locator:
    """Return a section, unfolded."""
    found = page.locator("details.section").filter(has=page.get_by_role("heading", name=title, exact=True))
    if found.get_attribute("open") is None:
        found.get_by_role("heading", name=title, exact=True).click()
    return found


def answer(page: Page, action: str) -> str:
    """Agree to a dialog; return its text."""
    dialog = page.get_by_role("dialog")
    text = dialog.inner_text()
    dialog.get_by_role("button", name=action).click()
    return text


def unfold_form(page: Page, title: str) -> Locator:
    """Return the form of a section with the same title, unfolded."""
    page.locator("summary").get_by_text(title, exact=True).click()
    return page.get_by_role("form", name=title)


def send(form: Locator | Page, button: str, fields: Mapping[str, str]) -> None:
    """Fill in fields by their labels, and click the button."""
    for label, text in fields.items():
        form.get_by_label(label, exact=True).fill(text)
    form.get_by_role("button", name=button).click()
