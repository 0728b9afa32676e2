"""Tests inviting, roles and removing; no data of another organization stays (flows 16 and 17).

See docs/design/web.md#tests.
"""

import re
from urllib.parse import SplitResult, urlsplit

from playwright.async_api import Page, expect

from tests.processes.running import PASSWORD
from tests.web.conftest import Look
from tests.web.open_pages import OpenPage
from tests.web.site import WebSite, unused


async def _invite_again(page: Page, email: str, former: SplitResult) -> SplitResult:
    """Creates a new link for a person who has not joined."""
    await page.get_by_role("button", name=f"Change {email}").click()
    await page.get_by_role("button", name="Invite again").click()
    link = urlsplit(await page.get_by_label("Link of the invitation").input_value())
    assert link.fragment != former.fragment
    await page.get_by_role("dialog").get_by_role("button", name="Done").click()
    return link


async def _reads_the_audit_log(owner: OpenPage, guest: OpenPage, name: str) -> None:
    """The owner filters and exports the audit log; others have no such page."""
    page = owner.page
    await owner.open("/organization/audit")
    table = page.get_by_role("table", name="Audit log")
    await expect(table.get_by_text(f"{name} accepted an invitation")).to_be_visible()
    await expect(table.get_by_text("Worth a look").first).to_be_visible()
    await page.get_by_label("About").select_option("connection")
    await expect(table.get_by_text(f"{name} accepted an invitation")).to_have_count(0)
    await expect(page).to_have_url(re.compile(r"/organization/audit\?about=connection$"))
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Export for a spreadsheet").click()
    assert (await saving.value).suggested_filename.endswith(".csv")
    await guest.open("/organization/audit")
    await expect(guest.page.get_by_role("table", name="Audit log")).to_have_count(0)


