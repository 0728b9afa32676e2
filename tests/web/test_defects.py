"""Tests that defects of the first edition stay fixed on screens without a test file of their own."""

import json
import re

from playwright.async_api import Route, expect

from tests.source import ROOT
from tests.web.calendars import in_minutes
from tests.web.conftest import Look
from tests.web.shops import hiding
from tests.web.site import WebSite

# Of the form of every id; as a number it is a connection that does not exist either.
NO_SUCH = "0" * 20 + "999999"


async def test_a_mended_failure_goes_and_one_under_check_is_named(open_page: Look, web: WebSite) -> None:
    """One row an automation, and no "Every connection works" beside a refused key."""
    automation = await hiding(web, "Refused key", ["Refused a"], schedule={"cadence": "hourly"})
    await web.site.fault(method="GET", path="/wp-json/**", kind="status", status=401, count=1, body={})
    failed = await web.run(automation["id"], "refused-key")
    assert failed["status"] == "failed", failed
    seen = await open_page("owner")
    page = seen.page

    async def still_checking(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        for failure in body["data"]["failures"]:
            failure["connection_checking"] = True
        await route.fulfill(response=response, json=body)

    async def none_to_mend(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        body["data"]["connections"] = []
        await route.fulfill(response=response, json=body)

    # The service looks at the connection in its own time; the page is shown the moment before.
    await page.route("**/app/overview?*", still_checking)
    await page.route("**/app/connections?*", none_to_mend)
    await seen.open("/")
    row = page.get_by_role("table", name="Failed runs").get_by_role("row").filter(has_text="Refused key")
    coming = page.get_by_role("table", name="Next runs").get_by_role("row").filter(has_text="Refused key")
    async for _ in seen.sizes():
        await expect(row).to_be_visible()
        await expect(page.get_by_text("the connection is being checked again").first).to_be_visible()
        await expect(page.get_by_text("Every connection works")).to_have_count(0)
        await expect(coming).to_have_count(1)
    fixed_run = await web.run(automation["id"], "mended")
    await page.unroute_all(behavior="wait")
    await page.reload()
    await expect(page.get_by_role("table", name="Approvals waiting")).to_contain_text("Refused key")
    await expect(row).to_have_count(0)
    path = f"/v1/automations/approvals/{fixed_run['approval_id']}"
    approval = (await web.site.call("GET", path))["approval"]
    body = {"version": approval["version"], "change_hash": approval["change_hash"], "except": []}
    await web.site.call("POST", f"{path}/approve", body)
    await web.site.reaches(fixed_run["id"], "succeeded")
    await page.reload()
    # Next runs and failures come in one answer.
    async for _ in seen.sizes():
        await expect(coming).to_have_count(1)
        await expect(row).to_have_count(0)


async def test_decided_approvals_stand_below_and_name_who_decided(open_page: Look, web: WebSite) -> None:
    """Decided approvals are listed below the waiting ones, with the person who decided."""
    automation = await hiding(web, "Waits above", ["Above a"])
    await web.run(automation["id"], "waits-above")
    other = await hiding(web, "Decided below", ["Below a"])
    run = await web.run(other["id"], "decided-below")
    approver = await web.session_of("approver")
    path = f"/v1/automations/approvals/{run['approval_id']}"
    version = (await approver.call("GET", path))["approval"]["version"]
    await approver.call("POST", f"{path}/reject", {"version": version})
    seen = await open_page("member")
    page = seen.page
    await seen.open("/approvals?decided=1")
    waiting = page.get_by_role("table", name="Waiting")
    decided = page.get_by_role("table", name="Decided")
    for title in ("What", "Asked by", "Waiting since", "Time left"):
        await expect(waiting.get_by_role("columnheader", name=title)).to_be_visible()
    # The newest stand first: what is decided stays there for another try of this test.
    below = decided.get_by_role("row").filter(has_text="Decided below").first
    above = waiting.get_by_role("row").filter(has_text="Waits above").first
    async for _ in seen.sizes():
        await expect(below).to_contain_text("Approver")
        tops = [(box := await row.bounding_box()) and box["y"] for row in (above, below)]
        assert tops == sorted(tops)


# Every address that names a record, and what the link to its list is called.
_RECORDS = {
    "run": "runs",
    "automation": "automations",
    "automation-tab": "automations",
    "setup": "templates",
    "approval": "approvals",
    "import": "imports",
    "connection": "connections",
    "route": "channels",
}
_NOT_THERE = {"id": NO_SUCH, "tab": "runs", "template": "no-such-template", "step": "where"}


def _missing_record(address: str) -> str:
    """Returns the address with ids that no record has."""
    return re.sub(r":(\w+)", lambda part: _NOT_THERE[part[1]], address)


async def test_a_record_that_is_not_there_is_no_dead_end(open_page: Look) -> None:
    """The page of a missing record links to its list, at every address that names a record."""
    addresses: dict[str, str] = json.loads((ROOT / "web/src/pages.json").read_text("utf-8"))
    # The address of an e-mail's link to unsubscribe holds a token, and there is no list of those.
    records = {page: path for page, path in addresses.items() if ":" in path and page != "unsubscribe"}
    assert set(records) == set(_RECORDS)
    seen = await open_page("owner")
    page = seen.page
    for screen, name in _RECORDS.items():
        await seen.open(_missing_record(records[screen]))
        await expect(page.get_by_text("belongs to another organization")).to_be_visible()
        await expect(page.get_by_role("main").get_by_role("link", name=f"All {name}")).to_be_visible()


# Words that are no longer than these fit beside each other at every width of a desk.
_WRAPPED = """() => [...document.querySelectorAll('main td')].flatMap((cell) => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const wrapped = [];
    while (texts.nextNode()) {
        const words = texts.currentNode.textContent.trim();
        if (words.length > 12 || texts.currentNode.parentElement.closest('.hidden-words')) continue;
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const boxes = [...range.getClientRects()].filter(({ width }) => width);
        const tops = boxes.map(({ top }) => Math.round(top));
        if (new Set(tops).size > 1) wrapped.push(words);
    }
    return wrapped;
})"""


async def test_short_words_of_a_table_stay_on_one_line(open_page: Look, web: WebSite) -> None:
    """Durations and store names do not wrap."""
    automation = await web.automation("Wraps nothing", **await in_minutes(web))
    await web.run(automation["id"], "wraps-nothing", mode="test")
    seen = await open_page("member")
    page = seen.page
    for path, table, words in (
        ("/", "Next runs", "The shop"),
        ("/runs", "Runs", " s"),
        ("/automations", "Automations", "On"),
    ):
        await seen.open(path)
        row = page.get_by_role("table", name=table).get_by_role("row").filter(has_text="Wraps nothing")
        await expect(row.first).to_contain_text(words)
        await seen.wait_until_loaded()
        for width in (1024, 1280, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate(_WRAPPED) == [], (path, width)


async def test_a_phones_bar_shows_the_organization_and_its_menu_the_rest(open_page: Look) -> None:
    """The organization's name is not cut off; help, zone and the stop are in the menu."""
    seen = await open_page("owner", size="phone")
    page = seen.page
    await seen.open("/")
    await expect(page.get_by_role("button", name="Notices")).to_be_visible()
    name = page.get_by_role("banner").get_by_text("Test Shop", exact=True)
    box = "(one) => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight]"
    assert await name.locator("..").evaluate(box) == [0, 0]
    await page.get_by_role("button", name="Account: The Owner").tap()
    await expect(page.get_by_text("Times in Europe/Berlin").last).to_be_visible()
    await expect(page.get_by_role("link", name="Help")).to_be_visible()
    await page.get_by_role("button", name="Stop all changes").tap()
    await page.get_by_role("dialog", name="Stop all changes?").get_by_role("button", name="Cancel").tap()
    await expect(page.get_by_role("dialog")).to_be_hidden()
