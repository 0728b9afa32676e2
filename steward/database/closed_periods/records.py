"""Closed periods, one row per version; and the instant from which an organization may be closed."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import msgspec

from steward.database import due_rows
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.closed_period import ClosedPeriod, ClosedScope, ClosedScopeKind, ClosedWhen, Stops
from steward.model.ids import AutomationId, IntegrationId, OrgId, PersonId
from steward.model.json import JsonObject

CLOSINGS = "closings"  # the name under which deferred rows record the task that recomputes next runs

_COLUMNS = (
    "p.org_id, p.id, p.version, p.valid_from, p.valid_until, p.name, p.scope_kind, p.integration_id,"
    " p.automation_id, p.stops, p.when_json, p.timezone, p.origin, p.made_by, p.made_at, p.changed_by"
)
_DUE_BOUNDS = PerEngine(
    sqlite="SELECT org_id FROM organizations WHERE closed_from <= :before AND org_id > :after"
    " ORDER BY org_id LIMIT :most",
    postgresql="SELECT org_id FROM queue_closed_bounds(:before, :after, :most)",
)
_WORK = PerEngine(
    sqlite="SELECT org_id FROM closing_work ORDER BY requested_at LIMIT :most",
    postgresql="SELECT org_id FROM queue_closing_work(:most)",
)


@dataclass(frozen=True, slots=True)
class StoredPeriod:
    """A version of a closed period, and who created and changed it; `origin` is the holiday it comes from."""

    period: ClosedPeriod
    made_by: PersonId | None
    made_at: datetime
    changed_by: PersonId | None
    origin: JsonObject | None = None

    @property
    def is_active(self) -> bool:
        """Whether the period has not been ended."""
        return self.period.valid_until is None


@dataclass(frozen=True, slots=True)
class ClosingWork:
    """The work that remains after a change of an organization's periods."""

    after: AutomationId | None
    requested_at: datetime


async def lock(tx: Tx, org: OrgId) -> datetime | None:
    """Locks the organization, so that its periods change one at a time; returns `closed_from`."""
    row = await tx.first(
        "SELECT closed_from FROM organizations WHERE org_id = :org {for_update}", {"org": org}
    )
    return None if row is None else from_ms_or_none(row["closed_from"])


async def closed_from(tx: Tx, org: OrgId) -> datetime | None:
    """Returns the lower bound of the organization's next or current closing; None without one."""
    row = await tx.first("SELECT closed_from FROM organizations WHERE org_id = :org", {"org": org})
    return None if row is None else from_ms_or_none(row["closed_from"])


async def set_closed_from(tx: Tx, org: OrgId, bound: datetime | None) -> None:
    """Stores the bound; call it with the organization locked."""
    await tx.execute(
        "UPDATE organizations SET closed_from = :bound WHERE org_id = :org", {"org": org, "bound": bound}
    )


async def valid(tx: Tx, org: OrgId, *, since: datetime) -> list[ClosedPeriod]:
    """Returns every version that is valid at any time from `since` on."""
    return await valid_of(tx, [org], since=since)


async def valid_of(tx: Tx, orgs: Collection[OrgId], *, since: datetime) -> list[ClosedPeriod]:
    """Returns the periods that `valid` returns, for several organizations."""
    of_orgs = f"SELECT {_COLUMNS} FROM closed_periods AS p WHERE p.org_id IN (:orgs) AND p.valid_until"
    # Each part has an index, which a plan for an OR or for ordered rows would not use.
    rows = await tx.all(
        f"{of_orgs} IS NULL UNION ALL {of_orgs} > :since", {"orgs": list(orgs), "since": since}
    )
    rows.sort(key=lambda row: (row["org_id"], row["id"], row["version"]))
    return [_stored(row).period for row in rows]


