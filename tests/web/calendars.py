"""Ways around the calendar its tests share: an automation's rows, dragging, the next change of a clock."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from playwright.async_api import Locator, Page, Request

from tests.processes.running import eventually
from tests.web.site import WebSite


async def coming(web: WebSite, automation: str, **query: Any) -> list[dict[str, Any]]:
    """The automation's rows as the service answers them."""
    owner = await web.signed("owner")
    parameters = urlencode({"automation_id": automation, "limit": 500, **query})
    answer = await owner.call("GET", f"/v1/automations/occurrences?{parameters}")
    occurrences: list[dict[str, Any]] = answer["occurrences"]
    return occurrences


async def ahead(web: WebSite, automation: str) -> list[dict[str, Any]]:
    """Its rows that nobody waits for: at least two hours away, whatever the clock says."""
    from_ = await time_of(web) + timedelta(hours=2)
    return await coming(web, automation, **{"from": from_.isoformat()})


async def zone_in_daytime(web: WebSite) -> str:
    """Returns a zone in which the day neither began just now nor is about to end."""
    hour = local((await time_of(web)).isoformat(), "Europe/Berlin").hour
    return "Europe/Berlin" if 2 <= hour < 22 else "Asia/Tokyo"


async def in_minutes(web: WebSite, minutes: int = 30) -> dict[str, Any]:
    """A schedule whose next run is so far away, whatever the clock says."""
    moment = await time_of(web) + timedelta(minutes=minutes)
    return {"schedule": {"cadence": "daily", "run_at": f"{moment:%H:%M}"}, "timezone": "UTC"}


async def same(web: WebSite, row: dict[str, Any]) -> dict[str, Any]:
    """The run of this slot as it now is."""
    slot = datetime.fromisoformat(row["slot_at"])
    around = {"from": slot - timedelta(days=2), "to": slot + timedelta(days=9)}
    rows = await coming(
        web, row["automation_id"], **{name: moment.isoformat() for name, moment in around.items()}
    )
    return next(each_row for each_row in rows if each_row["slot_at"] == row["slot_at"])


async def becomes(web: WebSite, row: dict[str, Any], **expected: Any) -> None:
    """Waits until the run of this slot has these values: a page shows a change before it is answered."""

    async def look() -> bool:
        now = await same(web, row)
        return all(now[name] == value for name, value in expected.items())

    await eventually(look)


async def whole(web: WebSite, automation: str) -> dict[str, Any]:
    """The automation as it now is."""
    owner = await web.signed("owner")
    found_automation: dict[str, Any] = (await owner.call("GET", f"/v1/automations/{automation}"))[
        "automation"
    ]
    return found_automation


async def time_of(web: WebSite) -> datetime:
    """The present by the service's clock."""
    owner = await web.signed("owner")
    return datetime.fromisoformat((await owner.call("GET", "/v1/automations/status"))["time"])


async def moved(web: WebSite, row: dict[str, Any], to: datetime) -> dict[str, Any]:
    """Another person moves this run; returns it as the move left it."""
    owner = await web.signed("owner")
    body = {
        "slot_at": row["slot_at"],
        "occurrence_version": row["version"],
        "automation_version": row["automation_version"],
        "run_at": to.isoformat(),
        "scope": "this",
    }
    path = f"/v1/automations/{row['automation_id']}/occurrences/move"
    occurrence: dict[str, Any] = (await owner.call("POST", path, body))["occurrence"]
    return occurrence


def key_of(row: dict[str, Any]) -> str:
    """How the page names a run."""
    return f"{row['automation_id']}.{int(datetime.fromisoformat(row['slot_at']).timestamp() * 1000)}"


def local(instant: str, zone: str) -> datetime:
    """The clock of a zone at an instant, by Python."""
    return datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))


async def drag(page: Page, chip: Locator, *, across: float = 0, down: float = 0) -> str:
    """Drags a chip by pixels with the mouse, in steps, and returns the last words of its preview."""
    # The grid draws its chips anew when closed times or automations arrive: `hover` finds the new chip.
    await page.wait_for_load_state("networkidle")
    await chip.hover()
    box = await chip.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.mouse.move(x + across / 2 + 6, y + down / 2 + 6)
    await page.mouse.move(x + across, y + down, steps=4)
    words = await page.locator(".ec-preview").inner_text()
    await page.mouse.up()
    return words


def sent(request: Request) -> dict[str, Any]:
    """The body of a request."""
    sent_body: dict[str, Any] = json.loads(request.post_data or "{}")
    return sent_body


def next_change(zone: str, after: datetime, *, gap: bool) -> datetime:
    """The local midnight of the next day whose clock jumps (`gap`) or repeats."""
    tz = ZoneInfo(zone)
    day = after.astimezone(tz).replace(hour=0, minute=0, second=0, microsecond=0)
    for _ in range(400):
        following = (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=tz)
        length = following.astimezone(UTC) - day.astimezone(UTC)
        if length != timedelta(days=1) and (length < timedelta(days=1)) is gap:
            return day
        day = following
    raise AssertionError(f"{zone} does not change its clock")
