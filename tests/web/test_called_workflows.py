"""Tests steps that call another workflow: chosen at set-up and changed later.

See docs/design/imports-called.md.
"""

from playwright.async_api import expect

from tests.imports.exports import chain, code
from tests.imports.test_called_imports import call_by_id, passed_to
from tests.web.conftest import Look
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS


async def test_the_import_of_the_name_is_proposed_and_another_is_chosen_later(
    open_page: Look, web: WebSite
) -> None:
    """Set-up proposes the import of that name; the Steps tab shows the choice and saves another."""
    member = await web.session_of("member")

    async def keep(export: object, name: str) -> str:
        body = {"source": "workflow_tool", "name": name, "content": export}
        return str((await member.call("POST", IMPORTS, body))["import"]["id"])

    first = await keep(passed_to(code("Back", "return [{json: {a: 1}}]")), "Enrich orders")
    other = await keep(passed_to(code("Back", "return [{json: {b: 2}}]")), "Enrich more")
    caller = await keep(chain(call_by_id(workflow_name="Enrich orders"), name="Caller"), "Caller of one")
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/imports/{caller}")
    await page.get_by_role("button", name="Run as automation").click()
    choice = page.get_by_label("Workflow that Call calls")
    await expect(choice).to_have_value(first)
    await page.get_by_role("button", name="Make automation").click()
    await page.wait_for_url("**/automations/*")
    automation_id = page.url.rsplit("/", 1)[1]
    path = f"/v1/automations/{automation_id}"
    assert (await member.call("GET", path))["automation"]["calls"] == {"Call": {"import_id": first}}
    await seen.open(f"/automations/{automation_id}/steps")
    await expect(choice).to_have_value(first)
    await choice.select_option(other)
    await page.get_by_role("button", name="Save").first.click()
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    assert (await member.call("GET", path))["automation"]["calls"] == {"Call": {"import_id": other}}
    assert not await seen.layout_faults()