async def insert(tx: Tx, org: OrgId, stored: StoredPeriod) -> None:
    """Stores a version."""
    period = stored.period
    await tx.execute(
        "INSERT INTO closed_periods (org_id, id, version, valid_from, name, scope_kind, integration_id,"
        " automation_id, stops, kind, when_json, timezone, origin, made_by, made_at, changed_by)"
        " VALUES (:org, :id, :version, :valid_from, :name, :scope, :integration, :automation, :stops, :kind,"
        " :when_json, :timezone, :origin, :made_by, :made_at, :changed_by)",
        {
            "org": org,
            "id": period.id,
            "version": period.version,
            "valid_from": period.valid_from,
            "name": period.name,
            "scope": period.scope.kind,
            "integration": period.scope.integration,
            "automation": period.scope.automation,
            "stops": period.stops,
            "kind": period.when.kind,
            "when_json": Json(period.when.to_wire()),
            "timezone": period.timezone,
            "origin": None if stored.origin is None else Json(stored.origin),
            "made_by": stored.made_by,
            "made_at": stored.made_at,
            "changed_by": stored.changed_by,
        },
    )


async def end_version(tx: Tx, org: OrgId, period: str, *, version: int, changed_by: PersonId | None) -> bool:
    """Ends the valid version now. Returns False when another version is valid, or none."""
    touched = await tx.execute(
        "UPDATE closed_periods SET valid_until = :now, changed_by = :person"
        " WHERE org_id = :org AND id = :id AND version = :version AND valid_until IS NULL",
        {"org": org, "id": period, "version": version, "person": changed_by},
    )
    return touched == 1


async def get(tx: Tx, org: OrgId, period: str) -> StoredPeriod | None:
    """Returns the latest version of a period; None when there is no such period."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM closed_periods AS p WHERE p.org_id = :org AND p.id = :id"
        " ORDER BY p.version DESC LIMIT 1",
        {"org": org, "id": period},
    )
    return None if row is None else _stored(row)


async def find(
    tx: Tx,
    org: OrgId,
    *,
    scope: ClosedScopeKind | None,
    is_active: bool | None,
    after: str | None,
    limit: int,
) -> list[StoredPeriod]:
    """Returns the latest versions of the organization's periods, newest first, after the id `after`."""
    conditions = "" if scope is None else " AND p.scope_kind = :scope"
    if is_active is not None:
        conditions += f" AND p.valid_until IS {'NULL' if is_active else 'NOT NULL'}"
    if after is not None:
        conditions += " AND p.id < :after"
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM closed_periods AS p WHERE p.org_id = :org"
        " AND p.version = (SELECT max(q.version) FROM closed_periods AS q"
        f" WHERE q.org_id = p.org_id AND q.id = p.id){conditions} ORDER BY p.id DESC LIMIT :limit",
        {"org": org, "scope": scope, "after": after, "limit": limit},
    )
    return [_stored(row) for row in rows]


async def accepted_holidays(tx: Tx, org: OrgId) -> list[StoredPeriod]:
    """Returns the latest versions of the periods that were created from public holidays, by id."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM closed_periods AS p WHERE p.org_id = :org AND p.origin IS NOT NULL"
        " AND p.version = (SELECT max(q.version) FROM closed_periods AS q"
        " WHERE q.org_id = p.org_id AND q.id = p.id) ORDER BY p.id",
        {"org": org},
    )
    return [_stored(row) for row in rows]


async def active_freeze(tx: Tx, org: OrgId, scope: ClosedScope) -> StoredPeriod | None:
    """Returns the active freeze of exactly this scope; None if there is none."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM closed_periods AS p"
        " WHERE p.org_id = :org AND p.kind = 'freeze' AND p.valid_until IS NULL AND p.scope_kind = :scope",
        {"org": org, "scope": scope.kind},
    )
    return next((stored for row in rows if (stored := _stored(row)).period.scope == scope), None)


async def is_frozen(tx: Tx, org: OrgId) -> bool:
    """Returns whether a freeze of the organization or of one of its stores is active."""
    row = await tx.first(
        "SELECT 1 AS frozen FROM closed_periods WHERE org_id = :org AND kind = 'freeze'"
        " AND valid_until IS NULL LIMIT 1",
        {"org": org},
    )
    return row is not None


