"""Tests importing: drop or paste, report, graph, bindings and a run as an automation (flow 13).

See docs/design/web.md#tests.
"""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.imports.exports import chain, code, node
from tests.imports.shopify_flow.flows import FLOW, began, flow, http, task
from tests.web.calendars import read_automation
from tests.web.conftest import Look
from tests.web.open_pages import PHONE_OR_BOTH, OpenPage, Size
from tests.web.shops import sheet
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS, morning, store_import


async def _drop(page: Page, export: Any, file: str = "export.json") -> None:
    """Drops a file onto the page."""
    text = export if isinstance(export, str) else json.dumps(export)
    carried = await page.evaluate_handle(
        """([text, name]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], name, {type: 'application/json'}));
            return carried;
        }""",
        [text, file],
    )
    await page.get_by_role("group", name="The exported workflow").dispatch_event(
        "drop", {"dataTransfer": carried}
    )


_TOPS = """(all, names) => names.map((name) =>
    all.find((one) => one.textContent.includes(name)).getBoundingClientRect().top)"""


def _step(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Steps").get_by_role("button", name=name)


async def test_an_export_is_read_at_once_kept_bound_and_run_as_an_automation(
    open_page: Look, web: WebSite
) -> None:
    """An export is stored, bound and run. See docs/design/web.md#plan-graph."""
    account = await sheet(web, "sheet-prices")
    await sheet(web, "sheet-log")
    member = await web.session_of("member")
    imports = (await member.call("GET", f"{IMPORTS}?limit=200"))["imports"]
    seen = await open_page("member")
    page = seen.page
    await seen.open("/imports/new")
    await _drop(page, morning("Each morning"))
    await expect(page.get_by_text("Can run", exact=False).first).to_be_visible()
    await expect(
        page.get_by_text("1 step would change the store; 2 steps would send something.")
    ).to_be_visible()
    await expect(page.get_by_label("n8n")).to_be_checked()
    assert (await member.call("GET", f"{IMPORTS}?limit=200"))["imports"] == imports
    # The graph is fetched by itself; what is chosen in it is chosen in the list, and the other way round.
    drawn = page.locator(".svelte-flow__node")
    await expect(drawn).to_have_count(5)
    await drawn.filter(has_text="Is it the first").click()
    await expect(_step(page, "Is it the first")).to_have_attribute("aria-expanded", "true")
    await expect(
        page.get_by_role("definition").filter(has_text=re.compile(r"true:\sDraft, false:\sLog"))
    ).to_be_visible()
    await _step(page, "Copy").click()
    await expect(drawn.filter(has_text="Copy").locator(".chosen")).to_be_visible()
    # All at one moment: the drawing moves as a whole when a step is chosen.
    tops = await drawn.evaluate_all(_TOPS, ["Make items", "Draft", "Copy"])
    assert tops == sorted(set(tops))
    await page.get_by_label("Name").fill("Morning rows")
    await page.get_by_role("button", name="Keep this import").click()
    await expect(page.get_by_role("heading", name="Morning rows")).to_be_visible()
    await page.get_by_role("button", name="Run as automation").click()
    bound = page.get_by_role("list", name="Steps that need a connection")
    await expect(bound.get_by_text("Choose a connection")).to_have_count(2)
    await bound.get_by_label("Connection of Log").select_option(str(account))
    await page.get_by_role("button", name="Use for every spreadsheet").click()
    await expect(bound.get_by_text("Connected", exact=True)).to_have_count(2)
    runs = page.get_by_role("list", name="How it would run")
    await expect(runs.get_by_text("Changes the store · waits for approval")).to_have_count(1)
    await expect(runs.get_by_text("Sends · waits for approval")).to_have_count(2)
    # The trigger the file proposes is filled in; its words are the service's.
    await expect(page.get_by_text("Every day at 08:30", exact=False).first).to_be_visible()
    await page.get_by_label("Send without asking").check()
    await expect(runs.get_by_text("Sends", exact=True)).to_have_count(2)
    await page.get_by_role("button", name="Make automation").click()
    await page.wait_for_url("**/automations/*")
    automation = (await web.site.call("GET", f"/v1/automations/{page.url.rsplit('/', 1)[1]}"))["automation"]
    assert (automation["kind"], automation["name"]) == ("workflow", "Morning rows")
    assert automation["send_mode"] == "send"
    assert (automation["schedule"]["cadence"], automation["schedule"]["run_at"]) == ("daily", "08:30")
    assert automation["integration_id"] == web.site.store
    assert automation["readiness"]["ready"] is True
    account_of_step = {"integration_id": account, "kind": "spreadsheet", "target": None}
    assert automation["bindings"] == {"Log": account_of_step, "Copy": account_of_step}
    await _check_copy_asks(seen, web, automation)


async def _check_copy_asks(seen: OpenPage, web: WebSite, automation: dict[str, Any]) -> None:
    """Asserts that a copy asks, and says so, once the organization sends nothing without approval."""
    page, name = seen.page, automation["name"]
    owner = await web.session_of("owner")
    await owner.call("PATCH", "/app/organization", {"send_without_approval": False})
    await seen.open("/automations")
    await page.get_by_role("button", name=f"Actions of {name}").click()
    await page.get_by_role("button", name="Duplicate").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("The copy will ask before it sends")
    await dialog.get_by_role("button", name="Duplicate").click()
    await expect(page.get_by_role("heading", name=f"{name} (copy)")).to_be_visible()
    copy = await read_automation(web, page.url.rsplit("/", 1)[1])
    assert (copy["send_mode"], copy["bindings"]) == ("ask", automation["bindings"])


async def test_an_import_that_cannot_run_names_its_steps_and_stays_off(open_page: Look, web: WebSite) -> None:
    """Blocked steps, removed secrets and unreadable text are explained; keyboard only.

    See docs/design/web.md#imports.
    """
    seen = await open_page("member")
    page = seen.page
    await seen.open("/imports/new")
    await page.get_by_role("button", name="Paste its text").press("Enter")
    box = page.get_by_label("Text of the export")
    await expect(box).to_be_focused()
    await page.keyboard.insert_text('{"nodes": 3}')
    await expect(box).to_have_attribute("aria-invalid", "true")
    secret = "sk-live-abcdefghijklmnop1234567890"
    fields = {"assignments": [{"id": "1", "name": "apiKey", "value": secret, "type": "string"}]}
    hostile = "Odd <img src=x onerror=alert(1)>\u202e"
    odd = [node("Keys", "set", 3.4, {"assignments": fields}), node(hostile, "fluxCapacitor", 2, {})]
    await box.press("Control+a")
    await page.keyboard.insert_text(json.dumps(chain(*odd, name="Odd one")))
    await expect(page.get_by_text("1 step cannot run")).to_be_visible()
    cannot = page.get_by_role("list", name="Cannot run")
    await expect(cannot.get_by_role("listitem")).to_have_count(1)
    await expect(page.get_by_role("list", name="Good to know").get_by_text("Keys")).to_be_visible()
    await page.get_by_label("Name").press("Enter")
    await expect(page.get_by_role("heading", name="Odd one")).to_be_visible()
    # From the finding to the step among the others.
    await cannot.get_by_role("button").press("Enter")
    await expect(page.get_by_role("button", name="Odd <img")).to_have_attribute("aria-expanded", "true")
    await expect(page).to_have_url(re.compile("view=steps&step=Odd"))
    await page.reload()
    await expect(page.get_by_role("button", name="Odd <img")).to_have_attribute("aria-expanded", "true")
    await page.get_by_role("heading", name="Odd one").focus()
    await page.keyboard.press("3")
    make = page.get_by_role("button", name="Make automation")
    await expect(make).to_have_attribute("aria-disabled", "true")
    await expect(page.locator("#stop")).to_contain_text("Cannot run: Odd <img")
    assert secret not in await page.content()
    await page.get_by_role("button", name="Delete import").click()
    question = page.get_by_role("dialog", name="Delete this import?")
    await expect(question).to_contain_text("Automations made from it stay as they are.")
    await question.get_by_role("button", name="Delete import").click()
    await expect(page.get_by_role("heading", name="Imports", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="Odd one")).to_have_count(0)


@pytest.mark.parametrize("size", PHONE_OR_BOTH)
async def test_the_verdict_says_how_many_steps_run_and_from_where(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """The verdict counts runnable steps before and after storing and in the list.

    See docs/design/web.md#imports and docs/design/imports-verdict.md#verdict.
    """
    export = morning(f"Partly on {size}")
    export["nodes"] += [node("Aside", "noOp", 1, {}), node("Aside too", "noOp", 1, {})]
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open("/imports/new")
    await _drop(page, export)
    await expect(page.get_by_text("Runs 5 of 7 steps")).to_be_visible()
    await page.get_by_role("button", name="Keep this import").click()
    await expect(page.get_by_role("heading", name=f"Partly on {size}")).to_be_visible()
    await expect(page.get_by_text("Runs 5 of 7 steps")).to_be_visible()
    await expect(page.get_by_text("They are the steps behind “Morning”.")).to_be_visible()
    await expect(page.get_by_text("“Aside” and “Aside too” do not run")).to_be_visible()
    await seen.open("/imports")
    row = page.get_by_role("row").filter(has_text=f"Partly on {size}")
    await expect(row.get_by_text("Runs 5 of 7 steps")).to_be_visible()
    await seen.open("/imports/new")
    await _drop(page, {**export, "connections": {}})
    await expect(page.get_by_text("Nothing follows the start of this workflow").first).to_be_visible()
    faults = await seen.check_looks("import-nothing-runs")
    assert faults == []


async def test_a_flow_is_judged_against_the_stores_of_the_organization(open_page: Look, web: WebSite) -> None:
    """A step without a counterpart in a store is listed with that store.

    See docs/design/web.md#imports and docs/design/imports-verdict.md#verdict.
    """
    member = await web.session_of("member")
    displayed = {}
    for name, step in (("Tagged", http(2)), ("Fetched", task(2, FLOW + "fetch::orders", query=""))):
        sent = {"source": "store_flow", "name": name, "content": flow(began(), step)}
        displayed[name] = (await member.call("POST", IMPORTS, sent))["import"]
    seen = await open_page("member")
    stores = seen.page.get_by_role("list", name="On your stores")
    await seen.open(f"/imports/{displayed['Tagged']['id']}")
    await expect(stores.get_by_text("it can run").first).to_be_visible()
    await seen.open(f"/imports/{displayed['Fetched']['id']}")
    await expect(stores.get_by_text("no counterpart in WooCommerce").first).to_be_visible()
    # D4: the verdict is that of the organization's own stores; nothing is made for one that lacks a step.
    async for _ in seen.sizes():
        verdict = seen.page.get_by_text("Can run on a Shopify store; not on The shop (1 step)")
        await expect(verdict).to_be_visible()
    # The step is marked as well; the list judges by no store.
    await seen.open(f"/imports/{displayed['Fetched']['id']}?view=steps")
    steps = seen.page.get_by_role("main")
    await expect(steps.get_by_text("Cannot run").first).to_be_visible()
    await seen.open("/imports")
    row = seen.page.get_by_role("row").filter(has_text="Fetched")
    await expect(row.get_by_text("Can run on a Shopify store")).to_be_visible()
    await seen.open(f"/imports/{displayed['Fetched']['id']}?view=run")
    # The only store there is chooses itself.
    make = seen.page.get_by_role("button", name="Make automation")
    async for _ in seen.sizes():
        await expect(make).to_have_accessible_description(re.compile("no counterpart for 1 step"))
        await expect(make).to_have_attribute("aria-disabled", "true")
    for flow_import in displayed.values():
        await member.call("DELETE", f"{IMPORTS}/{flow_import['id']}")
    # So is one that is not kept yet.
    await seen.open("/imports/new")
    await _drop(seen.page, flow(began(), task(2, FLOW + "fetch::orders", query="")))
    await expect(
        seen.page.get_by_text("Can run on a Shopify store; not on The shop (1 step)")
    ).to_be_visible()


async def test_over_a_limit_the_page_names_it_and_keeps_the_input(open_page: Look, web: WebSite) -> None:
    """A file or count over the limit is refused with the limit, and the text stays.

    See docs/design/web.md#imports.
    """
    seen = await open_page("member")
    page = seen.page
    member = await web.session_of("member")
    allowed = (await member.call("GET", "/v1/automations/status"))["limits"]["imports_allowed"]
    there = (await member.call("GET", f"{IMPORTS}?limit=200"))["imports"]
    plain = [
        await store_import(web, chain(node(f"N{index}", "noOp", 1, {})), f"Kept {index}")
        for index in range(allowed - len(there))
    ]
    await seen.open("/imports/new")
    await _drop(page, json.dumps(chain(code("Large", "x" * (2 * 1024 * 1024)))))
    await expect(page.get_by_text("at most 2 MB can be read", exact=False)).to_be_visible()
    await _drop(page, chain(node("More", "noOp", 1, {}), name="One more"))
    await page.get_by_role("button", name="Keep this import").click()
    await expect(
        page.get_by_role("main").get_by_text(f"{allowed} imports are stored already.")
    ).to_be_visible()
    oldest = page.get_by_role("list", name="Kept longest").get_by_role("listitem")
    await expect(oldest).to_have_count(5)
    await expect(page.get_by_label("Name")).to_have_value("One more")
    other = await open_page("member")
    await other.open("/imports")
    await expect(other.page.get_by_text(f"{allowed} of {allowed} imports used")).to_be_visible()
    await other.page.get_by_role("button", name="Delete Kept 0").click()
    await other.page.get_by_role("dialog").get_by_role("button", name="Delete import").click()
    await expect(other.page.get_by_text(f"{allowed - 1} of {allowed} imports used")).to_be_visible()
    await page.get_by_role("button", name="Keep this import").click()
    await expect(page.get_by_role("heading", name="One more")).to_be_visible()
    last = page.url.rsplit("/", 1)[1]
    for record in [*plain[1:], {"id": last}]:
        await member.call("DELETE", f"{IMPORTS}/{record['id']}")


async def test_an_import_is_sound_in_both_themes(open_page: Look, web: WebSite) -> None:
    """The import's pages have no accessibility or layout faults in either theme.

    See docs/design/web.md#accessibility and docs/design/web.md#small-screens.
    """
    export = morning("Looked at")
    export["nodes"].append(node("Told by chat", "fluxCapacitor", 2, {}))
    export["connections"]["Copy"] = {"main": [[{"node": "Told by chat", "type": "main", "index": 0}]]}
    new_import = await store_import(web, export, "Looked at")
    seen = await open_page("member")
    faults: list[str] = []
    for view, drawn in (("report", 0), ("steps&step=Log", 6), ("run", 0)):
        await seen.page.set_viewport_size({"width": 1280, "height": 800})
        await seen.open(f"/imports/{new_import['id']}?view={view}")
        await expect(seen.page.locator(".svelte-flow__node")).to_have_count(drawn)
        await seen.wait_until_loaded()
        faults += await seen.check_looks(f"import-{view.partition('&')[0]}")
    await seen.page.set_viewport_size({"width": 1280, "height": 800})
    await seen.open("/imports/new")
    await _drop(seen.page, export)
    await expect(seen.page.locator(".svelte-flow__node")).to_have_count(6)
    faults += await seen.check_looks("import-read")
    assert faults == []
