"""Tests thousands of changes, a hostile store, and starters who may not decide (flows 5, 6 and 18).

See docs/design/web.md#tests.
"""

import asyncio
import csv
import io
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.processes.running import eventually
from tests.web.hostile import LONG, TEXTS, UNSEEN
from tests.web.input_devices import Keyboard, TouchInput
from tests.web.open_pages import OpenPage, look
from tests.web.shops import hidden_products, hiding
from tests.web.site import WebSite, open_web_site

# With each commit, more changes than come in two responses of the service, and more than the page has rows at
# once; 5,000 in `make soak` and `make bench`.
MANY = int(os.environ.get("WEB_CHANGES", "500"))
LAST_TEN = f"Product {MANY // 10 - 1:03}"
MAX_ROWS = 80
# A fake shop writes some hundred products a second; a busy machine takes a while for thousands.
WRITTEN_WITHIN = 600


@pytest.fixture(scope="module")
async def many(built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebSite]:
    """Provides a service of its own with a large shop, where nobody decides on their own runs."""
    folder = tmp_path_factory.mktemp("many")
    async with open_web_site(folder, STEWARD_APPROVER_NOT_STARTER="on") as site:
        yield site


@pytest.fixture
async def seen(browser: Browser, many: WebSite) -> AsyncIterator[OpenPage]:
    """Provides the approver's page and asserts that the browser reported nothing."""
    opened = await look(browser, many, "approver")
    yield opened
    await opened.context.close()
    assert opened.reports == []


async def _rows(page: Page) -> int:
    return await page.locator("main tbody tr:not([aria-hidden])").count()


async def test_thousands_of_changes_are_searched_left_out_and_sent_as_shown(
    browser: Browser, seen: OpenPage, many: WebSite
) -> None:
    """All changes are counted, at most 80 rows are in the page, and the request matches the page.

    See docs/design/web.md#approvals.
    """
    automation = await hiding(many, "Many", [f"Product {number:04}" for number in range(MANY)])
    run = await many.run(automation["id"], "many")
    approval = (await many.site.call("GET", f"/v1/automations/approvals/{run['approval_id']}"))["approval"]
    changes = await many.site.changes(run["id"])
    assert len(changes) == approval["counts"]["total"] == MANY
    page = seen.page
    released = asyncio.Event()

    async def hold(route: Route) -> None:
        await released.wait()
        await route.continue_()

    await page.route("**/changes?*cursor*", hold)
    await seen.open(f"/approvals/{run['approval_id']}")
    approve = page.locator("[data-approve] button")
    # Off while rows are missing.
    await expect(page.get_by_text(f"Loading the changes: 200 of {MANY:,}")).to_be_visible()
    await expect(approve).to_have_attribute("aria-disabled", "true")
    released.set()
    await expect(approve).to_have_text(f"Approve {MANY:,} changes", timeout=120_000)
    assert await _rows(page) <= MAX_ROWS
    table = page.get_by_role("region", name="Changes")
    await expect(table.get_by_role("table")).to_have_attribute("aria-rowcount", str(MANY + 1))
    await page.get_by_role("heading", level=1).focus()
    await page.keyboard.press("j")
    await page.keyboard.press("End")
    await expect(page.locator(f"[data-at='{MANY - 1}']")).to_be_focused()
    await expect(page.locator(f"[data-at='{MANY - 1}']")).to_contain_text(f"{LAST_TEN}9")
    assert await _rows(page) <= MAX_ROWS
    await page.keyboard.press("/")
    await page.keyboard.type(LAST_TEN)
    await expect(page.get_by_text(f"Showing 10 of {MANY:,}")).to_be_visible()
    keyboard = Keyboard(page)
    await keyboard.press(page.get_by_role("button", name="Leave out all 10 shown"))
    await keyboard.press(page.get_by_role("button", name="Show all"))
    await expect(page.get_by_text(f"Showing {MANY:,} of {MANY:,} · 10 left out")).to_be_visible()
    await keyboard.choose(page.get_by_label("Which changes"), "Left out")
    await expect(page.get_by_text(f"Showing 10 of {MANY:,} · 10 left out")).to_be_visible()
    await expect(page).to_have_url(f"{many.origin}/approvals/{run['approval_id']}?only=left")
    await expect(approve).to_have_text(f"Approve {MANY - 10:,} changes")
    body = await _sent(page)
    remaining = [change["id"] for change in changes if change["object"]["label"].startswith(LAST_TEN)]
    assert body == {
        "version": approval["version"],
        "change_hash": approval["change_hash"],
        "except": remaining,
        "comment": None,
    }
    # Nothing is lost by a lost response.
    await expect(approve).to_have_text(f"Approve {MANY - 10:,} changes")
    phone = await look(browser, many, "approver", size="phone")
    await _approves_on_a_phone(phone, run)
    await _written_as_approved(phone, many, run["id"], changes)


