"""Fixtures of the browser tests:

Chromium, a service with its users, and a way to open pages as one of them.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.source import ROOT
from tests.web.looking import BROWSER, FLAGS, OpenPage, look
from tests.web.site import WebSite, open_web_site

Look = Callable[..., Awaitable[OpenPage]]
# A machine at work is slow, not wrong: what a test waits for comes or never comes.
expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets a failed browser test run once more (docs/decisions/0244-a-browser-test-is-tried-twice.md)."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def built() -> None:
    """Skips, or fails in CI, if the web app is not built or Chromium is missing."""
    missing = []
    if not (ROOT / "steward/static/index.html").is_file():
        missing.append("the web app is not built (make web)")
    if not BROWSER.exists():
        missing.append("there is no Chromium (make browser)")
    if missing and os.environ.get("CI"):
        pytest.fail(", ".join(missing))
    if missing:
        pytest.skip(f"SKIPPED LOUDLY: {', '.join(missing)}")


@pytest.fixture(scope="session")
async def browser(built: None) -> AsyncIterator[Browser]:
    """Provides one Chromium for all tests of this process; each test has its own profile."""
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=str(BROWSER), args=FLAGS)
        yield opened
        await opened.close()


@pytest.fixture(scope="session")
async def web(built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebSite]:
    """Provides the service that tests share; each test changes automations of its own only."""
    async with open_web_site(tmp_path_factory.mktemp("web")) as site:
        yield site


@pytest.fixture
async def looking(browser: Browser, web: WebSite) -> AsyncIterator[Look]:
    """Provides a function that opens a page as one of the users.

    At the end it asserts that the browser reported nothing.
    """
    opened: list[OpenPage] = []

    async def open_page(name: str | None, **options: Any) -> OpenPage:
        seen = await look(browser, web, name, **options)
        opened.append(seen)
        return seen

    yield open_page
    for seen in opened:
        await seen.context.close()
    await web.archive_automations()
    assert [report for seen in opened for report in seen.reports] == []