async def test_a_person_is_invited_given_a_role_and_removed(open_page: Look, web: WebSite) -> None:
    """The link is shown once, a role counts from the next call, and removal ends the session.

    See docs/design/web.md#people-organization-account.
    """
    last_name = unused("Guest")
    name, email = f"A {last_name}", f"{last_name.lower()}@shop.example"
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/people")
    await page.get_by_role("button", name="Change The Owner").click()
    await expect(page.get_by_text("The last owner stays.")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Invite a person").click()
    dialog = page.get_by_role("dialog", name="Invite a person")
    await dialog.get_by_label("E-mail").fill("nobody")
    await dialog.get_by_role("button", name="Create invitation link").click()
    await expect(dialog.get_by_label("E-mail")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("E-mail").fill(email)
    await dialog.get_by_role("button", name="Create invitation link").click()
    link = urlsplit(await page.get_by_label("Link of the invitation").input_value())
    await page.get_by_role("dialog").get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text=email)
    await expect(row).to_contain_text("Invited")
    link = await _invite_again(page, email, link)

    guest = await open_page(None)
    await guest.open(f"{link.path}#{link.fragment}")
    await guest.page.get_by_label("First name").fill("A")
    await guest.page.get_by_label("Last name").fill(last_name)
    await guest.page.get_by_label("New password", exact=True).fill(PASSWORD)
    await guest.page.get_by_label("New password again").fill(PASSWORD)
    await guest.page.get_by_role("button", name="Accept and sign in").click()
    await expect(guest.page.get_by_role("heading", name="Overview")).to_be_visible()

    await _reads_the_audit_log(seen, guest, name)
    await seen.open("/people")
    await page.get_by_role("button", name=f"Change {name}").click()
    await page.get_by_role("button", name="Change the role").click()
    await page.get_by_role("dialog").get_by_label("Owner").check()
    await page.get_by_role("button", name="Change role").click()
    await expect(row).to_contain_text("Owner")
    await _forbids_unapproved_sends(guest, web)

    await page.get_by_role("button", name=f"Change {name}").click()
    await page.get_by_role("button", name="Remove", exact=True).click()
    await (
        page.get_by_role("dialog", name=f"Remove {name}?").get_by_role("button", name="Remove person").click()
    )
    await expect(row).to_contain_text("Removed")
    await guest.page.goto(f"{web.origin}/people")
    await expect(guest.page.get_by_role("cell", name="approver@shop.example")).to_have_count(0)
    await page.get_by_role("button", name=f"Bring back {name}").click()
    await expect(row).to_contain_text("Active")
    owner = await web.session_of("owner")
    await owner.call("POST", f"/app/people/{await _id(web, email)}/deactivate", {})


async def _forbids_unapproved_sends(seen: OpenPage, web: WebSite) -> None:
    """Unchecks the setting of the organization."""
    await seen.open("/organization")
    await seen.page.get_by_label("Workflows may send without approval").uncheck()
    await seen.page.get_by_role("button", name="Save the organization").click()
    await expect(seen.page.get_by_text("The organization is saved").first).to_be_visible()
    owner = await web.session_of("owner")
    organization = (await owner.call("GET", "/app/organization"))["organization"]
    assert organization["send_without_approval"] is False


async def _id(web: WebSite, email: str) -> int:
    people = (await (await web.session_of("owner")).call("GET", "/app/people"))["people"]
    person: int = next(each_person["id"] for each_person in people if each_person["email"] == email)
    return person


async def test_the_page_of_an_invitation_reveals_no_account(open_page: Look, web: WebSite) -> None:
    """An invitation's page is the same whether or not the address has an account."""
    displayed = []
    for email in ("stranger@example.com", "unheard-of@example.com"):
        invited = await (await web.session_of("owner")).call(
            "POST", "/app/people", {"email": email, "role": "member"}
        )
        link = urlsplit(invited["invite_url"])
        seen = await open_page(None)
        await seen.open(f"{link.path}#{link.fragment}")
        page = seen.page
        await expect(page.get_by_role("button", name="Accept and sign in")).to_be_enabled()
        texts = [await page.get_by_role("main").inner_text()]
        await page.get_by_label("I already sign in to Steward").check()
        await page.get_by_label("Your password").fill("a wrong phrase 1931")
        await page.get_by_role("button", name="Accept and sign in").click()
        await expect(page.get_by_text("This is not the password of an account")).to_be_visible()
        await expect(page.get_by_role("button", name="Accept and sign in")).to_be_enabled()
        texts.append(await page.get_by_role("main").inner_text())
        displayed.append(texts)
    assert displayed[0] == displayed[1]


async def test_switching_leaves_no_record_of_the_other_organization(open_page: Look, web: WebSite) -> None:
    """Switching keeps the kind of screen but no record of the other organization."""
    body = {"email": f"{unused('both')}@shop.example", "role": "member"}
    invited = await (await web.session_of("owner")).call("POST", "/app/people", body)
    accept = {"token": urlsplit(invited["invite_url"]).fragment.partition("=")[2], "password": PASSWORD}
    names = {"first_name": "Of", "last_name": "Both"}
    seen = await open_page(None)
    page = seen.page
    await seen.open("/sign-in")
    headers = {"X-Forwarded-For": web.address()}
    response = await page.request.post(
        f"{web.origin}/app/invitations/accept", data={**accept, **names}, headers=headers
    )
    assert response.ok, await response.text()
    again = await (await web.session_of("stranger")).call("POST", "/app/people", body)
    accept = {"token": urlsplit(again["invite_url"]).fragment.partition("=")[2], "password": PASSWORD}
    response = await page.request.post(f"{web.origin}/app/invitations/accept", data=accept, headers=headers)
    assert response.ok, await response.text()
    # The session is in the other shop now; a record of the first is nowhere to be seen from there.
    await seen.open(f"/connections/{web.site.store}")
    await expect(page.get_by_text("belongs to another organization")).to_be_visible()
    await page.get_by_role("button", name="Organization: Other Shop. Switch").click()
    await page.get_by_role("button", name="Test Shop").click()
    await expect(page).to_have_url(f"{web.origin}/connections")
    await page.get_by_role("link", name="The shop", exact=True).click()
    await expect(page.get_by_role("heading", name="The shop")).to_be_visible()
    await page.get_by_role("button", name="Organization: Test Shop. Switch").click()
    await page.get_by_role("button", name="Other Shop").click()
    await expect(page).to_have_url(f"{web.origin}/connections")
    await expect(page.get_by_text("The shop", exact=True)).to_have_count(0)
