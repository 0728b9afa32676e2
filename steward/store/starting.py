"""Many runs of one organisation started at once: lanes locked and held, runs stored, in few statements."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.run import EventRef
from steward.store.engine import Both, Json, Tx, ms
from steward.store.runs import NewRun

_LOCK_TAIL = (
    " ON CONFLICT (org_id, automation_id) DO UPDATE SET dropped = lanes.dropped"
    " RETURNING automation_id, holder_run_id"
)
_LOCK = Both(
    "INSERT INTO lanes (org_id, automation_id, dropped)"
    " SELECT :org, k.value, 0 FROM json_each(:keys) AS k WHERE true" + _LOCK_TAIL,
    "INSERT INTO lanes (org_id, automation_id, dropped)"
    " SELECT :org, k.value, 0 FROM jsonb_array_elements_text(CAST(:keys AS jsonb)) AS k" + _LOCK_TAIL,
)
_HOLD = Both(
    "UPDATE lanes SET holder_run_id = k.value ->> 1 FROM json_each(:pairs) AS k"
    " WHERE org_id = :org AND automation_id = k.value ->> 0 AND holder_run_id IS NULL",
    "UPDATE lanes SET holder_run_id = k.value ->> 1 FROM jsonb_array_elements(CAST(:pairs AS jsonb)) AS k"
    " WHERE org_id = :org AND automation_id = k.value ->> 0 AND holder_run_id IS NULL",
)
_RUNS_INTO = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,"
    " plan_version, slot_at, leased_ms, queued_at, finished_at)"
)
_RUNS = Both(
    _RUNS_INTO + " SELECT :org, r.value ->> 0, r.value ->> 1, 'live', r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, 0, 1, 0, r.value ->> 5, r.value ->> 6, 0, :now, r.value ->> 7"
    " FROM json_each(:rows) AS r",
    _RUNS_INTO + " SELECT :org, r.value ->> 0, r.value ->> 1, 'live', r.value ->> 2, r.value ->> 3,"
    " (r.value ->> 4)::bigint, 0, 1, 0, (r.value ->> 5)::bigint, (r.value ->> 6)::bigint, 0, :now,"
    " (r.value ->> 7)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)
_FACTS_INTO = (
    "INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,"
    " template_version, started_by, code, message, event_id, event_topic, event_received_at)"
)
_FACTS = Both(
    _FACTS_INTO + " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,"
    " r.value ->> 5, r.value ->> 8, r.value ->> 6, r.value ->> 7, r.value ->> 9, r.value ->> 10,"
    " r.value ->> 11 FROM json_each(:rows) AS r",
    _FACTS_INTO + " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, (r.value ->> 3)::bigint,"
    " r.value ->> 4, (r.value ->> 5)::bigint, r.value ->> 8, r.value ->> 6, r.value ->> 7, r.value ->> 9,"
    " r.value ->> 10, (r.value ->> 11)::bigint FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)


async def lock_lanes(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, RunId | None]:
    """Locks the automations' lanes in order of their ids, making those that are absent; their holders."""
    rows = await tx.all(_LOCK, {"org": org, "keys": Json(sorted(automations))})
    return {AutomationId(row["automation_id"]): row["holder_run_id"] for row in rows}


async def hold_lanes(tx: Tx, org: OrgId, runs: Mapping[AutomationId, RunId]) -> int:
    """Gives free lanes to these runs; how many took them."""
    pairs = [[automation, run] for automation, run in sorted(runs.items())]
    return await tx.execute(_HOLD, {"org": org, "pairs": Json(pairs)})


async def insert_runs(tx: Tx, org: OrgId, new: Sequence[NewRun]) -> None:
    """Stores live runs of slots or events, made by the service, and their facts."""
    runs = [
        [
            run.id,
            run.automation.id,
            run.status,
            run.queue,
            run.vt,
            run.automation.plan_version,
            _ms(run.slot_at),
            ms(tx.now) if run.refused else None,
        ]
        for run in new
    ]
    await tx.execute(_RUNS, {"org": org, "rows": Json(runs)})
    facts = [
        [
            run.id,
            run.automation.id,
            run.automation.name,
            run.automation.version,
            run.automation.template_id,
            run.automation.template_version,
            *(run.refused or (None, None)),
            run.started_by,
            *(_event(run.event) if run.event else (None, None, None)),
        ]
        for run in new
    ]
    await tx.execute(_FACTS, {"org": org, "rows": Json(facts)})


def _event(event: EventRef) -> tuple[str, str, int]:
    return event.id, event.topic, ms(event.received_at)


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)
