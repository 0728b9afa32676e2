"""Tests details of several screens that were wrong once."""

import pytest
from playwright.async_api import expect

from tests.web.calendars import in_minutes
from tests.web.conftest import Look
from tests.web.input_devices import HANDS, Hand
from tests.web.shops import create_sold_out_products
from tests.web.site import WebSite


async def test_lists_name_and_space_what_they_say(open_page: Look, web: WebSite) -> None:
    """The run dialog, the notes' region, bulk selection and a copied automation are labelled."""
    automation = await web.automation("To detail", **await in_minutes(web))
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/automations")
    row = page.get_by_role("row").filter(has_text="To detail")
    await row.get_by_role("button", name="Actions of To detail").click()
    await page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    # A space that does not break, or one that does.
    await expect(dialog).to_contain_text("To detail on The shop")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("region", name="Notes")).to_be_attached()
    await row.get_by_role("checkbox", name="Choose To detail").check()
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(row).to_contain_text("Paused")
    await row.get_by_role("button", name="Actions of To detail").click()
    await page.get_by_role("button", name="Duplicate").click()
    await page.get_by_role("dialog").get_by_role("button", name="Duplicate").click()
    await expect(page.get_by_role("heading", name="To detail (copy)")).to_be_visible()
    owner = await web.session_of("owner")
    copies = (await owner.call("GET", "/v1/automations?q=To%20detail%20(copy)"))["automations"]
    assert [(item["template_id"], item["schedule"]) for item in copies] == [
        (automation["template_id"], automation["schedule"])
    ]


async def test_a_failure_that_other_inputs_mend_leads_to_them(open_page: Look, web: WebSite) -> None:
    """A run over its limit has a main button that opens the automation's inputs.

    See docs/design/web.md#run.
    """
    tag, _ = await create_sold_out_products(web, ["Over a", "Over b"])
    inputs = {"products": {"tags_any": [tag]}, "limit": 1}
    automation = await web.automation("Over its limit", inputs=inputs, schedule={"cadence": "manual"})
    run = await web.run(automation["id"], "over")
    assert run["code"] == "too_many_changes"
    seen = await open_page("owner")
    page = seen.page
    await seen.open(f"/runs/{run['id']}")
    failure = page.get_by_role("region", name="Why it failed")
    await failure.get_by_role("button", name="Change its inputs").click()
    await expect(page).to_have_url(f"{seen.origin}/automations/{automation['id']}/inputs")


async def test_nothing_changed_is_no_move_and_no_cell_is_cut_off(open_page: Look, web: WebSite) -> None:
    """An unchanged time is not a move, and table cells show all their text at three widths."""
    await web.automation("To stay where it is", schedule={"cadence": "daily", "run_at": "03:00"})
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/calendar?view=list")
    await page.locator("[data-run]").filter(has_text="To stay where it is").last.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("This and later").check()
    later = dialog.get_by_role("button", name="Move this and later")
    async for _ in seen.sizes():
        await expect(later).to_have_attribute("aria-disabled", "true")
        await expect(later).to_be_in_viewport(ratio=1)
    await dialog.get_by_label("Time").fill("04:30")
    await expect(later).not_to_have_attribute("aria-disabled", "true")
    cut = """() => [...document.querySelectorAll('td, th')]
        .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)"""
    for path in ("/", "/automations"):
        await seen.open(path)
        await seen.wait_until_loaded()
        for width in (1024, 1280, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate(cut) == [], (path, width)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


@pytest.mark.parametrize("way", HANDS)
async def test_one_button_starts_an_import_and_a_network_that_returns_mends_a_screen(
    open_page: Look, way: type[Hand]
) -> None:
    """An organization without imports has one button; a screen loads once the network is back."""
    seen = await open_page("keeper", size=way.size, fresh=True)
    page = seen.page
    await seen.open("/imports")
    await expect(page.get_by_role("button", name="Import a workflow")).to_have_count(1)
    await seen.context.set_offline(True)
    await way(page).go("People")
    await expect(page.get_by_text("This part of the app could not be loaded")).to_be_visible()
    await seen.context.set_offline(False)
    await expect(page.get_by_role("heading", name="People")).to_be_visible()
    seen.reports.clear()  # the browser reports what it could not fetch


async def test_a_wrong_password_is_heard_as_it_is_shown(open_page: Look) -> None:
    """The live region and the form give the same message."""
    seen = await open_page(None)
    page = seen.page
    await seen.open("/sign-in")
    await page.get_by_label("E-mail").fill("unknown@shop.example")
    await page.get_by_label("Password").fill("not the password")
    await page.get_by_role("button", name="Sign in").click()
    words = "The e-mail or the password is not right. Check both and try again."
    async for _ in seen.sizes():
        await expect(page.get_by_text(words).first).to_be_visible()
        await expect(page.locator("[aria-live=assertive]")).to_have_text(words)


async def test_a_strip_on_a_phone_begins_where_its_line_does(open_page: Look, web: WebSite) -> None:
    """A strip of runs starts at its first run."""
    automation = await web.automation("Ran once")
    await web.run(automation["id"], "ran-once")
    seen = await open_page("member", size="phone")
    await seen.open("/automations")
    row = seen.page.get_by_role("row").filter(has_text="Ran once")
    remaining = "(one) => one.getBoundingClientRect().left"
    strip = await row.locator("svg.strip g").first.evaluate(remaining)
    name = await row.get_by_role("link", name="Ran once").first.evaluate(remaining)
    assert abs(strip - name) < 6
