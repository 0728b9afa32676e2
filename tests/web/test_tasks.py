"""Tests the main tasks from start to end: only with the keyboard at a desk, and with a finger on a phone.

See docs/design/web.md#tests. Approving thousands of changes is in test_many_changes.py.
"""

import json
import re
import sqlite3
from datetime import datetime, time, timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Route, expect

from tests.processes.running import PASSWORD
from tests.web.calendars import time_of
from tests.web.conftest import Look
from tests.web.input_devices import HANDS, Hand, Keyboard, TouchInput, heading
from tests.web.keys import press_both
from tests.web.shops import hiding, sheet
from tests.web.site import WebSite, unused
from tests.web.workflows import logged

by_each_hand = pytest.mark.parametrize("way", HANDS)


def _check_taps(hand: Hand, max_taps: int) -> None:
    """Asserts that a finger needed at most `max_taps` taps; a choice from a list counts as two."""
    assert not isinstance(hand, TouchInput) or hand.taps <= max_taps


@by_each_hand
async def test_a_failed_run_is_found_after_sign_in_and_mended(
    open_page: Look, web: WebSite, way: type[Hand]
) -> None:
    """A failed run shows account, answer, changes made and what to do; once fixed it is gone.

    See docs/design/web.md#run and docs/design/web.md#overview.
    """
    name = f"Fails by {way.__name__}"
    automation = await hiding(web, name, ["Fails a"])
    words = {"code": "wp_die", "message": "There has been a critical error."}
    await web.site.fault(method="GET", path="/wp-json/**", kind="status", status=501, count=1, body=words)
    assert (await web.run(automation["id"], "fails"))["status"] == "failed"
    seen = await open_page(None, size=way.size)
    page, hand = seen.page, way(seen.page)
    await seen.open("/")
    await hand.fill(page.get_by_label("E-mail"), web.email("owner"))
    await hand.fill(page.get_by_label("Password", exact=True), PASSWORD)
    await hand.press(page.get_by_role("button", name="Sign in"))
    await expect(heading(page, "Overview")).to_be_visible()
    row = page.get_by_role("table", name="Failed runs").get_by_role("row").filter(has_text=name)
    answered = "It answered 501 (“There has been a critical error.”), and was not asked again."
    await expect(row).to_contain_text(f"{answered} Nothing was changed.")
    await hand.press(row.get_by_role("link", name=name))
    failure = page.get_by_role("region", name="Why it failed")
    await expect(failure).to_contain_text(answered)
    await expect(failure).to_contain_text("Nothing was changed.")
    await expect(failure).to_contain_text("What to do")
    await expect(failure.get_by_role("link", name="The shop")).to_be_visible()
    await hand.press(failure.get_by_role("button", name="Check connection"))
    await expect(failure.get_by_role("status")).to_be_visible()
    await page.emulate_media(reduced_motion="reduce")
    assert await seen.audit_themes("run-failed") == []
    await hand.press(failure.get_by_role("button", name="Run again"))
    question = page.get_by_role("dialog", name="Run it again?")
    await hand.press(question.get_by_role("button", name="Run it live"))
    await hand.press(page.get_by_role("button", name="Review 1 change"))
    await hand.press(page.get_by_role("button", name="Approve 1 change"))
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    await web.site.reaches(page.url.rsplit("/", 1)[1], "succeeded")
    await hand.go("Overview")
    await expect(
        page.get_by_role("table", name="Next runs").or_(page.get_by_text("No runs within"))
    ).to_be_visible()
    await expect(row).to_have_count(0)
    _check_taps(hand, 10)


