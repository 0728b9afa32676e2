"""The month by keyboard, and the day it opens at. See docs/design/web.md#calendar."""

from datetime import timedelta

from playwright.async_api import expect

from tests.web.calendars import ahead, becomes, key_of, local, time_of
from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_arrows_walk_the_month_and_carry_a_run_to_another_day(looking: Look, web: WebSite) -> None:
    """Days and weeks by arrows, also into the next month; a carried run asks as a dropped one does."""
    schedule = {"cadence": "weekly", "run_at": "10:00", "day_of_week": 3}
    made = await web.automation("Carried", schedule=schedule)
    row = (await ahead(web, made["id"]))[0]
    day = local(row["run_at"], "Europe/Berlin").date()
    seen = await looking("member")
    page = seen.page
    await seen.open(f"/calendar?view=month&date={day}&automation={made['id']}")
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
        page.get_by_text("Arrows choose when, Enter goes on, Escape puts it back.").last
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
    await becomes(web, row, moved_from=row["run_at"])
    await expect(chip).to_have_attribute("data-day", str(day + timedelta(days=1)))


async def test_a_month_opens_with_the_chosen_day_in_sight(looking: Look, web: WebSite) -> None:
    """In a window lower than the month: a day of its last week is seen at once, also once runs are drawn."""
    await web.automation("Each hour of a month", schedule={"cadence": "hourly"})
    now = local((await time_of(web)).isoformat(), "Europe/Berlin").date()
    day = (now.replace(day=28) + timedelta(days=7)).replace(day=28)
    seen = await looking("member")
    page = seen.page
    await page.set_viewport_size({"width": 1280, "height": 480})
    await seen.open(f"/calendar?view=month&date={day}")
    await expect(page.locator(f".day[data-day='{day}']")).to_be_in_viewport()
    await expect(page.locator(f".strip[data-day='{day}']")).to_be_in_viewport()
