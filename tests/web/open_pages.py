"""Opens pages, checks them with axe and for layout faults, and collects what the browser reports."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Page, Request

from tests.source import ROOT
from tests.web.site import WebSite

Size = Literal["desk", "phone"]
Theme = Literal["light", "dark"]
SIZES: dict[Size, tuple[int, int]] = {"desk": (1280, 800), "phone": (390, 844)}
# The pictures of the guide.
PICTURES: dict[Size, tuple[int, int]] = {"desk": (1440, 900), "phone": (390, 844)}
DESK_WIDTHS = (1024, 1280, 1440)
# The headless shell, where it is installed, is Chromium without windows
# (docs/decisions/0301-browser-tests-run-in-the-headless-shell.md).
SHELL, CHROMIUM = Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium")
BROWSER = SHELL if SHELL.exists() else CHROMIUM
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Every look of the long run (`make soak`), or what differs from screen to screen and theme to theme.
LONG = os.environ.get("WEB_LOOKS") == "all"
# Both sizes in the long run, a phone otherwise.
PHONE_OR_BOTH: tuple[Size, ...] = ("desk", "phone") if LONG else ("phone",)
# The browser writes an error for every response that is a refusal; the refusal itself is shown by the page.
_ANSWERED = "Failed to load resource: the server responded with a status of"
_LOST = "net::ERR_CONNECTION_REFUSED"
_TELL_POLICY = """document.addEventListener('securitypolicyviolation', (event) =>
    console.error('page policy: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample))"""
_CUT = """() => [...document.querySelectorAll('button, nav a')]
    .filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => getComputedStyle(one).overflow !== 'visible')
    .map((one) => one.textContent.trim())"""

_FOLLOW = """(path) => {
    const link = Object.assign(document.createElement('a'), { href: path });
    document.body.append(link);
    link.click();
    link.remove();
}"""
# Axe, with all of its rules or with these, which judges the contrast of every text or of up to three texts
# of each style. A style is a text's colour, size and weight, with the classes and backgrounds of it and of
# what is around it.
_AUDIT = """async ([rules, judgesEveryText]) => {
    const styles = new Map(), texts = new Map();
    const styleOf = (element) => {
        if (!element) return '';
        if (!styles.has(element)) {
            const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
            const names = [element.tagName, element.getAttribute('class')];
            const own = [...names, backgroundColor, backgroundImage, opacity];
            styles.set(element, `${styleOf(element.parentElement)}|${own}`);
        }
        return styles.get(element);
    };
    const holdsText = (element) => element.matches('input, select, textarea')
        || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const elements = judgesEveryText ? [] : [...document.body.querySelectorAll('*')].filter(holdsText);
    for (const element of elements) {
        if (!element.checkVisibility({ visibilityProperty: true })) continue;
        const { color, fontSize, fontWeight } = getComputedStyle(element);
        const key = [styleOf(element), color, fontSize, fontWeight].join();
        texts.set(key, [...(texts.get(key) ?? []), element]);
    }
    const sample = [...texts.values()].flatMap((alike) => alike.slice(0, 3));
    for (const element of sample) element.setAttribute('data-judged', '');
    const selector = judgesEveryText ? '*' : '[data-judged]';
    axe.configure({ rules: [{ id: 'color-contrast', selector }] });
    const options = { resultTypes: ['violations'], preload: false, selectors: false };
    const { violations } = await axe.run(document, rules ? { ...options, runOnly: rules } : options);
    for (const element of sample) element.removeAttribute('data-judged');
    return violations
        .filter((fault) => ['serious', 'critical'].includes(fault.impact) || fault.id === 'region')
        .flatMap((fault) => fault.nodes.map((node) =>
            `${fault.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
}"""
_TWO_FRAMES = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_CELLS = """() => [...document.querySelectorAll('main td, main th')]
    .flatMap((cell) => [cell, ...cell.querySelectorAll('*')])
    .filter((one) => one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => !one.closest('.hidden-words'))
    .filter((one) => getComputedStyle(one).overflowX !== 'visible' || one.matches('td, th'))
    .map((one) => one.textContent.trim().slice(0, 80))"""
# A text that is cut off, or that leaves the box it stands in. What says itself in a title, or can be scrolled
# within its box, can be read; so can a change of a phone's list, which opens in full (data-at).
_TEXTS = """(part) => [...document.querySelectorAll(`${part} *`)]
    .filter((one) => one.clientWidth > 1 && one.checkVisibility() && !one.closest('svg, [title], [data-at]'))
    .filter((one) => {
        const style = getComputedStyle(one);
        const cuts = (overflow) => ['hidden', 'clip'].includes(overflow);
        const flows = style.overflowX === 'visible' && one.matches('td, th, li, dt, dd, p, button');
        return (one.scrollWidth > one.clientWidth + 1 && (cuts(style.overflowX) || flows))
            || (one.scrollHeight > one.clientHeight + 2 && cuts(style.overflowY));
    })
    .filter((one) => {
        for (let box = one; box; box = box.parentElement)
            if (getComputedStyle(box).clipPath !== 'none') return false;
        return true;
    })
    .map((one) => `${one.tagName.toLowerCase()}: ${one.textContent.trim().slice(0, 80)}`)"""


# The texts of the innermost elements that reach beyond the right edge of the window.
_BEYOND = """() => [...document.querySelectorAll('body *')]
    .filter((part) => !part.children.length && part.getBoundingClientRect().right > innerWidth)
    .map((part) => `${part.tagName} ${part.textContent.slice(0, 80)}`).slice(0, 5)"""


@dataclass
class OpenPage:
    """One page in one browser context."""

    page: Page
    context: BrowserContext
    origin: str
    reports: list[str] = field(default_factory=list)
    _under_way: set[Request] = field(default_factory=set)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, path: str) -> None:
        """Opens an address of the app and waits for its heading."""
        await self.page.goto(self.origin + path)
        await self.page.locator("h1").wait_for()

    async def follow(self, path: str) -> None:
        """Follows a link to an address of the app, and waits until its screen is there and complete.

        Unlike `open`, it does not load the app and its checks again, which takes longer than most checks.
        """
        await self.page.evaluate(_FOLLOW, path)
        await self.wait_until_complete()
        assert urlsplit(self.page.url).path == urlsplit(path).path
        await self.page.locator("main h1").wait_for()

    async def come_back(self) -> None:
        """Reports the tab as visible again, so that the page asks at once."""
        await self.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")

    async def hold_notes(self) -> None:
        """Keeps notes on the page, as the pointer does that lies on them; others go after six seconds."""
        await self.page.get_by_role("region", name="Notes").dispatch_event("pointerenter")

    async def wait_until_loaded(self) -> None:
        """Waits until nothing is loading."""
        await self.page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")

    async def wait_until_complete(self) -> None:
        """Waits until every call has been answered and nothing that was drawn then makes another."""
        while True:
            await self.wait_until_loaded()
            await self.page.evaluate(_TWO_FRAMES)
            if not self._under_way:
                return
            self._ended.clear()
            await self._ended.wait()

    async def sizes(self) -> AsyncIterator[Size]:
        """Shows the page at each size in turn, a desk last, and asserts that it does not scroll sideways."""
        for size, (width, height) in reversed(SIZES.items()):
            await self.page.set_viewport_size({"width": width, "height": height})
            yield size
            assert await self.page.evaluate("document.documentElement.scrollWidth") <= width, size

    async def audit(self, rules: tuple[str, ...] | None = None) -> list[str]:
        """Returns what axe finds serious, critical or outside of landmarks, by all of its rules or by these.

        See docs/design/web.md#accessibility and docs/decisions/0288-contrast-is-judged-by-sample.md.
        """
        if not await self.page.evaluate("() => 'axe' in window"):
            await self.page.evaluate(_axe())
        faults: list[str] = await self.page.evaluate(_AUDIT, [rules, LONG])
        return faults

    async def layout_faults(
        self, widths: tuple[int, ...] = (360, 768, 1280), *, cells: bool = False
    ) -> list[str]:
        """Returns sideways scrolling and cut-off texts of buttons, and of `cells` of tables, at these widths.

        See docs/design/web.md#tests.
        """
        faults: list[str] = []
        height = (self.page.viewport_size or {"height": 800})["height"]
        for width in widths:
            await self.page.set_viewport_size({"width": width, "height": height})
            wide = await self.page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                faults.append(f"{width} px: the page is {wide} px wide: {await self.page.evaluate(_BEYOND)}")
            for script in (_CUT, _CELLS) if cells else (_CUT,):
                faults += [f"{width} px: cut off: {words}" for words in await self.page.evaluate(script)]
        return faults

    async def check_looks(self, name: str) -> list[str]:
        """Returns the faults of the page's layout and themes; `SCREENSHOTS` also stores pictures of it."""
        # Colours that are still fading are nobody's.
        await self.page.emulate_media(reduced_motion="reduce")
        faults = [f"{name}: {fault}" for fault in await self.layout_faults()]
        return faults + await self.audit_themes(name, pictures=True)

    async def audit_themes(self, name: str, *, pictures: bool = False) -> list[str]:
        """Returns what axe finds in the page at its present size, in light and dark.

        Of its rules, contrast alone depends on the theme: dark is checked for it alone, except in the long
        run (`WEB_LOOKS=all`).
        """
        faults: list[str] = []
        turn = "(on) => document.documentElement.classList.toggle('dark', on)"
        for theme in ("light", "dark"):
            await self.page.evaluate(turn, theme == "dark")
            rules = ("color-contrast",) if theme == "dark" and not LONG else None
            faults += [f"{name}, {theme}: {fault}" for fault in await self.audit(rules)]
            if pictures:
                await self._picture(f"{name}-{theme}")
        await self.page.evaluate(turn, False)
        return faults

    async def _picture(self, name: str) -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            before = self.page.viewport_size
            for size, (width, height) in PICTURES.items():
                await self.page.set_viewport_size({"width": width, "height": height})
                # A phone's calendar asks for other days than that of a desk.
                await self.wait_until_loaded()
                await self.page.screenshot(path=Path(folder) / f"{name}-{size}.png")
            if before is not None:
                await self.page.set_viewport_size(before)

    def _report(self, kind: str, words: str) -> None:
        if _ANSWERED not in words and _LOST not in words:
            self.reports.append(f"{kind}: {words}")

    def listen(self) -> None:
        """Collects errors, dialogs, violations of the page policy, and requests to other hosts."""
        self.page.on("console", lambda item: item.type == "error" and self._report("console", item.text))
        self.page.on("pageerror", lambda error: self._report("error", str(error)))
        self.page.on("request", self._begin)
        self.page.on("requestfinished", self._end)
        self.page.on("requestfailed", self._end)
        self.page.on("dialog", self._accept_dialog)

    def _begin(self, request: Request) -> None:
        # What the page before had asked for may never end.
        if request.is_navigation_request():
            self._under_way.clear()
        self._under_way.add(request)
        url = urlsplit(request.url)
        if url.scheme.startswith("http") and f"{url.scheme}://{url.netloc}" != self.origin:
            self.reports.append(f"another host: {request.url}")

    def _end(self, request: Request) -> None:
        self._under_way.discard(request)
        self._ended.set()

    async def _accept_dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload":
            self.reports.append(f"dialog: {dialog.message}")
        await dialog.accept()


async def cut_off(seen: OpenPage) -> list[str]:
    """Returns what is cut off in the cells of tables at the widths of a desktop.

    See docs/design/web.md#accessibility.
    """
    return await _at_widths(seen, DESK_WIDTHS, _CELLS)


async def cut_texts(
    seen: OpenPage, part: str = "main", widths: tuple[int, ...] = (*DESK_WIDTHS, SIZES["phone"][0])
) -> list[str]:
    """Returns the texts of a part of the page that cannot be read whole, and pages that scroll sideways.

    See docs/design/web.md#look.
    """
    return await _at_widths(seen, widths, _TEXTS, part)


async def _at_widths(
    seen: OpenPage, widths: tuple[int, ...], script: str, part: str | None = None
) -> list[str]:
    faults: list[str] = []
    for width in widths:
        await seen.page.set_viewport_size({"width": width, "height": 900})
        faults += [f"{width} px: {words}" for words in await seen.page.evaluate(script, part)]
        page_width = await seen.page.evaluate("document.documentElement.scrollWidth")
        faults += [f"{width} px: the page is {page_width} px wide"] if page_width > width else []
    return faults


async def new_profile(
    browser: Browser, *, size: Size = "desk", theme: Theme = "light", zone: str = "Europe/Berlin"
) -> BrowserContext:
    """Creates a fresh browser profile."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        has_touch=size == "phone",
        color_scheme=theme,
        timezone_id=zone,
        locale="en-GB",
    )
    context.set_default_timeout(60_000)
    await context.add_init_script(_TELL_POLICY)
    return context


async def sign_in(page: Page, web: WebSite, name: str | None, *, cookie: str | None = None) -> OpenPage:
    """Makes the page's profile that of this user, or of nobody, and begins to collect the page's reports."""
    await page.context.set_extra_http_headers({"X-Forwarded-For": web.address()})
    if name is not None:
        value = cookie or (await web.session_of(name)).cookie
        await page.context.add_cookies([{"name": "steward", "value": value, "url": web.origin}])
    seen = OpenPage(page, page.context, web.origin)
    seen.listen()
    return seen


async def look(
    browser: Browser, web: WebSite, name: str | None, *, cookie: str | None = None, **options: Any
) -> OpenPage:
    """Opens a page as this user in a fresh profile with these options of `new_profile`."""
    context = await new_profile(browser, **options)
    return await sign_in(await context.new_page(), web, name, cookie=cookie)


@cache
def _axe() -> str:
    return (ROOT / "web/node_modules/axe-core/axe.min.js").read_text("utf-8")


@cache
def manifest() -> dict[str, Any]:
    """Returns the manifest of the build."""
    record: dict[str, Any] = json.loads((ROOT / "steward/static/manifest.json").read_text("utf-8"))
    return record
