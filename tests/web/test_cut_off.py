"""Tests that no screen cuts off a text, with names as long as merchants, shops and exports have them.

See docs/design/web.md#look.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.processes.running import run_forked
from tests.web.open_pages import cut_texts, look
from tests.web.shops import hiding
from tests.web.site import UserSession, WebSite, open_web_site
from tests.web.workflows import logged, store_import

WORDS = "Northwind Gifts & Homeware (Wholesale), everything for the household, nightly"
UNBROKEN = "Weihnachtsgeschenkgutscheinverkaufsautomatisierungsregel_2026-12-24"
EMAIL = "purchasing.department.of.the.northern.warehouse@northwind-gifts-and-homeware.example"
STOCKTAKING = {
    "name": WORDS,
    "scope": {"kind": "organization"},
    "stops": "changes",
    "when": {"kind": "weekly", "days": [7], "from": "02:00", "to": "03:00"},
    "timezone": "America/Argentina/Buenos_Aires",
}
SCREENS = (
    "/",
    "/account",
    "/account/notifications",
    "/approvals?decided=1",
    "/approvals/{waiting}",
    "/approvals/review",
    "/automations",
    "/automations/{automation}",
    "/automations/{automation}/schedule",
    "/automations/{automation}/inputs",
    "/automations/{automation}/runs",
    "/automations/{automation}/versions",
    "/automations/new",
    "/calendar?view=list",
    "/connections",
    "/connections/{store}",
    "/help",
    "/imports",
    "/imports/{import}",
    "/inbox",
    "/organization",
    "/organization/api",
    "/organization/audit",
    "/organization/closed-times",
    "/organization/notifications",
    "/organization/notifications/{route}",
    "/people",
    "/runs",
    "/runs/{failed}",
    "/runs/{succeeded}",
    "/runs/{succeeded}?tab=changes",
    "/runs/{tested}?tab=result",
    "/runs/{tested}?tab=steps",
)
# One table of each name that the app has, so that none goes unseen because a screen was empty.
TABLES = {
    "API credentials", "Approvals waiting", "Audit log", "Automations", "Automations that use it", "Changes",
    "Channels", "Closed periods", "Connections", "Decided", "Deliveries", "Failed runs", "Imports",
    "Next runs", "People", "Runs", "Waiting",
}  # fmt: skip


async def _runs(web: WebSite) -> dict[str, str]:
    """Makes a waiting, a failed, a decided and a test run of automations with long names."""
    products = [WORDS, UNBROKEN, "Tea"]
    waiting = await hiding(web, f"{WORDS} 1", products, schedule={"cadence": "hourly"})
    decided = await hiding(web, UNBROKEN, products)
    failing = await hiding(web, f"{WORDS} 2", products)
    tested = await web.run(waiting["id"], "tested", mode="test")
    waits = await web.run(waiting["id"], "waits")
    succeeded = await web.run(decided["id"], "decided")
    await _approve(web, succeeded["approval_id"])
    await web.site.reaches(succeeded["id"], "succeeded")
    fault = {"method": "GET", "path": "/wp-json/**", "kind": "status", "status": 401, "count": 1, "body": {}}
    await web.site.fault(**fault)
    failed = await web.run(failing["id"], "fails")
    assert failed["status"] == "failed", failed
    return {
        "automation": waiting["id"],
        "waiting": waits["approval_id"],
        "succeeded": succeeded["id"],
        "failed": failed["id"],
        "tested": tested["id"],
    }


async def _approve(web: WebSite, approval: str) -> None:
    approver = await web.session_of("approver")
    path = f"/v1/automations/approvals/{approval}"
    record = (await approver.call("GET", path))["approval"]
    body = {"version": record["version"], "change_hash": record["change_hash"], "except": []}
    await approver.call("POST", f"{path}/approve", body)


async def _channel(web: WebSite, owner: UserSession) -> str:
    """Adds a Slack channel with a long name and sends a test message there; returns its id."""
    slack = {"webhook_url": web.site.sandbox.facts["slack"]["webhook_url"]}
    body = {"kind": "slack", "name": WORDS[:60], "settings": slack}
    connection = (await owner.call("POST", "/app/connections", body))["connection"]
    channel = {
        "name": WORDS[:60],
        "channel": "slack",
        "integration_id": connection["integration_id"],
        "topics": ["run_failed", "approval_waiting"],
    }
    route: str = (await owner.call("POST", "/app/notification-routes", channel))["route"]["id"]
    await owner.call("POST", f"/app/notification-routes/{route}/test", {})
    return route


async def _records(web: WebSite) -> dict[str, Any]:
    """Fills every list of the organization with long names; returns the ids that addresses name."""
    owner = await web.session_of("owner")
    await run_forked("credential", "issue", "--org", "Test Shop", env=web.site.env)
    await owner.call("POST", "/app/people", {"email": EMAIL, "role": "approver"})
    await owner.call("POST", "/app/closed-periods", STOCKTAKING)
    new_import = await store_import(web, logged(WORDS), f"{WORDS} {UNBROKEN}"[:120])
    return {
        "store": web.site.store,
        "import": new_import["id"],
        "route": await _channel(web, owner),
        **await _runs(web),
    }


@pytest.fixture(scope="module")
async def long_names(
    built: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[WebSite, Mapping[str, Any]]]:
    """Provides a service of its own, whose names no other test has to read, and the ids of its records."""
    async with open_web_site(tmp_path_factory.mktemp("long")) as site:
        yield site, await _records(site)


async def test_no_screen_cuts_off_a_text(
    browser: Browser, long_names: tuple[WebSite, Mapping[str, Any]]
) -> None:
    """Every table and list shows its texts whole, and no page scrolls sideways, on desks and on a phone."""
    web, ids = long_names
    seen = await look(browser, web, "owner")
    faults: list[str] = []
    tables: set[str] = set()
    await seen.open("/")
    for path in SCREENS:
        await seen.follow(path.format(**ids))
        tables |= set(await seen.page.locator("main table > caption").all_text_contents())
        faults += [f"{path}: {fault}" for fault in await cut_texts(seen)]
    await seen.context.close()
    assert not faults, "\n".join(faults)
    assert not TABLES - tables, tables
    assert seen.reports == []


# What asks or takes something over the screens: where it stands and the button that opens it.
DIALOGS = (
    ("/automations/{automation}", "Run now"),
    ("/calendar?view=list&automation={automation}", None),
    ("/runs/{succeeded}", "Undo…"),
    ("/approvals/{waiting}", "Reject all"),
    ("/connections/{store}", "Disconnect"),
    ("/people?do=invite", None),
    ("/organization/closed-times", "Close a time"),
    ("/organization/closed-times", f"End {WORDS}"),
)


async def test_no_dialog_cuts_off_a_text(
    browser: Browser, long_names: tuple[WebSite, Mapping[str, Any]]
) -> None:
    """Every question and form over a screen shows its texts whole, on a desk and on a phone."""
    web, ids = long_names
    seen = await look(browser, web, "owner")
    page = seen.page
    faults: list[str] = []
    for path, button in DIALOGS:
        await seen.open(path.format(**ids))
        await seen.wait_until_loaded()
        if button:
            await page.get_by_role("main").get_by_role("button", name=button).first.click()
        elif "calendar" in path:
            await page.locator("[data-run]").last.click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await seen.wait_until_loaded()
        faults += [f"{path}: {fault}" for fault in await cut_texts(seen, "dialog[open]", (390, 1440))]
    await seen.context.close()
    assert not faults, "\n".join(faults)
    assert seen.reports == []


async def test_a_phone_shows_the_whole_name_of_a_change_once_it_is_opened(
    browser: Browser, long_names: tuple[WebSite, Mapping[str, Any]]
) -> None:
    """A phone's list keeps a change to two lines; tapping its name shows the name whole."""
    web, ids = long_names
    seen = await look(browser, web, "approver", size="phone")
    page = seen.page
    await seen.open(f"/approvals/{ids['waiting']}")
    for name in (WORDS, UNBROKEN):
        await page.get_by_role("region", name="Changes").get_by_role("button", name=name).tap()
        panel = page.get_by_role("complementary", name="The change in full")
        await expect(panel.get_by_role("heading", name=name)).to_be_visible()
        assert await cut_texts(seen) == []
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
    await seen.context.close()
    assert seen.reports == []


async def test_a_long_address_leaves_its_row_in_order_on_a_phone(
    browser: Browser, long_names: tuple[WebSite, Mapping[str, Any]]
) -> None:
    """State and action stand beside the address, and the second line begins beneath it."""
    web, _ = long_names
    seen = await look(browser, web, "owner", size="phone")
    await seen.open("/people")
    row = seen.page.get_by_role("row").filter(has_text=EMAIL)
    boxes = [
        await row.get_by_text(words, exact=True).first.bounding_box()
        for words in (EMAIL, "Invited", "Change", "Approver")
    ]
    address, state, action, role = (box for box in boxes if box is not None)
    for beside in (state, action):
        assert address["y"] <= beside["y"] + beside["height"] / 2 <= address["y"] + address["height"]
    assert abs(role["x"] - address["x"]) <= 1
    assert role["y"] >= address["y"] + address["height"]
    await seen.context.close()
    assert seen.reports == []
