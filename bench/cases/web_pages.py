"""The web app in a browser: the overview's first row, and an approval of 5,000 changes read and scrolled.

Browser and service share the machine; every round opens a fresh profile, so nothing is cached.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from bench.rounds import Case, Env, Figure, OpenCase
from tests.web.open_pages import BROWSER, FLAGS, look
from tests.web.shops import hiding
from tests.web.site import WebSite, open_web_site

# Says when something was first there, by the page's own clock, which begins with the navigation.
_WATCH = """(wanted) => {
    window.seen = {};
    const look = () => {
        for (const [name, selector] of Object.entries(wanted)) {
            if (name in window.seen || !document.querySelector(selector)) continue;
            requestAnimationFrame(() => { window.seen[name] ??= performance.now(); });
        }
    };
    new MutationObserver(look).observe(document, {subtree: true, childList: true, attributes: true});
}"""
_FIRST = {"first_row": "main [data-row], main .quiet-line"}
_APPROVAL = {"rows": "main [data-at]", "usable": "[data-approve] button.main:not([aria-disabled])"}
# The page scrolls, not the table: to the end of the changes and back, a step each frame.
_SCROLL = """async (seconds) => {
    const area = document.querySelector('main [role=region][aria-label=Changes]');
    const page = document.scrollingElement;
    const last = page.scrollHeight - page.clientHeight;
    const tasks = [0];
    const heard = (list) => tasks.push(...list.getEntries().map((one) => one.duration));
    const watching = new PerformanceObserver(heard);
    watching.observe({type: 'longtask'});
    const frames = [];
    let [drawn, deepest] = [0, 0];
    const began = performance.now();
    let before = began;
    while (before < began + seconds * 1000) {
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - before);
        before = now;
        const share = (now - began) / (seconds * 500);
        page.scrollTo({top: last * Math.max(0, share < 1 ? share : 2 - share), behavior: 'instant'});
        deepest = Math.max(deepest, page.scrollTop);
        drawn = Math.max(drawn, area.querySelectorAll('tbody [data-at]').length);
    }
    watching.disconnect();
    frames.sort((a, b) => a - b);
    return {longest: Math.max(...tasks), frame: frames[Math.floor(frames.length * 0.95)], drawn,
            scrolled: deepest / last};
}"""
_SCROLLED_SECONDS = 4
_YARDSTICK = """() => {
    const began = performance.now();
    let sum = 0;
    for (let at = 0; at < 2e7; at += 1) sum = (sum * 31 + at) % 1000003;
    return performance.now() - began + (sum < 0 ? 1 : 0);
}"""


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """A real service with the embedded database, and Debian's Chromium."""
    many = env.size(5000, 1000)
    async with open_web_site(env.folder) as web, async_playwright() as playwright:
        automation = await hiding(web, "Many changes", [f"Product {number:04}" for number in range(many)])
        run = await web.run(automation["id"], "bench")
        browser = await playwright.chromium.launch(executable_path=str(BROWSER), args=FLAGS)
        approval = str(run["approval_id"])
        yield OpenCase(partial(_round, browser, web, approval), partial(_reference, browser))
        await browser.close()


async def _round(browser: Browser, web: WebSite, approval: str) -> Mapping[str, float]:
    first = await _opened(browser, web, "/", _FIRST)
    approval_page = await _opened(browser, web, f"/approvals/{approval}", _APPROVAL, scroll=True)
    return {**first, **approval_page}


async def _opened(
    browser: Browser, web: WebSite, path: str, milestones: Mapping[str, str], *, scroll: bool = False
) -> Mapping[str, float]:
    seen = await look(browser, web, "approver")
    page = seen.page
    page.set_default_timeout(120_000)
    # The app asks before the session is known only where somebody was signed in before.
    await seen.context.add_init_script("localStorage.setItem('steward-in', '')")
    await seen.context.add_init_script(f"({_WATCH})({dict(milestones)!r})")
    await page.goto(web.origin + path)
    await page.wait_for_function(f"() => Object.keys(window.seen).length === {len(milestones)}")
    figures: dict[str, Any] = await page.evaluate("() => window.seen")
    if scroll:
        figures |= await page.evaluate(_SCROLL, _SCROLLED_SECONDS)
        figures["heap"] = await _live_heap(page)
    await seen.context.close()
    return figures


async def _live_heap(page: Page) -> float:
    """Returns the megabytes of the page's objects that are still in use, after a garbage collection."""
    inspector = await page.context.new_cdp_session(page)
    await inspector.send("HeapProfiler.collectGarbage")
    usage = await inspector.send("Runtime.getHeapUsage")
    return float(usage["usedSize"]) / 1e6


async def _reference(browser: Browser) -> Mapping[str, float]:
    page = await browser.new_page()
    duration: float = await page.evaluate(_YARDSTICK)
    await page.close()
    return {"fixed script": duration}


CASES = (
    Case(
        "web",
        (
            Figure("first_row", "ms", "fixed script", maximum=1000),
            Figure("rows", "ms", "fixed script", maximum=1000),
            Figure("usable", "ms", "fixed script", maximum=2000),
            Figure("longest", "ms", "fixed script", maximum=200),
            Figure("frame", "ms", "fixed script", maximum=20),
            Figure("drawn", "rows", maximum=80),
            Figure("scrolled", "of the page", minimum=0.95),
            Figure("heap", "MB", maximum=25),
        ),
        on_sqlite,
    ),
)
