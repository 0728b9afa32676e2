"""Tests accounts of HTTP APIs: connected, proposed to an import's steps, and changed later."""

import pytest
from playwright.async_api import Page, expect

from tests.imports.exports import chain, node
from tests.web.conftest import Look
from tests.web.open_pages import Size
from tests.web.site import UserSession, WebSite, unused
from tests.web.workflows import store_import

SECRET = "a-key-of-the-partner-5521"


async def _disconnect_all(owner: UserSession) -> None:
    """Disconnects the accounts that earlier tests connected, so that one account fits a host."""
    path = "/app/connections"
    rows = (await owner.call("GET", f"{path}?kind=http_api&state=connected&limit=200"))["connections"]
    for row in rows:
        await owner.call("POST", f"{path}/{row['integration_id']}/disconnect", {})


async def _look_at_the_sign_in(page: Page, host: str) -> None:
    """Fills in part of a sign-in with one's own app and returns to the keys."""
    await page.get_by_label("By signing in in the browser").check()
    await expect(page.get_by_text("/app/connections/sign-in/callback")).to_be_visible()
    await page.get_by_label("Hosts that may be called").fill(host)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("This field is required.")).to_have_count(4)
    await page.get_by_label("With a key").check()


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_an_account_is_connected_and_bound_to_the_steps_of_its_hosts(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """The form shows one sign-in at a time, and only the account of the step's host is proposed.

    See docs/design/web.md#imports and docs/design/imports-accounts.md#http-accounts.
    """
    mark = unused(size)
    host = f"api.{mark}.example"
    owner = await web.session_of("owner")
    settings = {"hosts": f"other.{mark}.example", "token": SECRET}
    other = {"kind": "http_api", "name": f"Other {mark}", "settings": settings}
    await owner.call("POST", "/app/connections", other)
    seen = await open_page("owner", size=size)
    page = seen.page
    await seen.open("/connections/new?kind=http_api")
    await page.get_by_label("Name", exact=True).fill(f"Partner {mark}")
    await _look_at_the_sign_in(page, host)
    await page.get_by_label("Which keys").select_option(label="A key in a header")
    await expect(page.get_by_label("Token", exact=True)).to_have_count(0)
    await page.get_by_label("Hosts that may be called").fill("not a host")
    await page.get_by_label("Name of the header").fill("X-Api-Key")
    await page.get_by_label("Value of the header").fill(SECRET)
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("is not the name of a host", exact=False)).to_be_visible()
    await page.get_by_label("Hosts that may be called").fill(host)
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text(f"Partner {mark} is connected")).to_be_visible()
    await expect(page.get_by_text("The key was not tried", exact=False)).to_be_visible()
    assert not await seen.layout_faults()
    assert SECRET not in await page.content()
    rows = (await owner.call("GET", "/app/connections?kind=http_api&limit=200"))["connections"]
    account = next(row["integration_id"] for row in rows if row["name"] == f"Partner {mark}")
    another = next(row["integration_id"] for row in rows if row["name"] == f"Other {mark}")

    sign_in = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
    asking_node = node("Ask", "httpRequest", 4.2, {"url": f"https://{host}/orders", **sign_in, "options": {}})
    stored = await store_import(web, chain(asking_node, name=f"Asks {mark}"), f"Asks {mark}")
    await seen.open(f"/imports/{stored['id']}?view=run")
    bound = page.get_by_role("list", name="Steps that need a connection")
    await expect(bound.get_by_text(f"for {host}", exact=False)).to_be_visible()
    await expect(bound.get_by_label("Connection of Ask")).to_have_value(str(account))
    await expect(bound.get_by_text("Connected", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Make automation").click()
    await page.wait_for_url("**/automations/*")
    made_id = page.url.rsplit("/", 1)[1]
    new_automation = (await owner.call("GET", f"/v1/automations/{made_id}"))["automation"]
    assert (new_automation["accounts"], new_automation["bindings"]) == (
        {"Ask": {"integration_id": account}},
        {},
    )
    assert new_automation["readiness"]["ready"] is True

    await seen.open(f"/automations/{made_id}/steps")
    await page.get_by_label("Connection of Ask").select_option(str(another))
    await page.get_by_role("button", name="Save").first.click()
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    now = (await owner.call("GET", f"/v1/automations/{made_id}"))["automation"]
    assert now["accounts"] == {"Ask": {"integration_id": another}}
    assert not await seen.layout_faults()


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_a_private_host_is_connected_from_the_set_up_of_an_import(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """The set-up leads to the form of the step's host, which says what the operator has to list.

    See docs/design/imports-accounts.md#private-hosts.
    """
    mark, owner = unused(size), await web.session_of("owner")
    await _disconnect_all(owner)
    listed = str(web.site.world.base_url).rstrip("/")
    unlisted = f"http://127.0.0.1:{9 if size == 'desk' else 7}"
    asking_nodes = [
        node("Ask", "httpRequest", 4.2, {"url": f"{unlisted}/a", "options": {}}),
        node("Ask again", "httpRequest", 4.2, {"url": f"{listed}/{size}", "options": {}}),
        node("And again", "httpRequest", 4.2, {"url": f"{listed}/other", "options": {}}),
    ]
    stored = await store_import(web, chain(*asking_nodes, name=f"Calls {mark}"), f"Calls {mark}")
    seen = await open_page("owner", size=size)
    page = seen.page
    await seen.open(f"/imports/{stored['id']}")
    await expect(page.get_by_text("STEWARD_ALLOW_PRIVATE_HOSTS", exact=False).first).to_be_visible()
    assert not await seen.layout_faults()
    await seen.open(f"/imports/{stored['id']}?view=run")
    bound = page.get_by_role("list", name="Steps that need a connection")
    await expect(bound.get_by_text(f"for {unlisted}", exact=False)).to_be_visible()
    link = bound.get_by_role("link", name="for connection of ask (opens in a new tab)", exact=False)
    assert await link.get_attribute("target") == "_blank"
    await seen.open(str(await link.get_attribute("href")))
    await expect(page.get_by_label("Hosts that may be called")).to_have_value(unlisted)
    await expect(page.get_by_label("Which keys")).to_have_value("9")
    await page.get_by_label("Name", exact=True).fill(f"Private {mark}")
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("its operator does not list it", exact=False)).to_be_visible()
    assert not await seen.layout_faults()
    await page.get_by_label("Hosts that may be called").fill(listed)
    await page.get_by_label("Which account, if you connect several").fill(mark)
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text(f"Private {mark} is connected")).to_be_visible()
    await expect(page.get_by_text("Nothing was called", exact=False)).to_be_visible()
    assert not await seen.layout_faults()
    preview = await owner.call("POST", f"/v1/automations/imports/{stored['id']}/preview", {})
    proposed = {step["step"]: step["proposed"] for step in preview["bindable"]}
    assert proposed["Ask"] is None
    assert proposed["Ask again"] == proposed["And again"] is not None
