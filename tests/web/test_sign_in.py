"""Tests signing in: a wrong password, too many attempts, a session that ends while typing (flow 1).

See docs/design/web.md#tests.
"""

import httpx
from playwright.async_api import expect

from tests.processes.running import PASSWORD
from tests.web.conftest import Look
from tests.web.site import WebSite


async def test_a_wrong_password_keeps_what_was_typed_and_the_right_one_goes_where_was_asked(
    open_page: Look, web: WebSite
) -> None:
    """A wrong password keeps the e-mail, and signing in leads to the address first requested.

    See docs/design/web.md#sign-in.
    """
    seen = await open_page(None)
    page = seen.page
    await seen.open("/account")
    await expect(page).to_have_url(f"{web.origin}/sign-in?next=%2Faccount")
    await expect(page.get_by_label("E-mail")).to_be_focused()
    await page.get_by_label("E-mail").fill(web.email("visitor"))
    await page.get_by_label("Password", exact=True).fill("not the password")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The e-mail or the password is not right").last).to_be_visible()
    await expect(page.get_by_label("E-mail")).to_have_value(web.email("visitor"))
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Account")).to_be_visible()
    await expect(page).to_have_url(f"{web.origin}/account")


async def test_too_many_attempts_show_the_seconds_and_disable_the_button(
    open_page: Look, web: WebSite
) -> None:
    """After too many attempts the page counts down the seconds with the button disabled.

    See docs/design/web.md#rules-for-every-screen.
    """
    seen = await open_page(None)
    async with httpx.AsyncClient(base_url=web.origin, timeout=30) as client:
        for _ in range(10):
            body = {"email": "nobody@shop.example", "password": "guess"}
            await client.post("/app/session", json=body, headers={"X-Forwarded-For": web.address()})
    page = seen.page
    await seen.open("/")
    await page.get_by_label("E-mail").fill("nobody@shop.example")
    await page.get_by_label("Password", exact=True).fill("guess")
    button = page.get_by_role("button", name="Sign in")
    await button.click()
    await expect(button).to_contain_text(" s)")
    await expect(button).to_have_attribute("aria-disabled", "true")
    await expect(page.get_by_label("Password", exact=True)).to_have_value("guess")


async def test_a_session_that_ends_while_somebody_types_loses_nothing(open_page: Look, web: WebSite) -> None:
    """A sign-in over the page continues where the session ended.

    See docs/design/web.md#rules-for-every-screen.
    """
    session = await web.sign_in("visitor")
    seen = await open_page("visitor", cookie=session.cookie)
    page = seen.page
    await seen.open("/account")
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_label("New password", exact=True).fill("short")
    await page.get_by_label("New password again").fill("short")
    await session.call("DELETE", "/app/session")
    await session.client.aclose()
    await page.get_by_role("button", name="Change password").click()
    dialog = page.get_by_role("dialog", name="Sign in again")
    await expect(dialog).to_be_visible()
    assert await seen.audit() == []
    await dialog.get_by_label("Password", exact=True).fill(PASSWORD)
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog).to_be_hidden()
    # What was asked for goes on by itself, and its response lands at the field with everything still there.
    await expect(page.get_by_label("New password", exact=True)).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("New password again")).to_have_value("short")


async def test_leaving_what_was_typed_asks_first(open_page: Look) -> None:
    """Leaving a changed form asks first. See docs/design/web.md#rules-for-every-screen."""
    seen = await open_page("member")
    page = seen.page
    await seen.open("/account")
    await page.get_by_label("Current password").fill("typed")
    await page.get_by_role("link", name="Overview").click()
    question = page.get_by_role("dialog", name="Leave without saving?")
    await question.get_by_role("button", name="Stay").click()
    await expect(page.get_by_label("Current password")).to_have_value("typed")
    await page.get_by_role("link", name="Overview").click()
    await question.get_by_role("button", name="Leave and discard it").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


async def test_nobody_is_sent_elsewhere_after_signing_in(open_page: Look, web: WebSite) -> None:
    """After sign-in only addresses of the app are followed. See docs/design/web.md#sign-in."""
    seen = await open_page(None)
    page = seen.page
    await seen.open("/sign-in?next=https%3A%2F%2Fevil.example%2F")
    await page.get_by_label("E-mail").fill(web.email("visitor"))
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page).to_have_url(f"{web.origin}/")
