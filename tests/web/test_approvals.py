"""Tests approvals: exceptions, two deciders, rejecting, expiry, permissions (flows 3, 4 and 6).

See docs/design/web.md#tests.
"""

import json
import re
import sqlite3
from datetime import datetime, timedelta
from typing import Any

from playwright.async_api import Locator, Page, expect

from steward.model.instants import wire_time
from tests.processes.running import CLOCK
from tests.web.conftest import Look
from tests.web.open_pages import OpenPage, cut_off
from tests.web.shops import hidden_products, hiding, pricing
from tests.web.site import WebSite, unused


async def _waiting(web: WebSite, name: str, products: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Creates an automation with a run that waits with that many changes."""
    automation = await hiding(web, name, [f"{name} {number:02}" for number in range(products)])
    run = await web.run(automation["id"], f"key {name}".replace(" ", "-"))
    assert run["status"] == "waiting_approval"
    return automation, run


async def _opened(seen: OpenPage, run: dict[str, Any]) -> Page:
    await seen.open(f"/approvals/{run['approval_id']}")
    return seen.page


def _row(page: Page, words: str) -> Locator:
    return page.get_by_role("region", name="Changes").get_by_role("row").filter(has_text=words)


async def test_excepted_changes_stay_and_exactly_the_rest_is_written(open_page: Look, web: WebSite) -> None:
    """Of forty changes three are excepted by mouse and keyboard, and the shop changes exactly the 37.

    See docs/design/web.md#approvals.
    """
    automation, run = await _waiting(web, "Leave out", 40)
    seen = await open_page("approver")
    page = await _opened(seen, run)
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text("Approve 40 changes")
    # No column stands empty: neither visibility nor tags have a difference in numbers.
    await expect(page.get_by_role("button", name="Difference")).to_have_count(0)
    await _row(page, "Leave out 00").get_by_role("checkbox").uncheck()
    # By keyboard: into the table, on to the next changes, Space.
    await page.get_by_role("heading", level=1).focus()
    await page.keyboard.press("j")
    for _ in range(2):
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Space")
    await expect(page.get_by_text("Showing 40 of 40 · 3 left out")).to_be_visible()
    await expect(approve).to_have_text("Approve 37 changes")
    # A filter hides rows and changes nothing of what is approved.
    await page.get_by_label("Search in changes").fill("Leave out 39")
    await expect(page.get_by_text("Showing 1 of 40 · 3 left out")).to_be_visible()
    await expect(approve).to_have_text("Approve 37 changes")
    await page.get_by_label("Comment (optional)").fill("Not these three")
    await page.get_by_role("heading", level=1).focus()
    await page.keyboard.press("a")
    await expect(approve).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await web.site.reaches(run["id"], "succeeded")
    await expect(page.get_by_role("button", name="Run again")).to_be_visible()
    assert await hidden_products(web) & set(automation["ids"]) == set(automation["ids"][3:])
    changes = await web.site.changes(run["id"])
    assert [change["outcome"] for change in changes] == ["declined"] * 3 + ["applied"] * 37
    await page.get_by_role("link", name="Changes 40").click()
    await expect(_row(page, "Leave out 01").first).to_contain_text("Left out")
    await expect(_row(page, "Leave out 03").first).to_contain_text("Made")


async def test_of_two_deciders_the_second_sees_what_the_first_decided(open_page: Look, web: WebSite) -> None:
    """A stale approval approves nothing and is loaded again. See docs/design/web.md#approvals."""
    automation, run = await _waiting(web, "Two deciders", 2)
    seen = await open_page("approver")
    page = await _opened(seen, run)
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text("Approve 2 changes")
    approval = (await web.site.call("GET", f"/v1/automations/approvals/{run['approval_id']}"))["approval"]
    await web.site.call(
        "POST", f"/v1/automations/approvals/{run['approval_id']}/reject", {"version": approval["version"]}
    )
    await approve.click()
    await expect(page.get_by_text("The changes are no longer the ones shown").first).to_be_visible()
    await expect(page.get_by_text("Rejected by The Owner")).to_be_visible()
    await expect(approve).to_have_count(0)
    await expect(_row(page, "Two deciders 00").first).to_contain_text("Left out")
    assert not await hidden_products(web) & set(automation["ids"])


async def test_rejecting_asks_and_changes_nothing(open_page: Look, web: WebSite) -> None:
    """Rejecting asks first; with every change excepted the button says that it rejects.

    See docs/design/web.md#approvals.
    """
    automation, run = await _waiting(web, "Reject", 2)
    seen = await open_page("approver", size="phone")
    page = await _opened(seen, run)
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 2 changes")
    await page.get_by_role("button", name="Leave out all 2").click()
    await expect(page.locator("[data-approve] button")).to_have_text("Reject all: 2 changes left out")
    await page.get_by_role("button", name="Put back all").click()
    await page.get_by_role("button", name="Reject all").click()
    question = page.get_by_role("dialog", name="Reject all 2 changes?")
    await question.get_by_role("button", name="Reject all").click()
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await expect(page.get_by_text("Stopped", exact=True).first).to_be_visible()
    assert not await hidden_products(web) & set(automation["ids"])


_EIGHT_IN_SIGHT = """() => {
    const box = (element) => element.getBoundingClientRect();
    const [top, end] = ['.top', '.decide'].map((part) => box(document.querySelector(part)));
    return [...document.querySelectorAll('[data-at]')].map(box)
        .filter((row) => row.top >= top.bottom && row.bottom <= end.top + 1).length >= 8;
}"""
_SCROLLERS = """() => [...document.querySelectorAll('main *')]
    .filter((one) => one.scrollHeight > one.clientHeight + 1)
    .filter((one) => ['auto', 'scroll'].includes(getComputedStyle(one).overflowY)).length"""


async def test_a_phone_shows_eight_changes_and_approves_within_reach(open_page: Look, web: WebSite) -> None:
    """A phone shows eight changes, scrolls only the page and approves in three taps.

    See docs/design/web.md#approvals.
    """
    name = "On a phone: hide what is sold out until the next delivery from the roastery arrives"
    hostile = ["Tea\u200b with \u202e signs nobody sees " * 3, "A" * 120, "<img src=x onerror=alert(1)>"]
    automation = await hiding(web, name, [*hostile, *(f"Phone {number:02}" for number in range(20))])
    run = await web.run(automation["id"], "on-a-phone")
    seen = await open_page("approver", size="phone")
    page = await _opened(seen, run)
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text("Approve 23 changes")
    await page.wait_for_function(_EIGHT_IN_SIGHT)
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    assert await page.evaluate(_SCROLLERS) == 0
    await expect(_row(page, "Phone 00")).to_contain_text("+auto-hidden")
    await expect(page.get_by_label("Comment (optional)")).to_be_hidden()
    await page.get_by_role("button", name="Comment").click()
    await expect(page.get_by_label("Comment (optional)")).to_be_focused()
    await page.get_by_label("Comment (optional)").fill("From the phone")
    await page.mouse.wheel(0, 4000)
    await expect(_row(page, "Phone 19")).to_be_in_viewport()
    await _row(page, "Phone 19").get_by_role("checkbox").uncheck()
    await expect(_row(page, "Phone 19")).to_contain_text("Left out")
    await expect(approve).to_be_in_viewport(ratio=1)
    assert await seen.check_looks("approval-phone") == []
    await page.set_viewport_size({"width": 390, "height": 844})
    await approve.click()
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await web.site.reaches(run["id"], "succeeded")
    assert len(await hidden_products(web) & set(automation["ids"])) == 22


async def test_prices_are_summed_up_and_narrowed_by_their_plot(open_page: Look, web: WebSite) -> None:
    """The plot states count, median and largest change; a column filters the table and can be excepted.

    See docs/design/web.md#approvals.
    """
    automation = await pricing(web, "Prices on desk")
    run = await web.run(automation["id"], "prices-on-desk")
    seen = await open_page("approver")
    page = await _opened(seen, run)
    await expect(page.get_by_text("6 down, 4 up, median −5 %, largest −20 %")).to_be_visible()
    await expect(page.get_by_role("button", name="Difference")).to_be_visible()
    # Other tests of the site append rows to the sheet.
    await expect(page.get_by_text(re.compile(r"Read \d+ rows of the sheet"))).to_be_visible()
    await expect(page.get_by_text("Started by The Owner")).to_be_visible()
    await expect(page.get_by_role("link", name="The automation")).to_be_visible()
    await page.get_by_role("button", name="3 changes from −5 % to −4 %").click()
    await expect(page.get_by_text("Showing 3 of 10")).to_be_visible()
    await expect(page).to_have_url(re.compile("between=-5%3A-4"))
    await page.get_by_role("button", name="Leave out all 3 shown").click()
    await page.get_by_role("button", name="Show all").click()
    await expect(page.get_by_text("Showing 10 of 10 · 3 left out")).to_be_visible()
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 7 changes")
    assert await seen.check_looks("approval-prices") == []
    assert await cut_off(seen) == []


async def test_a_member_sees_everything_and_reads_whom_to_ask(open_page: Look, web: WebSite) -> None:
    """A member sees disabled buttons with the reason. See docs/design/web.md#rules-for-every-screen."""
    _, run = await _waiting(web, "Member looks")
    seen = await open_page("member")
    page = await _opened(seen, run)
    await expect(_row(page, "Member looks 00").first).to_contain_text("Visible")
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text("Approve 1 change")
    await expect(approve).to_have_attribute("aria-disabled", "true")
    await expect(page.get_by_text("Only approvers can do this. Ask one of:").first).to_be_visible()
    await approve.click(force=True)
    assert (await web.site.run(run["id"]))["status"] == "waiting_approval"


def _ends(web: WebSite, approval: str, moment: datetime) -> None:
    """Makes an approval expire at the given time."""
    file = web.site.env["STEWARD_DATABASE_URL"].removeprefix("sqlite:///")
    with sqlite3.connect(file, timeout=30) as database:
        stored = database.execute("SELECT expires_at FROM approvals WHERE id = ?", (approval,)).fetchone()[0]
        moved = wire_time(moment) if isinstance(stored, str) else int(moment.timestamp() * 1000)
        # The run waits exactly as long.
        for table, key in (("approvals", "id"), ("runs", "approval_id")):
            database.execute(f"UPDATE {table} SET expires_at = ? WHERE {key} = ?", (moved, approval))
    database.close()


async def test_an_approval_that_expires_while_open_shows_its_countdown_and_end(
    open_page: Look, web: WebSite
) -> None:
    """The last hour is counted down live; after it nothing can be decided.

    See docs/design/web.md#approvals.
    """
    automation, run = await _waiting(web, "Runs out")
    _ends(web, run["approval_id"], CLOCK.now() + timedelta(minutes=50))
    seen = await open_page("approver")
    await seen.page.clock.install()
    page = await _opened(seen, run)
    await expect(page.get_by_role("timer")).to_contain_text(re.compile(r"\d+ (min|s)\)"))
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 1 change")
    _ends(web, run["approval_id"], CLOCK.now())
    await web.site.reaches(run["id"], "expired")
    # The page looks again by itself, 15 seconds later at most.
    await page.clock.fast_forward(15_000)
    await expect(page.get_by_text("Nobody decided in time; nothing was changed.")).to_be_visible()
    await expect(page.locator("[data-approve] button")).to_have_count(0)
    assert not await hidden_products(web) & set(automation["ids"])


async def test_all_that_waits_is_reviewed_in_one_table_with_one_call_each(
    open_page: Look, web: WebSite
) -> None:
    """Several approvals are decided in one table; a refused one stays open and the others count.

    See docs/design/web.md#approvals.
    """
    rejected_name, approved_name = unused("Queue one"), unused("Queue two")
    automation = await hiding(web, rejected_name, ["Queue one a", "Queue one b"])
    other = await hiding(web, approved_name, ["Queue two a"])
    runs = [await web.run(record["id"], f"queue-{index}") for index, record in enumerate((automation, other))]
    seen = await open_page("approver")
    page = seen.page
    await seen.open(f"/approvals?automation={automation['id']}")
    row = page.get_by_role("table", name="Waiting").get_by_role("row").filter(has_text=rejected_name)
    await expect(row).to_contain_text("Hide")
    await expect(row).to_contain_text("3 days left")
    await expect(row.get_by_role("link", name="Review")).to_be_visible()
    await seen.open("/approvals/review")
    # What other tests left waiting is put aside; these two are what is decided here.
    approvals = (await web.site.call("GET", "/v1/automations/approvals?limit=200"))["approvals"]
    mine = {run["approval_id"] for run in runs}
    for approval in approvals:
        if approval["id"] not in mine:
            path = f"/v1/automations/approvals/{approval['id']}/reject"
            await web.site.call("POST", path, {"version": approval["version"]})
    sent: list[Any] = []
    page.on("request", lambda item: item.method == "POST" and sent.append((item.url, item.post_data)))
    await seen.open("/approvals/review")
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 3 changes")
    await expect(page.get_by_role("rowheader").filter(has_text=approved_name)).to_contain_text("1 change")
    first = (await web.site.call("GET", f"/v1/automations/approvals/{runs[0]['approval_id']}"))["approval"]
    await web.site.call(
        "POST", f"/v1/automations/approvals/{first['id']}/reject", {"version": first["version"]}
    )
    await page.locator("[data-approve] button").click()
    await expect(page.get_by_role("rowheader").filter(has_text=approved_name)).to_contain_text("Approved")
    await expect(page.get_by_role("rowheader").filter(has_text=rejected_name)).to_contain_text("Rejected")
    assert [url.split("/")[-2] for url, _ in sent] == [run["approval_id"] for run in runs]
    assert all(json.loads(body)["change_hash"] for _, body in sent)
    await web.site.reaches(runs[1]["id"], "succeeded")
    assert await hidden_products(web) & {*automation["ids"], *other["ids"]} == set(other["ids"])
    # What was decided stands below what waits, with who decided.
    third = await web.run(automation["id"], "queue-third")
    await seen.open("/approvals?decided=1")
    tables = page.get_by_role("table")
    await expect(tables.first.get_by_role("row").filter(has_text=rejected_name)).to_have_count(1)
    decided = tables.last.get_by_role("row")
    await expect(decided.filter(has_text=approved_name)).to_contain_text("1 of 1")
    await expect(decided.filter(has_text=approved_name)).to_contain_text("The approver".title())
    await expect(decided.filter(has_text=rejected_name)).to_contain_text("Rejected")
    assert await seen.check_looks("approvals") == []
    assert await cut_off(seen) == []
    # All that wait can be rejected at once, too.
    await seen.open(f"/approvals/review?automation={automation['id']}")
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 2 changes")
    await page.get_by_role("button", name="Reject all").click()
    question = page.get_by_role("dialog", name="Reject all 2 changes?")
    await question.get_by_role("button", name="Reject all").click()
    await web.site.reaches(third["id"], "cancelled")
