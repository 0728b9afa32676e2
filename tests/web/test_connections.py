"""Tests connecting, a failing check, reconnecting and disconnecting; no secret is shown (flow 14).

See docs/design/web.md#tests.
"""

import asyncio
import json

from playwright.async_api import Error, FilePayload, Page, Response, expect

from tests.web.conftest import Look
from tests.web.open_pages import OpenPage
from tests.web.site import WebSite, unused


class ReceivedTexts:
    """Collects the text of every response that the page received."""

    def __init__(self, page: Page) -> None:
        self._read_tasks: list[asyncio.Task[str]] = []
        page.on("response", self._hear)

    def _hear(self, response: Response) -> None:
        if "/app/" in response.url or "/v1/" in response.url:
            self._read_tasks.append(asyncio.ensure_future(self._text(response)))

    async def _text(self, response: Response) -> str:
        try:
            return await response.text()
        except Error:  # a page that was left takes its answers with it
            return ""

    async def holds(self, secret: str) -> bool:
        """Tells whether a response contains this text."""
        texts = await asyncio.gather(*self._read_tasks)
        assert any(texts), "nothing was overheard"
        return any(secret in text for text in texts)


async def _kind(seen: OpenPage, kind: str, name: str) -> Page:
    await seen.open("/connections/new")
    await seen.page.get_by_role("link", name=kind).click()
    await seen.page.get_by_label("Name", exact=True).fill(name)
    return seen.page


async def _connected(page: Page, name: str) -> None:
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_role("heading", name=f"{name} is connected")).to_be_visible()


async def test_accounts_are_connected_used_and_disconnected(open_page: Look, web: WebSite) -> None:
    """Teams and a bucket are connected by form; disconnecting names what uses them first.

    See docs/design/web.md#connections.
    """
    facts = web.site.sandbox.facts
    # An address is connected once: an earlier try of this test may have connected another.
    secret = facts["teams"]["webhook_url"].replace("?", f"/{unused('ops')}?")
    owner = await web.session_of("owner")
    seen = await open_page("owner")
    response = ReceivedTexts(seen.page)
    page = await _kind(seen, "Microsoft Teams", "Ops channel")
    await page.get_by_label("Address of the workflow", exact=True).fill("https://other.example/workflow")
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("This is not an address of Teams.")).to_be_visible()
    await expect(page.get_by_label("Address of the workflow", exact=True)).to_be_focused()
    await page.get_by_label("Address of the workflow", exact=True).fill(secret)
    await _connected(page, "Ops channel")
    await page.get_by_role("button", name="Open the connection").click()
    await expect(page.get_by_role("heading", name="Ops channel")).to_be_visible()
    await expect(page.get_by_text("Microsoft Teams", exact=True)).to_be_visible()
    opened = page.url
    await seen.open("/connections")
    row = page.get_by_role("row").filter(has_text="Ops channel")
    await expect(row.get_by_text("Microsoft Teams", exact=True)).to_be_visible()
    await page.goto(opened)

    teams = int(page.url.rsplit("/", 1)[1])
    inputs = {"threshold": 1, "teams": {"integration_id": teams}}
    automation = await web.automation("Alert of the ops", template_id="low-stock-alert", inputs=inputs)
    await page.reload()
    await expect(page.get_by_role("table").get_by_text("Alert of the ops")).to_be_visible()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Shop floor")
    await page.get_by_role("button", name="Rename connection").click()
    await expect(page.get_by_role("heading", name="Shop floor", level=1)).to_be_visible()
    run = await web.run(automation["id"], "alert-of-the-ops", mode="test")
    await seen.open(f"/runs/{run['id']}?tab=changes")
    # D17: what is new comes from nothing, not from "(empty)".
    message = page.get_by_role("row").filter(has_text="Lines")
    await expect(message).to_contain_text("Not made (test)")
    await expect(message).not_to_contain_text("(empty)")
    await seen.open(f"/connections/{teams}")
    await page.get_by_role("button", name="Disconnect", exact=True).click()
    dialog = page.get_by_role("dialog", name="Disconnect Shop floor?")
    await expect(dialog).to_contain_text("1 automation will be paused")
    await expect(dialog).to_contain_text("Alert of the ops")
    await dialog.get_by_role("button", name="Disconnect and erase its keys").click()
    await expect(page.get_by_text("Disconnected", exact=True)).to_be_visible()
    after = (await owner.call("GET", f"/v1/automations/{automation['id']}"))["automation"]
    assert (after["state"], after["paused_by"]) == ("paused", "system")

    assert not await response.holds(secret.rpartition("sig=")[2])
    assert secret not in await page.content()


