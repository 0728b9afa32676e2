"""The audit log over HTTP: pages with names and sentences, filters, files, and what people's acts write."""

import csv
import io
import json
from typing import Any

from steward.accounts import audit_check
from steward.accounts.audit_check import Anchor
from steward.runs.tasks import maintenance
from tests.people import Caller
from tests.populated_service import PopulatedService, populated
from tests.service import Service

__all__ = ["populated"]

AUDIT, EXPORT = "/app/audit", "/app/audit/export"
PREFIX = "/v1/automations"


async def invited(owner: Caller, count: int) -> None:
    """Writes audit entries by inviting this many members."""
    for number in range(count):
        body = {"email": f"new{number}@example.com", "role": "member", "first_name": f"=Nina{number}"}
        assert (await owner.post("/app/people", body)).status == 201


async def test_owners_read_who_did_what(service: Service) -> None:
    """Answers entries newest first with people's current names, each chained to the one before.

    Filters narrow the list, and only owners read it.
    """
    owner = await service.web("owner")
    await invited(owner, 3)
    await owner.patch("/app/organization", {"timezone": "Europe/Paris"})
    page = (await owner.get(AUDIT, limit=3)).data
    assert [entry["words"] for entry in page["entries"]] == [
        "Olga Owner changed the settings of the organization",
        "Olga Owner invited =Nina2 as member",
        "Olga Owner invited =Nina1 as member",
    ]
    newest = page["entries"][0]
    person = service.members["owner"].person
    assert newest["actor"] == {"kind": "person", "id": str(person.id), "name": "Olga Owner"}
    assert newest["object"]["kind"] == "organization"
    assert newest["detail"] == {"zone": "Europe/Paris"}
    assert (page["head"]["seq"], page["head"]["hash"]) == (newest["seq"], newest["hash"])
    assert page["check"] == {"seq": 0, "at": None, "wrong_seq": None, "wrong_how": None}
    later = (await owner.get(AUDIT, limit=3, cursor=page["next_cursor"])).data
    assert later["entries"][0]["seq"] == newest["seq"] - 3
    only = (await owner.get(AUDIT, action="person_invited", actor=str(person.id))).data
    assert len(only["entries"]) == 3
    about = only["entries"][0]["object"]
    assert len((await owner.get(AUDIT, object_kind="person", object_id=about["id"])).data["entries"]) == 1
    assert (await owner.get(AUDIT, **{"from": "2999-01-01T00:00:00Z"})).data["entries"] == []
    assert (await owner.get(AUDIT, to="2000-01-01T00:00:00Z")).data["entries"] == []
    assert "action" in (await owner.get(AUDIT, action="x" * 61)).errors
    for name in ("approver", "member"):
        web = await service.web(name)
        assert (await web.get(AUDIT)).code == "forbidden"
        assert (await web.get(EXPORT)).code == "forbidden"


async def test_an_export_is_written_into_the_log_and_can_be_verified(service: Service) -> None:
    """Exports the log in pages that form one verified chain, escapes CSV formulas and logs the export."""
    owner = await service.web("owner")
    await invited(owner, 5)
    everything = (await owner.get(EXPORT)).data
    lines = everything["content"].splitlines()
    head = json.loads(lines[-1])["head"]
    assert audit_check.check_export(lines, Anchor(head["seq"], head["hash"])) == (head["seq"], None)
    assert json.loads(lines[-2])["action"] == "audit_exported"
    assert everything["file_name"] == f"audit-1-{head['seq']}.ndjson"
    assert everything["next_cursor"] is None

    page = {"format": "csv", "limit": head["seq"]}
    first = (await owner.get(EXPORT, **page)).data
    second = (await owner.get(EXPORT, **page, cursor=first["next_cursor"])).data
    rows = [*csv.DictReader(io.StringIO(first["content"])), *csv.DictReader(io.StringIO(second["content"]))]
    assert [int(row["seq"]) for row in rows] == list(range(1, head["seq"] + 3))
    assert second["next_cursor"] is None
    assert "'=Nina0" in {row["object"] for row in rows}
    assert rows[-1]["words"] == "Olga Owner exported the audit log"
    nothing = (await owner.get(EXPORT, format="csv", to="2000-01-01T00:00:00Z")).data
    assert nothing["content"].count("\r\n") == 1
    assert (await owner.get(EXPORT, limit=10_000)).status == 200
    assert "limit" in (await owner.get(EXPORT, limit=10_001)).errors
    assert "format" in (await owner.get(EXPORT, format="pdf")).errors


