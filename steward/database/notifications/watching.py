"""Finds automations without a success from their own slots and runs."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx, from_ms, from_ms_or_none
from steward.model.ids import AutomationId, OrgId
from steward.model.run import Mode, RunStatus, kinds


@dataclass(frozen=True, slots=True)
class QuietWatch:
    """The watch of an automation: its number of periods, since when it is quiet, and the last notice."""

    quiet_after: int | None = None
    quiet_since: datetime | None = None
    notified_at: datetime | None = None


NO_WATCH = QuietWatch()


async def of(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> dict[AutomationId, QuietWatch]:
    """Returns the stored watch of each of the automations."""
    rows = await tx.all(
        "SELECT automation_id, quiet_after, quiet_since, notified_at FROM automation_watch"
        " WHERE org_id = :org AND automation_id IN (:automations)",
        {"org": org, "automations": list(automations)},
    )
    return {
        AutomationId(row["automation_id"]): QuietWatch(
            row["quiet_after"], from_ms_or_none(row["quiet_since"]), from_ms_or_none(row["notified_at"])
        )
        for row in rows
    }


async def oldest_period(
    tx: Tx, org: OrgId, automation: AutomationId, periods: int, *, until: datetime
) -> datetime | None:
    """Returns the oldest slot of the newest `periods` decided ones, or the newest up to `until` if older.

    Returns None when there are fewer, or none up to `until`. Slots that a person skipped do not count.
    """
    decided = (
        "SELECT slot_at FROM occurrences WHERE org_id = :org AND automation_id = :automation"
        " AND state <> 'pending' AND (reason IS NULL OR reason <> 'by_merchant') AND slot_at <= "
    )
    args: dict[str, object] = {"org": org, "automation": automation}
    oldest = await tx.first(
        f"{decided}{{now}} ORDER BY slot_at DESC LIMIT 1 OFFSET :before", {**args, "before": periods - 1}
    )
    early = await tx.first(f"{decided}:until ORDER BY slot_at DESC LIMIT 1", {**args, "until": until})
    return None if oldest is None or early is None else from_ms(min(oldest["slot_at"], early["slot_at"]))


async def had_success(tx: Tx, org: OrgId, automation: AutomationId, since: datetime) -> bool:
    """Returns whether a live run of the automation that was queued since an instant succeeded."""
    row = await tx.first(
        "SELECT 1 AS has FROM runs WHERE org_id = :org AND automation_id = :automation AND kind IN (:kinds)"
        " AND queued_at >= :since LIMIT 1",
        {
            "org": org,
            "automation": automation,
            "kinds": kinds([RunStatus.SUCCEEDED], Mode.LIVE),
            "since": since,
        },
    )
    return row is not None


async def was_held(tx: Tx, org: OrgId, automation: AutomationId, since: datetime) -> bool:
    """Returns whether a closed period holds a live run of the automation, or has held one since then."""
    row = await tx.first(
        "SELECT 1 AS has FROM runs WHERE org_id = :org AND automation_id = :automation AND mode = 'live'"
        " AND (held_name IS NOT NULL OR held_at >= :since) LIMIT 1",
        {"org": org, "automation": automation, "since": since},
    )
    return row is not None


async def begin(
    tx: Tx, org: OrgId, automation: AutomationId, *, since: datetime, was: datetime | None
) -> bool:
    """Records that people are notified of a lack of success; returns False when they already were."""
    touched = await tx.execute(
        "INSERT INTO automation_watch AS w (org_id, automation_id, quiet_since, notified_at)"
        " VALUES (:org, :automation, :since, :now) ON CONFLICT (org_id, automation_id) DO UPDATE SET"
        " quiet_since = coalesce(w.quiet_since, excluded.quiet_since), notified_at = excluded.notified_at"
        " WHERE coalesce(w.notified_at, 0) = :was",
        {"org": org, "automation": automation, "since": since, "was": was or 0},
    )
    return touched == 1


async def end(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Ends the quiet time of an automation that had a success again."""
    await tx.execute(
        "UPDATE automation_watch SET quiet_since = NULL, notified_at = NULL"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation},
    )
