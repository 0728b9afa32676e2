"""Moving, skipping and un-skipping over HTTP: answers and the order of refusals."""

from typing import Any

import pytest

from tests.api.test_automations import AutomationsApi, desk
from tests.people import ApiResponse, Caller

__all__ = ["desk"]

PATH = "/v1/automations"
DAILY = {"cadence": "daily", "run_at": "08:00"}


async def planned(desk: AutomationsApi, automation: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """Returns a coming run of the automation as the calendar answers it."""
    response = await desk.member.get(f"{PATH}/occurrences", automation_id=automation["id"])
    row: dict[str, Any] = response.data["occurrences"][index]
    return row


def sent(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Returns the body of an edit of this row; `...` removes a field."""
    body = {
        "slot_at": row["slot_at"],
        "occurrence_version": row["version"],
        "automation_version": row["automation_version"],
    }
    return {name: value for name, value in {**body, **changes}.items() if value is not ...}


async def edit(
    desk: AutomationsApi, verb: str, automation: dict[str, Any], body: object, caller: Caller | None = None
) -> ApiResponse:
    """Posts move, skip or unskip and returns the response."""
    return await (caller or desk.member).post(f"{PATH}/{automation['id']}/occurrences/{verb}", body)


async def utc_daily(desk: AutomationsApi) -> dict[str, Any]:
    """Creates a daily automation in UTC whose first run is on 1 May about 08:00."""
    return await desk.create(schedule=DAILY, timezone="UTC")


async def test_a_move_returns_the_run_and_the_automation(desk: AutomationsApi) -> None:
    """Answers 200 with the moved run and the automation with its new `next_run_at`.

    See docs/design/api/calendar.md#move.

    Interface statements: 4.2 slot_at, this, answer.
    """
    automation = await utc_daily(desk)
    row = await planned(desk, automation)
    body = sent(row, run_at="2026-05-01T12:00:00+02:00", scope="this")
    response = await edit(desk, "move", automation, body)
    assert (response.status, sorted(response.data)) == (200, ["automation", "occurrence"])
    moved = {"run_at": "2026-05-01T10:00:00.000Z", "moved_from": row["run_at"], "version": 1}
    assert response.data["occurrence"] == {**row, **moved}
    assert response.data["automation"] == {**automation, "next_run_at": "2026-05-01T10:00:00.000Z"}
    assert await planned(desk, automation) == response.data["occurrence"]


async def test_this_and_later_changes_the_schedule(desk: AutomationsApi) -> None:
    """Changes the schedule by `this_and_later`, so that every later run follows.

    See docs/design/api/calendar.md#move.

    Interface statements: 4.2 this_and_later.
    """
    new_automation = await utc_daily(desk)
    row = await planned(desk, new_automation, 1)
    body = sent(row, run_at="2026-05-02T10:30:00Z", scope="this_and_later")
    response = await edit(desk, "move", new_automation, body)
    automation = response.data["automation"]
    assert (automation["version"], automation["schedule"]["run_at"]) == (2, "10:30")
    assert response.data["occurrence"]["automation_version"] == 2
    got = await desk.member.get(f"{PATH}/{new_automation['id']}")
    assert got.data["automation"] == automation


async def test_a_far_run_is_moved_with_version_0(desk: AutomationsApi) -> None:
    """Moves a projected run with version 0 and stores it; skipping one that is not stored is refused.

    See docs/design/api/calendar.md#occurrence.

    Interface statements: 4.2 projected; 9 projected.
    """
    automation = await utc_daily(desk)
    response = await desk.member.get(f"{PATH}/occurrences", **{"from": "2026-06-10T00:00:00Z"})
    row = response.data["occurrences"][0]
    assert (row["projected"], row["version"]) == (True, 0)
    assert (await edit(desk, "skip", automation, sent(row))).code == "wrong_state"
    response = await edit(desk, "move", automation, sent(row, run_at="2026-06-10T12:00:00Z", scope="this"))
    assert (response.data["occurrence"]["projected"], response.data["occurrence"]["version"]) == (False, 1)
    assert (await edit(desk, "skip", automation, sent(response.data["occurrence"]))).status == 200


async def test_skip_and_unskip_return_the_run_and_the_automation(desk: AutomationsApi) -> None:
    """Answers the run and the automation after skip and unskip, and un-skipping restores both."""
    automation = await utc_daily(desk)
    row = await planned(desk, automation)
    response = await edit(desk, "skip", automation, sent(row))
    skipped = {"state": "skipped", "reason": "by_merchant", "version": 1}
    assert (response.status, response.data["occurrence"]) == (200, {**row, **skipped})
    assert response.data["automation"]["next_run_at"] > row["run_at"]
    response = await edit(desk, "unskip", automation, sent(response.data["occurrence"]))
    assert response.data["occurrence"] == {**row, "version": 2}
    assert response.data["automation"] == automation


async def test_a_stale_refusal_carries_what_is_current(desk: AutomationsApi) -> None:
    """Answers 409 with the current run and automation to an outdated version, whatever else is wrong.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 2.1 StaleOccurrence; 4.2 rule 1; 9 occurrence.
    """
    automation = await utc_daily(desk)
    row = await planned(desk, automation)
    current = (await edit(desk, "skip", automation, sent(row))).data
    for verb, more in (("move", {"run_at": "2020-01-01T00:00:00Z", "scope": "this"}), ("skip", {})):
        response = await edit(desk, verb, automation, sent(row, **more))
        assert (response.status, response.code, response.data) == (409, "stale_version", current)
        assert response.body["success"] is False
        assert "errors" not in response.body
    gone = sent(row, slot_at="2026-05-01T03:33:00Z", automation_version=9)
    response = await edit(desk, "unskip", automation, gone)
    assert response.data == {"occurrence": None, "automation": current["automation"]}


async def test_refusals_come_in_their_order(desk: AutomationsApi) -> None:
    """Refuses in this order: 422 shape, 409 stale, 422 slot_at, 409 state, 422 scope, 422 run_at."""
    automation = await desk.create(schedule={"cadence": "hourly"}, timezone="UTC")
    row = await planned(desk, automation)
    past = "2020-01-01T00:00:00Z"
    later = sent(row, run_at=past, scope="this_and_later")

    async def response_to(body: dict[str, Any]) -> tuple[int, str | None, list[str]]:
        reply = await edit(desk, "move", automation, body)
        return reply.status, reply.code, sorted(reply.body.get("errors", {}))

    odd = {"slot_at": "2026-05-01T09:59:59Z"}
    wrong = {**later, **odd, "automation_version": 0, "occurrence_version": -1, "scope": "all", "extra": 1}
    assert await response_to(wrong) == (
        422, "validation_failed", ["automation_version", "extra", "occurrence_version", "scope"],
    )  # fmt: skip
    assert await response_to({}) == (
        422,
        "validation_failed",
        ["automation_version", "occurrence_version", "run_at", "scope", "slot_at"],
    )
    assert await response_to({**later, **odd, "automation_version": 9}) == (409, "stale_version", [])
    assert await response_to({**later, **odd}) == (422, "validation_failed", ["slot_at"])
    await edit(desk, "skip", automation, sent(row))
    assert await response_to({**later, "occurrence_version": 1}) == (409, "wrong_state", [])
    body = sent(await planned(desk, automation, 1), run_at=past)
    assert await response_to({**body, "scope": "this_and_later"}) == (422, "validation_failed", ["scope"])
    assert await response_to({**body, "scope": "this"}) == (422, "validation_failed", ["run_at"])


@pytest.mark.parametrize("verb", ["move", "skip", "unskip"])
async def test_another_organizations_automation_is_not_found(desk: AutomationsApi, verb: str) -> None:
    """Answers the same 404 for another organization's automation as for an unknown one, and changes nothing.

    See docs/design/api/conventions.md#scope.

    Interface statements: 4.2 rule 4.
    """
    automation = await utc_daily(desk)
    body = sent(await planned(desk, automation))
    body |= {"run_at": "2026-05-01T12:00:00Z", "scope": "this"} if verb == "move" else {}
    foreign = await edit(desk, verb, automation, body, desk.stranger)
    unknown = await edit(desk, verb, {"id": "01KAGQ3W8ZJ4T6V9X2B5C7D8EF"}, body)
    assert foreign.status == unknown.status == 404
    assert foreign.body == unknown.body
    assert (await planned(desk, automation))["version"] == 0


async def test_paused_automations_refuse_every_edit(desk: AutomationsApi) -> None:
    """Refuses move, skip and unskip on a paused automation with 409 `wrong_state`."""
    automation = await utc_daily(desk)
    row = await planned(desk, automation)
    paused = (await desk.member.post(f"{PATH}/{automation['id']}/pause")).data["automation"]
    body = sent(row, automation_version=paused["version"])
    for verb, more in (
        ("move", {"run_at": "2026-05-01T12:00:00Z", "scope": "this"}), ("skip", {}), ("unskip", {}),
    ):  # fmt: skip
        response = await edit(desk, verb, automation, {**body, **more})
        assert (response.status, response.code) == (409, "wrong_state"), verb
