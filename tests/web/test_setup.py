"""Tests setting up: from nothing to a test run, every form, and where errors appear (flows 2 and 12).

See docs/design/web.md#tests.
"""

import re
from typing import Any

from playwright.async_api import Page, expect

from tests.web.conftest import Look
from tests.web.open_pages import OpenPage
from tests.web.shops import sheet, written
from tests.web.site import WebSite, unused

INPUTS = "What should it do?"
_FIRST_FAULT_FOCUSED = """() => {
    const fault = document.querySelector('main .form .problems');
    return !fault || fault.parentElement.contains(document.activeElement);
}"""


async def _next(page: Page, heading: str) -> None:
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.get_by_role("heading", name=heading)).to_be_focused()


async def test_first_run_from_nothing_to_the_end_of_a_test_run(open_page: Look, web: WebSite) -> None:
    """A shop is connected and a template tried, without a write to the store.

    See docs/design/web.md#rules-for-every-screen.
    """
    name = await web.new_owner()
    seen = await open_page(name)
    page = seen.page
    await seen.open("/")
    await page.get_by_role("link", name="Connect your shop").click()
    await page.get_by_role("link", name="WooCommerce").click()
    shop = web.site.sandbox.facts["woocommerce"]
    await page.get_by_label("Name", exact=True).fill("First shop")
    await page.get_by_label("Address of the shop").fill(shop["url"])
    await page.get_by_label("Consumer key").fill(shop["consumer_key"])
    await page.get_by_label("Consumer secret", exact=True).fill(shop["consumer_secret"])
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_role("heading", name="First shop is connected")).to_be_visible()
    writes = await written(web)

    await page.get_by_role("button", name="Set up an automation").click()
    await page.get_by_label("Search templates").fill("hide sold")
    await page.get_by_role("list", name="Stock").get_by_role("link", name="Hide sold-out products").click()
    await expect(page.get_by_role("radio", name="First shop")).to_be_checked()
    await _next(page, INPUTS)
    await page.get_by_label("Threshold").fill("2")
    await page.get_by_label("Name", exact=True).fill("Hide what is gone")
    await _next(page, "When does it run?")
    await page.get_by_label("How often").select_option(label="Every day")
    await expect(page.get_by_text("Nothing changes in the store until somebody approves.")).to_be_visible()
    # A reload, and a look elsewhere, lose nothing.
    await page.reload()
    await expect(page.get_by_label("How often")).to_have_value("daily")
    await seen.open("/automations/new")
    await (
        page.get_by_role("list", name="Begun and not created")
        .get_by_role("link", name="Hide what is gone")
        .click()
    )
    await page.get_by_role("link", name="What", exact=True).click()
    await expect(page.get_by_label("Threshold")).to_have_value("2")
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Hide what is gone")
    await page.get_by_role("link", name="When", exact=True).click()
    await expect(page.get_by_role("list", name="Next runs").get_by_role("listitem")).to_have_count(3)
    await page.get_by_role("button", name="Create and try as a test run").click()
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    await expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()
    assert await written(web) == writes

    owner = await web.session_of(name)
    [automation] = (await owner.call("GET", "/v1/automations"))["automations"]
    assert (automation["name"], automation["inputs"]["threshold"], automation["created_via"]) == (
        "Hide what is gone",
        2,
        "ui",
    )
    await seen.open("/automations/new")
    await expect(page.get_by_role("heading", name="New automation")).to_be_visible()
    await expect(page.get_by_text("Begun and not created")).to_have_count(0)


async def _draft(seen: OpenPage, template: dict[str, Any], **changes: Any) -> None:
    """Returns a draft as the page stores it, with its first two steps done."""
    draft = {
        "store": None,
        "connections": [],
        "inputs": {},
        "schedule": template["default_schedule"],
        "timezone": None,
        "trigger": {"kind": "schedule"},
        "name": template["name"],
        "key": unused("draft"),
        "reached": 3,
        "at": 1,
        **changes,
    }
    await seen.page.evaluate(
        """async ([template, draft]) => {
            const { session } = (await (await fetch('/app/session')).json()).data;
            const place = `steward-drafts-${session.organization.id}-${session.user.id}`;
            const kept = JSON.parse(localStorage.getItem(place) ?? '{}');
            localStorage.setItem(place, JSON.stringify({ ...kept, [template]: draft }));
        }""",
        [template["template_id"], draft],
    )


