"""Tests that nothing of one test reaches the next one through the browser.

See docs/decisions/0304-tests-empty-and-reuse-browser-profiles.md.
"""

from typing import Any

from playwright.async_api import Route

from tests.web.open_pages import OpenPage
from tests.web.profiles import Profiles

_LEAVE = """async () => {
    localStorage.setItem('left', 'x');
    sessionStorage.setItem('left', 'x');
    document.cookie = 'left=x';
    await caches.open('left');
    await new Promise((opened, failed) => {
        const request = indexedDB.open('left');
        request.onsuccess = () => (request.result.close(), opened());
        request.onerror = failed;
    });
    name = 'left';
}"""
_LEFT = """async () => ({
    storage: [...Object.keys(localStorage), ...Object.keys(sessionStorage)].filter((key) => key === 'left'),
    cookies: document.cookie,
    databases: await indexedDB.databases(),
    caches: await caches.keys(),
    name,
    permission: (await navigator.permissions.query({ name: 'geolocation' })).state,
    online: navigator.onLine,
    size: [innerWidth, innerHeight],
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    still: matchMedia('(prefers-reduced-motion: reduce)').matches,
    opener,
    script: 'ofTheScript' in globalThis,
    clock: String(setTimeout).includes('[native code]'),
})"""


async def _state(seen: OpenPage) -> dict[str, Any]:
    await seen.open("/account")
    sent = await (await seen.page.request.get(f"{seen.origin}/app/session")).json()
    state: dict[str, Any] = await seen.page.evaluate(_LEFT)
    return {**state, "signed_in": sent["data"]["session"] is not None}


async def _refuse(route: Route) -> None:
    await route.abort()


async def test_a_profile_is_empty_again_for_the_next_test(profiles: Profiles) -> None:
    """Storage, cookies, permissions, routes and emulated media of one test do not reach the next."""
    first = await profiles.open_page("member")
    before = await _state(first)
    # What the page still asks for would be refused below, and reported.
    await first.wait_until_complete()
    await first.page.evaluate(_LEAVE)
    await first.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await first.page.set_viewport_size({"width": 500, "height": 500})
    await first.page.add_init_script("globalThis.ofTheScript = true")
    await first.page.set_extra_http_headers({"Cookie": "left=x"})
    await first.context.grant_permissions(["geolocation"])
    await first.context.route("**/*", _refuse)
    await first.page.route("**/*", _refuse)
    await first.context.new_page()
    await first.context.set_offline(True)
    await profiles.empty(first.context, "desk")
    second = await profiles.open_page("member")
    assert second.context is first.context
    assert await _state(second) == before
    await profiles.empty(second.context, "desk")
    nobody = await profiles.open_page(None)
    assert nobody.context is first.context
    await nobody.page.goto(f"{nobody.origin}/account")
    await nobody.page.get_by_role("button", name="Sign in").wait_for()
    await profiles.empty(nobody.context, "desk")
    assert first.reports == second.reports == nobody.reports == []


async def test_a_profile_whose_clock_was_replaced_is_not_used_again(profiles: Profiles) -> None:
    """A replaced clock would stand still in every later page of the profile."""
    first = await profiles.open_page("member")
    await first.page.clock.install()
    await first.open("/account")
    await profiles.empty(first.context, "desk")
    second = await profiles.open_page("member")
    assert second.context is not first.context
    await second.open("/account")
    assert await second.page.evaluate("String(setTimeout)") == "function setTimeout() { [native code] }"
    await profiles.empty(second.context, "desk")