@by_each_hand
async def test_an_automation_is_set_up_from_a_template_and_tried(
    open_page: Look, web: WebSite, way: type[Hand]
) -> None:
    """From the overview to the end of a test run; errors and headings take the focus.

    See docs/design/web.md#set-up and docs/design/web.md#keyboard.
    """
    name = f"Made by {way.__name__}"
    seen = await open_page("member", size=way.size)
    page, hand = seen.page, way(seen.page)
    await seen.open("/")
    if isinstance(hand, Keyboard):
        await press_both(page, "g", "a")
        await expect(heading(page, "Automations")).to_be_focused()
        await page.keyboard.press("n")
    else:
        await hand.go("Automations")
        await hand.press(page.get_by_role("button", name="New automation").first)
    await expect(heading(page, "New automation")).to_be_focused()
    template = page.get_by_role("link", name="Tag products by rule")
    await template.first.wait_for()
    if isinstance(hand, Keyboard):
        await page.keyboard.press("/")
    await hand.fill(page.get_by_label("Search templates"), "tag products")
    await hand.press(template)
    await expect(page.get_by_role("radio", name="The shop")).to_be_checked()
    next_step = page.get_by_role("button", name="Next").last
    await hand.press(next_step)
    await expect(page.get_by_role("heading", name="What should it do?")).to_be_focused()
    await hand.press(next_step)
    await expect(page.get_by_label("Tag", exact=True)).to_be_focused()
    await hand.fill(page.get_by_label("Tag", exact=True), "by hand")
    await hand.choose(page.get_by_label("Rule", exact=True), "Is on sale")
    await hand.fill(page.get_by_label("Name", exact=True), name)
    await hand.press(next_step)
    await expect(page.get_by_role("heading", name="When does it run?")).to_be_focused()
    await hand.choose(page.get_by_label("How often"), "Every week")
    await expect(page.get_by_label("How often")).to_have_value("weekly")
    await expect(page.get_by_role("list", name="Next runs").get_by_role("listitem")).to_have_count(3)
    await hand.press(page.get_by_role("button", name="Create and try as a test run"))
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    await expect(page.get_by_role("main").get_by_text("TEST: changes nothing")).to_be_visible()
    await expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()
    owner = await web.session_of("owner")
    [automation] = (await owner.call("GET", f"/v1/automations?q={name}"))["automations"]
    assert (automation["inputs"]["tag"], automation["schedule"]["cadence"], automation["state"]) == (
        "by hand",
        "weekly",
        "active",
    )
    _check_taps(hand, 18)


@by_each_hand
async def test_a_workflow_is_imported_and_run(open_page: Look, web: WebSite, way: type[Hand]) -> None:
    """From an exported file to a finished live run. See docs/design/web.md#imports."""
    account = await sheet(web, "sheet-prices")
    name = f"Imported by {way.__name__}"
    seen = await open_page("member", size=way.size)
    page, hand = seen.page, way(seen.page)
    await seen.open("/")
    await hand.go("Imports")
    await hand.press(page.get_by_role("button", name="Import a workflow").first)
    await hand.give(json.dumps(logged(name)))
    await expect(page.get_by_text("2 steps would send something.")).to_be_visible()
    await hand.press(page.get_by_role("button", name="Keep this import"))
    await expect(heading(page, name)).to_be_visible()
    await hand.press(page.get_by_role("button", name="Run as automation"))
    bound = page.get_by_role("list", name="Steps that need a connection")
    label = await bound.get_by_label("Connection of Log").locator(f"option[value='{account}']").inner_text()
    for step in ("Log", "Copy"):
        await hand.choose(bound.get_by_label(f"Connection of {step}"), label)
    await hand.check(page.get_by_label("Send without asking"))
    await hand.press(page.get_by_role("button", name="Make automation"))
    await hand.press(page.get_by_role("button", name="Run now"))
    await hand.press(page.get_by_role("dialog").get_by_role("button", name=re.compile("Run (it live|now)")))
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    await expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()
    await web.site.reaches(page.url.rsplit("/", 1)[1], "succeeded")
    _check_taps(hand, 14)


class _Responses:
    """Answers with these statuses in turn, then lets the calls through."""

    def __init__(self, *statuses: tuple[int, str]) -> None:
        self._statuses = list(statuses)

    async def __call__(self, route: Route) -> None:
        """Answers one call."""
        if route.request.method != "POST" or not self._statuses:
            await route.continue_()
            return
        status, code = self._statuses.pop(0)
        body = {
            "success": False,
            "contract_version": 1,
            "code": code,
            "message": "Too many requests. Wait a moment.",
        }
        await route.fulfill(status=status, json=body, headers={"retry-after": "60"})


