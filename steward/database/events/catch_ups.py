"""The object types to catch up on: since when, up to where they were read, and when they are due."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.database.engine.base import PerEngine, Row, Tx, from_ms
from steward.model.ids import IntegrationId, OrgId

_DUE = PerEngine(
    "SELECT org_id, integration_id, object_type FROM catch_ups WHERE next_at <= {now}"
    " ORDER BY next_at LIMIT :most",
    "SELECT org_id, integration_id, object_type FROM queue_catch_ups(:most)",
)


class Fill(StrEnum):
    """Whether the last-seen state of a type needs no fill, needs one, or is filled."""

    NONE = "none"
    PENDING = "pending"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The catch-up of an object type: listened to `since`, and read up to `read_until`.

    `ids_compared_at`: when the list of ids was last compared.
    """

    object_type: str
    since: datetime
    fill: Fill
    read_until: datetime
    ids_compared_at: datetime
    tries: int


async def due(tx: Tx, max_rows: int = 20) -> list[tuple[OrgId, tuple[IntegrationId, str]]]:
    """Returns the catch-up reads that are due now, of all organizations."""
    rows = await tx.all(_DUE, {"most": max_rows})
    return [
        (OrgId(row["org_id"]), (IntegrationId(row["integration_id"]), row["object_type"])) for row in rows
    ]


async def of(tx: Tx, org: OrgId, integration: IntegrationId) -> dict[str, CatchUp]:
    """Returns the catch-up of each object type of the store."""
    rows = await tx.all(
        "SELECT object_type, since, fill, read_until, ids_compared_at, tries FROM catch_ups"
        " WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )
    return {row["object_type"]: _catch_up(row) for row in rows}


async def start(
    tx: Tx, org: OrgId, integration: IntegrationId, object_type: str, *, fill: Fill, next_at: datetime
) -> None:
    """Records that listening to a type begins now."""
    await tx.execute(
        "INSERT INTO catch_ups (org_id, integration_id, object_type, since, fill, read_until,"
        " ids_compared_at,"
        " next_at) VALUES (:org, :integration, :type, :now, :fill, :now, :now, :next)"
        " ON CONFLICT (org_id, integration_id, object_type) DO NOTHING",
        {"org": org, "integration": integration, "type": object_type, "fill": fill, "next": next_at},
    )


async def restart_fill(tx: Tx, org: OrgId, integration: IntegrationId, object_type: str) -> None:
    """Restarts the fill of the last-seen state, which a new derived topic needs before it is received."""
    await tx.execute(
        "UPDATE catch_ups SET fill = 'pending', next_at = :now"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :type",
        {"org": org, "integration": integration, "type": object_type},
    )


async def mark_filled(
    tx: Tx, org: OrgId, integration: IntegrationId, object_type: str, *, next_at: datetime
) -> None:
    """Records that the last-seen state of the type is complete."""
    await tx.execute(
        "UPDATE catch_ups SET fill = 'done', tries = 0, next_at = :next"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :type",
        {"org": org, "integration": integration, "type": object_type, "next": next_at},
    )


async def mark_read(
    tx: Tx,
    org: OrgId,
    integration: IntegrationId,
    object_type: str,
    *,
    until: datetime,
    next_at: datetime,
    ids_compared_at: datetime,
) -> None:
    """Records that everything modified until `until` has been read."""
    await tx.execute(
        "UPDATE catch_ups SET read_until = :until, ids_compared_at = :ids_compared_at, next_at = :next,"
        " tries = 0"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :type",
        {
            "org": org,
            "integration": integration,
            "type": object_type,
            "until": until,
            "next": next_at,
            "ids_compared_at": ids_compared_at,
        },
    )


async def defer(
    tx: Tx, org: OrgId, integration: IntegrationId, object_type: str, *, next_at: datetime
) -> None:
    """Schedules another try after a failed read, from the position that was reached."""
    await tx.execute(
        "UPDATE catch_ups SET next_at = :next, tries = tries + 1"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :type",
        {"org": org, "integration": integration, "type": object_type, "next": next_at},
    )


async def make_due(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Makes all types due for catch-up now, because something was not delivered."""
    await tx.execute(
        "UPDATE catch_ups SET next_at = :now WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


async def remove_others(
    tx: Tx, org: OrgId, integration: IntegrationId, object_types: Collection[str]
) -> None:
    """Removes the types that no automation waits for any longer."""
    await tx.execute(
        "DELETE FROM catch_ups WHERE org_id = :org AND integration_id = :integration"
        " AND object_type NOT IN (:types)",
        {"org": org, "integration": integration, "types": sorted(object_types)},
    )


def _catch_up(row: Row) -> CatchUp:
    return CatchUp(
        object_type=row["object_type"],
        since=from_ms(row["since"]),
        fill=Fill(row["fill"]),
        read_until=from_ms(row["read_until"]),
        ids_compared_at=from_ms(row["ids_compared_at"]),
        tries=row["tries"],
    )
