"""Tests the Steps tab of an imported automation: bindings, approval mode, list and graph.

See docs/design/web.md#automation and docs/design/web.md#binding-steps.
"""

import re

from playwright.async_api import expect

from tests.web.calendars import read_automation
from tests.web.conftest import Look
from tests.web.shops import sheet
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS, logged, morning, store_import


async def _create_unbound(web: WebSite, export: object, name: str, store: int | None = None) -> str:
    """Creates an automation of the export with nothing bound."""
    stored = await store_import(web, export, name)
    member = await web.session_of("member")
    body = {"name": name, "schedule": {"cadence": "manual"}}
    full_body = body if store is None else {**body, "integration_id": store}
    new_automation = (await member.call("POST", f"{IMPORTS}/{stored['id']}/automations", full_body))[
        "automation"
    ]
    # The automation has its own copy of the steps.
    await member.call("DELETE", f"{IMPORTS}/{stored['id']}")
    outcome: str = new_automation["id"]
    return outcome


async def test_steps_are_connected_sent_without_asking_and_runs_that_wait_set_aside(
    open_page: Look, web: WebSite
) -> None:
    """A new binding supersedes the runs that wait.

    See docs/design/web.md#automation and docs/design/api/conventions.md#versions.

    Interface statements: 9 plan_version.
    """
    prices, log = await sheet(web, "sheet-prices"), await sheet(web, "sheet-log")
    automation = await _create_unbound(web, logged("Rows"), "Rows")
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation}")
    await page.get_by_role("link", name="Steps", exact=True).click()
    await expect(page.get_by_text("Not ready: “Log” and “Copy” have no usable connection.")).to_be_visible()
    await expect(page.get_by_label("Send without asking")).to_be_disabled()
    bound = page.get_by_role("list", name="Steps that need a connection")
    await bound.get_by_label("Connection of Log").select_option(str(prices))
    await page.get_by_role("button", name="Use for every spreadsheet").click()
    await page.get_by_role("button", name="Save changes").click()
    await expect(bound.get_by_text("Connected", exact=True)).to_have_count(2)
    run = await web.run(automation, "rows")
    assert run["status"] == "waiting_approval", run["message"]

    await bound.get_by_label("Connection of Copy").select_option(str(log))
    bar = page.get_by_role("group", name="Changes")
    await expect(bar).to_contain_text("Changed: Connections of steps")
    await seen.come_back()
    await expect(bar).to_contain_text("1 approval will be discarded")
    await page.get_by_role("button", name="Save changes").click()
    await expect(bar).to_be_hidden()
    ended = await web.site.reaches(run["id"], "refused")
    assert ended["code"] == "superseded"
    await expect(bound.get_by_text("Leads to another spreadsheet")).to_be_visible()
    await bound.get_by_label("Connection of Copy").select_option(str(prices))
    await page.get_by_role("button", name="Save changes").click()
    await expect(bound.get_by_text("Connected", exact=True)).to_have_count(2)

    await page.get_by_label("Send without asking").check()
    await expect(bar).to_contain_text("Changed: Sending")
    await page.get_by_role("button", name="Save changes").click()
    await expect(bar).to_be_hidden()
    now = await read_automation(web, automation)
    assert (now["send_mode"], now["plan_version"], now["version"]) == ("send", 4, 5)
    assert [now["bindings"][step]["integration_id"] for step in ("Log", "Copy")] == [prices, prices]


async def test_an_approval_says_how_many_steps_may_follow(open_page: Look, web: WebSite) -> None:
    """An approval says how many steps follow it and that one of them may ask again.

    See docs/design/api/approvals.md#approval.
    """
    account = await sheet(web, "sheet-prices")
    automation = await _create_unbound(web, logged("Followed"), "Followed")
    new_whole = await read_automation(web, automation)
    binding = {"integration_id": account, "kind": "spreadsheet", "target": None}
    change = {"version": new_whole["version"], "bindings": {"Log": binding, "Copy": binding}}
    await (await web.session_of("member")).call("PATCH", f"/v1/automations/{automation}", change)
    run = await web.run(automation, "followed-by-hand")
    assert run["status"] == "waiting_approval", run["message"]
    response = await web.site.call("GET", f"/v1/automations/approvals/{run['approval_id']}")
    assert response["approval"]["follows"] == {"steps": 1, "may_ask_again": True}
    seen = await open_page("approver")
    await seen.open(f"/approvals/{run['approval_id']}")
    await expect(seen.page.get_by_text("Then 1 more step runs; it may ask again.")).to_be_visible()


async def test_steps_are_shown_as_list_and_graph_and_judged(open_page: Look, web: WebSite) -> None:
    """Selecting in list or graph selects in both and stays in the address; a member only reads.

    See docs/design/web.md#plan-graph and docs/design/web.md#accessibility.
    """
    automation = await _create_unbound(
        web, morning("Looked at as steps"), "Looked at as steps", web.site.store
    )
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation}/steps")
    drawn = page.locator(".svelte-flow__node")
    await expect(drawn).to_have_count(5)
    await drawn.filter(has_text="Is it the first").click()
    step = page.get_by_role("list", name="Steps", exact=True).get_by_role("button", name="Is it the first")
    await expect(step).to_have_attribute("aria-expanded", "true")
    await expect(page).to_have_url(re.compile(r"/steps\?step=Is"))
    await page.reload()
    await expect(step).to_have_attribute("aria-expanded", "true")
    await expect(drawn).to_have_count(5)
    assert await seen.check_looks("automation-steps") == []
