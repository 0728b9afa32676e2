"""Monthly partitions on PostgreSQL: created ahead, and dropped when nothing needs them."""

from datetime import datetime

from steward.database.engine.base import Tx
from steward.database.org_span import OrgSpan
from steward.model.ids import first_id
from steward.model.run import TERMINAL, RunStatus, kinds

_AHEAD = 4
_UNFINISHED = frozenset(RunStatus) - TERMINAL


async def make(tx: Tx) -> int:
    """Makes this month and the next ones where they are missing; how many were."""
    row = await tx.first("SELECT steward_create_partitions(:now, :months) AS made", {"months": _AHEAD})
    return int(row["made"]) if row else 0


async def oldest_runs(tx: Tx, *, queued_before: datetime, orgs: OrgSpan) -> tuple[str | None, str | None]:
    """Returns the least ids that runs of organizations need to stay: of any run, and of an unfinished one.

    Unfinished ones count that were queued before an instant.
    """
    row = await tx.first(
        "SELECT any_id, open_id FROM queue_oldest_runs(:kinds, :queued_before, :first_org, :last_org)",
        orgs.args(kinds=kinds(_UNFINISHED), queued_before=queued_before),
    )
    return (None, None) if row is None else (row["any_id"], row["open_id"])


async def drop(tx: Tx, table: str, before: str) -> int:
    """Drops the months of a table whose ids all lie before `before`; how many."""
    row = await tx.first(
        "SELECT steward_drop_partitions(:table, :border) AS dropped", {"table": table, "border": before}
    )
    return int(row["dropped"]) if row else 0


def border(instant: datetime, oldest: str | None) -> str:
    """Returns the lowest id to keep: that of the instant, or of the oldest run that needs it."""
    earliest = first_id(instant)
    return earliest if oldest is None else min(earliest, oldest)