@by_each_hand
async def test_an_invitation_survives_a_rate_limit_and_an_ended_session(
    open_page: Look, web: WebSite, way: type[Hand]
) -> None:
    """A dialog keeps what was typed while the calls are too many (429) and while one signs in again (401).

    See docs/design/web.md#rules-for-every-screen and docs/design/web.md#people-organization-account.
    """
    email = f"{way.__name__.lower()}@shop.example"
    seen = await open_page("owner", size=way.size)
    page, hand = seen.page, way(seen.page)
    await page.clock.install()
    await seen.open("/")
    await hand.go("People")
    invite = page.get_by_role("button", name="Invite a person")
    await hand.press(invite)
    dialog = page.get_by_role("dialog", name="Invite a person")
    if isinstance(hand, Keyboard):
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await expect(invite).to_be_focused()
        await page.keyboard.press("Enter")
    await expect(dialog.get_by_label("E-mail")).to_be_focused()
    await page.keyboard.insert_text(email)
    await page.route("**/app/people", _Responses((429, "rate_limited"), (401, "unauthenticated")))
    create = dialog.get_by_role("button", name="Create invitation link")
    await hand.press(create)
    await expect(dialog.get_by_text("Too many requests. Wait a moment.")).to_be_visible()
    await expect(create).to_contain_text("60 s)")
    await expect(dialog.get_by_label("E-mail")).to_have_value(email)
    await page.clock.run_for(61_000)
    await expect(create).not_to_have_attribute("aria-disabled", "true")
    await hand.press(create)
    again = page.get_by_role("dialog", name="Sign in again")
    await expect(again).to_contain_text(
        "Your session has ended. Sign in to continue; what you typed is still here."
    )
    await hand.fill(again.get_by_label("Password", exact=True), PASSWORD)
    await hand.press(again.get_by_role("button", name="Sign in"))
    link = page.get_by_label("Link of the invitation")
    assert urlsplit(await link.input_value()).fragment
    await hand.press(page.get_by_role("dialog").get_by_role("button", name="Copy link"))
    await hand.press(page.get_by_role("dialog").get_by_role("button", name="Done"))
    await expect(page.get_by_role("row").filter(has_text=email)).to_contain_text("Invited")
    await expect(invite).to_be_focused()
    # Two of them for the password of the session that ended, one for the second try.
    _check_taps(hand, 9)


@by_each_hand
async def test_runs_of_last_tuesday_at_three_are_found(
    open_page: Look, web: WebSite, way: type[Hand]
) -> None:
    """Runs of one hour of a day are found from the overview; the filters that hold are seen.

    See docs/design/web.md#run.
    """
    name = unused(f"Tuesday by {way.__name__}")
    automation = await hiding(web, name, ["Tuesday a"])
    run = await web.run(automation["id"], "tuesday", mode="test")
    zone = ZoneInfo("Europe/Berlin")
    today = (await time_of(web)).astimezone(zone).date()
    tuesday = today - timedelta(days=(today.weekday() - 1) % 7 or 7)
    moment = datetime.combine(tuesday, time(15, 20), zone)
    _moved(web, run["id"], moment)
    seen = await open_page("member", size=way.size)
    page, hand = seen.page, way(seen.page)
    await seen.open("/")
    await hand.go("Runs")
    if isinstance(hand, TouchInput):
        await hand.press(page.get_by_role("button", name="More filters"))
    day = page.get_by_label("From day")
    await hand.press(day)
    await day.fill(f"{tuesday}")
    await hand.choose(page.get_by_label("Hour"), "15:00 to 15:59")
    await expect(page).to_have_url(f"{web.origin}/runs?from={tuesday}&hour=15")
    # What else ran in that hour is other tests' business; in the next one nothing of this did.
    row = page.get_by_role("table", name="Runs").get_by_role("row").filter(has_text=name)
    await expect(row).to_contain_text(f"{tuesday:%a} {tuesday.day} {tuesday:%b}, 15:20")
    await page.reload()
    await expect(page.get_by_label("Hour")).to_have_value("15")
    await hand.press(row.get_by_role("link", name=name))
    await expect(heading(page, name)).to_be_visible()
    await expect(page.get_by_role("list", name="Steps")).to_contain_text("Read the stock of 1 product")
    _check_taps(hand, 7)


def _moved(web: WebSite, run: str, moment: datetime) -> None:
    """Makes a run that has ended one of another time."""
    file = web.site.env["STEWARD_DATABASE_URL"].removeprefix("sqlite:///")
    milliseconds = int(moment.timestamp() * 1000)
    with sqlite3.connect(file, timeout=30) as database:
        columns = ("queued_at", "started_at", "finished_at")
        changed = database.execute(
            f"UPDATE runs SET {', '.join(f'{column} = ?' for column in columns)} WHERE id = ?",
            (*[milliseconds] * len(columns), run),
        )
        assert changed.rowcount == 1
    database.close()
