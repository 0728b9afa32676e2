"""Helpers of the calendar tests: an automation's occurrences, dragging, the next clock change."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from playwright.async_api import Locator, Request

from tests.processes.running import eventually
from tests.web.open_pages import OpenPage
from tests.web.site import WebSite


async def coming(web: WebSite, automation: str, **query: Any) -> list[dict[str, Any]]:
    """Returns the automation's occurrences as the API answers them."""
    owner = await web.session_of("owner")
    parameters = urlencode({"automation_id": automation, "limit": 500, **query})
    response = await owner.call("GET", f"/v1/automations/occurrences?{parameters}")
    occurrences: list[dict[str, Any]] = response["occurrences"]
    return occurrences


async def ahead(web: WebSite, automation: str) -> list[dict[str, Any]]:
    """Returns the occurrences at least two hours away, which no run can disturb during a test."""
    from_ = await time_of(web) + timedelta(hours=2)
    return await coming(web, automation, **{"from": from_.isoformat()})


async def zone_in_daytime(web: WebSite) -> str:
    """Returns a zone in which the day neither began just now nor is about to end."""
    hour = local((await time_of(web)).isoformat(), "Europe/Berlin").hour
    return "Europe/Berlin" if 2 <= hour < 22 else "Asia/Tokyo"


async def in_minutes(web: WebSite, minutes: int = 30) -> dict[str, Any]:
    """Returns a schedule whose next run is in `minutes`."""
    moment = await time_of(web) + timedelta(minutes=minutes)
    return {"schedule": {"cadence": "daily", "run_at": f"{moment:%H:%M}"}, "timezone": "UTC"}


async def read_occurrence(web: WebSite, row: dict[str, Any]) -> dict[str, Any]:
    """Reads the occurrence of this slot again."""
    slot = datetime.fromisoformat(row["slot_at"])
    around = {"from": slot - timedelta(days=2), "to": slot + timedelta(days=9)}
    rows = await coming(
        web, row["automation_id"], **{name: moment.isoformat() for name, moment in around.items()}
    )
    return next(each_row for each_row in rows if each_row["slot_at"] == row["slot_at"])


async def wait_for_occurrence(web: WebSite, row: dict[str, Any], **expected: Any) -> None:
    """Waits until this occurrence has these values; a page shows a change before the response arrives."""

    async def look() -> bool:
        now = await read_occurrence(web, row)
        return all(now[name] == value for name, value in expected.items())

    await eventually(look)


async def read_automation(web: WebSite, automation: str) -> dict[str, Any]:
    """Reads the automation."""
    owner = await web.session_of("owner")
    found_automation: dict[str, Any] = (await owner.call("GET", f"/v1/automations/{automation}"))[
        "automation"
    ]
    return found_automation


async def time_of(web: WebSite) -> datetime:
    """Returns the service's current time."""
    owner = await web.session_of("owner")
    return datetime.fromisoformat((await owner.call("GET", "/v1/automations/status"))["time"])


async def move_as_other_person(web: WebSite, row: dict[str, Any], to: datetime) -> dict[str, Any]:
    """Moves an occurrence as another person would and returns it."""
    owner = await web.session_of("owner")
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
    """Returns the key under which the page shows a run."""
    return f"{row['automation_id']}.{int(datetime.fromisoformat(row['slot_at']).timestamp() * 1000)}"


def local(instant: str, zone: str) -> datetime:
    """Converts an instant to the local time of a zone."""
    return datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))


async def drag(seen: OpenPage, chip: Locator, *, across: float = 0, down: float = 0) -> str:
    """Drags a chip by pixels with the mouse and returns the last text of its preview."""
    # The grid draws its chips again when closed times or automations arrive: `hover` finds the new chip.
    await seen.wait_until_complete()
    page = seen.page
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


def body_of(request: Request) -> dict[str, Any]:
    """Returns the JSON body of a request."""
    sent_body: dict[str, Any] = json.loads(request.post_data or "{}")
    return sent_body


def next_change(zone: str, after: datetime, *, gap: bool) -> datetime:
    """Returns the local midnight of the next day with a clock change: a gap, or a repeated hour."""
    tz = ZoneInfo(zone)
    day = after.astimezone(tz).replace(hour=0, minute=0, second=0, microsecond=0)
    for _ in range(400):
        following = (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=tz)
        length = following.astimezone(UTC) - day.astimezone(UTC)
        if length != timedelta(days=1) and (length < timedelta(days=1)) is gap:
            return day
        day = following
    raise AssertionError(f"{zone} does not change its clock")
