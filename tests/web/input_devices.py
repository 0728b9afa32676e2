"""Two ways to use a page: only with the keyboard at a desk, and with a finger on a phone."""

import re
from dataclasses import dataclass, field

from playwright.async_api import FilePayload, Locator, Page, expect

from tests.web import keys
from tests.web.open_pages import Size

# The focus has a ring, of its own or around the field it is in, and no bar lies over it.
_FOCUS_FAULTS = """(one) => {
    const box = one.getBoundingClientRect();
    const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const ringed = [one, one.parentElement].some((part) => getComputedStyle(part).outlineStyle !== 'none');
    const covered = !one.contains(hit) && !hit?.contains(one);
    return [...(ringed ? [] : ['no ring']), ...(covered ? ['covered'] : [])];
}"""
# How many pixels through its middle a finger can hit an element, its label or the row that opens as well.
_HEIGHT = """(one) => {
    one.scrollIntoView({ block: 'center' });
    const box = one.getBoundingClientRect();
    const [x, middle, row] = [box.x + box.width / 2, box.y + box.height / 2, one.closest('[data-at]')];
    const hits = (y) => {
        const hit = document.elementFromPoint(x, y);
        return one.contains(hit) || hit?.closest('label')?.control === one || row?.contains(hit);
    };
    let [top, end] = [middle, middle];
    while (hits(top - 1) && middle - top < 100) top -= 1;
    while (hits(end + 1) && end - middle < 100) end += 1;
    return end - top + 1;
}"""


@dataclass
class Keyboard:
    """Reaches everything by Tab."""

    page: Page
    size: Size = "desk"

    async def _reach(self, target: Locator) -> None:
        await keys.tab_to(self.page, target)
        faults = await target.evaluate(_FOCUS_FAULTS)
        assert faults == [], f"{target}: {faults}"

    async def press(self, target: Locator) -> None:
        """Presses a button or follows a link."""
        await self._reach(target)
        await self.page.keyboard.press("Enter")

    async def check(self, target: Locator) -> None:
        """Chooses a radio button: Tab reaches the chosen one of its group, arrows go on from there."""
        group = self.page.get_by_role("group").filter(has=target)
        await self._reach(group.get_by_role("radio", checked=True))
        while not await target.is_checked():
            await self.page.keyboard.press("ArrowDown")

    async def fill(self, target: Locator, text: str) -> None:
        """Types the text in place of what the field holds."""
        await self._reach(target)
        await self.page.keyboard.press("Control+a")
        await self.page.keyboard.insert_text(text)

    async def choose(self, target: Locator, label: str) -> None:
        """Chooses from a list."""
        await keys.choose(self.page, target, label)

    async def go(self, name: str) -> None:
        """Goes to a screen by the navigation."""
        await self.press(self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True))

    async def give(self, text: str) -> None:
        """Gives an exported workflow as text."""
        await self.press(self.page.get_by_role("button", name="Paste its text"))
        await expect(self.page.get_by_label("Text of the export")).to_be_focused()
        await self.page.keyboard.insert_text(text)


@dataclass
class TouchInput:
    """Taps targets of at least 44 px and counts the taps."""

    page: Page
    size: Size = "phone"
    taps: int = field(default=0)

    async def press(self, target: Locator) -> None:
        """Taps a button or a link, which nothing covers."""
        await expect(target).to_be_visible()
        assert await target.evaluate(_HEIGHT) >= 43, target
        self.taps += 1
        await target.tap()

    async def check(self, target: Locator) -> None:
        """Chooses a radio button."""
        await self.press(target)
        await expect(target).to_be_checked()

    async def fill(self, target: Locator, text: str) -> None:
        """Types the text in place of what the field holds, without the page being enlarged."""
        await self.press(target)
        size = await target.evaluate("(one) => parseFloat(getComputedStyle(one).fontSize)")
        assert size >= 16, target
        await target.fill(text)

    async def choose(self, target: Locator, label: str) -> None:
        """Chooses from the phone's own list."""
        assert await target.evaluate(_HEIGHT) >= 43, target
        self.taps += 2
        await target.select_option(label=label)

    async def go(self, name: str) -> None:
        """Goes to a screen by the bar at the bottom."""
        bar = self.page.get_by_role("navigation")
        await expect(bar.get_by_role("link", name="Overview")).to_be_visible()
        if not await bar.get_by_role("link", name=name, exact=True).is_visible():
            await self.press(bar.get_by_role("button", name="More"))
        await self.press(bar.get_by_role("link", name=name, exact=True))

    async def give(self, text: str) -> None:
        """Gives an exported workflow as a file."""
        async with self.page.expect_file_chooser() as chooser:
            await self.press(self.page.get_by_role("button", name="Choose a file"))
        file = FilePayload(name="export.json", mimeType="application/json", buffer=text.encode())
        await (await chooser.value).set_files(file)


Hand = Keyboard | TouchInput
HANDS: tuple[type[Keyboard] | type[TouchInput], ...] = (Keyboard, TouchInput)


def heading(page: Page, name: str | re.Pattern[str]) -> Locator:
    """Returns the heading of the screen."""
    return page.get_by_role("heading", level=1, name=name)
