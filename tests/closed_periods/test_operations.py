"""Tests closed periods over HTTP: rights, versions, previews of effects, and closings by time."""

from typing import Any

from tests.api.audited import actions
from tests.people import Caller
from tests.service import Service

PERIODS, FREEZE = "/app/closed-periods", "/app/freeze"
WHOLE = {"kind": "organization"}
SUNDAYS = {"kind": "weekly", "days": [7]}


def period(**changes: Any) -> dict[str, Any]:
    """Returns a valid body of a period."""
    return {"name": "Sundays", "scope": WHOLE, "stops": "runs", "when": SUNDAYS, **changes}


async def test_an_owner_makes_changes_and_ends_a_period(service: Service) -> None:
    """Makes a version of each change, refuses a stale one with the current period, and audits all of them."""
    web = await service.web("owner")
    response = await web.post(PERIODS, period())
    assert (response.status, response.data["effect"]["slots_closed_30_days"]) == (201, 0)
    stored = response.data["closed_period"]
    when = {"kind": "weekly", "days": [7], "from": None, "to": None}
    assert (stored["version"], stored["when"], stored["timezone"]) == (1, when, "Europe/Berlin")
    assert (stored["state"], stored["created_by"]["name"] != "") == ("active", True)
    path = f"{PERIODS}/{stored['id']}"
    changed = await web.patch(path, {"version": 1, "stops": "changes", "name": "Rest"})
    assert (changed.status, changed.data["closed_period"]["version"]) == (200, 2)
    stale = await web.patch(path, {"version": 1, "name": "Late"})
    assert (stale.status, stale.code) == (409, "stale_version")
    assert stale.data["closed_period"]["name"] == "Rest"
    ended = await web.post(f"{path}/end", {"version": 2})
    assert ended.data["closed_period"]["state"] == "ended"
    again = await web.post(f"{path}/end", {"version": 2})
    assert (again.status, again.code) == (409, "wrong_state")
    assert (await web.get(PERIODS, state="active")).data["closed_periods"] == []
    [listed] = (await web.get(PERIODS, state="ended")).data["closed_periods"]
    assert listed["ended_by"] is not None
    done = [action for action, _, _ in await actions(service, service.own.organization.id)]
    assert sorted(done) == ["closed_period_changed", "closed_period_ended", "closed_period_made"]


async def test_a_freeze_is_anyones_and_its_end_an_approvers(service: Service) -> None:
    """Lets every member stop changes, and only approvers and owners end the freeze.

    A second freeze answers the first one.
    """
    member, approver = await service.web("member"), await service.web("approver")
    frozen = await member.post(FREEZE, {"scope": WHOLE, "reason": "Wrong prices"})
    assert (frozen.status, frozen.data["in_flight"]) == (201, 0)
    status = "/v1/automations/status"
    assert (await member.get(status)).data["frozen"] is True
    stored = frozen.data["closed_period"]
    assert (stored["name"], stored["stops"], stored["when"]) == (
        "Wrong prices",
        "changes",
        {"kind": "freeze"},
    )
    again = await approver.post(FREEZE, {"scope": WHOLE})
    assert (again.status, again.data["closed_period"]["id"]) == (200, stored["id"])
    path = f"{PERIODS}/{stored['id']}"
    assert (await member.post(f"{path}/end", {"version": 1})).status == 403
    changing = await (await service.web("owner")).patch(path, {"version": 1, "name": "x"})
    assert changing.code == "wrong_state"
    assert (await approver.post(f"{path}/end", {"version": 1})).status == 200
    assert (await member.get(status)).data["frozen"] is False
    done = [action for action, _, _ in await actions(service, service.own.organization.id)]
    assert sorted(done) == ["frozen", "unfrozen"]


async def test_members_close_nothing_but_single_automations(service: Service) -> None:
    """Refuses members a period of the organization with 403, but answers them its preview."""
    member = await service.web("member")
    refused = await member.post(PERIODS, period())
    assert (refused.status, refused.code) == (403, "forbidden")
    assert (await member.post(f"{PERIODS}/preview", period())).status == 200


