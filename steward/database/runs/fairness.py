"""Fairness between organizations: start-time fair queueing (docs/design/runs.md#fairness).

A run is stamped with a virtual time (`vt`) when it becomes ready; workers claim runs in that order. The clock
is the largest claimed stamp.
"""

from steward.database.engine.base import Tx
from steward.model.ids import OrgId

_STAMP = """
INSERT INTO fairness_orgs (org_id, last_vt)
VALUES (:org, (SELECT vt FROM fairness_clock) + :n)
ON CONFLICT (org_id) DO UPDATE
SET last_vt = :n + CASE
    WHEN fairness_orgs.last_vt > (SELECT vt FROM fairness_clock) THEN fairness_orgs.last_vt
    ELSE (SELECT vt FROM fairness_clock)
END
RETURNING last_vt - :n AS vt
"""


async def stamp(tx: Tx, org: OrgId, runs: int = 1) -> int:
    """Returns the first of `runs` consecutive stamps.

    It follows the organization's last one and is not before the clock, which it may equal.
    """
    row = await tx.first(_STAMP, {"org": org, "n": runs})
    return int(row["vt"]) if row else 0


async def current_stamp(tx: Tx) -> int:
    """Returns the clock: the stamp of recovered and approved runs, which cost their organization no turn."""
    row = await tx.first("SELECT vt FROM fairness_clock WHERE singleton = 1")
    return int(row["vt"]) if row else 0


async def advance(tx: Tx, vt: int) -> None:
    """Advances the clock to the largest claimed stamp.

    Does not wait for another worker that advances it at the same time: either stamp will do.
    """
    await tx.execute(
        "UPDATE fairness_clock SET vt = :vt WHERE singleton IN"
        " (SELECT singleton FROM fairness_clock WHERE singleton = 1 AND vt < :vt {skip_locked})",
        {"vt": vt},
    )
