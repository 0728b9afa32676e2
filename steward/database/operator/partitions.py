"""Monthly partitions on PostgreSQL: created ahead, and dropped when nothing needs them."""

from datetime import datetime

from steward.database.engine.base import Tx
from steward.model.ids import RunId, first_id

_AHEAD = 4


async def make(tx: Tx) -> int:
    """Makes this month and the next ones where they are missing; how many were."""
    row = await tx.first("SELECT steward_create_partitions(:now, :months) AS made", {"months": _AHEAD})
    return int(row["made"]) if row else 0


async def oldest_runs(tx: Tx) -> tuple[RunId | None, RunId | None]:
    """The oldest run there is, and the oldest unfinished one, of every organisation."""
    row = await tx.first("SELECT any_id, open_id FROM queue_oldest_runs()")
    if row is None:
        return None, None
    return row["any_id"], row["open_id"]


async def drop(tx: Tx, table: str, before: str) -> int:
    """Drops the months of a table whose ids all lie before `before`; how many."""
    row = await tx.first(
        "SELECT steward_drop_partitions(:table, :border) AS dropped", {"table": table, "border": before}
    )
    return int(row["dropped"]) if row else 0


def border(instant: datetime, oldest: RunId | None) -> str:
    """The least id that must stay: of the instant, or of the oldest run that needs it."""
    earliest = first_id(instant)
    return earliest if oldest is None else min(earliest, str(oldest))
