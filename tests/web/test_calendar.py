"""Tests the calendar: moving and skipping by mouse, keys and touch, zones (flows 7 to 10).

See docs/design/web.md#tests.
"""

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Request, Route, expect

from tests.processes.running import eventually
from tests.source import ROOT
from tests.web.calendars import (
    ahead,
    body_of,
    coming,
    drag,
    key_of,
    local,
    move_as_other_person,
    next_change,
    read_automation,
    read_occurrence,
    time_of,
    wait_for_occurrence,
)
from tests.web.conftest import Look
from tests.web.open_pages import LONG, manifest
from tests.web.site import WebSite

WEEKLY = {"cadence": "weekly", "run_at": "09:30", "day_of_week": 3}


async def test_a_run_is_dragged_to_another_day_and_back(open_page: Look, web: WebSite) -> None:
    """A drag asks, can be cancelled, moves only this run, and can be undone, in the automation's zone.

    See docs/design/web.md#tests.
    """
    automation = await web.automation("To drag", timezone="America/New_York", schedule=WEEKLY)
    row = (await ahead(web, automation["id"]))[0]
    day = local(row["run_at"], "Europe/Berlin").date()
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=month&date={day}&automation={automation['id']}")
    chip = page.locator(f"[data-run='{key_of(row)}']")
    await seen.hold_notes()
    moves: list[Request] = []
    page.on("request", lambda item: moves.append(item) if item.url.endswith("/move") else None)

    # It shows that it can be dragged, and where it would go: at its time in New York, on the viewer's clock.
    await expect(chip).to_have_css("cursor", "grab")
    column = await page.evaluate("() => document.querySelector('.ec-day').getBoundingClientRect().width")
    there = datetime.fromisoformat(row["run_at"]).astimezone(ZoneInfo("America/New_York")) + timedelta(days=1)
    target = (
        there.replace(tzinfo=None)
        .replace(tzinfo=ZoneInfo("America/New_York"))
        .astimezone(ZoneInfo("Europe/Berlin"))
    )
    words = await drag(seen, chip, across=column)
    # Of another year than the present with that year.
    assert re.search(rf"{target:%a} {target.day} {target:%b}( \d{{4}})?, {target:%H:%M}", words), words
    dialog = page.get_by_role("dialog", name="To drag")
    await expect(dialog.get_by_label("Date")).to_have_value(str(day + timedelta(days=1)))
    await expect(dialog).to_contain_text("in New York")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(chip).to_have_attribute("data-day", str(day))
    assert moves == []

    await drag(seen, chip, across=column)
    await dialog.get_by_role("button", name="Move this run").click()
    await expect(page.get_by_role("region", name="Notes").get_by_text("To drag moved to")).to_be_visible()
    await expect(chip).to_have_attribute("data-day", str(day + timedelta(days=1)))
    then = await read_occurrence(web, row)
    before, after = (local(record["run_at"], "America/New_York") for record in (row, then))
    assert after.replace(tzinfo=None) - before.replace(tzinfo=None) == timedelta(days=1)
    assert then["moved_from"] == row["run_at"]
    body = body_of(moves[0])
    assert (body["scope"], body["occurrence_version"], body["automation_version"]) == ("this", 0, 1)

    await page.get_by_role("button", name="Undo").click()
    await expect(chip).to_have_attribute("data-day", str(day))
    await wait_for_occurrence(web, row, run_at=row["run_at"])
    assert body_of(moves[1])["occurrence_version"] == 1


