"""Undo over HTTP: what a run says of it, who may start one, and what is refused."""

import json
from typing import Any

from steward.model.json import JsonObject
from tests.notifications.notified_people import rows_of
from tests.people import Caller
from tests.populated_service import PopulatedService, populated

__all__ = ["populated"]

PREFIX = "/v1/automations"


async def _hiding(populated: PopulatedService, owner: Caller) -> JsonObject:
    """Starts a run of an automation that hides products."""
    response = await owner.post(
        PREFIX,
        {
            "template_id": "hide-out-of-stock-products",
            "name": "Hide",
            "inputs": {},
            "schedule": {"cadence": "manual"},
            "integration_id": populated.shop.connections["woocommerce"].integration_id,
        },
    )
    started = await owner.post(
        f"{PREFIX}/{response.data['automation']['id']}/runs", {"idempotency_key": "to-be-undone"}
    )
    run: JsonObject = started.data["run"]
    return run


async def _hidden(populated: PopulatedService, owner: Caller) -> JsonObject:
    """Runs an automation that hides products, approved and ended; returns the run."""
    return await _approved(populated, owner, await _hiding(populated, owner))


async def _approved(populated: PopulatedService, owner: Caller, run: Any) -> JsonObject:
    await populated.shop.drain()
    waiting = (await owner.get(f"{PREFIX}/runs/{run['id']}")).data["run"]
    await owner.post(f"{PREFIX}/approvals/{waiting['approval_id']}/approve", {"version": 1})
    await populated.shop.drain()
    ended: JsonObject = (await owner.get(f"{PREFIX}/runs/{run['id']}")).data["run"]
    return ended


async def test_a_token_starts_an_undo_and_only_a_person_approves_it(populated: PopulatedService) -> None:
    """Starts an undo by token, requires a person's approval, and links both runs and their changes."""
    owner, token = await populated.service.web("owner"), await populated.service.token("member")
    run = await _hidden(populated, owner)
    undo = run["undo"]
    assert isinstance(undo, dict)
    assert (undo["possible"], undo["undoable"], undo["undone"]) == (True, undo["changes"], 0)
    path = f"{PREFIX}/runs/{run['id']}/undo"
    started = await token.post(path, {"idempotency_key": "first-undo"})
    assert (started.status, started.data["run"]["undo_of"]) == (201, run["id"])
    again = await token.post(path, {"idempotency_key": "first-undo"})
    assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")
    logged = [line for line in populated.service.lines if '"undo_started"' in line]
    assert [json.loads(line)["undo_of"] for line in logged] == [run["id"]]
    await populated.shop.drain()
    undo_run = (await token.get(f"{PREFIX}/runs/{started.data['run']['id']}")).data["run"]
    assert undo_run["status"] == "waiting_approval"
    facts = [
        row["facts"] for row in await rows_of(populated.shop, "notices") if row["run_id"] == undo_run["id"]
    ]
    assert ['"undo"' in text for text in facts] == [True]
    approval = f"{PREFIX}/approvals/{undo_run['approval_id']}"
    assert (await token.get(approval)).data["approval"]["undo_of"] == run["id"]
    assert (await token.post(f"{approval}/approve", {"version": 1})).status == 403
    waiting = (await token.get(f"{PREFIX}/runs/{run['id']}")).data["run"]["undo"]
    assert (waiting["possible"], waiting["open_run_id"]) == (False, undo_run["id"])
    refused = await token.post(path, {"idempotency_key": "second-undo"})
    assert (refused.status, refused.body["code"]) == (409, "wrong_state")
    line = json.loads(populated.service.lines[-1])
    assert (line["action"], line["undo_of"], line["code"]) == ("undo_refused", run["id"], "wrong_state")
    ended = await _approved(populated, owner, undo_run)
    assert ended["status"] == "succeeded"
    undone = (await token.get(f"{PREFIX}/runs/{run['id']}")).data["run"]["undo"]
    assert (undone["undone"], undone["run_ids"]) == (undo["undoable"], [undo_run["id"]])
    changes = (await token.get(f"{PREFIX}/runs/{run['id']}/changes")).data["changes"]
    back = (await token.get(f"{PREFIX}/runs/{undo_run['id']}/changes")).data["changes"]
    assert {change["id"]: change["undone_by"] for change in changes} == {
        item["undo_of"]: item["id"] for item in back
    }
    listed = (await token.get(f"{PREFIX}/runs", undo_of=run["id"])).data["runs"]
    assert [entry["id"] for entry in listed] == [undo_run["id"]]


async def test_faults_of_an_undo_name_their_fields(populated: PopulatedService) -> None:
    """Refuses a missing key and empty, repeated, foreign or too many changes under their field.

    A stranger gets 404.
    """
    owner = await populated.service.web("owner")
    run = await _hidden(populated, owner)
    path = f"{PREFIX}/runs/{run['id']}/undo"
    foreign = "01KQH1ZN1GC2H83870B6BWHCED"
    for body, field in (
        ({}, "idempotency_key"),
        ({"idempotency_key": "some-undo", "changes": []}, "changes"),
        ({"idempotency_key": "some-undo", "changes": [foreign, foreign]}, "changes"),
        ({"idempotency_key": "some-undo", "changes": [foreign]}, "changes"),
        ({"idempotency_key": "some-undo", "changes": [foreign] * 5001}, "changes"),
        ({"idempotency_key": "some-undo", "mode": "later"}, "mode"),
    ):
        refused = await owner.post(path, body)
        assert (refused.status, list(refused.body["errors"])) == (422, [field]), body
    viewer = await populated.service.token("stranger")
    assert (await viewer.post(path, {"idempotency_key": "some-undo"})).status == 404


async def test_changes_made_in_part_are_listed_beside_those_made(populated: PopulatedService) -> None:
    """Lists the failed changes of which a part was written; an undo puts them back as well."""
    owner = await populated.service.web("owner")
    run = await _hiding(populated, owner)
    await populated.shop.drain()
    path = f"{PREFIX}/runs/{run['id']}/changes"
    in_part, *made = (await owner.get(path)).data["changes"]
    product = populated.shop.world.state.shop.products[int(in_part["object"]["id"])]
    product["tags"].append({"id": 990, "name": "Somebody else's", "slug": "else"})
    ended = await _approved(populated, owner, run)
    assert {change["outcome"] for change in (await owner.get(path)).data["changes"][1:]} == {"applied"}
    listed = await owner.get(f"/app/runs/{run['id']}/partly-made")
    assert listed.data == {"change_ids": [in_part["id"]]}
    undo = ended["undo"]
    assert isinstance(undo, dict)
    assert undo["undoable"] == len(made) + 1
