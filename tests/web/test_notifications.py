"""The bell, what reaches a person, and the channels of the organization, in a browser.

See docs/design/web.md#notifications.
"""

from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_a_person_chooses_what_reaches_them(looking: Look, web: WebSite) -> None:
    """By keyboard, on a phone; it is there after loading anew, and the page is sound."""
    seen = await looking("member", size="phone")
    page = seen.page
    await seen.open("/account/notifications")
    await expect(page.get_by_text("No e-mail is sent")).to_be_visible()
    await expect(page.get_by_role("radio", name="Runs At once")).to_be_disabled()
    await page.get_by_role("switch", name="Quiet hours").focus()
    await page.keyboard.press("Space")
    await page.get_by_label("From").fill("21:30")
    await page.get_by_label("To", exact=True).fill("06:30")
    days = page.get_by_role("group", name="Beginning on")
    await days.get_by_role("button", name="Sunday").press("Enter")
    await expect(days.get_by_role("button", name="Sunday")).to_have_attribute("aria-pressed", "false")
    await page.get_by_role("button", name="Save my notifications").click()
    await expect(page.get_by_text("Your notifications are saved").first).to_be_visible()
    member = await web.signed("member")
    stored = (await member.call("GET", "/app/notification-preferences"))["preferences"]
    assert stored["quiet_hours"] == {"from": "21:30", "to": "06:30", "days": [1, 2, 3, 4, 5, 6]}
    await page.reload()
    await expect(page.get_by_label("From")).to_have_value("21:30")
    assert await seen.judged("account-notifications") == []
