"""Closed times and the brake: made in a form, shown in the calendar, seen on every screen.

See docs/design/closed-periods.md#web-app.
"""

import pytest
from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.looking import Size
from tests.web.site import Signed, WebSite

DAILY = {"cadence": "daily", "run_at": "08:00"}


async def open_all(owner: Signed) -> None:
    """Ends every period, so that the next test finds the shop open."""
    listed = await owner.call("GET", "/app/closed-periods?state=active&limit=200")
    for period in listed["closed_periods"]:
        path = f"/app/closed-periods/{period['id']}/end"
        await owner.call("POST", path, {"version": period["version"]})


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_a_time_is_closed_and_a_run_let_through(looking: Look, web: WebSite, size: Size) -> None:
    """What it leaves out is said before; the calendar names it; a person lets one run through."""
    owner = await web.signed("owner")
    await web.automation("Every morning", schedule=DAILY)
    seen = await looking("owner", size=size)
    page = seen.page
    await seen.open("/organization/closed-times")
    await expect(page.get_by_text("Open now.")).to_be_visible()
    await page.get_by_role("button", name="Close a time").click()
    dialog = page.get_by_role("dialog", name="Close a time")
    await dialog.get_by_label("Name").fill("Stocktaking")
    await dialog.get_by_label("Every week").check()
    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"):
        await dialog.get_by_label(day).check()
    await expect(dialog.get_by_text("in the next 30 days are left out")).to_be_visible()
    await expect(dialog.get_by_text("These never run any more: Every morning")).to_be_visible()
    assert await seen.audit() == []
    await dialog.get_by_role("button", name="Close this time").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("main").get_by_text("Stocktaking", exact=True)).to_be_visible()
    assert await seen.layout_faults() == []

    await seen.open("/calendar?view=list&state=skipped")
    await expect(page.get_by_text("Not run: closed, Stocktaking").first).to_be_visible()
    await page.get_by_role("button", name="Run anyway: Every morning").first.click()
    await expect(page.get_by_text("The run of Every morning is back").first).to_be_visible()
    await open_all(owner)


async def test_all_changes_are_stopped_in_two_clicks_and_go_on(looking: Look, web: WebSite) -> None:
    """A member stops all changes; everybody sees it; an approver lets changes go on."""
    member, owner = await looking("member"), await web.signed("owner")
    await member.open("/runs")
    await member.page.get_by_role("button", name="Stop all changes").click()
    dialog = member.page.get_by_role("dialog", name="Stop all changes?")
    await dialog.get_by_role("button", name="Stop all changes").click()
    bar = member.page.get_by_role("group", name="Changes are stopped")
    await expect(bar).to_be_visible()
    await expect(member.page.get_by_role("button", name="Stop all changes")).to_have_count(0)
    assert await member.audit() == []
    approver = await looking("approver", size="phone")
    await approver.open("/")
    await approver.page.get_by_role("button", name="Let changes go on").click()
    await expect(approver.page.get_by_role("group", name="Changes are stopped")).to_have_count(0)
    await open_all(owner)
