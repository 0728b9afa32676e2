"""Tests setting up an automation that is started by store events. See docs/design/web.md#set-up."""

import re

from playwright.async_api import expect

from tests.processes.running import eventually
from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_a_store_event_starts_an_activated_automation(open_page: Look, web: WebSite) -> None:
    """An event automation is created as a draft, activated, and started by the store's event.

    See docs/design/web.md#set-up and docs/design/web.md#schedule-editor.
    """
    seen = await open_page("member")
    page = seen.page
    await page.clock.install()
    await seen.open("/automations/new/tag-orders-by-rule/where")
    await expect(page.get_by_role("radio", name="The shop")).to_be_checked()
    await page.get_by_role("button", name="Next").last.click()
    await page.get_by_label("Tag", exact=True).fill("of an event")
    await page.get_by_label("Minimum total").fill("0.01")
    await page.get_by_label("Name", exact=True).fill("Started by orders")
    await page.get_by_role("button", name="Next").last.click()
    await page.get_by_label("When the store sends something").check()
    await page.get_by_role("button", name="Create", exact=True).click()
    # Nothing would start it.
    await expect(page.get_by_role("group", name="When the store sends")).to_have_accessible_description(
        re.compile("topic|Choose", re.IGNORECASE)
    )
    await page.get_by_label("An order is created").check()
    await expect(page.get_by_text("It is created as a draft.")).to_be_visible()
    await page.get_by_role("button", name="Create", exact=True).click()
    await expect(page.get_by_role("heading", name="Started by orders")).to_be_visible()
    await expect(
        page.get_by_text("Not on yet. Switch it on, and it starts when the store sends")
    ).to_be_visible()
    await page.get_by_role("button", name="Switch on").click()
    await expect(page.get_by_role("button", name="Pause automation")).to_be_visible()
    automation = page.url.rsplit("/", 1)[1]
    owner = await web.session_of("owner")

    async def response() -> bool:
        found_automation = (await owner.call("GET", f"/v1/automations/{automation}"))["automation"]
        listening: bool = found_automation["trigger"]["listening"] == "yes"
        return listening

    await eventually(response)
    await page.get_by_role("link", name="Schedule", exact=True).click()
    await page.clock.fast_forward(15_000)  # the page asks again by itself
    await expect(page.get_by_text("The store sends it.")).to_be_visible()
    reply = await web.site.world.post("/sandbox/events", json={"topic": "order.created"})
    assert reply.status_code in (200, 201, 202), reply.text
    await page.get_by_role("link", name="Runs", exact=True).last.click()

    async def started() -> bool:
        runs = (await owner.call("GET", f"/v1/automations/runs?automation_id={automation}&started_by=event"))[
            "runs"
        ]
        return bool(runs)

    await eventually(started)
    await page.reload()
    await expect(page.get_by_role("table", name="Runs")).to_contain_text("By a store event")