async def test_a_token_reaches_none_of_it(service: Service) -> None:
    """Refuses every operation of closed periods with a token."""
    token = await service.token("owner")
    for call in (token.get(PERIODS), token.post(PERIODS, period()), token.post(FREEZE, {"scope": WHOLE})):
        assert (await call).status in (401, 403)


async def test_a_preview_lists_the_next_closings_and_stores_nothing(owner: Caller, service: Service) -> None:
    """Answers local times with the offset on either side of a clock change, and stores no period."""
    web = await service.web("owner")
    nights = {"kind": "once", "start": "2026-10-25T01:00", "end": "2026-10-25T02:30"}
    response = await web.post(f"{PERIODS}/preview", period(when=nights))
    [closing] = response.data["next"]
    assert (closing["local_start"], closing["local_end"]) == (
        "2026-10-25T01:00+02:00",
        "2026-10-25T02:30+01:00",
    )
    assert (await web.get(PERIODS)).data["closed_periods"] == []


async def test_closings_of_a_range_are_listed_by_start(service: Service) -> None:
    """Lists closings by their start, over at most 92 days."""
    web = await service.web("owner")
    await web.post(PERIODS, period())
    await web.post(FREEZE, {"scope": WHOLE})
    listed = await web.get("/app/closings", **{"from": "2026-05-01T00:00:00Z", "to": "2026-05-12T00:00:00Z"})
    rows = listed.data["closings"]
    assert [(row["name"], row["start"][:10], row["end"] and row["end"][:10]) for row in rows] == [
        ("Changes are stopped", "2026-05-01", None),
        ("Sundays", "2026-05-02", "2026-05-03"),
        ("Sundays", "2026-05-09", "2026-05-10"),
    ]
    for until, status in (("2026-08-01T00:00:00Z", 200), ("2026-08-01T00:00:01Z", 422)):
        response = await web.get("/app/closings", **{"from": "2026-05-01T00:00:00Z", "to": until})
        assert response.status == status


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": "x" * 81}, "name"),
    ({"stops": "everything"}, "stops"),
    ({"scope": {"kind": "store"}}, "scope.integration_id"),
    ({"scope": {"kind": "organization", "integration_id": 1}}, "scope.integration_id"),
    ({"when": {"kind": "freeze"}}, "when.kind"),
    ({"when": {"kind": "weekly", "days": []}}, "when.days"),
    ({"when": {"kind": "weekly", "days": [8]}}, "when.days"),
    ({"when": {"kind": "weekly", "days": [1, 1]}}, "when.days"),
    ({"when": {"kind": "weekly", "days": [1], "from": "08:00"}}, "when.to"),
    ({"when": {"kind": "weekly", "days": [1], "from": "8:00", "to": "09:00"}}, "when.from"),
    ({"when": {"kind": "weekly", "days": [1], "start": "2026-12-24T00:00"}}, "when.start"),
    ({"when": {"kind": "yearly", "first": "12-24", "last": "13-01"}}, "when.last"),
    ({"when": {"kind": "yearly", "first": "02-30", "last": "03-01"}}, "when.first"),
    ({"when": {"kind": "once", "start": "2026-12-24T00:00", "end": "2026-12-24T00:00"}}, "when.end"),
    ({"when": {"kind": "once", "start": "2026-02-30T00:00", "end": "2026-12-24T00:00"}}, "when.start"),
    ({"when": {"kind": "once", "start": "2026-04-01T00:00", "end": "2026-04-02T00:00"}}, "when.end"),
    ({"when": {"kind": "once", "start": "2026-06-01T00:00", "end": "2027-06-02T00:01"}}, "when.end"),
    ({"timezone": "Europe/Nowhere"}, "timezone"),
]


async def test_a_wrong_field_is_named(service: Service) -> None:
    """Answers 422 with the path of each wrong field; the longest period is 366 days."""
    web = await service.web("owner")
    for changes, field in WRONG:
        refused = await web.post(PERIODS, period(**changes))
        assert (refused.status, set(refused.errors)) == (422, {field}), changes
    assert (await web.get(PERIODS)).data["closed_periods"] == []
    longest = {"kind": "once", "start": "2026-06-01T00:00", "end": "2027-06-02T00:00"}
    assert (await web.post(PERIODS, period(when=longest))).status == 201