async def test_this_and_later_runs_are_dragged_to_another_time(open_page: Look, web: WebSite) -> None:
    """The service gets the new rule as worded; the page says what the rule was, without undo.

    See docs/design/web.md#tests.
    """
    schedule = {**WEEKLY, "run_at": "02:30"}
    automation = await web.automation("To shift", timezone="America/New_York", schedule=schedule)
    row = (await ahead(web, automation["id"]))[0]
    day = local(row["run_at"], "Europe/Berlin").date()
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=week&date={day}&automation={automation['id']}")
    chip = page.locator(f"[data-run='{key_of(row)}']")
    # Half an hour is tall enough for the words of its run (docs/design/web.md#accessibility).
    tall = """(run) => {
        const one = document.querySelector(`[data-run='${run}']`);
        return one && one.clientHeight >= one.scrollHeight && one.clientHeight >= 20;
    }"""
    await page.wait_for_function(tall, arg=key_of(row))
    half_hour = await page.evaluate(
        "() => document.querySelector('.ec-event').getBoundingClientRect().height"
    )
    await seen.hold_notes()
    await drag(seen, chip, down=2 * half_hour)
    dialog = page.get_by_role("dialog", name="To shift")
    await dialog.get_by_label("This and later").check()
    expected_start = local(row["run_at"], "America/New_York") + timedelta(hours=1)
    rule = f"every Wednesday at {expected_start:%H:%M}"
    await expect(dialog).to_contain_text(f"Later runs: {rule}, New York; earlier ones stay.")
    async with page.expect_request("**/move") as move_request:
        await dialog.get_by_role("button", name="Move this and later").click()
    assert body_of(await move_request.value)["scope"] == "this_and_later"
    note = page.get_by_role("region", name="Notes").get_by_text("later runs with it: Every Wednesday")
    await expect(note).to_contain_text("Before: Every Wednesday at 02:30.")
    await expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    now = await read_automation(web, automation["id"])
    assert now["schedule"]["run_at"] == f"{expected_start:%H:%M}"
    runs = [datetime.fromisoformat(record["run_at"]) for record in await coming(web, automation["id"])]
    assert expected_start in runs


async def test_a_run_is_moved_and_skipped_with_the_keyboard_alone(open_page: Look, web: WebSite) -> None:
    """Arrows change days, M picks a run up, Enter asks as a drop does, and S skips.

    See docs/design/web.md#tests.
    """
    automation = await web.automation("By keys", schedule={"cadence": "daily", "run_at": "11:00"})
    rows = await ahead(web, automation["id"])
    day = local(rows[1]["run_at"], "Europe/Berlin").date()
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=week&date={day}&automation={automation['id']}")
    await page.locator("[data-run]").first.wait_for()
    await page.get_by_role("heading", name="Calendar").focus()
    await page.keyboard.press("ArrowRight")
    focused = page.locator("[data-run]:focus")
    await expect(focused).to_have_attribute("data-day", str(day))
    chip = page.locator(f"[data-run='{key_of(rows[1])}']")
    before = local(rows[1]["run_at"], "Europe/Berlin")
    await page.keyboard.press("m")
    for steps in (1, 2, 3, 4):
        await page.keyboard.press("ArrowDown")
        await expect(chip).to_contain_text(f"{before + timedelta(minutes=15 * steps):%H:%M}")
    await page.keyboard.press("Shift+ArrowUp")
    await expect(chip).to_contain_text(f"{before + timedelta(minutes=59):%H:%M}")
    # Put back: nothing was asked and nothing sent.
    await page.keyboard.press("Escape")
    await expect(chip).to_contain_text(f"{before:%H:%M}")
    dialog = page.get_by_role("dialog", name="By keys")
    await expect(chip).to_be_focused()
    await page.keyboard.press("m")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_label("Date")).to_be_focused()
    move = dialog.get_by_role("button", name="Move this run")
    await expect(move).to_have_attribute("aria-disabled", "true")
    await dialog.get_by_label("Time").fill("11:45")
    await move.press("Enter")
    await expect(chip).to_contain_text("11:45")
    await expect(dialog).to_be_hidden()
    await wait_for_occurrence(web, rows[1], moved_from=rows[1]["run_at"])
    await seen.wait_until_loaded()
    await chip.press("s")
    await expect(chip).to_have_attribute("aria-label", re.compile("Skipped by a person"))
    await wait_for_occurrence(web, rows[1], reason="by_merchant")


def test_the_grid_comes_on_demand_and_is_small(built: None) -> None:
    """The calendar is loaded on demand and has at most 60 KB gzip. See docs/design/web.md#speed."""
    grid = manifest()["src/screens/calendar/Grid.svelte"]
    assert grid["isDynamicEntry"]
    size = len(gzip.compress((ROOT / "steward/static" / grid["file"]).read_bytes()))
    assert size <= 60 * 1024, size


