"""Tests the bell, personal notification settings and the organization's channels.

See docs/design/web.md#notifications.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
from playwright.async_api import Browser, Page, expect

from tests.outbound.mail_server import MailScript, ReceivedMail, mail_server
from tests.processes.running import eventually
from tests.web.conftest import Look
from tests.web.open_pages import OpenPage, look
from tests.web.site import UserSession, WebSite, open_web_site

# Counts what a person presses from here on.
_COUNT = "() => { window.clicks = 0; addEventListener('click', () => (window.clicks += 1), true); }"


async def test_a_person_chooses_what_reaches_them(open_page: Look, web: WebSite) -> None:
    """A person sets notifications by keyboard on a phone; the choice is there after a reload."""
    member = await web.session_of("member")
    await member.call("PATCH", "/app/notification-preferences", {"quiet_hours": None})
    seen = await open_page("member", size="phone")
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
    stored = (await member.call("GET", "/app/notification-preferences"))["preferences"]
    assert stored["quiet_hours"] == {"from": "21:30", "to": "06:30", "days": [1, 2, 3, 4, 5, 6]}
    await page.reload()
    await expect(page.get_by_label("From")).to_have_value("21:30")
    assert await seen.check_looks("account-notifications") == []


async def _arrived(script: MailScript, to: str, words: str) -> ReceivedMail:
    """Waits for the first mail to this address with these words in its subject."""

    async def find() -> ReceivedMail | None:
        arrived = [mail for mail in script.received if mail.recipients == [to]]
        return next((mail for mail in arrived if words in str(mail.message["Subject"])), None)

    arrived: ReceivedMail = await eventually(find)
    return arrived


async def _run_by_hand(page: Page, name: str) -> int:
    """Runs an automation from the overview and returns the number of clicks."""
    await page.evaluate(_COUNT)
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Automations").click()
    await page.get_by_role("link", name=name).click()
    await page.get_by_role("button", name="Run now").click()
    await page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    clicks: int = await page.evaluate("() => window.clicks")
    return clicks


async def _follow_mail(seen: OpenPage, mail: ReceivedMail) -> None:
    """Follows the mail's link to the approval, whose page names the person notified."""
    page = seen.page
    text = mail.message.get_body(("plain",))
    assert text is not None
    [link] = re.findall(r"https?://\S+/approvals/\w+", text.get_content())
    await page.goto(link)
    await expect(page.get_by_text("Notified: 2 people by e-mail")).to_be_visible()
    await page.get_by_role("button", name="Notices: 1 unread").click()
    notice = page.get_by_role("link", name="asks for approval")
    await expect(notice).to_be_visible()
    assert await seen.audit() == []
    await notice.click()
    await expect(page.get_by_role("button", name="Notices", exact=True)).to_be_visible()


async def _choose_new_password(seen: OpenPage, script: MailScript, email: str) -> None:
    """Resets a forgotten password by the mail's link and signs in with the new one."""
    page, words = seen.page, "plum orbit canvas nine"
    await seen.open("/sign-in")
    await page.get_by_role("link", name="Forgot your password?").click()
    await page.get_by_label("E-mail").fill(email)
    faults = await seen.check_looks("forgot-password")
    await page.get_by_role("button", name="Send me a link").click()
    await expect(page.get_by_text("a link to a new password is on its way")).to_be_visible()
    text = (await _arrived(script, email, "new password")).message.get_body(("plain",))
    assert text is not None
    [link] = re.findall(r"https?://\S+#token=\S+", text.get_content())
    await page.goto(link)
    await expect(page).to_have_url(re.compile(r"/password/reset$"))
    await page.get_by_label("New password", exact=True).fill(words)
    await page.get_by_label("New password again").fill(words)
    faults += await seen.check_looks("reset-password")
    await page.get_by_role("button", name="Change password").click()
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password", exact=True).fill(words)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert faults == []


