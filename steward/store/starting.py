"""Many runs of one organisation stored at once, in one statement."""

from collections.abc import Sequence
from datetime import datetime

from steward.model.ids import OrgId
from steward.model.run import EventRef
from steward.store.engine import Both, Json, Tx, ms
from steward.store.runs import NewRun

_RUNS_INTO = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,"
    " plan_version, slot_at, leased_ms, queued_at, finished_at, automation_name, automation_version,"
    " template_id, template_version, started_by, code, message, event_id, event_topic, event_received_at)"
    " SELECT :org, r.value ->> 0, r.value ->> 1, 'live', r.value ->> 2, r.value ->> 3,"
)
_RUNS = Both(
    _RUNS_INTO + " r.value ->> 4, 0, 1, 0, r.value ->> 5, r.value ->> 6, 0, :now, r.value ->> 7,"
    " r.value ->> 8, r.value ->> 9, r.value ->> 10, r.value ->> 11, r.value ->> 12, r.value ->> 13,"
    " r.value ->> 14, r.value ->> 15, r.value ->> 16, r.value ->> 17 FROM json_each(:rows) AS r",
    _RUNS_INTO + " (r.value ->> 4)::bigint, 0, 1, 0, (r.value ->> 5)::bigint, (r.value ->> 6)::bigint, 0,"
    " :now, (r.value ->> 7)::bigint, r.value ->> 8, (r.value ->> 9)::bigint, r.value ->> 10,"
    " (r.value ->> 11)::bigint, r.value ->> 12, r.value ->> 13, r.value ->> 14, r.value ->> 15,"
    " r.value ->> 16, (r.value ->> 17)::bigint FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)


async def insert_runs(tx: Tx, org: OrgId, new: Sequence[NewRun]) -> None:
    """Stores live runs of slots or events, made by the service."""
    rows = [
        [
            run.id,
            run.automation.id,
            run.status,
            run.queue,
            run.vt,
            run.automation.plan_version,
            _ms(run.slot_at),
            ms(tx.now) if run.refused else None,
            run.automation.name,
            run.automation.version,
            run.automation.template_id,
            run.automation.template_version,
            run.started_by,
            *(run.refused or (None, None)),
            *(_event(run.event) if run.event else (None, None, None)),
        ]
        for run in new
    ]
    await tx.execute(_RUNS, {"org": org, "rows": Json(rows)})


def _event(event: EventRef) -> tuple[str, str, int]:
    return event.id, event.topic, ms(event.received_at)


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)
