"""Fixtures of the browser tests:

Chromium, a service with its users, and a way to open pages as one of them.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.source import ROOT
from tests.web.open_pages import BROWSER, FLAGS, OpenPage, Size, look
from tests.web.profiles import Profiles, close
from tests.web.site import WebSite, open_web_site

Look = Callable[..., Awaitable[OpenPage]]
# Pages are closed before optimizing their code pays off: V8 then does so only for what is called very often.
_FEWER_OPTIMIZATIONS = "--js-flags=--no-turbofan --invocation-count-for-maglev=1500"
# A machine at work is slow, not wrong: what a test waits for comes or never comes.
expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets a failed browser test run once more (docs/decisions/0244-a-browser-test-is-tried-twice.md)."""
    for item in items:
        if item.nodeid.startswith("tests/web/"):
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
    """Provides one Chromium for all tests of this process. Tests reuse its profiles, emptied in between."""
    async with async_playwright() as playwright:
        # Pages of a profile share a process (tests/web/profiles.py); the browser's own draws them.
        flags = [*FLAGS, "--process-per-site", "--in-process-gpu", _FEWER_OPTIMIZATIONS]
        opened = await playwright.chromium.launch(executable_path=str(BROWSER), args=flags)
        yield opened
        await opened.close()


@pytest.fixture(scope="session")
async def web(built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebSite]:
    """Provides the service that tests share; each test changes automations of its own only."""
    async with open_web_site(tmp_path_factory.mktemp("web")) as site:
        yield site


@pytest.fixture(scope="session")
def profiles(browser: Browser, web: WebSite) -> Profiles:
    """Provides the profiles that tests on the shared service use one after the other."""
    return Profiles(browser, web)


@pytest.fixture
async def open_page(profiles: Profiles, web: WebSite) -> AsyncIterator[Look]:
    """Provides a function that opens a page as one of the users.

    At the end it asserts that the browser reported nothing. Profiles are emptied ones of earlier tests; those
    with a theme or zone of their own are fresh. A test asks for a fresh one (`fresh=True`) if it needs empty
    caches, or adds scripts, functions, handlers of events or a location to the whole profile: these stay.
    """
    opened: list[tuple[OpenPage, Size | None]] = []

    async def open_for_test(
        name: str | None, *, size: Size = "desk", fresh: bool = False, **options: Any
    ) -> OpenPage:
        if not fresh and options.keys() <= {"cookie"}:
            opened.append((await profiles.open_page(name, size=size, **options), size))
        else:
            opened.append((await look(profiles.browser, web, name, size=size, **options), None))
        return opened[-1][0]

    yield open_for_test
    for seen, size in opened:
        if size is None:
            await close(seen.context)
        else:
            await profiles.empty(seen.context, size)
    await web.archive_automations()
    await web.allow_unapproved_sends()
    assert [report for seen, _ in opened for report in seen.reports] == []