async def _try_refused_mail_again(seen: OpenPage, web: WebSite, script: MailScript) -> None:
    """After three refused mails a member is marked under People until mail is tried again."""
    script.recipients["member@shop.example"] = "550 5.1.1 No such user"
    member = await web.session_of("member")
    for _ in range(3):
        await member.call("POST", "/app/notification-preferences/test", {})

        async def has_failed() -> bool:
            test = (await member.call("GET", "/app/notification-preferences"))["mail_test"]
            return bool(test["state"] == "failed")

        await eventually(has_failed)
    await seen.open("/people")
    row = seen.page.get_by_role("row").filter(has_text="member@shop.example")
    await expect(row).to_contain_text("mail is refused")
    await row.get_by_role("button", name="Change").click()
    await seen.page.get_by_role("button", name="Try mail again").click()
    await expect(row).not_to_contain_text("mail is refused")


async def _from_nothing_to_a_run(seen: OpenPage, web: WebSite) -> int:
    """Connects a shop, runs an automation for the first time and returns the number of clicks."""
    page, shop = seen.page, web.site.sandbox.facts["woocommerce"]
    await page.evaluate(_COUNT)
    await page.get_by_role("link", name="Connect your shop").click()
    await page.get_by_role("link", name="WooCommerce").click()
    await page.get_by_label("Name", exact=True).fill("First shop")
    await page.get_by_label("Address of the shop").fill(shop["url"])
    await page.get_by_label("Consumer key").fill(shop["consumer_key"])
    await page.get_by_label("Consumer secret", exact=True).fill(shop["consumer_secret"])
    await page.get_by_role("button", name="Check and connect").click()
    suggested = page.get_by_role("list", name="Most used")
    await suggested.get_by_role("link", name="Hide sold-out products").click()
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.get_by_text("on First shop")).to_be_visible()
    await expect(page.get_by_text("Nothing changes in the store until somebody approves.")).to_be_visible()
    assert await seen.audit() == []
    await page.get_by_role("button", name="Create and run now").click()
    await expect(page).to_have_url(re.compile(r"/runs/[0-9A-Z]{26}$"))
    clicks: int = await page.evaluate("() => window.clicks")
    return clicks


def _in_database(web: WebSite, sql: str) -> None:
    """Executes a statement on the service's database, in place of the passing of time."""
    with closing(
        sqlite3.connect(web.site.env["STEWARD_DATABASE_URL"].removeprefix("sqlite:///"))
    ) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute(sql)
        connection.commit()


async def _ask_again(web: WebSite, name: str) -> None:
    """Makes another automation ask for approval."""
    _in_database(web, "UPDATE messages SET sent_at = sent_at - 3600000")  # the window has passed
    automation = await web.automation(name)
    run = await web.run(automation["id"], automation["id"])
    assert run["status"] == "waiting_approval"


async def _end_digests(browser: Browser, web: WebSite, script: MailScript) -> None:
    """Opening a digest's address changes nothing; its button or a mail program's one click ends digests."""
    approver = await web.session_of("approver")
    path, expected = "/app/notification-preferences", {"email": {"approvals": "digest"}}
    await approver.call("PATCH", path, expected)
    await _ask_again(web, "Asks in a digest")

    async def is_collected() -> bool:
        _in_database(web, "UPDATE messages SET due_at = 1, next_try_at = 1 WHERE state = 'collecting'")
        return any(mail.message["List-Unsubscribe"] for mail in script.received)

    await eventually(is_collected)
    [digest] = [mail for mail in script.received if mail.message["List-Unsubscribe"]]
    assert digest.recipients == ["approver@shop.example"]
    assert digest.message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    address = str(digest.message["List-Unsubscribe"]).strip("<>")

    async def choice() -> str:
        stored = (await approver.call("GET", path))["preferences"]["email"]
        return str(stored["approvals"])

    nobody = await look(browser, web, None, size="phone")
    await nobody.page.goto(address)
    button = nobody.page.get_by_role("button", name="Send me no more digests")
    await expect(button).to_be_visible()
    assert await choice() == "digest"
    faults = await nobody.check_looks("unsubscribe")
    await button.click()
    await expect(nobody.page.get_by_text("You will get no more digests.")).to_be_visible()
    assert await choice() == "off"
    await approver.call("PATCH", path, expected)
    async with httpx.AsyncClient(timeout=30) as program:  # RFC 8058: no cookie, no redirect, one form field
        reply = await program.post(address, data={"List-Unsubscribe": "One-Click"})
    assert (reply.status_code, await choice()) == (200, "off")
    assert [*faults, *nobody.reports] == []
    await nobody.context.close()


