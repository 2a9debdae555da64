from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.browser import UI, browser, chromium


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the user interface, for all tests of a module."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder, "--http", ANY_PORT, memory=True) as broker:
        yield broker


@pytest.fixture(scope="package")
def chrome() -> Iterator[Browser]:
    """A browser for all tests of this folder in a worker; it ends before the worker runs tests of other folders."""
    if chromium() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium-headless-shell)")
    with browser() as started:
        yield started


@pytest.fixture
def new_ui(chrome: Browser, running: BrokerProcess) -> Iterator[Callable[..., UI]]:
    """Opens tabs that share nothing with each other; a tab in which a script failed fails the test."""
    opened: list[UI] = []

    def new(**options: object) -> UI:
        page = chrome.new_context(**options).new_page()  # type: ignore[arg-type]
        opened.append(UI(page, f"http://{running.addresses['http'][0]}/"))
        return opened[-1]

    yield new
    problems = [problem for ui in opened for problem in ui.problems]
    for ui in opened:
        ui.page.context.close()
    assert problems == []


@pytest.fixture
def ui(new_ui: Callable[..., UI]) -> UI:
    """A tab in which guest has signed in."""
    return new_ui().sign_in()
