"""Tests runs: listed, followed step by step, repeated and cancelled (flows 19 and 20).

See docs/design/web.md#tests.
"""

import json
import re
import sqlite3
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from playwright.async_api import Request, Route, expect

from steward.model.change import Outcome
from tests.imports.exports import chain, code
from tests.processes.running import eventually
from tests.web.conftest import Look
from tests.web.open_pages import cut_off
from tests.web.shops import hiding
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS, store_import

HIDE_TAB = """(hidden) => {
    Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event('visibilitychange'));
}"""

TRY_NOW = """() => [...document.querySelectorAll('[role=alert] button')]
    .find((one) => one.textContent.includes('Try now'))?.click()"""


async def _run_without_a_store(web: WebSite) -> None:
    """Runs an imported workflow that needs no connection."""
    member = await web.session_of("member")
    stored = await store_import(web, chain(code("Make items", "return []"), name="Storeless"), "Storeless")
    body = {"name": "Storeless", "schedule": {"cadence": "manual"}}
    made = await member.call("POST", f"{IMPORTS}/{stored['id']}/automations", body)
    await web.run(made["automation"]["id"], "storeless", mode="test")


async def test_runs_are_listed_filtered_by_address_and_opened(open_page: Look, web: WebSite) -> None:
    """Filters are part of the address, and the list says when nothing matches.

    See docs/design/web.md#run and docs/design/web.md#rules-for-every-screen.
    """
    automation = await hiding(web, "Listed", ["Listed a"])
    test = await web.run(automation["id"], "listed", mode="test")
    await _run_without_a_store(web)
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/runs?automation={automation['id']}")
    row = page.get_by_role("table", name="Runs").get_by_role("row").filter(has_text="Listed")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("TEST")
    # All of them ran on one store.
    store = page.get_by_role("columnheader", name="Store")
    await expect(store).to_have_count(0)
    await expect(row).to_contain_text(test["summary"]["text"])
    await page.get_by_label("Live or test").select_option("live")
    await expect(page.get_by_text("No run matches the filters.")).to_be_visible()
    await expect(page).to_have_url(f"{web.origin}/runs?automation={automation['id']}&mode=live")
    await page.reload()
    await page.get_by_role("button", name="Show all").click()
    # What happened on that day at that hour, on the viewer's clock, as an address and as a file.
    queued = datetime.fromisoformat(test["queued_at"]).astimezone(ZoneInfo("Europe/Berlin"))
    await page.get_by_label("From day").fill(f"{queued:%Y-%m-%d}")
    await page.get_by_label("Hour").select_option(f"{queued:%H}")
    await expect(page).to_have_url(f"{web.origin}/runs?from={queued:%Y-%m-%d}&hour={queued:%H}")
    await expect(row.first).to_be_visible()
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Save the runs as CSV").click()
    lines = (await (await saved.value).path()).read_text("utf-8-sig").splitlines()
    assert [line for line in lines if line.startswith(f"{test['id']},Listed,The shop,")], lines
    await page.get_by_label("Hour").select_option(f"{(queued.hour + 12) % 24:02}")
    await expect(page.get_by_text("No run matches the filters.")).to_be_visible()
    await seen.open("/runs")
    await expect(row.first).to_be_visible()
    assert await seen.check_looks("runs") == []
    assert await cut_off(seen) == []
    await expect(store).to_be_visible()
    await expect(row.first.get_by_role("cell", name="The shop")).to_be_visible()
    await seen.open("/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    await page.get_by_role("link", name="All runs").click()
    await page.get_by_role("link", name="Listed").first.click()
    await expect(page.get_by_text("TEST: changes nothing")).to_be_visible()
    await page.get_by_role("link", name="Changes 1").click()
    table = page.get_by_role("region", name="Changes")
    await expect(table.get_by_role("row").nth(1)).to_contain_text("Not made (test)")
    await page.go_back()
    await expect(page.get_by_role("list", name="Steps")).to_contain_text("Read the stock of 1 product")
    await page.go_back()
    await expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_focused()


async def test_a_run_shows_who_decided_and_what_differs(open_page: Look, web: WebSite) -> None:
    """A run names its approver, shows outcomes in full and compares with the run before.

    See docs/design/web.md#run.
    """
    automation = await hiding(web, "Told apart", [f"Told {number}" for number in range(4)])
    run = await web.run(automation["id"], "told-apart")
    path = f"/v1/automations/approvals/{run['approval_id']}"
    approval = (await web.site.call("GET", path))["approval"]
    changes = await web.site.changes(run["id"])
    keys = web.site.sandbox.facts["woocommerce"]
    product = changes[1]["object"]["id"]
    changed = await web.site.world.put(
        f"/wp-json/wc/v3/products/{product}",
        json={"catalog_visibility": "search"},
        auth=(keys["consumer_key"], keys["consumer_secret"]),
    )
    assert changed.status_code == 200, changed.text
    body = {
        "version": approval["version"],
        "change_hash": approval["change_hash"],
        "except": [changes[0]["id"]],
    }
    await web.site.call("POST", f"{path}/approve", body)
    await web.site.reaches(run["id"], "succeeded", "failed")
    test = await web.run(automation["id"], "told-apart-test", mode="test")
    seen = await open_page("approver")
    page = seen.page
    await seen.open(f"/runs/{run['id']}?tab=changes")
    async for _ in seen.sizes():
        await expect(page.get_by_text(re.compile(r"by The Owner, .*\(3 of 4\)\."))).to_be_visible()
        await expect(page.get_by_text(re.compile("at work, .* waiting for a person"))).to_be_visible()
        await expect(page.get_by_role("main")).not_to_contain_text("Waits for approval")
    await expect(page.get_by_role("region", name="Changes")).to_contain_text("changed in the meantime")
    assert await seen.check_looks("run-changes") == []
    assert await cut_off(seen) == []
    await page.get_by_role("link", name="Steps").click()
    steps = page.get_by_role("list", name="Steps")
    await expect(steps).to_contain_text("Asked for approval")
    await expect(steps).not_to_contain_text("Waits for approval")
    again = await web.run(automation["id"], "told-apart-again", mode="test")
    await seen.open(f"/runs/{again['id']}?tab=compare")
    await expect(page.get_by_role("link", name="the run of")).to_have_attribute("href", f"/runs/{test['id']}")
    await expect(page.get_by_role("table", name="Counts of both runs")).to_contain_text("the same")
    await expect(page.get_by_text("in both.")).to_be_visible()


async def test_no_outcome_is_cut_off_at_the_widths_of_a_desk(open_page: Look, web: WebSite) -> None:
    """Every outcome with its longest message is shown in full, with and without the change panel.

    See docs/design/web.md#accessibility.
    """
    automation = await hiding(web, "Every outcome", [f"Outcome of {outcome}" for outcome in Outcome])
    run = await web.run(automation["id"], "every-outcome", mode="test")
    seen = await open_page("member")
    page = seen.page

    async def reply(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        for change, outcome in zip(body["data"]["changes"], Outcome, strict=True):
            change["outcome"] = outcome
            change["message"] = "The store answered 422: the visibility of this product cannot be changed."
        await route.fulfill(response=response, json=body)

    await page.route("**/v1/automations/runs/*/changes?*", reply)
    await seen.open(f"/runs/{run['id']}?tab=changes")
    table = page.get_by_role("region", name="Changes")
    await expect(table.locator("td.state")).to_have_text(_OUTCOMES)
    assert await cut_off(seen) == []
    await table.get_by_role("button", name="Outcome of conflict").click()
    await expect(page.get_by_role("complementary", name="The change in full")).to_be_visible()
    assert await cut_off(seen) == []


_OUTCOMES = [
    "Proposed",
    "Will be made",
    "Left out",
    "Made",
    "Already so",
    re.compile("Changed in the meantime, left unchanged"),
    re.compile("Failed"),
    "Not made (test)",
    "Expired",
    "Stopped",
    re.compile("Not known, check the store"),
]


async def test_a_lost_response_to_run_again_starts_one_run(open_page: Look, web: WebSite) -> None:
    """Repeating a request whose response was lost starts no second run, because the key stays.

    See docs/design/web.md#run.
    """
    automation = await hiding(web, "Lost answer", ["Lost a"])
    run = await web.run(automation["id"], "lost-answer", mode="test")
    seen = await open_page("member")
    page = seen.page
    await page.clock.install()
    await seen.open(f"/runs/{run['id']}")
    lost: list[Any] = []

    async def lose(route: Route) -> None:
        if lost:
            await route.continue_()
            return
        lost.append((await route.fetch()).status)
        await route.abort("connectionrefused")

    await page.route("**/v1/automations/*/runs", lose)
    await page.get_by_role("button", name="Run for real").click()
    question = page.get_by_role("dialog", name="Run it for real?")
    await question.get_by_role("button", name="Run it live").click()
    await expect(question.get_by_text("The service cannot be reached.")).to_be_visible()
    async with web.service_down():
        await page.clock.fast_forward(30_000)  # the page asks again by itself
        await page.get_by_role("button", name="Try now").dispatch_event("click")
    # The page may have asked by itself just before.
    await page.evaluate(TRY_NOW)
    await expect(page.get_by_text("Trying again in")).to_be_hidden()
    await question.get_by_role("button", name="Run it live").click()
    await expect(page.get_by_role("main").get_by_text("LIVE", exact=True)).to_be_visible()
    runs = (await web.site.call("GET", f"/v1/automations/runs?automation_id={automation['id']}&mode=live"))[
        "runs"
    ]
    assert (lost, len(runs)) == ([201], 1)
    await expect(page).to_have_url(re.compile(f"/runs/{runs[0]['id']}$"))


async def test_cancelling_says_what_stays(open_page: Look, web: WebSite) -> None:
    """Cancelling says which changes stay. See docs/design/web.md#run."""
    automation = await hiding(web, "To cancel", ["Cancel a"])
    run = await web.run(automation["id"], "to-cancel")
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/runs/{run['id']}")
    await page.get_by_role("button", name="Cancel run").click()
    question = page.get_by_role("dialog", name="Cancel this run?")
    await expect(question).to_contain_text("Nothing has been changed.")
    await question.get_by_role("button", name="Cancel run").click()
    await expect(page.get_by_text("A person cancelled this run").first).to_be_visible()
    await expect(page.get_by_role("button", name="Run again")).to_be_visible()


class _Log:
    """Writes step rows of a run as a worker does, faster than a store could answer."""

    def __init__(self, web: WebSite, run: dict[str, Any]) -> None:
        self._file = web.site.env["STEWARD_DATABASE_URL"].removeprefix("sqlite:///")
        self._run = run["id"]

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=30)

    def write(self, first: int, last: int, *, rounds: bool) -> None:
        """Writes steps `first` to `last` as copies of the existing one."""
        with self._open() as database:
            database.row_factory = sqlite3.Row
            like = dict(
                database.execute("SELECT * FROM steps WHERE run_id = ? AND seq = 1", (self._run,)).fetchone()
            )
            for seq in range(first, last + 1):
                wire = {
                    **json.loads(like["wire"]),
                    "seq": seq,
                    "title": f"Step {seq}",
                    "iteration": seq if rounds else None,
                }
                row = {**like, "seq": seq, "wire": json.dumps(wire), "iteration": str(seq) if rounds else ""}
                names = ", ".join(row)
                marks = ", ".join(f":{name}" for name in row)
                database.execute(f"INSERT INTO steps ({names}) VALUES ({marks})", row)
            database.execute("UPDATE runs SET last_seq = ? WHERE id = ?", (last, self._run))
        database.close()


def _after_seq(request: Request) -> list[str]:
    """Returns the request's `after_seq`, or None."""
    return request.url.split("after_seq=")[1:]


async def test_a_thousand_steps_come_each_once_in_order_and_not_in_a_hidden_tab(
    open_page: Look, web: WebSite
) -> None:
    """The page polls by the highest seq, and stops at the end and in a hidden tab.

    See docs/design/web.md#run.
    """
    automation = await hiding(web, "Followed", ["Followed a"])
    run = await web.run(automation["id"], "followed")
    log = _Log(web, run)
    log.write(4, 600, rounds=False)
    seen = await open_page("member")
    page = seen.page
    request: list[str] = []
    answered: list[str] = []
    page.on("request", lambda item: request.extend(_after_seq(item)))
    page.on("requestfinished", lambda entry: answered.extend(_after_seq(entry)))
    page.on("requestfailed", lambda element: answered.extend(_after_seq(element)))

    async def is_quiet() -> bool:
        await page.evaluate("() => fetch('/app/session')")
        return len(request) == len(answered)

    await seen.open(f"/runs/{run['id']}")
    steps = page.locator("main [data-seq]")
    await expect(steps).to_have_count(600)
    assert request[:3] == ["0", "200", "400"]
    # While it is hidden nothing is asked; on return at once.
    await page.evaluate(HIDE_TAB, True)
    await eventually(is_quiet)
    log.write(601, 1000, rounds=True)
    before = len(request)
    await page.evaluate("() => fetch('/app/session')")
    assert len(request) == before
    await page.evaluate(HIDE_TAB, False)
    # `expect` would describe the long page at each of its tries, for three seconds in all.
    await page.get_by_text("400 rounds, 400 steps").wait_for(state="attached")
    await expect(page.get_by_role("button", name="400 new steps")).to_be_visible()
    assert request[before : before + 2] == ["600", "800"]
    # It scrolls to the end and goes away; only then does nothing move under the pointer any more.
    await page.get_by_role("button", name="400 new steps").click()
    await expect(page.get_by_role("button", name="400 new steps")).to_have_count(0)
    await page.get_by_role("button", name="400 rounds").click()
    await expect(steps).to_have_count(1000)
    order = await steps.evaluate_all("(all) => all.map((one) => Number(one.dataset.seq))")
    assert order == list(range(1, 1001))
    cancelled = await web.site.call("POST", f"/v1/automations/runs/{run['id']}/cancel", {})
    assert cancelled["run"]["status"] == "cancelled"
    await page.evaluate(HIDE_TAB, False)
    await expect(page.get_by_role("button", name="Run again")).to_be_visible()
    await eventually(is_quiet)
    ended = len(request)
    for _ in range(3):
        await page.evaluate(HIDE_TAB, False)
        await page.evaluate("() => fetch('/app/session')")
    assert len(request) == ended