async def _see_that_mail_is_down(seen: OpenPage, web: WebSite, script: MailScript) -> None:
    """While the mail server is down an owner reads since when, that nothing is lost, and what to do."""
    script.replies = ("451 4.3.0 Try again later",)
    await _ask_again(web, "Asks unheard")

    async def has_waited() -> bool:
        _in_database(
            web, "UPDATE messages SET due_at = due_at - 1200000, next_try_at = 1 WHERE next_try_at > 1"
        )
        _in_database(web, "UPDATE messages SET sent_at = sent_at - 1200000")
        inbox = await (await web.session_of("owner")).call("GET", "/app/inbox")
        return inbox["mail_down_since"] is not None

    await eventually(has_waited)
    await seen.open("/")
    banner = seen.page.get_by_role("status").filter(has_text="E-mail is not going out since")
    await expect(banner).to_contain_text("Nothing is lost")
    await expect(banner).to_contain_text("steward doctor")
    assert await seen.check_looks("mail-is-down") == []
    member = await (await web.session_of("member")).call("GET", "/app/inbox")
    assert member["mail_down_since"] is None  # told to owners, who can see to it


async def test_a_waiting_approval_reaches_the_mailbox(built: None, browser: Browser, tmp_path: Path) -> None:
    """With only a mail server set up, six clicks lead from no shop to a mail about an approval.

    Then follow a test mail, an end of digests, a new password and a mail server outage.
    """
    script = MailScript()
    async with mail_server(script) as port:
        server = f"127.0.0.1:{port}"
        mail = {
            "STEWARD_SMTP_URL": f"smtp://{server}",
            "STEWARD_MAIL_FROM": "Steward <steward@shop.example>",
        }
        async with open_web_site(tmp_path, private_hosts=[server], **mail) as web:
            fresh = await look(browser, web, "stranger")
            await fresh.open("/")
            assert await _from_nothing_to_a_run(fresh, web) <= 6
            await _arrived(script, "stranger@shop.example", "asks for approval")
            await fresh.context.close()
            await web.automation("Told by mail")
            seen = await look(browser, web, "owner")
            await seen.open("/")
            assert await _run_by_hand(seen.page, "Told by mail") <= 6
            received_mail = await _arrived(script, "owner@shop.example", "asks for approval")
            await _arrived(script, "approver@shop.example", "asks for approval")
            await _follow_mail(seen, received_mail)
            await seen.open("/account/notifications")
            await expect(seen.page.get_by_text("Everything by e-mail at once.")).to_be_visible()
            await seen.page.get_by_role("button", name="Send me a test mail").click()
            await expect(seen.page.get_by_text("The mail server accepted a test mail")).to_be_visible()
            await _arrived(script, "owner@shop.example", "test mail")
            assert await seen.check_looks("notifications-with-mail") == []
            await _try_refused_mail_again(seen, web, script)
            nobody = await look(browser, web, None)
            await _choose_new_password(nobody, script, "visitor@shop.example")
            await nobody.context.close()
            await _end_digests(browser, web, script)
            await _see_that_mail_is_down(seen, web, script)
            await seen.context.close()
            assert [*seen.reports, *nobody.reports] == []