async def test_a_bucket_takes_the_right_key_alone_and_the_same_bucket_again(
    open_page: Look, web: WebSite
) -> None:
    """A refused key is reported and not saved; a bucket is reconnected after its keys were erased.

    See docs/design/web.md#connections.
    """
    bucket = web.site.sandbox.facts["cloud_s3"]
    name = await web.new_owner()
    owner = await web.session_of(name)
    seen = await open_page(name)
    response = ReceivedTexts(seen.page)
    page = await _kind(seen, "S3", "Supplier files")
    await _fill_bucket(page, {**bucket, "secret_access_key": "wrong"})
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.locator("[aria-invalid=true]").first).to_be_focused()
    await expect(page.get_by_label("Region", exact=True)).to_have_value(bucket["region"])
    assert (await owner.call("GET", "/app/connections?kind=cloud_s3"))["connections"] == []
    await page.get_by_label("Secret access key", exact=True).fill(bucket["secret_access_key"])
    await _connected(page, "Supplier files")
    await page.get_by_role("button", name="Open the connection").click()
    await page.get_by_role("button", name="Disconnect", exact=True).click()
    await page.get_by_role("button", name="Disconnect and erase its keys").click()
    await page.get_by_role("button", name="Reconnect").click()
    await _fill_bucket(page, {**bucket, "bucket": "another-bucket"})
    await page.get_by_role("button", name="Check and reconnect").click()
    await expect(page.locator("[aria-invalid=true]").first).to_be_focused()
    await page.get_by_label("Bucket", exact=True).fill(bucket["bucket"])
    await page.get_by_role("button", name="Check and reconnect").click()
    await expect(
        page.get_by_role("region", name="Notes").get_by_text("Supplier files is connected")
    ).to_be_visible()
    await expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    assert not await response.holds(bucket["secret_access_key"])


async def _fill_bucket(page: Page, settings: dict[str, str]) -> None:
    for label, field in (
        ("Address of the storage", "endpoint_url"),
        ("Region", "region"),
        ("Bucket", "bucket"),
        ("Access key id", "access_key_id"),
        ("Secret access key", "secret_access_key"),
    ):
        await page.get_by_label(label, exact=True).fill(settings[field])


async def test_a_store_is_looked_at_by_its_owner_and_read_by_members(open_page: Look, web: WebSite) -> None:
    """ "Check now" reports its result to the owner; others see whom to ask.

    See docs/design/web.md#connections.
    """
    seen = await open_page("owner")
    await seen.open(f"/connections/{web.site.store}")
    await seen.page.get_by_role("button", name="Check now").click()
    await expect(seen.page.get_by_text("Checked ")).to_be_visible()
    again = seen.page.get_by_role("button", name="Reconnect")
    await expect(again).to_have_accessible_description(
        "It is connected. To give it other keys, disconnect it first."
    )

    member = await open_page("member")
    await member.open(f"/connections/{web.site.store}")
    button = member.page.get_by_role("button", name="Disconnect")
    await expect(button).to_have_attribute("aria-disabled", "true")
    await expect(button).to_have_accessible_description("Only owners can do this. Ask The Owner.")
    await member.open("/connections/new")
    await expect(member.page.get_by_text("Only owners can do this. Ask The Owner.")).to_be_visible()


async def test_spreadsheets_by_key_file_and_by_sign_in(open_page: Look, web: WebSite) -> None:
    """The page names the key file's account; a sign-in returns connected or says why not.

    See docs/design/web.md#connections.
    """
    sheets = web.site.sandbox.facts["spreadsheet"]
    seen = await open_page(await web.new_owner())
    response = ReceivedTexts(seen.page)
    page = await _kind(seen, "Google Sheets", "The log")
    key = json.dumps(sheets["service_account"]).encode()
    file: FilePayload = {"name": "key.json", "mimeType": "application/json", "buffer": key}
    await page.get_by_label("With the key of a service account").check()
    await page.get_by_label("Key file of the service account").set_input_files(files=file)
    await expect(page.get_by_text(sheets["service_account"]["client_email"])).to_be_visible()
    address = f"https://docs.google.com/spreadsheets/d/{sheets['spreadsheet_ids'][1]}/edit#gid=0"
    await page.get_by_label("Id of the spreadsheet").fill(address)
    await _connected(page, "The log")
    assert not await response.holds(sheets["service_account"]["private_key"][40:80])

    page = await _kind(seen, "Google Sheets", "My sheets")
    await page.get_by_label("Sign in with Google").check()
    await page.get_by_role("button", name="Sign in with Google").click()
    await expect(page.get_by_role("status").filter(has_text="My sheets is connected.")).to_be_visible()
    # Going there was wanted; nothing else was asked of another host.
    seen.reports[:] = [report for report in seen.reports if sheets["authorize_url"] not in report]
    await page.goto(f"{web.origin}/app/connections/sign-in/callback?error=access_denied&state=unknown")
    await expect(page.get_by_role("alert").filter(has_text="begin it again")).to_be_visible()


async def test_two_kinds_of_keys_are_asked_for_one_at_a_time(open_page: Look) -> None:
    """Keys of one kind hide the other's fields, and errors appear before anything is sent.

    See docs/design/web.md#inputs-form.
    """
    seen = await open_page("owner")
    page = await _kind(seen, "Shopify", "A store")
    await expect(page.get_by_label("Client ID of the app")).to_be_visible()
    await page.get_by_label("A fixed access token of an older app").check()
    await expect(page.get_by_label("Client ID of the app")).to_have_count(0)
    await page.get_by_label("Domain of the store").fill("shop.example")
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("ends in .myshopify.com, without https")).to_be_visible()
    await expect(page.get_by_text("This field is required.")).to_have_count(1)
    await page.get_by_label("Domain of the store").fill(" My-Store.MyShopify.com ")
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("This field is required.")).to_have_count(1)
    await expect(page.get_by_text("ends in .myshopify.com, without https")).to_have_count(0)
    await page.get_by_role("link", name="Overview").click()
    await page.get_by_role("button", name="Leave and discard it").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