async def request_work(tx: Tx, org: OrgId) -> None:
    """Requests that the next runs of the organization's automations are recomputed."""
    await tx.execute(
        "INSERT INTO closing_work (org_id, after_automation, requested_at) VALUES (:org, NULL, :now)"
        " ON CONFLICT (org_id) DO UPDATE SET after_automation = NULL, requested_at = excluded.requested_at",
        {"org": org},
    )
    await due_rows.clear(tx, CLOSINGS, [str(org)])


async def orgs_with_work(tx: Tx, limit: int) -> list[OrgId]:
    """Returns organizations with next runs to recompute, longest waiting first, without deferred ones."""
    late = await due_rows.deferred_keys(tx, CLOSINGS)
    rows = await tx.all(_WORK, {"most": limit + len(late)})
    return [OrgId(row["org_id"]) for row in rows if str(row["org_id"]) not in late][:limit]


async def work_since(tx: Tx, org: OrgId) -> datetime | None:
    """Returns since when next runs have to be recomputed; None when nothing remains."""
    row = await tx.first("SELECT requested_at FROM closing_work WHERE org_id = :org", {"org": org})
    return None if row is None else from_ms(row["requested_at"])


async def lock_work(tx: Tx, org: OrgId) -> ClosingWork | None:
    """Locks and returns the remaining work; None when it is done or another worker does it."""
    row = await tx.first(
        "SELECT after_automation, requested_at FROM closing_work WHERE org_id = :org {skip_locked}",
        {"org": org},
    )
    if row is None:
        return None
    after = row["after_automation"]
    return ClosingWork(None if after is None else AutomationId(after), from_ms(row["requested_at"]))


async def advance_work(tx: Tx, org: OrgId, *, after: AutomationId | None) -> None:
    """Records the last processed automation; None records that the work is complete."""
    if after is None:
        await tx.execute("DELETE FROM closing_work WHERE org_id = :org", {"org": org})
        return
    await tx.execute(
        "UPDATE closing_work SET after_automation = :after WHERE org_id = :org", {"org": org, "after": after}
    )


async def passed_bounds(tx: Tx, *, before: datetime, after: OrgId, limit: int) -> list[OrgId]:
    """Returns organizations after `after` whose `closed_from` is before an instant, by ascending id."""
    rows = await tx.all(_DUE_BOUNDS, {"before": before, "after": after, "most": limit})
    return [OrgId(row["org_id"]) for row in rows]


def _stored(row: Row) -> StoredPeriod:
    scope = ClosedScope(
        ClosedScopeKind(row["scope_kind"]),
        None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
        None if row["automation_id"] is None else AutomationId(row["automation_id"]),
    )
    period = ClosedPeriod(
        OrgId(row["org_id"]),
        row["id"],
        row["version"],
        from_ms(row["valid_from"]),
        from_ms_or_none(row["valid_until"]),
        row["name"],
        scope,
        Stops(row["stops"]),
        ClosedWhen.from_wire(msgspec.json.decode(row["when_json"])),
        row["timezone"],
    )
    return StoredPeriod(
        period,
        None if row["made_by"] is None else PersonId(row["made_by"]),
        from_ms(row["made_at"]),
        None if row["changed_by"] is None else PersonId(row["changed_by"]),
        None if row["origin"] is None else msgspec.json.decode(row["origin"]),
    )


async def count_active(tx: Tx, org: OrgId, automation: AutomationId | None) -> tuple[int, int]:
    """Counts the active periods: all those of the organization, and those of one automation."""
    row = await tx.first(
        "SELECT count(*) AS total, count(CASE WHEN automation_id = :automation THEN 1 END) AS of_automation"
        " FROM closed_periods WHERE org_id = :org AND valid_until IS NULL",
        {"org": org, "automation": automation},
    )
    return (0, 0) if row is None else (int(row["total"]), int(row["of_automation"]))
