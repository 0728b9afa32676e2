"""Stores and deletes imports: equal content of a source only once, and up to a limit."""

import json
from dataclasses import dataclass
from typing import Any

from steward.connections import rotation
from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.database.engine.base import Tx
from steward.database.imports import records as imports
from steward.database.imports.records import Import, SealedContent
from steward.imports.content import Unreadable, content_of
from steward.imports.reading import ImportReading, read_export
from steward.model import plan_json
from steward.model.account import Actor, maker
from steward.model.ids import new_id
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep
from steward.model.refusals import AllowanceSpent, NotFound, ValidationFailed
from steward.steps.workflow.expressions.evaluate import Evaluator


@dataclass(frozen=True, slots=True)
class PreparedImport:
    """An export prepared outside any transaction: its reading, hash and length."""

    reading: ImportReading
    sha256: str
    bytes: int


async def prepare(
    source: str, sent: str | JsonObject, name: str | None, evaluator: Evaluator | None
) -> PreparedImport:
    """Reads and checks an export. Raises ValidationFailed (`errors.content`)."""
    try:
        content = content_of(sent)
        reading = await read_export(source, content, name, evaluator)
    except Unreadable as error:
        raise ValidationFailed(errors={"content": [error.message]}) from error
    return PreparedImport(reading, content.sha256, content.bytes)


@dataclass(frozen=True, slots=True)
class StoredImport:
    """An import, and whether equal content was already stored."""

    record: Import
    replayed: bool


async def store(
    tx: Tx,
    actor: Actor,
    source: str,
    name: str,
    prepared: PreparedImport,
    vault: Vault,
    max_imports: int = 100,
) -> StoredImport:
    """Stores an export unless it is stored already. Raises AllowanceSpent beyond `max_imports`."""
    existing = await imports.by_content(tx, actor.org, source, prepared.sha256)
    if existing is not None:
        return StoredImport(existing, replayed=True)
    if await imports.count(tx, actor.org) >= max_imports:
        message = f"{max_imports} imports are stored already. Delete one that you no longer need."
        raise AllowanceSpent(message, errors={})
    reading = prepared.reading
    plan = plan_json.to_json(reading.plan)
    record = Import(
        org=actor.org,
        id=new_id(tx.now),
        source=source,
        name=name,
        sha256=prepared.sha256,
        bytes=prepared.bytes,
        supported=reading.report.supported,
        report=summary(reading),
        created_at=tx.now,
        maker=maker(actor),
        plan=plan,
    )
    content = json.dumps(reading.cleaned, ensure_ascii=False, separators=(",", ":"))
    sealed = await vaults.seal_bytes(
        tx, vault, actor.org, field=rotation.content_field(record.id), value=imports.packed(content)
    )
    if not await imports.insert(tx, record, content=SealedContent(*sealed), plan=plan):
        existing = await imports.by_content(tx, actor.org, source, prepared.sha256)
        if existing is not None:
            return StoredImport(existing, replayed=True)
    return StoredImport(record, replayed=False)


async def delete(tx: Tx, actor: Actor, import_id: str) -> None:
    """Deletes an import; automations made from it remain. Raises NotFound."""
    if await imports.delete(tx, actor.org, import_id) == 0:
        raise NotFound


def summary(reading: ImportReading) -> JsonObject:
    """Returns the data of an import that lists show, in addition to its row."""
    plan, report = reading.plan, reading.report
    return {
        "step_count": len(plan.steps),
        "issues": [finding.wire() for finding in report.findings],
        "needs": needs_of(plan),
        "variables": [
            {"name": variable.name, "required": variable.is_required} for variable in plan.all_n8n_variables()
        ],
        "trigger": shown_trigger(plan),
        "reach": report.reach.wire(),
    }


def needs_of(plan: Plan) -> list[str]:
    """Returns the distinct needs of the steps, sorted; objects read at the start need a store."""
    needs = {
        step.origin.needs
        for step in plan.steps
        if step.origin is not None and step.origin.needs is not None and not step.origin.disabled
    }
    return sorted(needs | ({"store"} if plan.variables else set()))


def shown_trigger(plan: Plan) -> dict[str, Any] | None:
    """Returns the proposed start, store events or a schedule; None for a manual start."""
    entry = plan.entry()
    if entry is None:
        return None
    if entry.kind == "event":
        return {"kind": "event", "topics": list(entry.topics), "schedule": None, "timezone": plan.timezone}
    if entry.kind == "schedule":
        return {"kind": "schedule", "topics": None, "schedule": entry.schedule, "timezone": plan.timezone}
    return None


def shown_plan(encoded_plan: JsonObject) -> JsonObject:
    """Returns the plan in the API's form."""
    plan = plan_json.from_json(encoded_plan)
    names = {step.name for step in plan.steps}
    edges = [edge for edge in plan.edges if edge.source in names]
    sources: dict[str, list[str]] = {}
    for edge in edges:
        sources.setdefault(edge.target, []).append(edge.source)
    trigger = shown_trigger(plan)
    return {
        "trigger": trigger and {name: trigger[name] for name in ("kind", "topics", "schedule")},
        "steps": [_shown_step(step, sources.get(step.name, [])) for step in plan.steps],
        "edges": [{"from": edge.source, "port": edge.port, "to": edge.target} for edge in edges],
    }


def _shown_step(step: PlanStep, sources: list[str]) -> JsonObject:
    return {
        "name": step.name,
        "title": step.title,
        "kind": "unsupported" if step.operation == "unsupported" else str(step.kind),
        "operation": step.operation,
        "needs": step.origin.needs if step.origin is not None else None,
        "supported": step.origin is None or step.origin.supported,
        "after": list(dict.fromkeys(sources)),
        "target": step.origin.target if step.origin is not None else None,
    }
