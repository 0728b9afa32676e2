"""The calendar over HTTP: parameters, envelope, pages and refusals."""

from typing import Any

from tests.api.test_automations import AutomationsApi, desk
from tests.people import ApiResponse, altered

__all__ = ["desk"]

PATH = "/v1/automations/occurrences"
FIELDS = {
    "automation_id", "automation_name", "automation_version", "timezone", "slot_at", "run_at", "state",
    "reason", "run_id", "run_status", "moved_from", "version", "projected",
}  # fmt: skip


async def rows(desk: AutomationsApi, **query: Any) -> list[dict[str, Any]]:
    """Returns the rows of one page."""
    response = await desk.member.get(PATH, **query)
    assert response.status == 200, response.body
    occurrences: list[dict[str, Any]] = response.data["occurrences"]
    return occurrences


async def refused(desk: AutomationsApi, **query: Any) -> list[str]:
    """Returns the names of the parameters that a 422 refuses."""
    response: ApiResponse = await desk.member.get(PATH, **query)
    assert (response.status, response.code) == (422, "validation_failed"), response.body
    return sorted(response.errors)


async def test_a_row_has_all_thirteen_fields(desk: AutomationsApi) -> None:
    """Answers each occurrence with all thirteen fields and timestamps in milliseconds.

    See docs/design/api/calendar.md#occurrence and docs/design/api/conventions.md#requests.

    Interface statements: 4.3 occurrences.
    """
    automation = await desk.create()
    response = await desk.member.get(PATH)
    assert response.body["success"] is True
    assert response.data["next_cursor"] is None
    first = response.data["occurrences"][0]
    assert set(first) == FIELDS
    assert first["slot_at"] == first["run_at"] == automation["next_run_at"]
    assert first["slot_at"].endswith(":00.000Z")
    assert (first["automation_id"], first["automation_version"]) == (automation["id"], automation["version"])
    assert (first["timezone"], first["automation_name"]) == (automation["timezone"], automation["name"])
    assert (first["state"], first["version"], first["projected"]) == ("pending", 0, False)


async def test_the_range_and_the_filters_are_accepted(desk: AutomationsApi) -> None:
    """Narrows the calendar by from, to, automation_id, integration_id, state and limit."""
    record = await desk.create()
    two = await desk.create(integration_id=desk.other_store)
    day = {"from": "2026-05-03T00:00:00Z", "to": "2026-05-04T02:00:00+02:00"}
    assert {row["automation_id"] for row in await rows(desk, **day)} == {record["id"], two["id"]}
    assert [row["automation_id"] for row in await rows(desk, **day, automation_id=record["id"])] == [
        record["id"]
    ]
    found_rows = await rows(desk, **day, integration_id=desk.other_store)
    assert [row["automation_id"] for row in found_rows] == [two["id"]]
    assert await rows(desk, **day, state="queued,skipped") == []
    assert len(await rows(desk, **day, state="pending")) == 2
    assert len(await rows(desk, limit=1)) == 1


WRONG: list[tuple[dict[str, str], list[str]]] = [
    ({"from": "2026-05-03"}, ["from"]),
    ({"from": "2026-05-03T08:00:00"}, ["from"]),
    ({"from": "2026-03-31T05:59:59Z"}, ["from"]),
    ({"from": "2026-05-03T08:00:00Z", "to": "2026-05-03T08:00:00Z"}, ["to"]),
    ({"to": "2027-05-03T08:00:00Z"}, ["to"]),
    ({"from": "9999-12-31T08:00:00Z"}, ["to"]),
    ({"automation_id": "01KAGQ3W8ZJ4T6V9X2B5C7D8EF"}, ["automation_id"]),
    ({"automation_id": "x", "state": "running", "limit": "0"}, ["automation_id", "limit", "state"]),
    ({"integration_id": "0"}, ["integration_id"]),
    ({"integration_id": "999999"}, ["integration_id"]),
    ({"state": ""}, ["state"]),
    ({"limit": "many", "since": "now"}, ["limit", "since"]),
    ({"cursor": "AAAA"}, ["cursor"]),
]


async def test_wrong_parameters_are_refused_by_name(desk: AutomationsApi) -> None:
    """Refuses each invalid parameter under its name."""
    for query, wrong in WRONG:
        assert [name.split(".")[0] for name in await refused(desk, **query)] == wrong, query


async def test_foreign_filters_are_refused_like_unknown_ones(desk: AutomationsApi) -> None:
    """Answers 422 for another organization's automation or store as a filter.

    See docs/design/api/conventions.md#codes.

    Interface statements: 7 filter, calendar.
    """
    automation = await desk.create()
    for query in ({"automation_id": automation["id"]}, {"integration_id": desk.store}):
        response = await desk.stranger.get(PATH, **query)
        assert (response.status, sorted(response.errors)) == (422, list(query))
    assert (await desk.stranger.get(PATH)).data == {"occurrences": [], "next_cursor": None}


async def test_a_limit_above_the_maximum_is_lowered(desk: AutomationsApi) -> None:
    """Lowers a limit above 500 to 500; the default is 200."""
    await desk.create(schedule={"cadence": "hourly"})
    query = {"to": "2026-06-30T00:00:00Z"}
    assert len(await rows(desk, **query)) == 200
    assert len(await rows(desk, **query, limit=500)) == 500
    assert len(await rows(desk, **query, limit=501)) == 500


async def test_pages_follow_each_other_without_gap_or_double(desk: AutomationsApi) -> None:
    """Continues in the range of the first page even when time passes between pages."""
    for number in range(3):
        await desk.create(name=f"Watch {number}", timezone="UTC")
    whole = await rows(desk)
    occurrences: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        response = await desk.member.get(PATH, limit=4, **cursor)
        occurrences += response.data["occurrences"]
        if response.data["next_cursor"] is None:
            break
        cursor = {"cursor": response.data["next_cursor"]}
        desk.service.clock.tick(60)
    assert occurrences == whole
    assert len(occurrences) == 42


async def test_a_cursor_belongs_to_its_filters_and_its_caller(desk: AutomationsApi) -> None:
    """Refuses a cursor that was altered, has another filter or comes from another organization."""
    await desk.create()
    cursor = (await desk.member.get(PATH, limit=2)).data["next_cursor"]
    assert await refused(desk, cursor=cursor, state="pending") == ["cursor"]
    assert await refused(desk, cursor=altered(cursor, -4)) == ["cursor"]
    response = await desk.stranger.get(PATH, cursor=cursor)
    assert (response.status, list(response.errors)) == (422, ["cursor"])
    assert (await desk.member.get(PATH, cursor=cursor, limit=3)).status == 200


async def test_the_calendar_needs_the_read_scope_and_a_token(desk: AutomationsApi) -> None:
    """Answers 401 with WWW-Authenticate without a token.

    See docs/design/api/sign-in.md#scopes and docs/design/api/conventions.md#codes.
    """
    response = await desk.service.nobody().get(PATH)
    assert response.status == 401
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_a_web_caller_reads_the_same_calendar(desk: AutomationsApi) -> None:
    """Answers a signed-in web session with the same rows as a token."""
    await desk.create()
    web = await desk.service.web("member")
    assert (await web.get(PATH)).data == (await desk.member.get(PATH)).data
