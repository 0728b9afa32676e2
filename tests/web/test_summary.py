"""Tests an automation's Summary tab: what waits, past runs and coming runs.

See docs/design/web.md#automation.
"""

import re
from zoneinfo import ZoneInfo

from playwright.async_api import expect

from tests.web.calendars import ahead, time_of, wait_for_occurrence
from tests.web.conftest import Look
from tests.web.open_pages import cut_off
from tests.web.site import WebSite

DAILY = {"cadence": "daily", "run_at": "23:40"}


async def test_the_summary_says_what_waits_what_was_and_what_comes(open_page: Look, web: WebSite) -> None:
    """Numbers match the runs, charts link to them and have texts, and actions work."""
    # Hours away, whatever the clock says.
    hour = (await time_of(web)).astimezone(ZoneInfo("Europe/Berlin")).hour
    schedule = {"cadence": "daily", "run_at": "18:15" if 3 <= hour < 15 else "06:15"}
    automation = await web.automation("Summed up", schedule=schedule, timezone="Europe/Berlin")
    run = await web.run(automation["id"], "summed-up")
    proposed = run["summary"]["counts"]["proposed"]
    assert proposed
    rows = await ahead(web, automation["id"])
    seen = await open_page("approver")
    page = seen.page
    await seen.open(f"/automations/{automation['id']}")
    last = page.get_by_role("region", name="Last run")
    await expect(last).to_contain_text(run["summary"]["text"])
    await expect(last.get_by_role("link", name=re.compile(r"^\w{3} \d"))).to_have_attribute(
        "href", f"/runs/{run['id']}"
    )
    strip = page.get_by_role("group", name="Last run: waiting for approval.")
    await expect(strip.get_by_role("link")).to_have_attribute("href", f"/runs/{run['id']}")
    bars = page.get_by_role("list", name="Changes of each run")
    await expect(bars.get_by_role("link", name=f"{proposed} waiting for approval")).to_be_visible()
    await expect(page.get_by_text(f"0 changes made, {proposed} waiting for approval.")).to_be_visible()
    await expect(page.get_by_text(f"{proposed} changes wait for approval")).to_be_visible()
    await expect(page.get_by_role("link", name="Review")).to_have_attribute(
        "href", f"/approvals/{run['approval_id']}"
    )
    assert await cut_off(seen) + await seen.check_looks("summary") == []

    coming = page.get_by_role("list", name="Next runs").get_by_role("listitem")
    await expect(coming).to_have_count(3)
    await seen.hold_notes()
    await coming.first.get_by_role("button", name=re.compile("^Skip the run of")).click()
    await wait_for_occurrence(web, rows[0], state="skipped")
    await page.get_by_role("button", name="Undo").click()
    await wait_for_occurrence(web, rows[0], state="pending")
    await expect(coming.first.get_by_role("button", name=re.compile("^Skip the run of"))).to_be_enabled()
    # The service has the run back before the list shows it again.
    second = coming.filter(has=page.locator(f"time[datetime^='{rows[1]['run_at'][:16]}']"))
    await expect(coming.nth(1).and_(second)).to_be_visible()
    await second.get_by_role("button", name=re.compile("^Move… the run of")).click()
    dialog = page.get_by_role("dialog", name="Summed up")
    await expect(dialog.get_by_label("Date")).to_be_focused()
    await dialog.get_by_label("Time").fill("20:20")
    await dialog.get_by_role("button", name="Move this run").click()
    await expect(coming.nth(1)).to_contain_text("20:20")
    await wait_for_occurrence(web, rows[1], moved_from=rows[1]["run_at"])


async def test_the_summary_of_an_automation_without_runs_stays_short(open_page: Look, web: WebSite) -> None:
    """Without runs there is no chart, and nothing exceeds a phone's width."""
    automation = await web.automation("Never ran", schedule=DAILY)
    seen = await open_page("member", size="phone")
    await seen.open(f"/automations/{automation['id']}")
    await expect(seen.page.get_by_text("It has not run yet. A test run changes nothing.")).to_be_visible()
    await expect(seen.page.get_by_role("heading", name="Recent runs")).to_be_hidden()
    assert await seen.layout_faults((360, 390)) == []
