"""Tests automations: the list, states, the schedule editor and simultaneous edits (flows 11 and 15).

See docs/design/web.md#tests.
"""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from playwright.async_api import Page, Response, Route, expect

from tests.web.calendars import next_change, read_automation, time_of
from tests.web.conftest import Look
from tests.web.site import WebSite, unused

PREVIEW = "/v1/automations/schedule/preview"


async def _choose(page: Page, schedule: dict[str, Any]) -> None:
    """Chooses the schedule in the editor."""
    await page.get_by_label("How often").select_option(schedule["cadence"])
    if "day_of_month" in schedule:
        await page.get_by_label("A day of the month").check()
        await page.get_by_label("Day of the month", exact=True).fill(str(schedule["day_of_month"]))
    if "week_of_month" in schedule:
        await page.get_by_label("A weekday of the month").check()
        await page.get_by_label("The", exact=True).select_option(str(schedule["week_of_month"]))
        await page.get_by_label("Weekday", exact=True).select_option(str(schedule["day_of_week"]))
    elif "day_of_week" in schedule:
        await page.get_by_label("On", exact=True).select_option(str(schedule["day_of_week"]))
    if "days" in schedule:
        for number, day in enumerate(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"), start=1):
            if number not in schedule["days"]:
                await page.get_by_role("button", name=day).click()
    if "date" in schedule:
        await page.get_by_label("Date", exact=True).fill(schedule["date"])
    if "run_at" in schedule:
        await page.get_by_label("Time", exact=True).fill(schedule["run_at"])


async def test_every_cadence_shows_the_services_words_and_next_runs(open_page: Look, web: WebSite) -> None:
    """Every cadence shows the service's text, three runs and their notes.

    See docs/design/web.md#tests and docs/design/web.md#schedule-editor.
    """
    automation = await web.automation("To schedule", timezone="Europe/Berlin")
    owner = await web.session_of("owner")
    soon = await time_of(web) + timedelta(days=2)
    gap, fold = (next_change("Europe/Berlin", soon, gap=gap) for gap in (True, False))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cadence": "hourly"}, ""),
        ({"cadence": "every_6_hours"}, ""),
        ({"cadence": "daily", "run_at": "07:10"}, ""),
        ({"cadence": "weekdays", "run_at": "07:10", "days": [1, 3]}, ""),
        ({"cadence": "weekly", "run_at": "07:10", "day_of_week": 4}, ""),
        ({"cadence": "monthly", "run_at": "07:10", "day_of_month": 31}, "; it runs on the "),
        ({"cadence": "monthly", "run_at": "07:10", "week_of_month": -1, "day_of_week": 5}, ""),
        ({"cadence": "once", "run_at": "02:30", "date": f"{gap:%Y-%m-%d}"}, "this run starts at 03:30."),
        ({"cadence": "once", "run_at": "02:30", "date": f"{fold:%Y-%m-%d}"}, "it runs at the first."),
    ]
    seen = await open_page("member", zone="America/New_York")
    page = seen.page
    response: list[Response] = []
    page.on("response", lambda item: response.append(item) if item.url.endswith(PREVIEW) else None)
    await seen.open(f"/automations/{automation['id']}/schedule")
    for schedule, note in cases:
        preview = await owner.call("POST", PREVIEW, {"schedule": schedule, "timezone": "Europe/Berlin"})
        await _choose(page, schedule)
        await expect(page.get_by_text(preview["words"], exact=True)).to_be_visible()
        runs = page.get_by_role("list", name="Next runs")
        # What the page was answered: an hour may have ended since the same was asked above.
        answered = (await response[-1].json())["data"]
        assert answered["words"] == preview["words"]
        assert await runs.locator("time").evaluate_all("(all) => all.map((one) => one.dateTime)") == [
            run["slot_at"] for run in answered["next"]
        ]
        await expect(runs).to_contain_text("in New York, where you are")
        if note:
            await expect(runs).to_contain_text(note)


async def test_refusals_of_a_schedule_stand_at_their_fields(open_page: Look, web: WebSite) -> None:
    """Errors appear at their fields, the last valid preview stays, and a new zone keeps the time.

    See docs/design/web.md#tests and docs/design/web.md#schedule-editor.
    """
    automation = await web.automation("To refuse", timezone="Europe/Berlin")
    past = (await time_of(web) - timedelta(days=3)).astimezone(ZoneInfo("Europe/Berlin"))
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation['id']}/schedule")
    await page.get_by_text("Every day at 06:00 (Europe/Berlin)").wait_for()
    await _choose(page, {"cadence": "once", "run_at": "06:00", "date": f"{past:%Y-%m-%d}"})
    date = page.get_by_label("Date", exact=True)
    await expect(date).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_text("These are the runs before your last change")).to_be_visible()
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("One field needs another value.")).to_be_visible()
    assert (await read_automation(web, automation["id"]))["version"] == 1
    await _choose(page, {"cadence": "daily", "run_at": "06:00"})
    zone = page.get_by_label("Zone")
    await zone.fill("Kiritimati")
    await zone.press("Tab")
    await expect(zone).to_have_value("Pacific/Kiritimati")
    await expect(page.get_by_text("The clock time stays: 06:00, now in Kiritimati.")).to_be_visible()
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_role("group", name="Changes")).to_be_hidden()
    now = await read_automation(web, automation["id"])
    assert (now["timezone"], now["schedule"]["run_at"]) == ("Pacific/Kiritimati", "06:00")