async def _approves_on_a_phone(seen: OpenPage, run: Mapping[str, Any]) -> None:
    """Leaves ten changes out with a finger and approves the others."""
    page, hand = seen.page, TouchInput(seen.page)
    await seen.open(f"/approvals/{run['approval_id']}")
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text(f"Approve {MANY:,} changes", timeout=120_000)
    assert await _rows(page) <= MAX_ROWS
    await hand.fill(page.get_by_label("Search in changes"), LAST_TEN)
    await hand.press(page.get_by_role("button", name="Leave out all 10 shown"))
    await expect(approve).to_have_text(f"Approve {MANY - 10:,} changes")
    await expect(approve).to_be_in_viewport(ratio=1)
    await hand.press(approve)
    await expect(page).to_have_url(f"{seen.origin}/runs/{run['id']}")


async def _written_as_approved(
    seen: OpenPage, many: WebSite, run: str, changes: Sequence[Mapping[str, Any]]
) -> None:
    """Waits for the end of the run: all products but those left out are hidden, and the page counts them."""

    async def ended() -> bool:
        return bool((await many.site.run(run))["status"] == "succeeded")

    page = seen.page
    await eventually(ended, within=WRITTEN_WITHIN)
    labels = {change["object"]["id"]: change["object"]["label"] for change in changes}
    approved = {product for product, label in labels.items() if not label.startswith(LAST_TEN)}
    assert len(approved) == MANY - 10
    assert await hidden_products(many) & labels.keys() == approved
    await expect(page.get_by_role("main").get_by_text(f"{MANY - 10:,}").first).to_be_visible()
    await page.get_by_role("link", name=f"Changes {MANY:,}").click()
    await expect(page.get_by_role("region", name="Changes").locator("[data-at]").first).to_be_visible()
    assert await _rows(page) <= MAX_ROWS
    await seen.context.close()
    assert seen.reports == []


async def _sent(page: Page) -> Any:
    """Returns the body that Approve sends, after dropping its response."""
    bodies: list[Any] = []

    async def catch(route: Route) -> None:
        bodies.append(route.request.post_data_json)
        await route.abort("connectionrefused")

    await page.route("**/approve", catch)
    # `a` goes to the button and never approves by itself.
    await page.get_by_role("heading", level=1).focus()
    await page.keyboard.press("a")
    await expect(page.locator("[data-approve] button")).to_be_focused()
    assert bodies == []
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The service cannot be reached.").first).to_be_visible()
    [body] = bodies
    return body


async def test_a_hostile_store_is_shown_as_text_with_marks(seen: OpenPage, many: WebSite) -> None:
    """60 hostile texts open no dialog, break no policy, and invisible characters are marked.

    See docs/design/web.md#rules-for-every-screen and docs/design/security.md#sessions.
    """
    assert len(TEXTS) == 60
    name = "<img src=x onerror=alert(1)>\u202eevil"
    automation = await hiding(many, name, [*TEXTS, LONG])
    run = await many.run(automation["id"], "hostile")
    assert run["status"] == "waiting_approval", run["message"]
    test = await many.run(automation["id"], "hostile-test", mode="test")
    page = seen.page
    for path in (f"/runs/{test['id']}?tab=result", "/", "/approvals", "/runs", f"/runs/{run['id']}"):
        await (seen.open if "tab=" in path else seen.follow)(path)
        await expect(page.get_by_role("main")).to_contain_text("onerror=alert(1)")
        await expect(page.get_by_role("main")).to_contain_text("right-to-left override")
    for path in (f"/approvals/{run['approval_id']}?list=pages", f"/runs/{test['id']}?tab=changes&list=pages"):
        await seen.open(path)
        region = page.get_by_role("region", name="Changes")
        await expect(region.locator("[data-at]")).to_have_count(61)
        displayed = await region.locator("[data-at]").evaluate_all(
            "(all) => all.map((row) => row.textContent)"
        )
        for text in TEXTS:
            sign = next((character for character in UNSEEN if character in text), None)
            expected = text if sign is None else text.replace(sign, f"◌[{UNSEEN[sign]}]")
            assert any(expected in row for row in displayed), (path, expected)
    await seen.open(f"/approvals/{run['approval_id']}")
    await expect(page.locator("[data-approve] button")).to_have_text("Approve 61 changes")
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Save all as CSV").click()
    text = (await (await saved.value).path()).read_text("utf-8-sig")
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 1 + 2 * 61
    assert not [cell for row in rows for cell in row if cell.lstrip()[:1] in ("=", "+", "@")]
    await page.get_by_role("heading", level=1).focus()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="The change in full")
    await expect(panel.get_by_role("heading").first).to_contain_text("<script>")
    await panel.get_by_text("The record as it is").click()
    await page.keyboard.press("j")
    assert await seen.audit() == []


async def test_a_starter_reads_why_they_cannot_decide(browser: Browser, many: WebSite) -> None:
    """The starter is told why the decision is refused, and the choice stays.

    See docs/design/web.md#approvals.
    """
    automation = await hiding(many, "Own run", ["Own a", "Own b"])
    run = await many.run(automation["id"], "own-run")
    seen = await look(browser, many, "owner")
    page = seen.page
    await seen.open(f"/approvals/{run['approval_id']}")
    approve = page.locator("[data-approve] button")
    await expect(approve).to_have_text("Approve 2 changes")
    await page.get_by_role("checkbox").first.uncheck()
    await approve.click()
    await expect(page.get_by_text("You started this run.").first).to_be_visible()
    await expect(approve).to_have_text("Approve 1 change")
    await seen.context.close()
    assert seen.reports == []
