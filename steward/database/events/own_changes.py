"""Recent changes by automations, from which the echo guard recognizes events of Steward's own writes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.engine.base import Json, PerEngine, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId

RETENTION = timedelta(minutes=10)

_NOTE_HEAD = (
    "INSERT INTO own_changes (org_id, integration_id, object_type, object_id, automation_id, run_id,"
    " applied_at, modified_at, set_modified_at, by_event)"
)
_NOTE_TAIL = (
    " ON CONFLICT (org_id, integration_id, object_type, object_id, automation_id, run_id) DO UPDATE"
    " SET applied_at = excluded.applied_at, modified_at = excluded.modified_at,"
    " set_modified_at = excluded.set_modified_at"
)
_NOTE = PerEngine(
    _NOTE_HEAD + " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, o.automation_id, :run, :at,"
    " r.value ->> 3, r.value ->> 4, o.started_by = 'event'"
    " FROM json_each(:rows) AS r JOIN runs AS o ON o.org_id = :org AND o.id = :run WHERE true" + _NOTE_TAIL,
    _NOTE_HEAD + " SELECT :org, (r.value ->> 0)::bigint, r.value ->> 1, r.value ->> 2, o.automation_id,"
    " :run, :at, (r.value ->> 3)::bigint, (r.value ->> 4)::boolean, o.started_by = 'event'"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " JOIN runs AS o ON o.org_id = :org AND o.id = :run" + _NOTE_TAIL,
)


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """An object that a run changed: its time in the echo, and whether our write set that time."""

    integration: IntegrationId
    object_type: str
    object_id: str
    modified_at: datetime | None
    set_modified_at: bool


@dataclass(frozen=True, slots=True)
class OwnChange:
    """A recent change by an automation."""

    automation: AutomationId
    object_type: str
    object_id: str
    run: RunId
    applied_at: datetime
    modified_at: datetime | None
    set_modified_at: bool
    by_event: bool


async def note(
    tx: Tx, org: OrgId, run: RunId, touched: Sequence[ChangedObject], *, applied_at: datetime | None = None
) -> None:
    """Records objects that a run changed, in the outcome's transaction; `applied_at` defaults to now."""
    rows = {
        (changed.integration, changed.object_type, changed.object_id): [
            changed.integration,
            changed.object_type,
            changed.object_id,
            None if changed.modified_at is None else ms(changed.modified_at),
            changed.set_modified_at,
        ]
        for changed in touched
    }
    if rows:
        ordered = [row for _, row in sorted(rows.items())]
        await tx.execute(_NOTE, {"org": org, "run": run, "at": applied_at or tx.now, "rows": Json(ordered)})


async def of(
    tx: Tx, org: OrgId, integration: IntegrationId, automations: Collection[AutomationId]
) -> list[OwnChange]:
    """Returns the changes of these automations in the store within the last ten minutes."""
    rows = await tx.all(
        "SELECT automation_id, object_type, object_id, run_id, applied_at, modified_at, set_modified_at,"
        " by_event"
        " FROM own_changes WHERE org_id = :org AND integration_id = :integration"
        " AND automation_id IN (:automations) AND applied_at > :since",
        {
            "org": org,
            "integration": integration,
            "automations": list(automations),
            "since": tx.now - RETENTION,
        },
    )
    return [
        OwnChange(
            AutomationId(row["automation_id"]),
            row["object_type"],
            row["object_id"],
            RunId(row["run_id"]),
            from_ms(row["applied_at"]),
            from_ms_or_none(row["modified_at"]),
            bool(row["set_modified_at"]),
            bool(row["by_event"]),
        )
        for row in rows
    ]


async def in_progress(
    tx: Tx, org: OrgId, integration: IntegrationId, automations: Collection[AutomationId]
) -> set[tuple[AutomationId, str, str]]:
    """Returns objects of the store with a recent write of these automations whose outcome is unknown yet."""
    rows = await tx.all(
        "SELECT r.automation_id, c.object_type, c.object_id FROM write_ledger AS e"
        " JOIN runs AS r ON r.org_id = e.org_id AND r.id = e.run_id"
        " JOIN changes AS c ON c.org_id = e.org_id AND c.run_id = e.run_id AND c.id = e.change_id"
        " WHERE e.org_id = :org AND e.state IN ('intent', 'unknown') AND e.intent_at > :since"
        " AND e.integration_id = :integration"
        " AND r.automation_id IN (:automations) AND c.object_id IS NOT NULL",
        {
            "org": org,
            "integration": integration,
            "automations": list(automations),
            "since": tx.now - RETENTION,
        },
    )
    return {(AutomationId(row["automation_id"]), row["object_type"], row["object_id"]) for row in rows}
