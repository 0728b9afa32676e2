"""Tests that irreversible changes are approved only by typing their number; keyboard only.

See docs/design/web.md#approvals.
"""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Route, expect

from tests.web.conftest import Look
from tests.web.keys import press, tab_to
from tests.web.shops import order_statuses, set_order_status
from tests.web.site import WebSite

CANCEL_INPUTS = {"older_than_hours": 1, "statuses": ["pending", "on_hold"]}


@pytest.fixture(autouse=True)
async def orders_as_before(web: WebSite) -> AsyncIterator[None]:
    """Gives orders the statuses they had before the test; a second try cancels the same ones."""
    before = await order_statuses(web)
    yield
    for order, status in (await order_statuses(web)).items():
        if status != before.get(order, status):
            await set_order_status(web, order, before[order])


async def test_cancelling_orders_asks_for_their_number(open_page: Look, web: WebSite) -> None:
    """A wrong number sends nothing; a lost response keeps the text. See docs/design/web.md#approvals."""
    schedule = {"cadence": "manual"}
    automation = await web.automation(
        "Cancel unpaid", template_id="cancel-unpaid-orders", inputs=CANCEL_INPUTS, schedule=schedule
    )
    run = await web.run(automation["id"], "cancel-unpaid")
    changes = await web.site.changes(run["id"])
    number = len(changes)
    assert number > 2, "the fake shop has hardly an unpaid order"
    seen = await open_page("approver")
    page = seen.page
    sent: list[str] = []
    page.on("request", lambda item: sent.append(item.url) if item.method == "POST" else None)

    async def lose(route: Route) -> None:
        await route.abort("connectionrefused")

    await page.route("**/approve", lose)
    await seen.open(f"/approvals/{run['approval_id']}")
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text(f"Approve {number} changes")
    await expect(page.get_by_text(f"{number} of {number} changes cannot be undone later.")).to_be_visible()
    rows = page.get_by_role("region", name="Changes").locator("[data-at]")
    await expect(rows.filter(has_text="cannot be undone")).to_have_count(number)

    await page.keyboard.press("j")
    await page.keyboard.press("Space")
    await expect(approve).to_have_text(f"Approve {number - 1} changes")
    await press(page, approve)
    dialog = page.get_by_role("dialog", name=f"{number - 1} changes cannot be undone")
    field = dialog.get_by_label("How many cannot be undone")
    await expect(field).to_be_focused()
    assert await seen.audit() == []
    for wrong in (str(number), "0", f"{number - 1}0"):
        await page.keyboard.press("Control+a")
        await page.keyboard.type(wrong)
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "true")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(approve).to_be_focused()
    assert sent == []
    assert (await web.site.run(run["id"]))["status"] == "waiting_approval"

    await page.keyboard.press("Enter")
    await expect(field).to_be_focused()
    await page.keyboard.type(str(number - 1))
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_text("The service cannot be reached.")).to_be_visible()
    await expect(field).to_have_value(str(number - 1))
    await page.unroute("**/approve")
    await tab_to(page, field)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}")
    await web.site.reaches(run["id"], "succeeded")
    assert len(sent) == 2
    there = await order_statuses(web)
    is_cancelled = [there[change["object"]["id"]] == "cancelled" for change in changes]
    assert is_cancelled == [False] + [True] * (number - 1)
