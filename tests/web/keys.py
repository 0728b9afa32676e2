"""A person without a mouse: from field to field by Tab, into the one that is wanted."""

import asyncio

from playwright.async_api import Locator, Page, expect

MOST_TABS = 120


async def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until this has the focus; fails when the keyboard does not lead there."""
    await target.wait_for()
    for _ in range(MOST_TABS):
        if await target.evaluate("(one) => one === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {target}")


async def press(page: Page, target: Locator, key: str = "Enter") -> None:
    """Goes there by Tab and presses the key."""
    await tab_to(page, target)
    await page.keyboard.press(key)


async def fill(page: Page, target: Locator, text: str) -> None:
    """Goes there by Tab and writes over what stands there."""
    await tab_to(page, target)
    await page.keyboard.press("Control+a")
    await page.keyboard.type(text)


async def press_both(page: Page, first: str, second: str) -> None:
    """Presses two keys right after each other, however slow the page is: the second does not wait for it."""
    await asyncio.gather(page.keyboard.press(first), page.keyboard.press(second))


# How many choices after the chosen one it stands, or before it.
_AWAY = "(list, label) => [...list.options].findIndex((one) => one.label === label) - list.selectedIndex"


async def choose(page: Page, target: Locator, label: str) -> None:
    """Goes to a list by Tab and on to this choice by arrows: what is typed letter by letter hangs on time."""
    await expect(target.locator("option").filter(has_text=label)).to_have_count(1)
    await tab_to(page, target)
    while away := await target.evaluate(_AWAY, label):
        await page.keyboard.press("ArrowDown" if away > 0 else "ArrowUp")
