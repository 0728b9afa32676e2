"""Helpers that use a page with the keyboard only."""

import asyncio

from playwright.async_api import Locator, Page, expect

MAX_TABS = 120


# Null once the page has drawn the element anew.
_HAS_FOCUS = "(one) => one.isConnected ? one === document.activeElement : null"


async def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until the element has the focus; fails if it is never reached."""
    element = await target.element_handle()
    for _ in range(MAX_TABS):
        has_focus = await element.evaluate(_HAS_FOCUS)
        if has_focus:
            return
        if has_focus is None:
            element = await target.element_handle()
        else:
            await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {target}")


async def press(page: Page, target: Locator, key: str = "Enter") -> None:
    """Reaches the element by Tab and presses the key."""
    await tab_to(page, target)
    await page.keyboard.press(key)


async def fill(page: Page, target: Locator, text: str) -> None:
    """Reaches the field by Tab and replaces its text."""
    await tab_to(page, target)
    await page.keyboard.press("Control+a")
    await page.keyboard.type(text)


async def press_both(page: Page, first: str, second: str) -> None:
    """Presses two keys in direct succession, without waiting for the page between them."""
    await asyncio.gather(page.keyboard.press(first), page.keyboard.press(second))


# How many choices after the chosen one it stands, or before it.
_AWAY = "(list, label) => [...list.options].findIndex((one) => one.label === label) - list.selectedIndex"


async def choose(page: Page, target: Locator, label: str) -> None:
    """Reaches a list by Tab and selects a choice by arrow keys, since typing ahead depends on timing."""
    await expect(target.locator("option").filter(has_text=label)).to_have_count(1)
    await tab_to(page, target)
    while away := await target.evaluate(_AWAY, label):
        await page.keyboard.press("ArrowDown" if away > 0 else "ArrowUp")
