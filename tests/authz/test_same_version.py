"""Tests simultaneous updates that all read one version."""

import asyncio
from dataclasses import replace

import pytest

from steward.api.application import create
from steward.api.operations import OPERATIONS, RAW_OPERATIONS
from steward.database.engine import postgres
from tests.authz.two_organizations import PREFIX, TwoOrganizations

MANY = 1_000
PATIENCE = 300.0


async def test_of_a_thousand_updates_with_one_version_one_wins(
    two: TwoOrganizations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One update is stored; 999 are stale and answer the current automation.

    See docs/design/api/conventions.md#envelope and docs/design/api/conventions.md#codes.
    """
    # A thousand updates may take long; this test does not measure how long one waits.
    monkeypatch.setattr(postgres, "_CALLER_SECONDS", PATIENCE)
    two.service.gate = create(
        two.service.context,
        operations=[replace(row, seconds=PATIENCE) for row in OPERATIONS],
        raw_operations=RAW_OPERATIONS,
    )
    owner, path = await two.service.token("owner"), f"{PREFIX}/{two.ours.automation_id}"
    before = (await owner.get(path)).data["automation"]["version"]
    api_response = await asyncio.gather(
        *(owner.patch(path, {"version": before, "name": f"number {number}"}) for number in range(MANY))
    )
    won = [element for element in api_response if element.status == 200]
    lost = [response for response in api_response if response.status != 200]
    assert (len(won), len(lost)) == (1, MANY - 1)
    assert {(response.status, response.code) for response in lost} == {(409, "stale_version")}
    current = (await owner.get(path)).data["automation"]
    assert (current["version"], current["name"]) == (before + 1, won[0].data["automation"]["name"])
    for item in lost:
        assert item.data["occurrence"] is None
        automation = item.data["automation"]
        assert (automation["id"], automation["version"], automation["name"]) == (
            current["id"],
            before + 1,
            current["name"],
        )
    history = (await (await two.service.web("owner")).get(f"/app/automations/{current['id']}/history")).data
    assert [entry["version"] for entry in history["entries"]].count(before + 1) == 1
