"""Tests the overview: what needs a person, skipping the next run, and a service that goes away."""

from datetime import timedelta

from playwright.async_api import expect

from tests.web.calendars import coming, in_minutes, time_of, wait_for_occurrence
from tests.web.conftest import Look
from tests.web.keys import press_both
from tests.web.site import WebSite


async def test_a_waiting_approval_is_shown_with_its_changes_and_expiry(open_page: Look, web: WebSite) -> None:
    """Waiting approvals are listed by automation with their changes and expiry.

    See docs/design/web.md#overview.
    """
    automation = await web.automation("Hide <b>what</b> is gone")
    run = await web.run(automation["id"], "overview-waits")
    assert run["status"] == "waiting_approval"
    seen = await open_page("member", zone="America/New_York")
    await seen.open("/")
    row = seen.page.get_by_role("table", name="Approvals waiting").get_by_role("row")
    mine = row.filter(has_text="Hide <b>what</b> is gone")
    await expect(mine).to_contain_text(f"{run['summary']['counts']['proposed']} change")
    await expect(mine).to_contain_text("days left until")


# Counts the calls that have gone out when the first row, or the sentence in its place, is in the page.
_COUNT_CALLS = """() => {
    const sent = window.fetch;
    window.calls = [];
    window.fetch = (asked, ...more) => {
        window.calls.push(String(asked.url ?? asked));
        return sent(asked, ...more);
    };
    new MutationObserver(() => {
        const empty = [...document.querySelectorAll('main p')];
        const shown = document.querySelector('main [data-row]') ??
            empty.find((one) => one.textContent.startsWith('No runs within'));
        if (shown && !window.before) window.before = [...window.calls];
    }).observe(document, { childList: true, subtree: true, characterData: true });
}"""


async def test_at_most_seven_calls_go_out_before_the_first_row(open_page: Look, web: WebSite) -> None:
    """At most seven calls precede the first view, with and without rows. See docs/design/web.md#speed."""
    for name in ("owner", "keeper"):
        if name == "owner":
            await web.automation("To be first", **await in_minutes(web))
        seen = await open_page(name, size="desk" if name == "owner" else "phone")
        # Calls that wait for a second to pass wait for the first row, however slow the machine is.
        now = await time_of(web)
        await seen.page.clock.install(time=now)
        await seen.page.clock.pause_at(now + timedelta(minutes=1))
        await seen.page.add_init_script(f"({_COUNT_CALLS})()")
        await seen.open("/")
        await seen.page.wait_for_function("() => window.before")
        before = await seen.page.evaluate("() => window.before")
        assert 1 < len(before) <= 7, "\n".join(before)
        await seen.page.clock.resume()
        # The card is there all the same, or has found that all of its steps are done.
        asks = "() => window.calls.some((one) => one.includes('/automations/stores'))"
        await seen.page.wait_for_function(asks)


async def test_a_coming_run_is_skipped_and_unskipped(open_page: Look, web: WebSite) -> None:
    """Each Skip names its automation and can be undone. See docs/design/web.md#rules-for-every-screen."""
    automation = await web.automation("To skip", **await in_minutes(web))
    [row, *_] = await coming(web, automation["id"])
    seen = await open_page("member")
    await seen.open("/")
    rows = seen.page.get_by_role("table", name="Next runs").get_by_role("row").filter(has_text="To skip")
    times = rows.locator("time").first
    before = await times.get_attribute("datetime")
    assert before is not None
    skip = rows.get_by_role("button", name="Skip the next run of To skip")
    async for _ in seen.sizes():
        await expect(skip).to_be_visible()
    await seen.hold_notes()
    await skip.click()
    await wait_for_occurrence(web, row, state="skipped")
    # The row shows the run after it, or goes when none follows within a day.
    await expect(rows.locator(f"time[datetime='{before}']")).to_have_count(0)
    await seen.page.get_by_role("button", name="Undo").click()
    await expect(times).to_have_attribute("datetime", before)
    await wait_for_occurrence(web, row, state="pending")


async def test_the_rows_are_walked_with_the_keyboard(open_page: Look, web: WebSite) -> None:
    """J and K move between rows, G O opens the overview, and fields take keys as text.

    See docs/design/web.md#overview and docs/design/web.md#keyboard.
    """
    for name in ("To walk", "To walk on"):
        await web.automation(name, **await in_minutes(web))
    seen = await open_page("member")
    page = seen.page
    await seen.open("/account")
    await page.get_by_label("Current password").press_sequentially("go")
    await expect(page.get_by_label("Current password")).to_have_value("go")
    await page.get_by_label("Current password").fill("")
    await page.get_by_role("heading", name="Account").focus()
    await press_both(page, "g", "o")
    await expect(page.get_by_role("heading", name="Overview")).to_be_focused()
    await page.get_by_role("table", name="Next runs").wait_for()
    # Above them stand what other tests left to fix: the keys walk through all rows.
    await expect(page.get_by_role("table", name="Next runs").locator("[data-row]")).to_have_count(2)
    await seen.wait_until_loaded()
    current = """(at) => [...document.querySelectorAll('main [data-row]')]
        .findIndex((row) => row.matches(':focus-within')) === at"""
    for key, index in (("j", 0), ("j", 1), ("k", 0)):
        await page.keyboard.press(key)
        await page.wait_for_function(current, arg=index)


async def test_a_lost_service_is_reported_and_tried_again(open_page: Look, web: WebSite) -> None:
    """Loaded data stays, disabled actions say why, and the page recovers by itself.

    See docs/design/web.md#rules-for-every-screen.
    """
    seen = await open_page("member")
    page = seen.page
    await web.automation("To stay", **await in_minutes(web))
    await seen.open("/")
    rows = page.get_by_role("table", name="Next runs").locator("[data-row]")
    await expect(rows.first).to_be_visible()
    async with web.service_down():
        skip = rows.first.get_by_role("button", name="Skip")
        await skip.click()
        await expect(page.get_by_text("Trying again in")).to_be_visible()
        await expect(rows.first).to_be_visible()
        await expect(page.get_by_text("As of").first).to_be_visible()
    # The page may have asked by itself just before.
    await page.evaluate("() => document.querySelector('[role=alert] button')?.click()")
    await expect(page.get_by_text("Trying again in")).to_be_hidden()
    await expect(rows.first).to_be_visible()
