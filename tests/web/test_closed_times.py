"""Tests closed periods and the stop of all changes: created in a form, visible on every screen.

See docs/design/closed-periods.md#web-app.
"""

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Route, expect

from tests.web.conftest import Look
from tests.web.open_pages import OpenPage, Size
from tests.web.site import UserSession, WebSite

DAILY = {"cadence": "daily", "run_at": "08:00"}
_COUNT_CLICKS = "addEventListener('pointerdown', () => (window.clicks = (window.clicks ?? 0) + 1), true)"


async def end_all_periods(owner: UserSession) -> None:
    """Ends every closed period."""
    listed = await owner.call("GET", "/app/closed-periods?state=active&limit=200")
    for period in listed["closed_periods"]:
        path = f"/app/closed-periods/{period['id']}/end"
        await owner.call("POST", path, {"version": period["version"]})


@pytest.fixture(autouse=True)
async def nothing_closed(web: WebSite) -> AsyncIterator[None]:
    """Ends every closed period before and after each test, because tests share the shop."""
    owner = await web.session_of("owner")
    await end_all_periods(owner)
    yield
    await end_all_periods(owner)


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_a_time_is_closed_and_a_run_let_through(open_page: Look, web: WebSite, size: Size) -> None:
    """The form lists the runs a period leaves out, the calendar names it, and one run is let through."""
    owner = await web.session_of("owner")
    await web.automation("Every morning", schedule=DAILY)
    seen = await open_page("owner", size=size)
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
    await expect(dialog.get_by_text("These would never run again: Every morning")).to_be_visible()
    assert await seen.audit() == []
    await dialog.get_by_role("button", name="Close this time").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("main").get_by_text("Stocktaking", exact=True)).to_be_visible()
    assert await seen.layout_faults() == []

    await page.get_by_role("button", name="Change Stocktaking").click()
    changing = page.get_by_role("dialog", name="Change Stocktaking")
    await expect(changing.get_by_label("Monday")).to_be_checked()
    await changing.get_by_label("Name").fill("Moving house")
    await changing.get_by_role("button", name="Save changes").click()
    await expect(changing).to_have_count(0)
    await expect(page.get_by_role("main").get_by_text("Moving house", exact=True)).to_be_visible()

    await seen.open("/calendar?view=list&state=skipped")
    await expect(page.get_by_text("Not run: closed, Moving house").first).to_be_visible()
    await page.get_by_role("button", name="Run anyway: Every morning").first.click()
    await expect(page.get_by_text("The run of Every morning is back").first).to_be_visible()
    if size == "desk":
        await _a_run_is_moved_out(seen, owner)
    else:
        await page.set_viewport_size({"width": 390, "height": 844})
        await seen.open("/calendar?view=month")
        closed = page.get_by_role("button", name=re.compile(r"closed: Moving house \(no runs\)"))
        await expect(closed.first).to_be_visible()
        await expect(page.get_by_role("listitem").filter(has=closed).first).to_have_class(re.compile("runs"))
        assert await seen.audit() == []
    store = (await owner.call("GET", "/v1/automations/stores"))["stores"][0]["integration_id"]
    await seen.open(f"/connections/{store}")
    await expect(
        page.get_by_role("list", name="Next closings").get_by_text("Moving house").first
    ).to_be_visible()
    assert await seen.layout_faults() == []


async def _a_run_is_moved_out(seen: OpenPage, owner: UserSession) -> None:
    """Lets a closed run through and moves it in one dialog."""
    page = seen.page
    freeze = await owner.call("POST", "/app/freeze", {"scope": {"kind": "organization"}})
    await seen.open("/calendar?view=week")
    await expect(page.locator(".ec-bg-event.closed-runs").first).to_be_visible()
    await expect(page.locator(".ec-bg-event.closed-changes").first).to_be_visible()
    await seen.open("/calendar?view=month")
    await expect(page.locator(".ec-bg-event.closed-runs").first).to_be_visible()
    assert await seen.audit() == []
    end = f"/app/closed-periods/{freeze['closed_period']['id']}/end"
    await owner.call("POST", end, {"version": 1})
    period = (await owner.call("GET", "/app/closed-periods?state=active"))["closed_periods"][0]
    open_sundays = {"kind": "weekly", "days": [1, 2, 3, 4, 5, 6], "from": "06:00", "to": "12:00"}
    path = f"/app/closed-periods/{period['id']}"
    await owner.call("PATCH", path, {"version": period["version"], "when": open_sundays})
    await seen.open("/calendar?view=list&state=skipped")
    await page.get_by_role("link", name="Every morning").first.click()
    await page.get_by_role("button", name="Move out of the period…").click()
    dialog = page.get_by_role("dialog", name="Move out of Moving house")
    await dialog.get_by_label("Time").fill("13:30")
    await dialog.get_by_role("button", name="Move this run").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Every morning moved to").first).to_be_visible()