async def _change_channel(page: Page, owner: UserSession) -> None:
    """Changes a channel's name and stores; at least one store must stay chosen."""
    await page.get_by_role("button", name="Change channel").click()
    dialog = page.get_by_role("dialog", name="Change Operations room")
    await dialog.get_by_label("Name", exact=True).fill("Night watch")
    await dialog.get_by_role("group", name="Stores").get_by_label("Only those that I choose").check()
    await dialog.get_by_role("button", name="Save channel").click()
    await expect(dialog.get_by_role("group", name="Chosen stores")).to_contain_text("must not be empty")
    await dialog.get_by_role("group", name="Chosen stores").get_by_role("checkbox").first.check()
    await dialog.get_by_role("button", name="Save channel").click()
    await expect(page.get_by_role("heading", name="Night watch")).to_be_visible()
    await expect(page.get_by_text("Only of 1 store.")).to_be_visible()
    [route] = (await owner.call("GET", "/app/notification-routes"))["routes"]
    assert (len(route["integration_ids"]), route["automation_ids"]) == (1, None)


async def _add_webhook(page: Page) -> None:
    """Adds a webhook, whose signing secret is shown once only."""
    await page.get_by_role("button", name="Add a channel").click()
    await page.get_by_role("link", name="Webhook").click()
    await page.get_by_label("Name", exact=True).fill("Program")
    await page.get_by_label("Address").fill("https://hooks.example.com/in")
    await page.get_by_role("button", name="Add channel").click()
    await expect(page.get_by_text("The signing secret is shown only once.")).to_be_visible()
    await expect(page.get_by_label("Signing secret")).to_have_value(re.compile("^whsec_"))
    await page.get_by_role("button", name="I have kept the secret").click()
    await page.get_by_role("link", name="Program").click()
    await expect(page.get_by_role("heading", name="Program")).to_be_visible()
    await expect(page.get_by_label("Signing secret")).to_have_count(0)
    await page.get_by_role("button", name="Delete channel").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete channel").click()
    await expect(page.get_by_text("None is set up.")).to_be_visible()


async def test_an_owner_adds_a_channel_and_tests_it(open_page: Look, web: WebSite) -> None:
    """An owner adds and tests a channel and resends its deliveries; others see no buttons."""
    owner = await web.session_of("owner")
    # What an earlier try of this test has left.
    for route in (await owner.call("GET", "/app/notification-routes"))["routes"]:
        await owner.call("DELETE", f"/app/notification-routes/{route['id']}")
    connected = await owner.call("GET", "/app/connections?kind=slack&state=connected&limit=200")
    if "Operations" not in [row["name"] for row in connected["connections"]]:
        slack = {"webhook_url": web.site.sandbox.facts["slack"]["webhook_url"]}
        body = {"kind": "slack", "name": "Operations", "settings": slack}
        await owner.call("POST", "/app/connections", body)
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/organization/notifications")
    await page.get_by_role("button", name="Add a channel").click()
    await page.get_by_role("link", name="Slack").click()
    await page.get_by_role("button", name="Add channel").click()
    await expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Name", exact=True).fill("Operations room")
    await page.get_by_role("checkbox", name="A run failed", exact=True).uncheck()
    faults = await seen.check_looks("new-channel")
    await page.get_by_role("button", name="Add channel").click()
    await page.get_by_role("button", name="Send a test message").click()
    await expect(page.get_by_text("The test message was accepted.").first).to_be_visible()
    await page.get_by_role("button", name="Done").click()
    await page.get_by_role("link", name="Operations room").click()
    row = page.get_by_role("row").filter(has_text="A test message")
    await expect(row).to_contain_text("Accepted")
    faults += await seen.check_looks("channel")
    assert faults == []
    member = await open_page("member", size="phone")
    await member.open("/organization/notifications")
    await expect(member.page.get_by_text("Works")).to_be_visible()
    await expect(member.page.get_by_role("button", name="Add a channel")).to_be_disabled()
    await _change_channel(page, owner)
    await page.get_by_role("button", name="Delete channel").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete channel").click()
    await expect(page.get_by_text("None is set up.")).to_be_visible()
    await _add_webhook(page)