async def test_two_people_change_one_automation(open_page: Look, web: WebSite) -> None:
    """The conflict dialog compares fields, and applying mine on top loses neither change.

    See docs/design/web.md#tests.
    """
    automation = await web.automation("Changed by two")
    path = f"/v1/automations/{automation['id']}"
    owner = await web.session_of("owner")
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation['id']}/schedule")
    await page.get_by_label("Time", exact=True).fill("08:40")
    theirs = {**automation["schedule"], "run_at": "10:10"}
    await owner.call("PATCH", path, {"version": 1, "name": "Changed by one", "schedule": theirs})
    await page.get_by_role("button", name="Save changes").click()
    question = page.get_by_role("dialog", name="Changed by somebody else in the meantime")
    mine = question.get_by_role("row", name="Schedule")
    await expect(mine).to_contain_text("Every day at 08:40")
    await expect(mine).to_contain_text("Every day at 10:10")
    await expect(question.get_by_role("row", name="Name")).to_contain_text("Changed by one")
    await question.get_by_role("button", name="Put mine on top").click()
    await expect(question).to_be_hidden()
    now = await read_automation(web, automation["id"])
    assert (now["version"], now["name"], now["schedule"]["run_at"]) == (3, "Changed by one", "08:40")

    await page.get_by_label("Time", exact=True).fill("09:50")
    await owner.call("PATCH", path, {"version": 3, "schedule": {**theirs, "run_at": "11:11"}})
    await page.get_by_role("button", name="Save changes").click()
    await question.get_by_role("button", name="Keep theirs").click()
    await expect(page.get_by_label("Time", exact=True)).to_have_value("11:11")
    assert (await read_automation(web, automation["id"]))["version"] == 4
    await page.get_by_role("link", name="Versions").click()
    history = page.get_by_role("list", name="What was changed")
    await expect(history).to_contain_text("Every day at 10:10 →becomes Every day at 08:40")
    await expect(history.get_by_role("listitem").first).to_contain_text("by The Owner")


async def test_an_automation_goes_through_its_states(open_page: Look, web: WebSite) -> None:
    """Pause with undo, archive after a question, restore, test run and rename all work.

    See docs/design/web.md#automation.
    """
    automation = await web.automation("Through its states", schedule={"cadence": "daily", "run_at": "06:00"})
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation['id']}")
    await seen.hold_notes()
    await page.get_by_role("button", name="Pause automation").click()
    await expect(page.get_by_text("Paused: it has no coming runs.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("button", name="Pause automation")).to_be_visible()
    more = page.get_by_role("button", name="More", exact=True)
    await more.click()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Renamed on its page")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Renamed on its page")
    await more.click()
    await page.get_by_role("button", name="Archive", exact=True).click()
    question = page.get_by_role("dialog", name="Archive this automation?")
    await expect(question).to_contain_text("Renamed on its page")
    await question.get_by_role("button", name="Archive automation").click()
    await page.get_by_role("button", name="Restore automation").click()
    await expect(page.get_by_role("button", name="Resume automation")).to_be_visible()
    assert (await read_automation(web, automation["id"]))["state"] == "paused"
    await page.get_by_role("button", name="Run as test").click()
    await expect(page.get_by_text("TEST: changes nothing")).to_be_visible()


async def _after_two_empty_pages(route: Route) -> None:
    """Answers as a large organization does: two pages without a match come before the real one."""
    cursors = parse_qs(urlsplit(route.request.url).query).get("cursor", ["0"])
    if cursors == ["2"]:
        response = await route.fetch(url=route.request.url.replace("&cursor=2", ""))
        await route.fulfill(response=response)
        return
    reply = {"contract_version": 1, "data": {"automations": [], "next_cursor": str(int(cursors[0]) + 1)}}
    await route.fulfill(json=reply)


async def test_the_list_is_searched_filtered_and_acted_on(open_page: Look, web: WebSite) -> None:
    """The list filters by text, state and schedule, past empty pages; its row menu works by keyboard.

    See docs/design/web.md#automations-list.
    """
    needle = unused("needle")
    stored_automation = await web.automation(f"{needle} <b>in</b> hay", schedule={"cadence": "every_6_hours"})
    gone = await web.automation(f"{needle} put away")
    owner = await web.session_of("owner")
    await owner.call("POST", f"/v1/automations/{gone['id']}/archive", {})
    seen = await open_page("member")
    page = seen.page
    await seen.open("/automations")
    await page.get_by_role("heading", name="Automations").focus()
    await page.keyboard.press("/")
    await page.keyboard.type(needle.upper())
    await page.keyboard.press("Enter")
    rows = page.get_by_role("table", name="Automations").locator("tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Every 6 hours, at 00:00, 06:00, 12:00 and 18:00")
    await page.route("**/v1/automations?*q=*", _after_two_empty_pages)
    await page.reload()
    await expect(rows).to_have_count(1)
    await page.unroute("**/v1/automations?*q=*")
    await page.get_by_role("heading", name="Automations").focus()
    await page.keyboard.press("j")
    await page.keyboard.press("m")
    await page.get_by_role("button", name="Pause", exact=True).press("Enter")
    await expect(rows).to_contain_text("Paused")
    assert (await read_automation(web, stored_automation["id"]))["state"] == "paused"
    await page.get_by_label("State").select_option("archived")
    await expect(rows).to_contain_text(f"{needle} put away")
    await page.get_by_label("State").select_option("draft")
    await expect(page.get_by_text("No automation matches the filters.")).to_be_visible()
    await page.get_by_role("button", name="Show all").click()
    await expect(rows.filter(has_text=f"{needle} <b>in</b> hay")).to_be_visible()
