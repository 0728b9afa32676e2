"""Tests undoing a run: the preview, the approval and the result."""

import sqlite3

from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.shops import hidden_products, hiding, set_visibility
from tests.web.site import WebSite, unused


def _fail_in_part(web: WebSite, run: str) -> None:
    """Stores the run's first change as one whose last write was refused; an earlier one stays made."""
    file = web.site.env["STEWARD_DATABASE_URL"].removeprefix("sqlite:///")
    with sqlite3.connect(file, timeout=30) as database:
        database.execute("UPDATE changes SET outcome = 'failed' WHERE run_id = ? AND position = 0", (run,))


async def test_a_run_is_put_back_after_a_preview_and_an_approval(open_page: Look, web: WebSite) -> None:
    """The dialog counts undoable changes, the undo waits, and both runs link to each other.

    A change that failed after a part of it was made is among them. Changes of its store are stopped
    meanwhile, and the approver lets the undo write all the same.
    """
    name = unused("To undo")
    automation = await hiding(web, name, ["Undone a", "Undone b"])
    run = await web.run(automation["id"], "to-undo")
    before = await hidden_products(web)
    seen = await open_page("approver")
    page = seen.page
    await seen.open(f"/approvals/{run['approval_id']}")
    await expect(page.get_by_text("2 of 2 can be undone for 365 days")).to_be_visible()
    await page.locator("[data-approve] button").click()
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await web.site.reaches(run["id"], "succeeded")
    assert len(await hidden_products(web)) == len(before) + 2
    _fail_in_part(web, run["id"])

    await page.get_by_role("button", name="Undo…").click()
    question = page.get_by_role("dialog", name="Undo this run?")
    await expect(question.get_by_text("2 changes can be put back")).to_be_visible()
    assert await seen.audit() == []
    await question.get_by_label("Choose changes").check()
    await expect(
        question.get_by_role("region", name="Changes to put back").locator("[data-at]")
    ).to_have_count(2)
    await question.get_by_label("All 2").check()
    await question.get_by_role("button", name="Put back 2 changes").click()
    await expect(page.get_by_role("heading", name=f"Undo of {name}")).to_be_visible()
    await page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    await page.get_by_role("table", name="Runs").get_by_role("link", name=f"Undo of {name}").click()
    owner = await web.session_of("owner")
    store = {"kind": "store", "integration_id": automation["integration_id"]}
    freeze = (await owner.call("POST", "/app/freeze", {"scope": store}))["closed_period"]
    try:
        await page.get_by_role("button", name="Review 2 changes").click()
        await expect(page.get_by_role("link", name="The run it puts back")).to_be_visible()
        await expect(page.get_by_text("Each value is still as the run wrote it")).to_be_visible()
        await expect(page.get_by_text("Writing waits until somebody resumes changes")).to_be_visible()
        await page.get_by_label("Write now, although changes are stopped").check()
        await page.locator("[data-approve] button").click()
        await expect(page.get_by_text("Put back 2 of 2 changes.")).to_be_visible()
        assert await hidden_products(web) == before
    finally:
        await owner.call("POST", f"/app/closed-periods/{freeze['id']}/end", {"version": 1})
    await page.get_by_role("link", name="The run it puts back").click()
    await expect(page.get_by_text("2 of 2 changes put back.")).to_be_visible()
    await page.get_by_role("link", name="Changes 2").click()
    rows = page.get_by_role("region", name="Changes").locator("[data-at]")
    await expect(rows.filter(has_text="put back")).to_have_count(2)


async def test_a_run_is_undone_with_one_hand_on_a_phone(open_page: Look, web: WebSite) -> None:
    """Every page of an undo fits a width of 390 pixels.

    The dialog stops the run that comes first. What somebody changed since is left, and said so.
    """
    automation = await hiding(web, "Undone on a phone", ["Phone a", "Phone b", "Phone c"])
    run = await web.run(automation["id"], "undone-on-a-phone")
    seen = await open_page("approver", size="phone")
    page = seen.page
    await seen.open(f"/approvals/{run['approval_id']}")
    await page.get_by_text("Details", exact=True).click()
    await expect(page.get_by_text("3 of 3 can be undone for 365 days")).to_be_visible()
    faults = await seen.check_looks("undo-before-the-first-approval")
    await page.locator("[data-approve] button").click()
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await web.site.reaches(run["id"], "succeeded")

    await set_visibility(web, automation["ids"][1], "visible")
    await set_visibility(web, automation["ids"][2], "search")
    ahead = await web.run(automation["id"], "waits-before-the-undo")
    await page.get_by_role("button", name="Undo…").click()
    dialog = page.get_by_role("dialog", name="Undo this run?")
    await dialog.get_by_label("Choose changes").check()
    rows = dialog.get_by_role("region", name="Changes to put back").locator("[data-at]")
    await expect(rows).to_have_count(3)
    await rows.first.get_by_role("checkbox").uncheck()
    await expect(dialog.get_by_role("button", name="Put back 2 changes")).to_be_visible()
    await rows.first.get_by_role("checkbox").check()
    await expect(dialog.get_by_text("A run waits for approval and comes first.")).to_be_visible()
    faults += await seen.check_looks("undo-dialog")
    await dialog.get_by_label("Stop it").check()
    await dialog.get_by_role("button", name="Put back 3 changes").click()
    await expect(page.get_by_role("heading", name="Undo of Undone on a phone")).to_be_visible()
    await web.site.reaches(ahead["id"], "cancelled")
    await page.get_by_role("button", name="Review 2 changes").click()
    await expect(page.locator("[data-approve] button")).to_be_visible()
    faults += await seen.check_looks("undo-approval")
    await page.locator("[data-approve] button").click()
    await expect(page.get_by_text("Put back 2 of 3 changes:")).to_be_visible()
    faults += await seen.check_looks("undo-run")
    await page.get_by_role("link", name="The run it puts back").click()
    await expect(page.get_by_text("2 of 3 changes put back.")).to_be_visible()
    await page.get_by_role("link", name="Changes 3").click()
    changes = page.get_by_role("region", name="Changes").locator("[data-at]")
    await expect(changes.filter(has_text="changed since, left")).to_have_count(1)
    faults += await seen.check_looks("undone-run")
    assert faults == []
