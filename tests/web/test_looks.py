"""Every screen in both themes: nothing serious for axe, no sideways scrolling, no words cut off (web 9)."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.looking import Seen, Theme
from tests.web.site import WebSite

# Screens as one finds them: name and address. A new screen adds its line, and its states as functions below.
OPEN: tuple[tuple[str, str], ...] = (
    ("sign-in", "/sign-in"),
    ("invitation", "/invitation#token=abc"),
)
SCREENS: tuple[tuple[str, str], ...] = (
    ("overview", "/"),
    ("account", "/account"),
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


async def _keys(seen: Seen) -> None:
    await seen.open("/")
    await seen.page.get_by_role("heading", name="Overview").focus()
    await seen.page.keyboard.press("?")
    await expect(seen.page.get_by_role("dialog", name="Keys of this screen")).to_be_visible()


async def _menu(seen: Seen) -> None:
    await seen.open("/")
    await seen.page.get_by_role("button", name="Account: The Approver").click()
    await expect(seen.page.get_by_role("button", name="Sign out")).to_be_visible()


async def _wrong(seen: Seen) -> None:
    await seen.open("/account")
    await seen.page.get_by_label("Current password").fill("wrong password")
    await seen.page.get_by_label("New password", exact=True).fill("short")
    await seen.page.get_by_label("New password again").fill("other")
    await seen.page.get_by_role("button", name="Change password").click()
    await expect(seen.page.get_by_text("The two passwords differ.")).to_be_visible()


async def _slot(seen: Seen) -> None:
    await seen.open("/calendar?view=list")
    await seen.page.locator("[data-run]").first.click()
    await seen.page.get_by_role("dialog").get_by_label("Time").fill("23:58")
    await expect(seen.page.get_by_label("This and later")).to_be_visible()


STATES: tuple[tuple[str, Callable[[Seen], Awaitable[None]]], ...] = (
    ("keys", _keys),
    ("menu", _menu),
    ("wrong", _wrong),
    ("slot", _slot),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_screen_is_sound_in_both_themes(looking: Look, web: WebSite, theme: Theme) -> None:
    """web 9: axe, serious and critical: 0; web 8: from 360 px without sideways scrolling"""
    made = await web.automation(f"Looked at {theme}")
    run = await web.run(made["id"], f"look-{theme}")
    faults: list[str] = []
    nobody = await looking(None, theme=theme)
    for name, path in OPEN:
        await nobody.open(path)
        faults += await nobody.judged(name, theme)
    seen = await looking("approver", theme=theme)
    for name, path in SCREENS:
        await seen.open(path.format(**run))
        await seen.settled()
        faults += await seen.judged(name, theme)
    for name, reach in STATES:
        await reach(seen)
        faults += await seen.judged(name, theme)
    assert faults == []