async def test_a_phone_opens_the_list_and_moves_by_the_dialog(open_page: Look, web: WebSite) -> None:
    """On a phone a run is skipped or moved from the list by a dialog.

    See docs/design/web.md#small-screens and docs/design/web.md#tests.
    """
    automation = await web.automation("On a phone", schedule={"cadence": "daily", "run_at": "10:00"})
    rows = await ahead(web, automation["id"])
    seen = await open_page("member", size="phone")
    page = seen.page
    await seen.open(f"/calendar?automation={automation['id']}")
    await expect(page.get_by_role("button", name="List")).to_have_attribute("aria-pressed", "true")
    link = page.locator(f"[data-run='{key_of(rows[1])}']")
    await link.tap()
    dialog = page.get_by_role("dialog", name="On a phone")
    await dialog.get_by_label("Time").fill("10:30")
    await dialog.get_by_role("button", name="Move this run").tap()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_text("moved from")).to_be_visible()
    await wait_for_occurrence(web, rows[1], moved_from=rows[1]["run_at"])
    assert (
        local((await read_occurrence(web, rows[1]))["run_at"], "Europe/Berlin").strftime("%H:%M") == "10:30"
    )


VIEWERS = ["Asia/Kolkata", "Pacific/Kiritimati", *(["Europe/Berlin", "America/New_York"] if LONG else [])]
# Where the clock jumps over the time, or shows it twice: one of them within the calendar's year, its whole
# week to come, on any day this runs.
PLACES = (("Australia/Sydney", "02:30"), ("Europe/London", "01:30"))


@pytest.mark.parametrize("viewer", VIEWERS)
async def test_times_are_those_of_python_in_weeks_with_a_gap_and_a_fold(
    open_page: Look, web: WebSite, viewer: str
) -> None:
    """Times of a Sydney automation match Python's in weeks in which clocks change.

    See docs/design/web.md#tests.
    """
    seen = await open_page("member", zone=viewer)
    now = await time_of(web)
    for gap in (True, False):
        location, timestamp, day = next(
            (path, at, day)
            for path, at in PLACES
            if (day := next_change(path, now + timedelta(days=8), gap=gap)) < now + timedelta(days=350)
        )
        schedule = {"cadence": "daily", "run_at": timestamp}
        automation = await web.automation(f"{location} from {viewer}", timezone=location, schedule=schedule)
        spread = timedelta(minutes=(await read_automation(web, automation["id"]))["spread_minutes"])
        hour, minute = map(int, timestamp.split(":"))
        runs = [
            (day.replace(tzinfo=None) + timedelta(days=by, hours=hour, minutes=minute))
            .replace(tzinfo=ZoneInfo(location), fold=0)
            .astimezone(UTC)
            + spread
            for by in range(-9, 10)
        ]
        shown_on = day.astimezone(ZoneInfo(viewer)).date()
        monday = shown_on - timedelta(days=shown_on.weekday())
        there = [run.astimezone(ZoneInfo(viewer)) for run in runs]
        expected = [f"{item:%Y-%m-%d %H:%M}" for item in there if 0 <= (item.date() - monday).days < 7]
        await seen.open(f"/calendar?view=week&date={shown_on}&automation={automation['id']}")
        chips = seen.page.locator("[data-run]")
        await expect(chips).to_have_count(len(expected))
        outcome = await chips.evaluate_all(
            "(all) => all.map((one) => one.dataset.day + ' ' + one.querySelector('time').textContent)"
        )
        assert sorted(outcome) == expected
        city = location.partition("/")[2]
        await expect(chips.first).to_have_attribute("aria-label", re.compile(f"in {city}"))


