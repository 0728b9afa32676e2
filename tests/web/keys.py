"""A person without a mouse: from field to field by Tab, into the one that is wanted."""

from playwright.async_api import Locator, Page

MOST_TABS = 120


async def tab_to(page: Page, wanted: Locator) -> None:
    """Presses Tab until this has the focus; fails when the keyboard does not lead there."""
    await wanted.wait_for()
    for _ in range(MOST_TABS):
        if await wanted.evaluate("(one) => one === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {wanted}")


async def press(page: Page, wanted: Locator, key: str = "Enter") -> None:
    """Goes there by Tab and presses the key."""
    await tab_to(page, wanted)
    await page.keyboard.press(key)


async def fill(page: Page, wanted: Locator, text: str) -> None:
    """Goes there by Tab and writes over what stands there."""
    await tab_to(page, wanted)
    await page.keyboard.press("Control+a")
    await page.keyboard.type(text)