async def test_the_page_shows_what_the_worker_found(populated: PopulatedService) -> None:
    """Shows the sequence number up to which the worker verified the chain, which is the head of the log."""
    owner = await populated.service.web("owner")
    ctx = populated.shop.service.worker_context
    assert await maintenance.check_audit_logs(ctx, ctx.worker_rules.audit_anchor) is False
    page = (await owner.get(AUDIT)).data
    assert page["check"]["seq"] == page["head"]["seq"]
    assert page["check"]["wrong_seq"] is None
    assert page["check"]["at"] is not None


async def test_acts_on_runs_and_connections_are_logged(populated: PopulatedService) -> None:
    """Describes connecting, approving, rejecting, undoing and disconnecting in sentences."""
    owner = await populated.service.web("owner")
    store = populated.number("woocommerce")
    hide: dict[str, Any] = {"template_id": "hide-out-of-stock-products", "name": "Hide", "inputs": {}}
    hide |= {"schedule": {"cadence": "manual"}, "integration_id": store}
    new_automation = (await owner.post(PREFIX, hide)).data["automation"]
    run = (await owner.post(f"{PREFIX}/{new_automation['id']}/runs", {"idempotency_key": "one"})).data["run"]
    await populated.shop.drain()
    waiting = (await owner.get(f"{PREFIX}/runs/{run['id']}")).data["run"]
    changes = (await owner.get(f"{PREFIX}/runs/{run['id']}/changes")).data["changes"]
    body = {"version": 1, "except": [changes[0]["id"]]}
    assert (await owner.post(f"{PREFIX}/approvals/{waiting['approval_id']}/approve", body)).status == 200
    await populated.shop.drain()
    assert (await owner.post(f"{PREFIX}/runs/{run['id']}/undo", {"idempotency_key": "back"})).status == 201
    await populated.shop.drain()
    [waiting] = (await owner.get(f"{PREFIX}/approvals")).data["approvals"]
    assert (await owner.post(f"{PREFIX}/approvals/{waiting['id']}/approve", {"version": 1})).status == 200
    await populated.shop.drain()
    assert (
        await owner.post(f"{PREFIX}/{new_automation['id']}/runs", {"idempotency_key": "two"})
    ).status == 201
    await populated.shop.drain()
    [waiting] = (await owner.get(f"{PREFIX}/approvals")).data["approvals"]
    assert (await owner.post(f"{PREFIX}/approvals/{waiting['id']}/reject", {"version": 1})).status == 200
    assert (await owner.post(f"/app/connections/{store}/disconnect")).status == 200
    words = [entry["words"] for entry in (await owner.get(AUDIT, limit=5)).data["entries"]]
    actions = [entry["action"] for entry in (await owner.get(AUDIT, limit=5)).data["entries"]]
    assert actions == ["disconnected", "rejected", "approved", "undo_started", "partly_approved"]
    assert words[1] == "Olga Owner rejected the changes of Hide"
    assert words[2] == "Olga Owner approved the changes of Hide"
    assert words[3] == "Olga Owner started to undo changes of Hide"
    assert words[4] == "Olga Owner approved the changes of Hide except 1"
    for action in ("signed_in", "connected"):
        assert (await owner.get(AUDIT, action=action)).data["entries"] != []