async def test_a_run_is_skipped_and_unskipped_but_not_far_ahead(open_page: Look, web: WebSite) -> None:
    """A run is skipped and restored from the list; a projected run says why it cannot be.

    See docs/design/web.md#tests.
    """
    automation = await web.automation("To leave", schedule={"cadence": "daily", "run_at": "12:00"})
    near = (await ahead(web, automation["id"]))[0]
    rows = await coming(web, automation["id"], to=(await time_of(web) + timedelta(days=40)).isoformat())
    far = next(row for row in rows if row["projected"])
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=list&automation={automation['id']}")
    line = page.locator("[data-row]").filter(has=page.locator(f"[data-run='{key_of(near)}']"))
    await line.get_by_role("button", name="Skip").click()
    await expect(line).to_contain_text("Skipped by a person")
    await wait_for_occurrence(web, near, state="skipped")
    await line.get_by_role("button", name="Take back").click()
    await expect(line.get_by_role("button", name="Skip")).to_be_visible()
    await wait_for_occurrence(web, near, state="pending")
    day = local(far["run_at"], "Europe/Berlin").date()
    await seen.open(f"/calendar?view=list&date={day}&automation={automation['id']}&run={key_of(far)}")
    dialog = page.get_by_role("dialog", name="To leave")
    await expect(dialog).to_contain_text("Expected")
    skip = dialog.get_by_role("button", name="Skip this run")
    await expect(skip).to_have_attribute("title", "Can be skipped once it is closer (about 14 days)")


async def test_a_run_that_was_queued_meanwhile_is_shown_as_it_is(open_page: Look, web: WebSite) -> None:
    """Moving a run that was queued meanwhile shows the message and the current record.

    See docs/design/web.md#tests and docs/design/web.md#rules-for-every-screen.
    """
    automation = await web.automation("Queued meanwhile", schedule={"cadence": "daily", "run_at": "12:00"})
    row = (await ahead(web, automation["id"]))[0]
    # Soon, and what the page will have read is how the move left it.
    read = [await move_as_other_person(web, row, await time_of(web) + timedelta(seconds=5))]
    assert read[0]["state"] == "pending"

    async def queued() -> bool:
        past = (await time_of(web) - timedelta(hours=1)).isoformat()
        return any(
            record["state"] == "queued" for record in await coming(web, automation["id"], **{"from": past})
        )

    await eventually(queued)
    seen = await open_page("member")
    page = seen.page
    # The page read the run while it was still to come: its clock and its first response are of then.
    await page.clock.set_fixed_time(datetime.fromisoformat(read[0]["run_at"]) - timedelta(minutes=2))
    data = {"occurrences": read, "next_cursor": None}
    responses = [json.dumps({"success": True, "contract_version": 1, "data": data})]

    async def respond(route: Route) -> None:
        if responses:
            await route.fulfill(body=responses.pop(), content_type="application/json")
        else:
            await route.continue_()

    await page.route("**/v1/automations/occurrences?*", respond)
    day = local(read[0]["run_at"], "Europe/Berlin").date()
    await seen.open(f"/calendar?view=list&date={day}&automation={automation['id']}")
    line = page.locator("[data-row]").filter(has=page.locator(f"[data-run='{key_of(row)}']"))
    await line.get_by_role("button", name="Skip").click()
    await expect(page.locator(".problem")).to_be_visible()
    await expect(line.get_by_role("button", name="Skip")).to_be_hidden()
    await expect(line).to_contain_text("Waiting for approval")


async def test_a_move_of_somebody_else_is_asked_about(open_page: Look, web: WebSite) -> None:
    """After a move by another person the dialog shows both times and can apply mine on top.

    See docs/design/web.md#rules-for-every-screen.
    """
    automation = await web.automation("Moved by two", schedule={"cadence": "daily", "run_at": "13:00"})
    row = (await ahead(web, automation["id"]))[1]
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/calendar?view=list&automation={automation['id']}&run={key_of(row)}")
    dialog = page.get_by_role("dialog", name="Moved by two")
    await dialog.get_by_label("Time").fill("14:00")
    theirs = datetime.fromisoformat(row["run_at"]) + timedelta(hours=3)
    await move_as_other_person(web, row, theirs)
    await dialog.get_by_role("button", name="Move this run").click()
    question = page.get_by_role("dialog", name="Changed by somebody else in the meantime")
    await expect(question).to_contain_text(f"{theirs.astimezone(ZoneInfo('Europe/Berlin')):%H:%M}")
    await question.get_by_role("button", name="Put mine on top").click()
    await expect(question).to_be_hidden()
    await wait_for_occurrence(web, row, version=2)
    now = await read_occurrence(web, row)
    assert local(now["run_at"], "Europe/Berlin").strftime("%H:%M") == "14:00"
