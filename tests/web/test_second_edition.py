"""Tests help, API access, and texts and counts during set-up.

See docs/design/web.md#set-up and docs/design/web.md#help-api-access.
"""

import re

import pytest
from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.open_pages import PHONE_OR_BOTH, Size
from tests.web.shops import written
from tests.web.site import WebSite


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_help_opens_at_what_explains_the_screen(open_page: Look, size: Size) -> None:
    """Help opens at the section of the current screen, without a request to another host."""
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open("/approvals")
    if size == "phone":
        await page.get_by_role("button", name="Account: The Member").click()
    await page.get_by_role("link", name="Help").click()
    task = page.get_by_role("heading", name="Approve changes")
    await expect(task).to_be_focused()
    await expect(task).to_be_in_viewport()
    await page.get_by_role("main").get_by_role("link", name="Approve exactly these changes").last.click()
    await expect(page.get_by_role("heading", name="Approve exactly these changes")).to_be_focused()
    await (
        page.get_by_role("navigation", name="Parts of the guide")
        .get_by_role("link", name="The calendar")
        .click()
    )
    await expect(page.get_by_role("heading", name="The calendar")).to_be_focused()


@pytest.mark.parametrize("size", PHONE_OR_BOTH)
async def test_set_up_counts_matches_before_anything_is_written(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """Set-up states the choice and counts matches in the shop without writing anything."""
    owner = await web.session_of("owner")
    before = len((await owner.call("GET", "/v1/automations?limit=200"))["automations"])
    writes = await written(web)
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open("/automations/new/tag-products-by-rule/where")
    await expect(page.get_by_role("radio", name="The shop")).to_be_checked()
    await page.get_by_role("button", name="Next").first.click()
    await page.get_by_label("Rule", exact=True).select_option(label="Is on sale")
    # What is missing is said at its field, and nothing is asked of the shop.
    await page.get_by_role("button", name="Count in the store").click()
    await expect(page.get_by_label("Tag", exact=True)).to_be_focused()
    await page.get_by_label("Tag", exact=True).fill(f"sale-{size}")
    await expect(page.get_by_text(f"When a product is on sale, add the tag sale-{size}")).to_be_visible()
    await page.get_by_role("button", name="Count in the store").click()
    count = page.get_by_role("status").filter(has_text="now")
    await expect(count).to_have_text(re.compile(r"\d+ of (the first )?\d+ products match(es)? now"))
    await page.get_by_label("Tag", exact=True).fill("another")
    await expect(page.get_by_text("Counted before the last change.")).to_be_visible()
    assert len((await owner.call("GET", "/v1/automations?limit=200"))["automations"]) == before
    assert await written(web) == writes


async def test_credentials_are_listed_without_secrets_or_buttons(open_page: Look, web: WebSite) -> None:
    """Owners see each credential's state and last use; others see whom to ask."""
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/organization/api")
    await expect(page.get_by_text("The operator of this Steward issues it")).to_be_visible()
    await expect(
        page.get_by_role("table", name="API credentials").or_(page.get_by_text("No API credential"))
    ).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    member = await open_page("member")
    await member.open("/organization/api")
    await expect(member.page.get_by_text("Only owners can do this.")).to_be_visible()


async def test_back_from_the_shop_the_page_waits_for_its_keys(open_page: Look) -> None:
    """If the shop cannot send its keys, the page says why and offers to enter them after a minute."""
    seen = await open_page("owner")
    page = seen.page
    await page.clock.install()
    await seen.open("/connections/new?kind=woocommerce")
    await expect(page.get_by_text("A shop sends keys only to a public https address")).to_be_visible()
    await expect(page.get_by_label("Consumer key")).to_be_visible()
    await expect(page.get_by_role("img", name="Where it is: WooCommerce")).to_be_visible()
    await seen.open("/connections?from=shop&success=1")
    await expect(page.get_by_role("status").filter(has_text="Waiting for the keys")).to_be_visible()
    await page.clock.fast_forward(61_000)
    await expect(page.get_by_role("alert").filter(has_text="No keys have arrived")).to_be_visible()
    await page.get_by_role("link", name="Enter keys").click()
    await expect(page.get_by_label("Consumer key")).to_be_visible()


async def test_times_are_typed_with_24_hours(open_page: Look) -> None:
    """Time fields use 24 hours; "930" becomes 09:30, and a missing day is asked for in words."""
    seen = await open_page("member")
    page = seen.page
    await seen.open("/automations/new/hide-out-of-stock-products/where")
    await page.get_by_role("button", name="Next").first.click()
    await page.get_by_role("button", name="Next").first.click()
    await page.get_by_label("How often").select_option(label="Every day")
    time = page.get_by_label("Time", exact=True)
    await time.fill("930")
    await time.blur()
    async for _ in seen.sizes():
        await expect(time).to_have_value("09:30")
    await expect(page.get_by_text("Every day at 09:30 (Europe/Berlin)", exact=True)).to_be_visible()
    await page.get_by_label("How often").select_option(label="Once")
    await page.get_by_label("Date", exact=True).fill("")
    await expect(page.get_by_label("Date", exact=True)).to_have_accessible_description("Choose a date.")
