"""Tests the dialogs of "Run now" and "Run as test" for runs that take values.

See docs/design/web.md#automation.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.imports.exports import chain, code
from tests.web.conftest import Look
from tests.web.open_pages import PHONE_OR_BOTH, Size
from tests.web.site import WebSite
from tests.web.workflows import IMPORTS, store_import

FORM = {
    "formFields": {
        "values": [
            {"fieldLabel": "Your mail", "fieldType": "email", "requiredField": True},
            {"fieldLabel": "How many", "fieldType": "number"},
            {"fieldLabel": "Size", "fieldType": "dropdown", "fieldOptions": {"values": [{"option": "S"}]}},
            {
                "fieldLabel": "Colors",
                "fieldType": "checkbox",
                "fieldOptions": {"values": [{"option": "Red"}]},
            },
            {"fieldLabel": "List", "fieldType": "file", "multipleFiles": False, "requiredField": True},
        ]
    }
}
THROWN = "throw new Error('It came with ' + JSON.stringify($input.first().json{}))"
TOO_LARGE = "A payload has at most 256 KiB. Send less."


async def _automation(web: WebSite, name: str, trigger: str, script: str, **parameters: Any) -> str:
    """Creates an automation of a workflow with this trigger that shows the values it received."""
    export = chain(code("Show", script), name=name)
    export["nodes"][0] |= {"type": f"n8n-nodes-base.{trigger}", "parameters": parameters}
    stored = await store_import(web, export, name)
    member = await web.session_of("member")
    body = {"name": name, "schedule": {"cadence": "manual"}}
    automation = await member.call("POST", f"{IMPORTS}/{stored['id']}/automations", body)
    return str(automation["automation"]["id"])


@pytest.mark.parametrize("size", PHONE_OR_BOTH)
async def test_a_webhook_is_started_with_the_fields_that_its_steps_read(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """Fields and JSON hold the same values by keyboard; JSON that is too large stays as typed."""
    script = f"const number = $json.body.order.number; {THROWN.format('.body')}"
    automation = await _automation(web, f"Hooked {size}", "webhook", script)
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open(f"/automations/{automation}")
    await page.get_by_role("button", name="Run now").press("Enter")
    dialog = page.get_by_role("dialog", name="Run it live now?")
    await expect(dialog.get_by_label("order.number")).to_be_focused()
    await page.keyboard.type("A-17")
    await dialog.get_by_role("button", name="JSON", exact=True).press("Enter")
    box = dialog.get_by_label("Values as JSON")
    await expect(box).to_have_value(re.compile(r'^\{\s*"order":\s*\{\s*"number":\s*"A-17"\s*\}\s*\}$'))
    assert not await seen.layout_faults()
    too_large = json.dumps({"order": {"number": "A-18"}, "more": "x" * 256 * 1024})
    await box.fill(too_large)
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.get_by_text(TOO_LARGE)).to_be_visible()
    await expect(box).to_be_focused()
    await expect(box).to_have_value(too_large)
    await box.fill('{"order": {"number": "A-18"}, "paid": true')
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.get_by_text("This is not JSON", exact=False)).to_be_visible()
    await box.fill('{"order": {"number": "A-18"}, "paid": true}')
    await dialog.get_by_role("button", name="Fields").click()
    await expect(dialog.get_by_label("order.number")).to_have_value("A-18")
    await dialog.get_by_label("order.number").fill("A-19")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/runs/*")
    await expect(page.get_by_text("A-19", exact=False).first).to_be_visible()
    run = await web.site.reaches(page.url.rsplit("/", 1)[1], "failed")
    assert 'It came with {"paid":true,"order":{"number":"A-19"}}' in run["steps"][0]["message"]
    assert run["mode"] == "live"


@pytest.mark.parametrize("size", PHONE_OR_BOTH)
async def test_a_form_says_at_its_fields_what_is_wrong_and_loses_nothing(
    open_page: Look, web: WebSite, size: Size
) -> None:
    """Errors of the page and of the service appear at their fields."""
    automation = await _automation(web, f"Formed {size}", "formTrigger", THROWN.format(""), **FORM)
    seen = await open_page("member", size=size)
    page = seen.page
    await seen.open(f"/automations/{automation}")
    await page.get_by_role("button", name="Run as test").click()
    dialog = page.get_by_role("dialog", name="Start a test run")
    mail, many = dialog.get_by_label("Your mail"), dialog.get_by_label("How many")
    await many.fill("three")
    await dialog.get_by_label("Size").select_option("S")
    await dialog.get_by_label("Red").check()
    await dialog.get_by_role("button", name="Run as test").click()
    await expect(mail).to_be_focused()
    await expect(dialog.get_by_text("The form requires this field. Give a value.")).to_be_visible()
    await expect(dialog.get_by_text("Give a number.")).to_be_visible()
    await expect(many).to_have_value("three")
    await expect(dialog.get_by_text("The form requires this file. Choose one.")).to_be_visible()
    faults = await seen.check_looks(f"start-values-{size}")
    prices: Any = {"name": "prices.csv", "mimeType": "text/csv", "buffer": b"sku"}
    await dialog.get_by_label("List").set_input_files({**prices, "name": "prices\x07.csv"})
    await many.fill("3")
    await dialog.get_by_role("button", name="JSON", exact=True).click()
    await dialog.get_by_role("button", name="Run as test").click()
    await expect(dialog.get_by_label("List")).to_have_accessible_description(re.compile("Control characters"))
    await dialog.get_by_label("List").set_input_files(prices)
    await dialog.get_by_role("button", name="Run as test").click()
    await expect(dialog.get_by_text("Your mail: The form requires this field.", exact=False)).to_be_visible()
    await dialog.get_by_label("Values as JSON").fill(
        '{"Your mail": "a@b.example", "How many": "x", "Size": "S", "Colors": ["Red"]}'
    )
    await dialog.get_by_role("button", name="Fields").click()
    await expect(many).to_have_value("x")
    await many.fill("3")
    await expect(dialog.get_by_label("Red")).to_be_checked()
    await dialog.get_by_role("button", name="Run as test").click()
    await page.wait_for_url("**/runs/*")
    await expect(page.get_by_text("a@b.example", exact=False).first).to_be_visible()
    run = await web.site.reaches(page.url.rsplit("/", 1)[1], "failed")
    assert '"How many":3' in run["steps"][0]["message"]
    assert '"Colors":["Red"]' in run["steps"][0]["message"]
    told = '"List":{"filename":"prices.csv","mimetype":"text/csv","size":3}'
    assert told in run["steps"][0]["message"]
    assert (run["mode"], faults) == ("test", [])


async def test_a_file_that_is_gone_is_chosen_again(open_page: Look, web: WebSite, tmp_path: Path) -> None:
    """Tells that the file cannot be read, and starts once it is chosen again, with values as JSON too."""
    script = f"const name = $binary.data.fileName; {THROWN.format('.body')}"
    automation = await _automation(web, "With a file", "webhook", script)
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation}")
    await page.get_by_role("button", name="Run as test").click()
    dialog = page.get_by_role("dialog", name="Start a test run")
    prices = tmp_path / "prices.csv"
    prices.write_text("sku")
    await dialog.get_by_label("data").set_input_files(prices)
    prices.unlink()
    await dialog.get_by_role("button", name="Run as test").click()
    await expect(dialog.get_by_text("The file cannot be read any more. Choose it again.")).to_be_focused()
    prices.write_text("sku,price")
    await dialog.get_by_label("data").set_input_files(prices)
    await dialog.get_by_role("button", name="JSON", exact=True).click()
    await dialog.get_by_label("Values as JSON").fill('{"season": "winter"}')
    await dialog.get_by_role("button", name="Fields").click()
    await dialog.get_by_role("button", name="Run as test").click()
    await page.wait_for_url("**/runs/*")
    run = await web.site.reaches(page.url.rsplit("/", 1)[1], "failed")
    assert 'It came with {"season":"winter"}' in run["steps"][0]["message"]


async def test_an_automation_without_such_fields_is_run_as_ever(open_page: Look, web: WebSite) -> None:
    """A live run is confirmed first; a test run starts at once."""
    automation = await _automation(web, "Plain", "manualTrigger", "return []")
    seen = await open_page("member")
    page = seen.page
    await seen.open(f"/automations/{automation}")
    await page.get_by_role("button", name="Run now").click()
    question = page.get_by_role("dialog", name="Run it live now?")
    await expect(question.get_by_text("A test run shows the same")).to_be_visible()
    await question.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Run as test").click()
    await page.wait_for_url(re.compile("/runs/"))
