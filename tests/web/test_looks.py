"""Tests every screen in both themes with axe, for sideways scrolling and for cut-off texts.

See docs/design/web.md#accessibility.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Route, expect

from tests.web.conftest import Look
from tests.web.open_pages import OpenPage
from tests.web.site import WebSite
from tests.web.workflows import logged, store_import

# Screens as one finds them: name and address. A new screen adds its line, and its states as functions below.
OPEN: tuple[tuple[str, str], ...] = (
    ("sign-in", "/sign-in"),
    ("invitation", "/invitation#token=abc"),
    ("unsubscribe", "/unsubscribe/1.1.abc"),
)
SCREENS: tuple[tuple[str, str], ...] = (
    ("overview", "/"),
    ("account", "/account"),
    ("inbox", "/inbox"),
    ("help", "/help?about=calendar"),
    ("closed-times", "/organization/closed-times"),
    ("channels", "/organization/notifications"),
    ("approvals", "/approvals"),
    ("approval", "/approvals/{approval_id}"),
    ("review", "/approvals/review"),
    ("runs", "/runs"),
    ("run", "/runs/{id}"),
    ("run-changes", "/runs/{id}?tab=changes"),
    ("imports", "/imports"),
    ("new-import", "/imports/new"),
    ("automations", "/automations"),
    ("automation", "/automations/{automation_id}"),
    ("automation-schedule", "/automations/{automation_id}/schedule"),
    ("automation-versions", "/automations/{automation_id}/versions"),
    ("calendar-month", "/calendar?view=month"),
    ("calendar-week", "/calendar?view=week"),
    ("calendar-list", "/calendar?view=list"),
    ("missing", "/automations/none/none"),
)


async def _keys(seen: OpenPage) -> None:
    await seen.open("/")
    await seen.page.get_by_role("heading", name="Overview").focus()
    await seen.page.keyboard.press("?")
    await expect(seen.page.get_by_role("dialog", name="Keys of this screen")).to_be_visible()


async def _menu(seen: OpenPage) -> None:
    await seen.open("/")
    await seen.page.get_by_role("button", name="Account: The Approver").click()
    await expect(seen.page.get_by_role("button", name="Sign out")).to_be_visible()


async def _wrong(seen: OpenPage) -> None:
    await seen.open("/account")
    await seen.page.get_by_label("Current password").fill("wrong password")
    await seen.page.get_by_label("New password", exact=True).fill("short")
    await seen.page.get_by_label("New password again").fill("other")
    await seen.page.get_by_role("button", name="Change password").click()
    await expect(seen.page.get_by_text("The two passwords differ.")).to_be_visible()


async def _slot(seen: OpenPage) -> None:
    await seen.open("/calendar?view=list")
    # The last one shown is days away, whatever the clock says.
    await seen.page.locator("[data-run]").last.click()
    await seen.page.get_by_role("dialog").get_by_label("Time").fill("23:58")
    await expect(seen.page.get_by_label("This and later")).to_be_visible()


STATES: tuple[tuple[str, Callable[[OpenPage], Awaitable[None]]], ...] = (
    ("keys", _keys),
    ("menu", _menu),
    ("wrong", _wrong),
    ("slot", _slot),
)


# What merchants use on the way; the forms beside it are looked at from 360 px on above.
ON_A_PHONE = (
    "overview", "approvals", "approval", "review", "runs", "run", "run-changes", "automations", "automation",
    "calendar-month", "calendar-week", "calendar-list", "inbox",
)  # fmt: skip

MORE_ON_A_PHONE = {
    "where": "/automations/new/tag-products-by-rule/where",
    "inputs": "/automations/{automation_id}/inputs",
    "runs-of-an-hour": "/runs?from=2026-01-06&hour=15",
    "connections": "/connections",
    "people": "/people",
}


LISTS = (
    "/",
    "/automations",
    "/approvals?decided=1",
    "/runs",
    "/imports",
    "/connections",
    "/people",
    "/inbox",
)
DESK_WIDTHS = (1024, 1160, 1280, 1366, 1440)
LONG_NAME = "Northwind Gifts & Homeware (Wholesale)"
# What a finger has to hit; a run in a strip or a grid also stands in a list, and a change's row opens it too.
_LOW_TARGETS = """() => [...document.querySelectorAll('a, button, input, select, textarea, summary')]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .filter((one) => !one.closest('.hidden-words, .skip, thead, svg, .ec, [data-at], .svelte-flow'))
    .map((one) => [one, (one.labels?.[0] ?? one).getBoundingClientRect()])
    .map(([one, label]) => [one, Math.max(label.height, one.getBoundingClientRect().height)])
    .filter(([, height]) => height < 43.5)
    .map(([one, height]) => `${one.ariaLabel ?? one.textContent}: a target of ${height} px`)"""


async def _looked_at(web: WebSite) -> dict[str, Any]:
    """Prepares a waiting run beside strips of many runs and runs of another zone."""
    await web.automation("Hide sold-out teas", schedule={"cadence": "hourly"})
    daily = {"cadence": "daily", "run_at": "05:00"}
    await web.automation("Hide sold-out gifts", schedule=daily, timezone="America/New_York")
    automation = await web.automation("Hide what is sold out")
    return await web.run(automation["id"], f"look-{automation['id']}")


async def test_every_screen_is_sound_in_both_themes(open_page: Look, web: WebSite) -> None:
    """Axe finds nothing serious, and no screen scrolls sideways from 360 px on.

    See docs/design/web.md#accessibility and docs/design/web.md#small-screens.
    """
    run = await _looked_at(web)
    await store_import(web, logged("Log of the orders"), "Log of the orders")
    faults: list[str] = []
    nobody = await open_page(None)
    for name, path in OPEN:
        await nobody.open(path)
        faults += await nobody.check_looks(name)
    seen = await open_page("approver")
    await seen.open("/")
    for name, path in SCREENS:
        await seen.follow(path.format(**run))
        faults += await seen.check_looks(name)
    for name, reach in STATES:
        await reach(seen)
        faults += await seen.check_looks(name)
    assert faults == []


async def test_main_screens_are_sound_on_a_phone(open_page: Look, web: WebSite) -> None:
    """The main screens have no faults at a phone's size with touch, light and dark.

    See docs/design/web.md#accessibility.
    """
    run = await _looked_at(web)
    seen = await open_page("approver", size="phone")
    await seen.page.emulate_media(reduced_motion="reduce")
    faults: list[str] = []
    paths = dict(SCREENS)
    await seen.open("/")
    for name in ON_A_PHONE:
        await seen.follow(paths[name].format(**run))
        faults += await seen.audit_themes(f"{name}-phone")
        faults += await _low_targets(seen, name)
    for name in sorted(paths.keys() - set(ON_A_PHONE) | MORE_ON_A_PHONE.keys()):
        await seen.follow({**paths, **MORE_ON_A_PHONE}[name].format(**run))
        faults += await _low_targets(seen, name)
    assert faults == []


async def test_pale_texts_are_found_in_both_themes(open_page: Look) -> None:
    """An audit that judges contrast by sample finds each of two pale texts, in light and in dark.

    See docs/decisions/0288-contrast-is-judged-by-sample.md.
    """
    seen = await open_page("member")
    await seen.page.emulate_media(reduced_motion="reduce")
    await seen.open("/account")
    labels = ("Current password", "New password again")
    for label in labels:
        # A grey with a contrast of less than 4.5 to the backgrounds of both themes.
        pale = "(label) => { label.style.color = '#797979'; }"
        await seen.page.get_by_text(label, exact=True).evaluate(pale)
    faults = await seen.audit_themes("account")
    expected = [(theme, label) for theme in ("light", "dark") for label in labels]
    assert len(faults) == len(expected), faults
    for fault, (theme, label) in zip(faults, expected, strict=True):
        assert fault.startswith(f"account, {theme}: color-contrast: ")
        assert label in fault


async def _low_targets(seen: OpenPage, name: str) -> list[str]:
    return [f"{name}: {fault}" for fault in await seen.page.evaluate(_LOW_TARGETS)]


async def test_lists_fit_every_width_of_a_desk_with_long_names(open_page: Look, web: WebSite) -> None:
    """No list scrolls sideways or cuts a text from 1024 px on, with a long name and runs of the widest words.

    See docs/design/web.md#look.
    """
    await _looked_at(web)
    await store_import(web, logged("Log of the day"), "Log of the day, from another tool")
    seen = await open_page("owner")

    async def rename(route: Route) -> None:
        response = await route.fetch()
        body = (await response.text()).replace('"The shop"', f'"{LONG_NAME}"', 1)
        await route.fulfill(response=response, body=body)

    async def widen(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        states = ({"mode": "live", "status": "waiting_approval"}, {"mode": "test", "status": "failed"})
        for index, run in enumerate(body["data"]["runs"]):
            run |= {"started_by": "event", **states[index % 2]}
            body["data"]["store_labels"][run["id"]] = ("The shop", "Another shop")[index % 2]
        await route.fulfill(response=response, json=body)

    for path in ("**/app/overview*", "**/v1/automations?*", "**/v1/automations/approvals*"):
        await seen.page.route(path, rename)
    await seen.page.route("**/app/runs?*", widen)
    faults: list[str] = []
    await seen.open("/account")
    for path in LISTS:
        await seen.follow(path)
        if path in ("/", "/automations"):
            await expect(seen.page.get_by_text(LONG_NAME).first).to_be_attached()
        if path == "/runs":
            await expect(seen.page.get_by_text("By a store event").last).to_be_attached()
        faults += [f"{path}: {fault}" for fault in await seen.layout_faults(DESK_WIDTHS, cells=True)]
    # A response may still be on its way to be rewritten.
    await seen.page.unroute_all(behavior="ignoreErrors")
    assert faults == []


async def test_a_browser_that_asks_for_dark_is_given_it_before_the_first_paint(open_page: Look) -> None:
    """The theme follows the system before the first paint unless chosen. See docs/design/web.md#look."""
    seen = await open_page("member", theme="dark")
    await seen.open("/account")
    await expect(seen.page.locator("html")).to_have_class("dark")
    assert await seen.audit() == []
