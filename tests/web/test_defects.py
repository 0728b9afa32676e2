"""Defects of the first edition: each stands where it was, and stays mended.

Those of other screens are in the tests of these screens.
"""

from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.shops import hiding
from tests.web.site import WebSite

NO_SUCH = "0" * 25 + "1"


async def test_a_mended_failure_goes_and_one_under_check_is_named(looking: Look, web: WebSite) -> None:
    """D2, D3 and D21: one row an automation, and no "Every connection works" beside a refused key."""
    made = await hiding(web, "Refused key", ["Refused a"], schedule={"cadence": "hourly"})
    await web.site.fault(method="GET", path="/wp-json/**", kind="status", status=401, count=1, body={})
    failed = await web.run(made["id"], "refused-key")
    assert failed["status"] == "failed", failed
    seen = await looking("owner")
    page = seen.page
    await seen.open("/")
    row = page.get_by_role("table", name="Failed runs").get_by_role("row").filter(has_text="Refused key")
    await expect(row).to_be_visible()
    await expect(page.get_by_text("Every connection works")).to_have_count(0)
    checked = page.get_by_text("the connection is being checked again")
    mend = page.get_by_role("table", name="Connections to mend")
    await expect(checked.or_(mend).first).to_be_visible()
    coming = page.get_by_role("table", name="Next runs").get_by_role("row").filter(has_text="Refused key")
    await expect(coming).to_have_count(1)
    assert (await web.run(made["id"], "mended"))["status"] == "waiting_approval"
    await page.reload()
    await expect(page.get_by_role("table", name="Approvals waiting")).to_contain_text("Refused key")
    await expect(row).to_have_count(0)


async def test_decided_approvals_stand_below_and_name_who_decided(looking: Look, web: WebSite) -> None:
    """D10, and the columns of what waits."""
    made = await hiding(web, "Waits above", ["Above a"])
    await web.run(made["id"], "waits-above")
    other = await hiding(web, "Decided below", ["Below a"])
    run = await web.run(other["id"], "decided-below")
    approver = await web.signed("approver")
    path = f"/v1/automations/approvals/{run['approval_id']}"
    version = (await approver.call("GET", path))["approval"]["version"]
    await approver.call("POST", f"{path}/reject", {"version": version})
    seen = await looking("member")
    page = seen.page
    await seen.open("/approvals?decided=1")
    waiting = page.get_by_role("table", name="Waiting")
    decided = page.get_by_role("table", name="Decided")
    for title in ("What", "Asked by", "Waiting since", "Time left"):
        await expect(waiting.get_by_role("columnheader", name=title)).to_be_visible()
    below = decided.get_by_role("row").filter(has_text="Decided below")
    await expect(below).to_contain_text("Approver")
    tops = [await one.bounding_box() for one in (waiting, decided)]
    assert tops[0] is not None
    assert tops[1] is not None
    assert tops[0]["y"] < tops[1]["y"]


async def test_a_record_that_is_not_there_is_no_dead_end(looking: Look) -> None:
    """D16: each kind of record leads to its list."""
    seen = await looking("member")
    page = seen.page
    for path, name in (
        (f"/runs/{NO_SUCH}", "runs"),
        (f"/automations/{NO_SUCH}", "automations"),
        (f"/approvals/{NO_SUCH}", "approvals"),
        (f"/imports/{NO_SUCH}", "imports"),
        ("/connections/999999", "connections"),
    ):
        await seen.open(path)
        await expect(page.get_by_text("belongs to another organisation")).to_be_visible()
        await expect(page.get_by_role("main").get_by_role("link", name=f"All {name}")).to_be_visible()
