"""Browser profiles that tests use one after the other, each emptied in between.

See docs/decisions/0304-tests-empty-and-reuse-browser-profiles.md.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from playwright.async_api import Browser, BrowserContext, Error, Page, Route

from tests.web.open_pages import OpenPage, Size, new_profile, sign_in
from tests.web.site import WebSite

_HAS_OWN_CLOCK = "() => !String(setTimeout).includes('[native code]')"
_FORGET = """async () => {
    localStorage.clear();
    for (const { name } of await indexedDB.databases()) await new Promise((onsuccess, onerror) => {
        Object.assign(indexedDB.deleteDatabase(name), { onsuccess, onerror, onblocked: onerror });
    });
    for (const worker of await navigator.serviceWorker?.getRegistrations() ?? []) await worker.unregister();
    for (const name of await globalThis.caches?.keys() ?? []) await caches.delete(name);
}"""


async def _respond_with_nothing(route: Route) -> None:
    await route.fulfill(body="", content_type="text/html")


async def close(context: BrowserContext) -> None:
    """Closes a profile, also one whose browser has ended."""
    with suppress(Error):
        await context.close()


@dataclass
class Profiles:
    """The emptied profiles of one site.

    A blank page of each stays open and opens the others: they share its process (`--process-per-site`), in
    which the browser has compiled the app.
    """

    browser: Browser
    web: WebSite
    _blank: dict[Size, list[Page]] = field(default_factory=lambda: {"desk": [], "phone": []})
    _used: dict[BrowserContext, Page] = field(default_factory=dict)

    async def open_page(
        self, name: str | None, *, size: Size = "desk", cookie: str | None = None
    ) -> OpenPage:
        """Opens a page of an empty profile that is signed in as this user, or as nobody."""
        if self._blank[size]:
            blank = self._blank[size].pop()
            self._used[blank.context] = blank
            async with blank.expect_popup() as popup:
                await blank.evaluate("() => void open('')")
            page = await popup.value
        else:
            page = await (await new_profile(self.browser, size=size)).new_page()
        return await sign_in(page, self.web, name, cookie=cookie)

    async def empty(self, context: BrowserContext, size: Size) -> None:
        """Takes a profile back: closes its pages and removes what they have left.

        A profile that cannot be emptied is closed.
        """
        try:
            blank = await self._emptied(context)
        except Error:
            blank = None
        if blank is None:
            await close(context)
        else:
            self._blank[size].append(blank)

    async def _emptied(self, context: BrowserContext) -> Page | None:
        """Returns the blank page that stays of an emptied profile; None if its clock was replaced."""
        await context.set_offline(False)
        blank = self._used.pop(context, None) or await self._open_blank(context)
        if await blank.evaluate(_HAS_OWN_CLOCK):  # which cannot be taken away again
            return None
        for page in context.pages:
            if page != blank:
                await page.close()
        await context.unroute_all(behavior="ignoreErrors")
        await context.clear_cookies()
        await context.clear_permissions()
        await blank.evaluate(_FORGET)
        return blank

    async def _open_blank(self, context: BrowserContext) -> Page:
        blank = await context.new_page()
        await blank.route("**/*", _respond_with_nothing)
        await blank.goto(self.web.origin)
        return blank
