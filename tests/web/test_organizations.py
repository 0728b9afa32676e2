"""Tests invitations and people of two organizations (flows 16 and 17). See docs/design/web.md#tests."""

from urllib.parse import urlsplit

from playwright.async_api import expect

from tests.processes.running import PASSWORD
from tests.web.calendars import in_minutes
from tests.web.conftest import Look
from tests.web.site import WebSite, unused


async def test_an_invited_person_gets_in_once_and_moves_between_organizations(
    open_page: Look, web: WebSite
) -> None:
    """An invitation works once, and switching shows one organization. See docs/design/web.md#sign-in."""
    await web.automation("Only of the test shop", **await in_minutes(web))
    owner = await web.session_of("owner")
    keeper = await web.session_of("keeper")
    email = f"{unused('newcomer')}@shop.example"
    body = {"email": email, "role": "member"}
    invited = await owner.call("POST", "/app/people", body)
    seen = await open_page(None)
    page = seen.page
    link = urlsplit(invited["invite_url"])
    await seen.open(f"{link.path}#{link.fragment}")
    await expect(page).to_have_url(f"{web.origin}/invitation")
    await page.get_by_label("First name").fill("New")
    await page.get_by_label("Last name").fill("Comer")
    await page.get_by_label("New password", exact=True).fill(PASSWORD)
    await page.get_by_label("New password again").fill(PASSWORD)
    await page.get_by_role("button", name="Accept and sign in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.get_by_text("Only of the test shop").first).to_be_visible()

    again = await keeper.call("POST", "/app/people", body)
    second = await open_page(None)
    link = urlsplit(again["invite_url"])
    await second.open(f"{link.path}#{link.fragment}")
    await second.page.get_by_label("I already sign in to Steward").check()
    await second.page.get_by_label("Your password").fill(PASSWORD)
    await second.page.get_by_role("button", name="Accept and sign in").click()
    await expect(second.page.get_by_role("button", name="Organization: Third Shop. Switch")).to_be_visible()
    await expect(second.page.get_by_text("Get started")).to_be_visible()

    await second.page.get_by_role("button", name="Organization: Third Shop. Switch").click()
    await second.page.get_by_role("button", name="Test Shop").click()
    await expect(second.page.get_by_text("Only of the test shop").first).to_be_visible()
    await second.page.get_by_role("button", name="Organization: Test Shop. Switch").click()
    await second.page.get_by_role("button", name="Third Shop").click()
    await expect(second.page.get_by_text("Get started")).to_be_visible()
    await expect(second.page.get_by_text("Only of the test shop")).to_have_count(0)

    # The same link once more, in a browser nobody is signed in on.
    third = await open_page(None)
    await third.open(f"{link.path}#{link.fragment}")
    await third.page.get_by_label("I already sign in to Steward").check()
    await third.page.get_by_label("Your password").fill(PASSWORD)
    await third.page.get_by_role("button", name="Accept and sign in").click()
    await expect(third.page.get_by_role("main").get_by_text("Ask an owner for a new link")).to_be_visible()

    # Of two organizations one is chosen at sign-in.
    await second.page.get_by_role("button", name="Account: New Comer").click()
    await second.page.get_by_role("button", name="Sign out").click()
    await second.page.get_by_label("E-mail").fill(email)
    await second.page.get_by_label("Password", exact=True).fill(PASSWORD)
    await second.page.keyboard.press("Enter")
    await expect(second.page.get_by_role("heading", name="Choose an organization")).to_be_visible()
    assert await second.audit() == []
    await second.page.get_by_role("button", name="Test Shop Member").click()
    await expect(second.page.get_by_role("heading", name="Overview")).to_be_visible()
