"""The bell, what reaches a person, and the channels of the organization, in a browser.

See docs/design/web.md#notifications.
"""

import re
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from tests.outbound.mail_server import MailScript, ReceivedMail, mail_server
from tests.processes.running import eventually
from tests.web.conftest import Look
from tests.web.looking import Seen, look
from tests.web.site import WebSite, open_web_site

# Counts what a person presses from here on.
_COUNT = "() => { window.clicks = 0; addEventListener('click', () => (window.clicks += 1), true); }"


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


async def _arrived(script: MailScript, to: str, words: str) -> ReceivedMail:
    """The first mail to an address whose subject has these words."""

    async def find() -> ReceivedMail | None:
        arrived = [mail for mail in script.received if mail.recipients == [to]]
        return next((mail for mail in arrived if words in str(mail.message["Subject"])), None)

    arrived: ReceivedMail = await eventually(find)
    return arrived


async def _run_by_hand(page: Page, name: str) -> int:
    """Runs an automation from the overview on; returns how many clicks that took."""
    await page.evaluate(_COUNT)
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Automations").click()
    await page.get_by_role("link", name=name).click()
    await page.get_by_role("button", name="Run now").click()
    await page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    clicks: int = await page.evaluate("() => window.clicks")
    return clicks


async def _follow_mail(seen: Seen, mail: ReceivedMail) -> None:
    """The link of a mail leads to the approval, whose page says who was told; the bell has it, too."""
    page = seen.page
    text = mail.message.get_body(("plain",))
    assert text is not None
    [link] = re.findall(r"https?://\S+/approvals/\w+", text.get_content())
    await page.goto(link)
    await expect(page.get_by_text("Told: 2 people by e-mail")).to_be_visible()
    await page.get_by_role("button", name="Notices: 1 unread").click()
    notice = page.get_by_role("link", name="asks for approval")
    await expect(notice).to_be_visible()
    assert await seen.audit() == []
    await notice.click()
    await expect(page.get_by_role("button", name="Notices", exact=True)).to_be_visible()


async def _choose_new_password(seen: Seen, script: MailScript, email: str) -> None:
    """A forgotten password: the link of a mail, the new password, and signing in with it."""
    page, words = seen.page, "plum orbit canvas nine"
    await seen.open("/sign-in")
    await page.get_by_role("link", name="Forgot your password?").click()
    await page.get_by_label("E-mail").fill(email)
    faults = await seen.judged("forgot-password")
    await page.get_by_role("button", name="Send me a link").click()
    await expect(page.get_by_text("a link to a new password is on its way")).to_be_visible()
    text = (await _arrived(script, email, "new password")).message.get_body(("plain",))
    assert text is not None
    [link] = re.findall(r"https?://\S+#token=\S+", text.get_content())
    await page.goto(link)
    await expect(page).to_have_url(re.compile(r"/password/reset$"))
    await page.get_by_label("New password", exact=True).fill(words)
    await page.get_by_label("New password again").fill(words)
    faults += await seen.judged("reset-password")
    await page.get_by_role("button", name="Change password").click()
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password", exact=True).fill(words)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert faults == []


async def test_a_waiting_approval_reaches_the_mailbox(built: None, browser: Browser, tmp_path: Path) -> None:
    """With a mail server and nothing else set: within 6 clicks; then a test mail, and a new password."""
    script = MailScript()
    async with mail_server(script) as port:
        server = f"127.0.0.1:{port}"
        mail = {
            "STEWARD_SMTP_URL": f"smtp://{server}",
            "STEWARD_MAIL_FROM": "Steward <steward@shop.example>",
        }
        async with open_web_site(tmp_path, private_hosts=[server], **mail) as web:
            await web.automation("Told by mail")
            seen = await look(browser, web, "owner")
            await seen.open("/")
            assert await _run_by_hand(seen.page, "Told by mail") <= 6
            asked = await _arrived(script, "owner@shop.example", "asks for approval")
            await _arrived(script, "approver@shop.example", "asks for approval")
            await _follow_mail(seen, asked)
            await seen.open("/account/notifications")
            await expect(seen.page.get_by_text("Everything by e-mail at once.")).to_be_visible()
            await seen.page.get_by_role("button", name="Send me a test mail").click()
            await expect(seen.page.get_by_text("The mail server accepted a test mail")).to_be_visible()
            await _arrived(script, "owner@shop.example", "test mail")
            assert await seen.judged("notifications-with-mail") == []
            await seen.context.close()
            nobody = await look(browser, web, None)
            await _choose_new_password(nobody, script, "visitor@shop.example")
            await nobody.context.close()
            assert [*seen.reports, *nobody.reports] == []


async def test_an_owner_adds_a_channel_and_tests_it(looking: Look, web: WebSite) -> None:
    """Channel, where, what, test; its deliveries are listed and sent again; others see it without buttons."""
    owner = await web.signed("owner")
    slack = {"webhook_url": web.site.sandbox.facts["slack"]["webhook_url"]}
    await owner.call("POST", "/app/connections", {"kind": "slack", "name": "Operations", "settings": slack})
    seen = await looking("owner")
    page = seen.page
    await seen.open("/organization/notifications")
    await page.get_by_role("button", name="Add a channel").click()
    await page.get_by_role("link", name="Slack").click()
    await page.get_by_role("button", name="Add channel").click()
    await expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Name", exact=True).fill("Operations room")
    await page.get_by_role("checkbox", name="A run failed", exact=True).uncheck()
    faults = await seen.judged("new-channel")
    await page.get_by_role("button", name="Add channel").click()
    await page.get_by_role("button", name="Send a test message").click()
    await expect(page.get_by_text("The test message was accepted.").first).to_be_visible()
    await page.get_by_role("button", name="Done").click()
    await page.get_by_role("link", name="Operations room").click()
    row = page.get_by_role("row").filter(has_text="test")
    await expect(row).to_contain_text("Accepted")
    faults += await seen.judged("channel")
    assert faults == []
    member = await looking("member", size="phone")
    await member.open("/organization/notifications")
    await expect(member.page.get_by_text("Works")).to_be_visible()
    await expect(member.page.get_by_role("button", name="Add a channel")).to_be_disabled()
    await page.get_by_role("button", name="Delete channel").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete channel").click()
    await expect(page.get_by_text("None is set up.")).to_be_visible()
