"""Reads the active automations and live runs that a closed period covers."""

from dataclasses import dataclass

from steward.database.engine.base import Args, Tx
from steward.database.run_indexes import BY_KIND
from steward.model.closed_period import ClosedScope, ClosedScopeKind
from steward.model.ids import OrgId
from steward.model.run import TERMINAL, Mode, RunStatus, kinds


@dataclass(frozen=True, slots=True)
class ScheduleGroup:
    """The number of active automations that share a schedule; `schedule` is its stored text."""

    schedule: str
    timezone: str
    spread_minutes: int
    automations: int


async def schedule_groups(tx: Tx, org: OrgId, scope: ClosedScope) -> list[ScheduleGroup]:
    """Returns the active automations of the scope by schedule, the most shared first."""
    condition, args = _of_scope(scope, "a.id")
    rows = await tx.all(
        "SELECT a.schedule, a.timezone, a.spread_minutes, count(*) AS automations FROM automations AS a"
        f" WHERE a.org_id = :org AND a.state = 'active'{condition}"
        " GROUP BY a.schedule, a.timezone, a.spread_minutes ORDER BY count(*) DESC",
        {**args, "org": org},
    )
    return [
        ScheduleGroup(row["schedule"], row["timezone"], row["spread_minutes"], int(row["automations"]))
        for row in rows
    ]


async def names_of_group(
    tx: Tx, org: OrgId, scope: ClosedScope, group: ScheduleGroup, *, limit: int
) -> list[str]:
    """Returns the names of a group's automations, in alphabetical order."""
    condition, args = _of_scope(scope, "a.id")
    rows = await tx.all(
        "SELECT a.name FROM automations AS a WHERE a.org_id = :org AND a.state = 'active'"
        " AND a.schedule = :schedule AND a.timezone = :timezone AND a.spread_minutes = :spread"
        f"{condition} ORDER BY a.name_folded LIMIT :limit",
        {
            **args,
            "org": org,
            "schedule": group.schedule,
            "timezone": group.timezone,
            "spread": group.spread_minutes,
            "limit": limit,
        },
    )
    return [row["name"] for row in rows]


async def live_runs(tx: Tx, org: OrgId, scope: ClosedScope) -> int:
    """Counts the unfinished live runs in the scope."""
    condition, args = _of_scope(scope, "r.automation_id")
    row = await tx.first(
        "SELECT count(*) AS runs FROM runs AS r JOIN automations AS a"
        " ON a.org_id = r.org_id AND a.id = r.automation_id WHERE r.org_id = :org"
        f" AND r.kind IN (:kinds) AND {BY_KIND.format(run='r')}{condition}",
        {**args, "org": org, "kinds": kinds(sorted(set(RunStatus) - TERMINAL), Mode.LIVE)},
    )
    return 0 if row is None else int(row["runs"])


def _of_scope(scope: ClosedScope, automation_column: str) -> tuple[str, Args]:
    if scope.kind is ClosedScopeKind.STORE:
        return " AND a.integration_id = :integration", {"integration": scope.integration}
    if scope.kind is ClosedScopeKind.AUTOMATION:
        return f" AND {automation_column} = :automation", {"automation": scope.automation}
    return "", {}
