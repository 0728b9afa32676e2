"""Monthly partitions on PostgreSQL: created ahead, and dropped when nothing needs them."""

from datetime import datetime

from steward.database.engine.base import Tx
from steward.database.org_span import OrgSpan
from steward.model.ids import first_id
from steward.model.run import TERMINAL, RunStatus, kinds

_AHEAD = 4
# A migration creates this month and two more, so that they exist before a worker has started.
_NEEDED = 2
_MISSING = (
    "SELECT months.name FROM (SELECT"
    " c.relname || to_char(steward_month_start({now}) + n * interval '1 month', '_YYYY_MM') AS name"
    " FROM pg_partitioned_table AS p JOIN pg_class AS c ON c.oid = p.partrelid"
    " AND c.relnamespace = 'public'::regnamespace CROSS JOIN generate_series(0, :months - 1) AS n"
    " WHERE p.partstrat = 'r') AS months"
    " WHERE to_regclass('public.' || months.name) IS NULL ORDER BY months.name"
)
_UNFINISHED = frozenset(RunStatus) - TERMINAL


async def make(tx: Tx) -> int:
    """Creates the missing partitions of this month and the next ones. Returns their number."""
    row = await tx.first("SELECT steward_create_partitions(:now, :months) AS made", {"months": _AHEAD})
    return int(row["made"]) if row else 0


async def missing(tx: Tx) -> list[str]:
    """Returns the missing partitions of this month and the next by name; empty on SQLite."""
    if tx.dialect == "sqlite":
        return []
    return [row["name"] for row in await tx.all(_MISSING, {"months": _NEEDED})]


async def oldest_runs(tx: Tx, *, queued_before: datetime, orgs: OrgSpan) -> tuple[str | None, str | None]:
    """Returns the lowest ids of runs that still need their rows: of any run, and of an unfinished one.

    Only unfinished runs that were queued before an instant count.
    """
    row = await tx.first(
        "SELECT any_id, open_id FROM queue_oldest_runs(:kinds, :queued_before, :first_org, :last_org)",
        orgs.args(kinds=kinds(_UNFINISHED), queued_before=queued_before),
    )
    return (None, None) if row is None else (row["any_id"], row["open_id"])


async def drop(tx: Tx, table: str, before: str) -> int:
    """Drops the months of a table whose ids are all below `before`. Returns their number."""
    row = await tx.first(
        "SELECT steward_drop_partitions(:table, :border) AS dropped", {"table": table, "border": before}
    )
    return int(row["dropped"]) if row else 0


def border(instant: datetime, oldest: str | None) -> str:
    """Returns the lowest id to keep: that of the instant, or of the oldest run that needs it."""
    earliest = first_id(instant)
    return earliest if oldest is None else min(earliest, oldest)
