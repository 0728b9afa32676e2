"""A person without a mouse: from field to field by Tab, into the one that is wanted."""

import asyncio

from playwright.async_api import Locator, Page, expect

MOST_TABS = 120


async def tab_to(page: Page, expected: Locator) -> None:
    """Presses Tab until this has the focus; fails when the keyboard does not lead there."""
    await expected.wait_for()
    for _ in range(MOST_TABS):
        if await expected.evaluate("(one) => one === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {expected}")


async def press(page: Page, expected: Locator, key: str = "Enter") -> None:
    """Goes there by Tab and presses the key."""
    await tab_to(page, expected)
    await page.keyboard.press(key)


async def fill(page: Page, expected: Locator, text: str) -> None:
    """Goes there by Tab and writes over what stands there."""
    await tab_to(page, expected)
    await page.keyboard.press("Control+a")
    await page.keyboard.type(text)


async def press_both(page: Page, first: str, second: str) -> None:
    """Presses two keys right after each other, however slow the page is: the second does not wait for it."""
    await asyncio.gather(page.keyboard.press(first), page.keyboard.press(second))


# How many choices after the chosen one it stands, or before it.
_AWAY = "(list, label) => [...list.options].findIndex((one) => one.label === label) - list.selectedIndex"


async def choose(page: Page, expected: Locator, label: str) -> None:
    """Goes to a list by Tab and on to this choice by arrows: what is typed letter by letter hangs on time."""
    await expect(expected.locator("option").filter(has_text=label)).to_have_count(1)
    await tab_to(page, expected)
    while away := await expected.evaluate(_AWAY, label):
        await page.keyboard.press("ArrowDown" if away > 0 else "ArrowUp")