async def test_the_form_shows_every_fault_that_the_service_names(open_page: Look, web: WebSite) -> None:
    """Also of what it has no field for; what is left out is no longer said then."""
    owner = await web.session_of("owner")
    always = {"kind": "yearly", "first": "02-29", "last": "03-01"}
    body = {"name": "Leap day", "scope": {"kind": "organization"}, "stops": "runs", "when": always}
    await owner.call("POST", "/app/closed-periods", {**body, "timezone": "UTC"})
    seen = await open_page("owner", size="phone")
    page = seen.page

    async def with_a_lost_zone(route: Route) -> None:
        response = await route.fetch()
        text = (await response.text()).replace('"timezone":"UTC"', '"timezone":"Europe/Atlantis"')
        await route.fulfill(response=response, body=text)

    async def with_a_store_that_is_gone(route: Route) -> None:
        response = await route.fetch()
        reply = await response.json()
        stores = reply["data"]["stores"]
        stores[:] = [{**stores[0], "integration_id": 987654, "name": "Gone"}]
        await route.fulfill(response=response, json=reply)

    await page.route("**/app/closed-periods?*", with_a_lost_zone)
    await page.route("**/v1/automations/stores?*", with_a_store_that_is_gone)
    await seen.open("/organization/closed-times")
    await page.get_by_role("button", name="Close a time").click()
    dialog = page.get_by_role("dialog", name="Close a time")
    await expect(dialog.get_by_text("in the next 30 days")).to_be_visible()
    await dialog.get_by_label("For", exact=True).select_option(label="The store Gone")
    await expect(dialog.get_by_label("For", exact=True)).to_have_accessible_description(
        "There is no such store. Use an id from the list of stores."
    )
    await expect(dialog.get_by_text("in the next 30 days")).to_have_count(0)
    assert await seen.audit() == []
    await dialog.get_by_label("For", exact=True).select_option(label="Everything")
    await expect(dialog.get_by_text("in the next 30 days")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel").click()

    await page.get_by_role("button", name="Change Leap day").click()
    changing = page.get_by_role("dialog", name="Change Leap day")
    await expect(changing.get_by_text("This is not a timezone of the IANA database")).to_be_visible()
    await expect(changing.get_by_label("First closed day")).to_have_value("2028-02-29")
    assert await seen.layout_faults() == []


@pytest.mark.parametrize("size", ["phone"])
async def test_public_holidays_are_ticked_and_closed(open_page: Look, size: Size) -> None:
    """Holidays of a country, region and year are closed; days that are closed already are disabled."""
    seen = await open_page("owner", size=size)
    page = seen.page
    await seen.open("/organization/closed-times")
    await page.get_by_role("button", name="Choose holidays").click()
    dialog = page.get_by_role("dialog", name="Close public holidays")
    await dialog.get_by_label("Country").select_option(label="Germany")
    await dialog.get_by_label("Region").select_option(label="Bayern")
    year = await dialog.get_by_label("Year").locator("option").nth(1).inner_text()
    await dialog.get_by_label("Year").select_option(label=year)
    await dialog.get_by_label("6 January Epiphany").check()
    await dialog.get_by_label("25 December Christmas Day").check()
    assert await seen.audit() == []
    assert await seen.layout_faults() == []
    await dialog.get_by_role("button", name="Close 2 days").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text(f"6 January {year} (UTC)")).to_be_visible()


async def test_all_changes_are_stopped_in_two_clicks_and_continue(open_page: Look) -> None:
    """A member stops all changes, everybody sees it, and an approver resumes them."""
    member = await open_page("member")
    await member.open("/runs")
    await member.page.evaluate(_COUNT_CLICKS)
    await member.page.get_by_role("button", name="Stop all changes").click()
    dialog = member.page.get_by_role("dialog", name="Stop all changes?")
    await dialog.get_by_role("button", name="Stop all changes").click()
    bar = member.page.get_by_role("region", name="Changes are stopped")
    await expect(bar).to_be_visible()
    assert await member.page.evaluate("window.clicks") == 2
    await expect(member.page.get_by_role("button", name="Stop all changes")).to_have_count(0)
    assert await member.audit() == []
    approver = await open_page("approver", size="phone")
    await approver.open("/")
    await approver.page.get_by_role("button", name="Resume changes").click()
    await expect(approver.page.get_by_role("region", name="Changes are stopped")).to_have_count(0)


async def test_christmas_is_closed_in_five_clicks(open_page: Look) -> None:
    """From any screen, with a typed name: the dates of Christmas are those that the form offers."""
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/runs")
    await page.evaluate(_COUNT_CLICKS)
    await page.get_by_role("button", name="Account:").click()
    await page.get_by_role("link", name="Closed times").click()
    await page.get_by_role("button", name="Close a time").click()
    dialog = page.get_by_role("dialog", name="Close a time")
    await expect(dialog.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("Christmas")
    await dialog.get_by_label("Every year").check()
    await expect(dialog.get_by_role("list", name="Next closings")).to_contain_text("24 Dec")
    await dialog.get_by_role("button", name="Close this time").click()
    await expect(page.get_by_text("every year, 24 December to 26 December")).to_be_visible()
    assert await page.evaluate("window.clicks") == 5
