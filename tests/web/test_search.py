"""Tests the global search: by keyboard on a desktop, by touch on a phone.

See docs/design/web.md#search.
"""

import asyncio
from secrets import token_hex

from playwright.async_api import Route, expect

from tests.web.conftest import Look
from tests.web.shops import hiding
from tests.web.site import WebSite


async def test_everything_is_found_by_typing_and_opened_with_the_keyboard(
    open_page: Look, web: WebSite
) -> None:
    """Ctrl K opens the search from anywhere; arrows, Enter and Escape work; no match is stated.

    See docs/design/web.md#search and docs/design/web.md#keyboard.
    """
    # What an earlier try of the test has created is found by another word.
    quince = f"quin{token_hex(3)}"
    automation = await hiding(web, f"Searched <b>for</b> {quince}s", [f"Jelly of {quince}s ({quince}-7)"])
    run = await web.run(automation["id"], "searched-quinces")
    seen = await open_page("member")
    page = seen.page
    await seen.open("/automations")
    await page.get_by_role("searchbox", name="Search automations by name").press("Control+k")
    search = page.get_by_role("dialog", name="Search")
    box = search.get_by_role("combobox", name="Search")
    await expect(box).to_be_focused()
    options = search.get_by_role("listbox", name="Results").get_by_role("option")
    await expect(options.first).to_have_attribute("aria-selected", "true")
    await box.fill(quince.upper())
    changes = search.get_by_role("group", name="Products, orders and other changes")
    await expect(changes.get_by_role("option")).to_have_count(2)
    await expect(changes).to_contain_text(f"Jelly of {quince}s ({quince}-7)")
    automations = search.get_by_role("group", name="Automations")
    await expect(automations).to_contain_text(f"Searched <b>for</b> {quince}s")
    await expect(search.get_by_role("group", name="Approvals")).to_contain_text("1 change")
    assert await seen.check_looks("search") == []
    await page.keyboard.press("ArrowUp")
    await expect(changes.get_by_role("option").last).to_have_attribute("aria-selected", "true")
    for _ in range(4):
        await page.keyboard.press("ArrowDown")
    await expect(changes.get_by_role("option").last).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{web.origin}/runs/{run['id']}?tab=changes")
    await expect(page.get_by_role("heading", level=1)).to_be_focused()
    await page.keyboard.press("Control+k")
    await box.fill("nothing is called so")
    await expect(search.get_by_text("Nothing begins with these words.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(search).to_be_hidden()
    await page.keyboard.press("Control+k")
    await box.fill(f"{quince}-7")
    await changes.get_by_role("option", name=f"All runs with “{quince}-7”").click()
    await expect(page).to_have_url(f"{web.origin}/runs?q={quince}-7")
    rows = page.get_by_role("table", name="Runs").get_by_role("row")
    await expect(rows).to_have_count(2)
    await page.get_by_role("searchbox", name="Search runs").fill(run["id"][:20])
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{web.origin}/runs?q={run['id'][:20]}")
    await expect(rows).to_have_count(2)
    await page.get_by_role("searchbox", name="Search runs").fill(f"{quince}k")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No run matches the filters.")).to_be_visible()


async def test_what_is_typed_before_the_search_is_there_is_kept(open_page: Look) -> None:
    """It is neither lost nor taken as keys of the page. See docs/design/web.md#search."""
    seen = await open_page("member")
    page = seen.page
    fetch = asyncio.Event()

    async def hold(route: Route) -> None:
        await fetch.wait()
        await route.continue_()

    await page.route("**/assets/Palette-*.js", hold)
    await seen.open("/account")
    await page.get_by_role("button", name="Search").click()
    await page.keyboard.type("g of")
    for key in ("Backspace", "Enter", "Control+k"):
        await page.keyboard.press(key)
    fetch.set()
    box = page.get_by_role("dialog", name="Search").get_by_role("combobox", name="Search")
    await expect(box).to_have_value("g o")
    await expect(page).to_have_url(f"{seen.origin}/account")


async def test_a_search_that_does_not_come_is_given_up(open_page: Look, web: WebSite) -> None:
    """Escape gives the keys back to the page; where automations are off, the search takes none.

    See docs/design/web.md#search.
    """
    seen = await open_page("member")
    page = seen.page
    await page.route("**/assets/Palette-*.js", lambda _: None)  # never answered
    await seen.open("/account")
    password = page.get_by_label("Current password")
    await password.press("Control+k")
    await password.press_sequentially("lost")
    await page.keyboard.press("Escape")
    await password.press_sequentially("typed")
    await expect(password).to_have_value("typed")

    async def switch_off(route: Route) -> None:
        response = await route.fetch()
        body = (await response.text()).replace('"automations_enabled":true', '"automations_enabled":false')
        await route.fulfill(response=response, body=body)

    await page.route("**/app/session", switch_off)
    await seen.open("/account")
    await password.press("Control+k")
    await password.press_sequentially("typed")
    await expect(password).to_have_value("typed")
    await expect(page.get_by_role("button", name="Search")).to_have_count(0)
    await page.unroute_all(behavior="ignoreErrors")


async def test_a_phone_shows_the_whole_names_of_what_was_found(open_page: Look, web: WebSite) -> None:
    """A phone shows each name above its state, in full."""
    name = "Found by its name, which is so long that a phone needs three lines to show the whole of it"
    await web.automation(name)
    seen = await open_page("member", size="phone")
    page = seen.page
    await seen.open("/")
    await page.get_by_role("button", name="Search").tap()
    await page.get_by_role("combobox", name="Search").fill("Found by")
    option = page.get_by_role("option").filter(has_text=name).first
    await expect(option).to_be_visible()
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert await option.locator("span").evaluate_all(cut) == []


async def test_the_search_fills_a_phone_and_is_used_by_touch(open_page: Look, web: WebSite) -> None:
    """The search fills a phone's screen and opens a result by touch."""
    seen = await open_page("member", size="phone")
    page = seen.page
    await seen.open("/")
    await page.get_by_role("button", name="Search").tap()
    search = page.get_by_role("dialog", name="Search")
    await expect(search).to_be_visible()
    await page.wait_for_function(
        """(whole) => {
            const { x, y, width, height } = document.querySelector('dialog[open]').getBoundingClientRect();
            return JSON.stringify([x, y, width, height]) === whole;
        }""",
        arg="[0,0,390,844]",
    )
    await search.get_by_role("combobox", name="Search").fill("audit")
    await expect(search.get_by_role("option")).to_have_text(["Audit log"])
    assert await seen.check_looks("search-phone") == []
    await search.get_by_role("option").tap()
    await expect(page).to_have_url(f"{web.origin}/organization/audit")
