"""Tests what the calendar shows: past runs of every origin, colours, strips of many runs, and phones.

See docs/design/web.md#calendar.
"""

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from playwright.async_api import expect

from tests.web.calendars import in_minutes, local, time_of, zone_in_daytime
from tests.web.conftest import Look
from tests.web.site import WebSite, unused

# A chip is tall enough for its words, and the last line of its day holds it whole.
_WHOLE = """() => {
    const [chip] = document.querySelectorAll('.grid [data-run]');
    const end = chip?.closest('.ec-body').getBoundingClientRect().bottom;
    return chip && chip.clientHeight >= 20 && chip.clientHeight >= chip.scrollHeight
        && chip.getBoundingClientRect().bottom <= end;
}"""


async def test_runs_by_hand_and_strips_of_hourly_ones_stand_in_month_week_and_list(
    open_page: Look, web: WebSite
) -> None:
    """A run by hand links to itself, many runs a day form one strip, and each automation has a colour."""
    # Half a day away: a week draws runs less than half an hour apart as one.
    by_hand = await web.automation("Started by me", **await in_minutes(web, 12 * 60))
    run = await web.run(by_hand["id"], "in-the-calendar")
    hourly = await web.automation("Each hour", schedule={"cadence": "hourly"})
    zone = await zone_in_daytime(web)
    today = local((await time_of(web)).isoformat(), zone).date()
    monday = today - timedelta(days=today.weekday() - 7)
    seen = await open_page("member", zone=zone)
    page = seen.page
    chip = page.get_by_role("link", name=re.compile("Started by me, Waiting for approval, by hand"))
    strip = page.get_by_role("link", name=re.compile("^Each hour, 2[345] runs, all coming, on this day"))
    legend = page.get_by_role("list", name="Automations by colour")
    all_listed = page.get_by_label("Automation", exact=True).locator("option", has_text="Each hour")
    hues = set()
    for view in ("month", "week"):
        await seen.open(f"/calendar?view={view}&date={today}&automation={by_hand['id']}")
        await expect(chip).to_have_attribute("href", f"/runs/{run['id']}")
        await expect(page.get_by_text("No runs in these days.")).to_be_hidden()
        # Colours are handed out among all automations: what knows only some of them may change its mind.
        await expect(all_listed).to_have_count(1)
        hues.add(await legend.get_by_role("link", name="Started by me").locator("i").get_attribute("class"))
        await seen.open(f"/calendar?view={view}&date={monday}&automation={hourly['id']}")
        await expect(strip.and_(page.locator(f"[data-day='{monday}']"))).to_be_visible()
        await expect(all_listed).to_have_count(1)
        hues.add(await legend.get_by_role("link", name="Each hour").locator("i").get_attribute("class"))
    assert len(hues) == 2, "a colour each, the same in every view"

    # The list folds the many, so that the few are seen, and opens them.
    await seen.open(f"/calendar?view=list&date={monday}")
    many = page.get_by_role("list", name=re.compile("^Many runs on Monday")).first
    rows = page.locator(f"[data-run][data-day='{monday}']")
    await expect(rows).to_have_text(["Started by me"])
    await many.get_by_role("button", name=re.compile("^Show each of the .* of Each hour")).click()
    await expect(rows).to_have_count(25)

    # Those that failed, of which there are none, and what waits.
    await seen.open(f"/calendar?view=list&automation={by_hand['id']}")
    await page.get_by_label("State", exact=True).select_option("Failed or expired")
    await expect(page.get_by_text("No run in these days matches the filters.")).to_be_visible()
    await page.get_by_label("State", exact=True).select_option("Waiting for approval")
    await expect(page.locator("[data-run]")).to_have_attribute("href", f"/runs/{run['id']}")


async def test_on_a_phone_month_and_week_open_at_today(open_page: Look, web: WebSite) -> None:
    """A phone shows dots a day, the chosen day's runs and three days a week; nothing is cut off."""
    name = unused("On the phone")
    automation = await web.automation(name, **await in_minutes(web, 12 * 60))
    await web.automation("Hourly too", schedule={"cadence": "hourly"})
    await web.run(automation["id"], "on-the-phone")
    zone = await zone_in_daytime(web)
    today = local((await time_of(web)).isoformat(), zone).date()
    seen = await open_page("member", size="phone", zone=zone)
    page = seen.page
    await seen.open("/calendar?view=month")
    pressed = page.get_by_role("button", pressed=True).and_(page.locator("button[data-day]"))
    await expect(pressed).to_have_attribute("data-day", str(today))
    await expect(pressed).to_have_accessible_name(re.compile(r"1 waiting for approval"))
    await expect(page.get_by_role("heading", name=re.compile("^Today, "))).to_be_visible()
    own_value = page.get_by_role("listitem").filter(has_text=name).filter(has_text="by hand")
    await expect(own_value).to_be_visible()
    other = page.locator(f"button[data-day='{today + timedelta(days=1)}']")
    if await other.count():
        await other.tap()
        await expect(other).to_have_attribute("aria-pressed", "true")
        await expect(own_value).to_be_hidden()
    faults = await seen.check_looks("calendar-month-phone")

    await page.set_viewport_size({"width": 390, "height": 844})
    await seen.open(f"/calendar?view=week&automation={automation['id']}")
    heads = page.locator(".ec-header time")
    await expect(heads).to_have_count(3)
    await expect(heads.first).to_have_attribute("datetime", str(today))
    # Closed times of other tests are listed above the grid and may push it down.
    await page.locator(".grid").evaluate("(grid) => grid.scrollIntoView()")
    await expect(
        page.get_by_role("link", name=re.compile(f"{name}, Waiting for approval, by hand"))
    ).to_be_in_viewport()
    # A run of half an hour is a target for a finger (docs/design/web.md#small-screens).
    await page.wait_for_function(
        "() => document.querySelector('.grid [data-run]')?.getBoundingClientRect().height >= 44"
    )
    assert faults + await seen.check_looks("calendar-week-phone") == []

    # On a Thursday as well: neither the first day of its week nor of its month.
    thursday = today + timedelta(days=(3 - today.weekday()) % 7)
    if thursday.day == 1:
        thursday += timedelta(days=7)
    await page.clock.set_fixed_time(datetime.combine(thursday, time(12), ZoneInfo(zone)))
    await page.set_viewport_size({"width": 390, "height": 844})
    await seen.open("/calendar?view=week")
    await expect(heads.first).to_have_attribute("datetime", str(thursday))
    await expect(heads).to_have_count(3)
    await seen.open("/calendar?view=month")
    await expect(pressed).to_have_attribute("data-day", str(thursday))


async def test_a_week_follows_the_width_of_the_window(open_page: Look, web: WebSite) -> None:
    """Seven days on a desk, three on a phone, and seven again. See docs/design/web.md#small-screens.

    A run just before midnight is as tall as any other, within its day.
    """
    late = {"schedule": {"cadence": "daily", "run_at": "23:50"}, "timezone": "Europe/Berlin"}
    automation = await web.automation("Turned", **late)
    seen = await open_page("member")
    await seen.open(f"/calendar?view=week&automation={automation['id']}")
    await seen.page.wait_for_function(_WHOLE)
    days = seen.page.locator(".ec-col-head").filter(has_text=re.compile("^(Mon|Tue|Wed|Thu|Fri|Sat|Sun) "))
    await expect(days).to_have_count(7)
    await seen.page.set_viewport_size({"width": 390, "height": 844})
    await expect(days).to_have_count(3)
    await seen.page.set_viewport_size({"width": 1280, "height": 800})
    await expect(days).to_have_count(7)
