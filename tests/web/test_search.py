"""The search box of the top bar: automations by name while one types, by keyboard (Frame).

See docs/design/web.md#rules-for-every-screen.
"""

from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_an_automation_is_found_by_typing_and_opened_with_the_keyboard(
    looking: Look, web: WebSite
) -> None:
    """The one chosen, or the list of all that match; Escape puts it away.

    See docs/design/web.md#rules-for-every-screen and docs/design/web.md#keyboard.
    """
    made = await web.automation("Searched <b>for</b> quinces")
    await web.automation("Searched for pears")
    seen = await looking("member")
    page = seen.page
    await seen.open("/account")
    box = page.get_by_role("combobox", name="Search automations")
    await box.press_sequentially("searched FOR")
    found = page.get_by_role("listbox", name="Automations found").get_by_role("option")
    await expect(found).to_have_count(2)
    await box.fill("quinces")
    await expect(found).to_have_count(2)
    await expect(found.first).to_contain_text("Searched <b>for</b> quinces")
    assert await seen.audit() == []
    await box.press("Escape")
    await expect(found.first).to_be_hidden()
    await box.press("ArrowDown")
    await expect(found.first).to_have_attribute("aria-selected", "true")
    await box.press("Enter")
    await expect(page).to_have_url(f"{web.origin}/automations/{made['id']}")
    await expect(page.get_by_role("heading", level=1)).to_be_focused()
    await box.fill("nothing is called so")
    await expect(found).to_have_text(["No automation has this name. Look at all"])
    await box.press("Enter")
    await expect(page).to_have_url(
        f"{web.origin}/automations?q=nothing%20is%20called%20so".replace("%20", "+")
    )
