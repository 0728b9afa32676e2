"""Tests the month view by keyboard, and what stays when it is loaded again.

See docs/design/web.md#calendar.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import expect

from tests.web.calendars import ahead, key_of, local, move_as_other_person, time_of, wait_for_occurrence
from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_arrows_walk_the_month_and_carry_a_run_to_another_day(open_page: Look, web: WebSite) -> None:
    """Arrows move by days and weeks into the next month; a carried run asks as a dropped one does."""
    schedule = {"cadence": "weekly", "run_at": "10:00", "day_of_week": 3}
    automation = await web.automation("Carried", schedule=schedule)
    row = (await ahead(web, automation["id"]))[0]
    day = local(row["run_at"], "Europe/Berlin").date()
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=month&date={day}&automation={automation['id']}")
    chip = page.locator(f"[data-run='{key_of(row)}']")
    await expect(chip).to_be_visible()
    await page.get_by_role("heading", name="Calendar").focus()
    await page.keyboard.press("ArrowRight")
    await expect(chip).to_be_focused()
    focused = page.locator(":focus")
    # To a day without runs, a week on, and back.
    there = day
    for key, days in (("ArrowRight", 1), ("ArrowDown", 7), ("ArrowUp", -7)):
        await page.keyboard.press(key)
        there += timedelta(days=days)
        await expect(focused).to_have_attribute("data-day", str(there))
    await page.keyboard.press("ArrowLeft")
    await expect(chip).to_be_focused()

    await page.keyboard.press("m")
    await page.keyboard.press("ArrowRight")
    await expect(chip).to_have_attribute("data-day", str(day + timedelta(days=1)))
    await expect(
        page.get_by_text("Use the arrow keys to choose when, Enter to continue, Escape to put it back.").last
    ).to_be_visible()
    await expect(chip).to_be_focused()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Carried")
    await expect(dialog.get_by_label("Date")).to_have_value(str(day + timedelta(days=1)))
    await page.keyboard.press("Escape")
    await expect(chip).to_have_attribute("data-day", str(day))
    await chip.press("m")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    await dialog.get_by_role("button", name="Move this run").click()
    await wait_for_occurrence(web, row, moved_from=row["run_at"])
    await expect(chip).to_have_attribute("data-day", str(day + timedelta(days=1)))


async def test_a_month_opens_with_the_chosen_day_in_sight(open_page: Look, web: WebSite) -> None:
    """In a low window the chosen day of the last week is visible at once and after runs are drawn."""
    await web.automation("Each hour of a month", schedule={"cadence": "hourly"})
    now = local((await time_of(web)).isoformat(), "Europe/Berlin").date()
    day = (now.replace(day=28) + timedelta(days=7)).replace(day=28)
    seen = await open_page("member")
    page = seen.page
    await page.set_viewport_size({"width": 1280, "height": 480})
    await seen.open(f"/calendar?view=month&date={day}")
    await expect(page.locator(f".day[data-day='{day}']")).to_be_in_viewport()
    await expect(page.locator(f".strip[data-day='{day}']")).to_be_in_viewport()


@pytest.mark.parametrize("view", ["month", "week"])
async def test_a_reloaded_calendar_keeps_chips_focus_and_scroll(
    open_page: Look, web: WebSite, view: str
) -> None:
    """Reloading keeps unchanged chips; if a run moved, its new chip has the focus."""
    automations = [
        await web.automation(name, schedule={"cadence": "daily", "run_at": run_at})
        for name, run_at in (("In focus", "12:00"), ("Beside it", "14:00"))
    ]
    row = (await ahead(web, automations[0]["id"]))[1]
    day = local(row["run_at"], "Europe/Berlin").date()
    rows = await ahead(web, automations[1]["id"])
    beside = next(each_row for each_row in rows if local(each_row["run_at"], "Europe/Berlin").date() == day)
    seen = await open_page("member")
    page = seen.page
    await page.clock.install(time=await time_of(web))
    await seen.open(f"/calendar?view={view}&date={day}")
    chip = page.locator(f"[data-run='{key_of(row)}']")
    await expect(chip).to_have_css("cursor", "grab")
    await seen.wait_until_complete()
    await chip.evaluate("(one) => { one.focus(); one.drawn = 'before'; }")
    scrolled = await page.evaluate(_SCROLLED)
    async with page.expect_response("**/v1/automations/occurrences?*") as answered:
        await page.clock.fast_forward(61_000)
    await (await answered.value).finished()
    await page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    await expect(chip).to_be_focused()
    await expect(chip).to_have_js_property("drawn", "before")

    there = datetime.fromisoformat(beside["run_at"]) + timedelta(hours=1)
    await move_as_other_person(web, beside, there)
    await page.clock.fast_forward(61_000)
    other = page.locator(f"[data-run='{key_of(beside)}']")
    await expect(other).to_contain_text(f"{there.astimezone(ZoneInfo('Europe/Berlin')):%H:%M}")
    await expect(chip).to_be_focused()
    assert await page.evaluate(_SCROLLED) == scrolled


_SCROLLED = "() => [scrollY, document.querySelector('.ec-main').scrollTop]"


async def test_a_week_opens_at_the_present_of_the_viewers_zone(open_page: Look, web: WebSite) -> None:
    """The week opens at the present hour of the viewer's zone, with its line."""
    seen = await open_page("member", zone="UTC")
    page = seen.page
    present = (await time_of(web)).replace(hour=20, minute=0, second=0, microsecond=0)
    await page.add_init_script("localStorage.setItem('steward', JSON.stringify({ zone: 'Asia/Tokyo' }))")
    await page.clock.set_fixed_time(present)
    await seen.open("/calendar?view=week")
    day = (present + timedelta(hours=9)).date()
    await expect(page.locator(".ec-header .ec-today time")).to_have_attribute("datetime", str(day))
    # From 03:30 on, a slot of 26 px each half hour; the line of the present is at 05:00.
    await expect(page.locator(".ec-main")).to_have_js_property("scrollTop", 6.5 * 26)
    line = page.locator(".ec-now-indicator")
    await expect(line).to_have_css("top", f"{10 * 26}px")
    await expect(line).to_be_in_viewport()
