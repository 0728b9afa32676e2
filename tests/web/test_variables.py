"""Tests the values of variables of n8n: given at set-up, changed later.

See docs/design/imports-variables.md.
"""

import pytest
from playwright.async_api import expect

from tests.imports.exports import chain
from tests.imports.test_variables import SHOWN
from tests.web.conftest import Look
from tests.web.open_pages import PHONE_OR_BOTH, Size
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS


@pytest.mark.parametrize("size", PHONE_OR_BOTH)
async def test_values_of_variables_are_given_at_set_up_and_changed_later(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """Names what has no value, refuses a key at its field, and saves another value with the next version."""
    member = await web.session_of("member")
    body = {"source": "workflow_tool", "name": "Shop texts", "content": chain(SHOWN, name=size)}
    kept = (await member.call("POST", IMPORTS, body))["import"]
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open(f"/imports/{kept['id']}")
    await expect(page.get_by_text("1 variable of n8n needs a value before it can run.")).to_be_visible()
    await page.get_by_role("button", name="Run as automation").click()
    await expect(page.get_by_text("Not ready yet: “$vars.shop”.")).to_be_visible()
    shop = page.get_by_label("$vars.shop")
    await shop.fill("ghp_Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7b")
    await expect(page.get_by_text("This value contains a key")).to_be_visible()
    await shop.fill("Tea &\nCo")
    await expect(page.get_by_text("Not ready yet")).to_have_count(0)
    assert not await seen.layout_faults()
    await page.get_by_role("button", name="Make automation").click()
    await page.wait_for_url("**/automations/*")
    automation_id = page.url.rsplit("/", 1)[1]
    path = f"/v1/automations/{automation_id}"
    assert (await member.call("GET", path))["automation"]["variables"] == {"$vars.shop": "Tea &\nCo"}
    await seen.open(f"/automations/{automation_id}/steps")
    await expect(shop).to_have_value("Tea &\nCo")
    await shop.fill("")
    await page.get_by_label("$env.ZONE").fill("Oslo")
    await page.get_by_role("button", name="Save").first.click()
    await expect(page.get_by_text("Not ready: “$vars.shop” has no value.")).to_be_visible()
    assert (await member.call("GET", path))["automation"]["variables"] == {"$env.ZONE": "Oslo"}
    assert not await seen.layout_faults()
