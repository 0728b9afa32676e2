"""Tests the set-up screens in both themes: templates, wizard, connections, people, organization.

See docs/design/web.md#accessibility.
"""

from playwright.async_api import expect

from tests.web.conftest import Look
from tests.web.open_pages import OpenPage
from tests.web.site import WebSite


async def test_the_gallery_and_the_wizard_are_sound(open_page: Look, web: WebSite) -> None:
    """The gallery and every step of the wizard have no faults, empty and with errors.

    See docs/design/web.md#set-up and docs/design/web.md#accessibility.
    """
    seen = await open_page("member")
    page = seen.page
    await seen.open("/automations/new")
    await page.get_by_role("list", name="Most used").wait_for()
    faults = await seen.check_looks("templates")
    await seen.open("/automations/new?q=nothing%20like%20it")
    await expect(page.get_by_text("No template fits this search.")).to_be_visible()
    faults += await seen.check_looks("templates-none")
    await seen.follow("/automations/new/tag-products-by-rule/where")
    await expect(page.get_by_role("radio", name="The shop")).to_be_checked()
    faults += await seen.check_looks("setup-where")
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.get_by_role("heading", name="What should it do?")).to_be_focused()
    await page.get_by_label("Rule", exact=True).select_option(label="Is of a vendor")
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.get_by_text("This field is required.").first).to_be_visible()
    faults += await seen.check_looks("setup-what")
    await page.get_by_label("Tag", exact=True).fill("by-rule")
    await page.get_by_label("Vendors").fill("Acme")
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.get_by_role("list", name="Next runs").get_by_role("listitem")).to_have_count(3)
    faults += await seen.check_looks("setup-when")
    assert faults == []


async def test_connections_people_and_the_organization_are_sound(open_page: Look, web: WebSite) -> None:
    """The screens have no faults with dialogs open as an owner, and as a member who only reads.

    See docs/design/web.md#connections and docs/design/web.md#people-organization-account.
    """
    await web.automation("Hide sold-out pots")
    member = await open_page("member")
    faults = await _member(member, web)
    seen = await open_page("owner")
    page = seen.page
    await seen.open("/connections/new")
    await page.get_by_role("link", name="WooCommerce").wait_for()
    faults += await seen.check_looks("new-connection")
    await seen.follow("/connections/new?kind=woocommerce")
    await page.get_by_label("Consumer key").wait_for()
    faults += await seen.check_looks("new-connection-shop")
    await seen.open("/connections/new?kind=shopify")
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_text("This field is required.").first).to_be_visible()
    faults += await seen.check_looks("new-connection-keys")
    await seen.open(f"/connections/{web.site.store}?do=disconnect")
    await expect(page.get_by_role("dialog").get_by_text("Hide sold-out pots")).to_be_visible()
    faults += await seen.check_looks("disconnect")
    await seen.follow("/people?do=invite")
    await page.get_by_role("dialog", name="Invite a person").wait_for()
    faults += await seen.check_looks("invite")
    await seen.follow("/organization")
    await page.get_by_label("Name", exact=True).wait_for()
    faults += await seen.check_looks("organization")
    await seen.follow("/organization/audit")
    await page.get_by_role("table", name="Audit log").wait_for()
    faults += await seen.check_looks("audit-log")
    await seen.follow("/organization/api")
    await page.get_by_text("The operator of this Steward issues it").wait_for()
    faults += await seen.check_looks("api-access")
    assert faults == []


# Forms by their addresses, one of each kind, and those of dialogs.
FORMS = (
    "/account",
    "/automations/new/tag-products-by-rule/where",
    "/automations/{automation}/schedule",
    "/calendar?view=list&automation={automation}",
    "/connections/new?kind=woocommerce",
    "/connections/{store}?do=disconnect",
    "/organization/closed-times",
    "/organization/notifications/new",
    "/people?do=invite",
)


async def test_forms_are_sound_on_a_phone(open_page: Look, web: WebSite) -> None:
    """The forms have no faults at a phone's size with touch, light and dark.

    See docs/design/web.md#accessibility.
    """
    automation = await web.automation("Form on a phone")
    seen = await open_page("owner", size="phone")
    await seen.page.emulate_media(reduced_motion="reduce")
    faults: list[str] = []
    await seen.open("/organization/notifications/new")
    await expect(seen.page.get_by_role("heading", level=1, name="Add a channel")).to_be_visible()
    for path in FORMS:
        await seen.follow(path.format(automation=automation["id"], store=web.site.store))
        if "calendar" in path:
            await seen.page.locator("[data-run]").last.tap()
        if "calendar" in path or "do=" in path:
            await seen.page.get_by_role("dialog").wait_for()
        await seen.wait_until_complete()
        faults += await seen.audit_themes(path)
        wide = await seen.page.evaluate("document.documentElement.scrollWidth")
        faults += [f"{path}: {wide} px wide"] if wide > 390 else []
    assert faults == []


async def _member(seen: OpenPage, web: WebSite) -> list[str]:
    await seen.open("/connections")
    await seen.page.get_by_role("link", name="The shop").wait_for()
    faults = await seen.check_looks("connections")
    await seen.follow(f"/connections/{web.site.store}")
    await seen.page.get_by_role("table").get_by_text("Hide sold-out pots").wait_for()
    faults += await seen.check_looks("connection")
    await seen.follow("/people")
    await seen.page.get_by_role("cell", name="approver@shop.example").wait_for()
    faults += await seen.check_looks("people")
    return faults
