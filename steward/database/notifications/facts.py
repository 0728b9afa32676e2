"""The notices of facts, written in the fact's transaction (docs/design/notifications.md#topics)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from steward.database.engine.base import Tx, ms
from steward.database.notifications import notices
from steward.model.approval import Approval
from steward.model.connection import Connection
from steward.model.ids import ApprovalId, AutomationId, IntegrationId, OrgId, RunId
from steward.model.instants import wire_time
from steward.model.json import JsonObject, JsonValue
from steward.model.notice import Notice, Topic, facts_of
from steward.model.run import RunStatus

_TOPIC_OF_CODE: Final[Mapping[str, Topic]] = {
    "some_changes_failed": Topic.RUN_PARTLY_FAILED,
    "all_conflicted": Topic.RUN_PARTLY_FAILED,
    "outcome_unknown": Topic.RUN_OUTCOME_UNKNOWN,
}


async def approval_waiting(
    tx: Tx, org: OrgId, approval: Approval, *, integration: IntegrationId | None
) -> None:
    """Stores the notice that a run waits for approval."""
    await _add_of_approval(tx, org, Topic.APPROVAL_WAITING, approval, integration, str(approval.id))


async def approval_expiring(
    tx: Tx, org: OrgId, approval: Approval, *, integration: IntegrationId | None, percent: int
) -> None:
    """Stores the notice that a part of an approval's time, in percent, has passed."""
    dedupe = f"{approval.id}|{percent}"
    await _add_of_approval(tx, org, Topic.APPROVAL_EXPIRING, approval, integration, dedupe, percent=percent)


async def _add_of_approval(
    tx: Tx,
    org: OrgId,
    topic: Topic,
    approval: Approval,
    integration: IntegrationId | None,
    dedupe: str,
    **more: JsonValue,
) -> None:
    facts = facts_of(
        automation=approval.automation_name,
        store=approval.store_label,
        changes=approval.counts.get("total"),
        kind=str(approval.kind),
        expires_at=wire_time(approval.expires_at),
        asked_at=wire_time(approval.created_at),
        undo=None if approval.undo_of is None else True,
        **more,
    )
    notice = Notice(
        topic=topic,
        dedupe=f"{topic}|{dedupe}",
        facts=facts,
        automation=approval.automation_id,
        run=approval.run_id,
        approval=approval.id,
        integration=integration,
    )
    await notices.add(tx, org, notice)


async def approval_expired(
    tx: Tx, org: OrgId, approval: ApprovalId, *, run: RunId, automation: AutomationId
) -> None:
    """Stores the notice that an approval expired undecided, which ended its run."""
    topic = Topic.APPROVAL_EXPIRED
    await _add_named(tx, org, automation, topic, str(approval), run=run, approval=approval)


async def run_ended(
    tx: Tx, org: OrgId, run: RunId, *, automation: AutomationId, status: RunStatus, code: str | None
) -> None:
    """Stores the notice of a live run that failed or was never started; other ends have their own notices."""
    if status is RunStatus.FAILED or (status is RunStatus.EXPIRED and code == "not_started"):
        topic = _TOPIC_OF_CODE.get(code or "", Topic.RUN_FAILED)
        await _add_named(tx, org, automation, topic, str(run), run=run, code=code)


async def automation_paused(tx: Tx, org: OrgId, automation: AutomationId, *, version: int) -> None:
    """Stores the notice that the service paused an automation; `version` is the automation's afterwards."""
    await _add_named(tx, org, automation, Topic.AUTOMATION_PAUSED, f"{automation}|{version}")


async def automation_quiet(
    tx: Tx, org: OrgId, automation: AutomationId, *, since: datetime, periods: int
) -> None:
    """Stores the notice that an automation had no success in its last `periods` periods, since an instant."""
    dedupe = f"{automation}|{ms(tx.now)}"
    facts = facts_of(since=wire_time(since), periods=periods)
    await _add_named(tx, org, automation, Topic.AUTOMATION_QUIET, dedupe, facts=facts)


async def slots_too_late(
    tx: Tx, org: OrgId, automation: AutomationId, slots: Sequence[datetime], *, missing: bool = False
) -> None:
    """Stores the notice that slots were skipped as too late; `missing` ones had never been decided."""
    if slots:
        topic = Topic.SLOT_MISSING if missing else Topic.SLOT_TOO_LATE
        dedupe = f"{automation}|{ms(min(slots))}|{len(slots)}"
        facts = facts_of(first_slot=wire_time(min(slots)), last_slot=wire_time(max(slots)))
        await _add_named(tx, org, automation, topic, dedupe, count=len(slots), facts=facts)


async def events_dropped(tx: Tx, org: OrgId, automation: AutomationId, runs: Sequence[RunId]) -> None:
    """Stores the notice that store events were refused: too many runs waited, or the event was too large."""
    if runs:
        await _add_named(tx, org, automation, Topic.EVENTS_DROPPED, str(runs[0]), count=len(runs))


async def connection_lost(tx: Tx, connection: Connection) -> None:
    """Stores the notice that a connection needs reconnecting; `connection` is its state afterwards."""
    notice = Notice(
        topic=Topic.CONNECTION_LOST,
        dedupe=f"{Topic.CONNECTION_LOST}|{connection.integration_id}|{connection.version}",
        facts=facts_of(connection=connection.name, kind=connection.kind),
        integration=connection.integration_id,
    )
    await notices.add(tx, connection.org, notice)


async def _add_named(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    topic: Topic,
    dedupe: str,
    *,
    run: RunId | None = None,
    approval: ApprovalId | None = None,
    code: str | None = None,
    count: int = 1,
    facts: JsonObject | None = None,
) -> None:
    """Stores a notice of an automation with its current names."""
    row = await tx.first(
        "SELECT name, store_label, integration_id,"
        " (SELECT r.undo_of FROM runs AS r WHERE r.org_id = :org AND r.id = :run) AS undo_of"
        " FROM automations WHERE org_id = :org AND id = :automation",
        {"org": org, "automation": automation, "run": run},
    )
    if row is None:
        raise LookupError("an automation is never deleted")
    undo = None if row["undo_of"] is None else True
    named = facts_of(automation=row["name"], store=row["store_label"], code=code, undo=undo)
    notice = Notice(
        topic=topic,
        dedupe=f"{topic}|{dedupe}",
        facts={**named, **(facts or {})},
        automation=automation,
        run=run,
        approval=approval,
        integration=IntegrationId(row["integration_id"]) if row["integration_id"] is not None else None,
        count=count,
    )
    await notices.add(tx, org, notice)