async def test_every_template_has_its_form(open_page: Look, web: WebSite) -> None:
    """Every template has a form without a JSON field, whose first fault takes the focus.

    The channel of a message is of any kind that receives messages. See docs/design/web.md#inputs-form.
    """
    owner = await web.session_of("owner")
    # Another channel than that of tests which share the site: an address is connected once.
    slack = {"webhook_url": f"{web.site.sandbox.facts['slack']['webhook_url']}/{unused('forms')}"}
    slack_form = {"kind": "slack", "name": "Ops in Slack", "settings": slack}
    connected = (await owner.call("POST", "/app/connections", slack_form))["connection"]
    offered = (await owner.call("GET", "/v1/automations/templates?limit=200"))["templates"]
    assert offered
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/automations/new")
    for item in offered:
        await _draft(seen, item, store=web.site.store if item["platforms"] else None)
        path = f"/automations/new/{item['template_id']}/what"
        await page.evaluate(
            "(path) => { history.pushState({}, '', path); dispatchEvent(new PopStateEvent('popstate')) }",
            path,
        )
        await expect(page.get_by_role("heading", name=f"New: {item['name']}")).to_be_visible()
        await expect(page.get_by_role("heading", name=INPUTS)).to_be_visible()
        await expect(page.locator("main .sentence")).to_be_visible()
        await seen.wait_until_loaded()
        count = await page.locator("main .form .form").locator("input, select, textarea").count()
        assert count >= len(item["inputs_schema"].get("required", [])), item["template_id"]
        assert await page.get_by_text("This is not JSON").count() == 0
        if "teams" in item["inputs_schema"]["properties"]:
            channels = page.get_by_label(re.compile(r"^Channel")).get_by_role("option")
            await expect(channels.filter(has_text=re.compile("Ops in Slack.* · Slack"))).to_have_count(1)
        await page.get_by_role("button", name="Next").last.click()
        counted = page.get_by_role("alert").filter(has_text="to correct")
        await expect(counted.or_(page.get_by_role("heading", name="When does it run?"))).to_be_visible()
        await page.wait_for_function(_FIRST_FAULT_FOCUSED)
    # Tests that share the site choose the only channel there is.
    await owner.call("POST", f"/app/connections/{connected['integration_id']}/disconnect")


async def test_an_error_of_the_service_focuses_its_field(open_page: Look, web: WebSite) -> None:
    """An error of the service opens its step and focuses its field; typed values stay.

    See docs/design/web.md#rules-for-every-screen.
    """
    owner = await web.session_of("owner")
    new_sheet = await sheet(web, "sheet-prices")
    record = await owner.call("GET", "/v1/automations/templates/price-update-from-spreadsheet")
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/automations/new")
    inputs = {
        "sheet": {"integration_id": new_sheet, "spreadsheet_id": "another"},
        "sku_column": "SKU",
        "price_column": "Cost",
    }
    await _draft(seen, record["template"], store=web.site.store, inputs=inputs)
    await seen.open("/automations/new/price-update-from-spreadsheet/when")
    await page.get_by_label("How often").select_option(label="Once")
    await page.get_by_role("button", name="Create", exact=True).click()
    await expect(page.get_by_role("heading", name=INPUTS)).to_be_visible()
    await expect(page.get_by_role("alert").filter(has_text="1 field to correct.")).to_be_visible()
    await expect(page.get_by_label("Price column", exact=True)).to_have_value("Cost")
    await page.get_by_role("button", name="Take this spreadsheet").click()
    # The tab is chosen from what the account has.
    await expect(page.get_by_label("Tab").get_by_role("option")).to_have_text(["The first tab", "Prices"])
    await page.get_by_label("Tab").select_option(label="Prices")
    await page.get_by_label("Price column", exact=True).fill("Price")
    await page.get_by_role("link", name="When", exact=True).click()
    await expect(page.get_by_label("How often")).to_have_value("once")
    await page.get_by_role("button", name="Create", exact=True).click()
    await expect(page).to_have_url(re.compile(r"/automations/[0-9A-Z]{26}$"))
    automation_id = page.url.rpartition("/")[2]
    stored = (await owner.call("GET", f"/v1/automations/{automation_id}"))["automation"]
    assert stored["inputs"]["sheet"] == {"integration_id": new_sheet, "spreadsheet_id": None, "tab": "Prices"}
    assert (stored["schedule"]["cadence"], stored["inputs"]["price_column"]) == ("once", "Price")
