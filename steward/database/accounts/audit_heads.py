"""The end of each organization's chain of audit entries, and the state of its periodic check."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.audit import START, ChainCheck, Fault
from steward.model.ids import OrgId

_DUE = PerEngine(
    sqlite="SELECT org_id FROM audit_heads WHERE check_at <= {now} ORDER BY check_at, org_id LIMIT :limit",
    postgresql="SELECT org_id FROM queue_audit_logs_to_check(:limit, :test_now)",
)
_READ = (
    "SELECT seq, hash, at, checked_seq, checked_hash, pass_began_at, verified_seq, verified_at,"
    " broken_seq, broken_how, anchored_at FROM audit_heads WHERE org_id = :org"
)


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The last entry of a chain, and the result of its check.

    The chain was sound up to the entry `verified_seq` at `verified_at`; `fault` is the fault, if any.
    """

    seq: int
    hash: str
    at: datetime
    checked: ChainCheck
    pass_began_at: datetime
    verified_seq: int
    verified_at: datetime | None
    fault: Fault | None
    anchored_at: datetime | None


async def get(tx: Tx, org: OrgId) -> AuditHead | None:
    """Returns the head of a chain; None before its first entry."""
    row = await tx.first(_READ, {"org": org})
    return None if row is None else _head(row)


async def lock(tx: Tx, org: OrgId) -> AuditHead:
    """Locks the head until the commit; creates it before the first entry."""
    row = await tx.first(_READ + " {for_update}", {"org": org})
    if row is None:
        await tx.execute(
            "INSERT INTO audit_heads (org_id, seq, hash, at, check_at, checked_seq, checked_hash,"
            " pass_began_at, verified_seq) VALUES (:org, 0, :start, :now, :now, 0, :start, :now, 0)"
            " ON CONFLICT (org_id) DO NOTHING",
            {"org": org, "start": START},
        )
        row = await tx.first(_READ + " {for_update}", {"org": org})
        assert row is not None, "the head is there once it was inserted"
    return _head(row)


async def move(tx: Tx, org: OrgId, *, seq: int, entry_hash: str) -> None:
    """Moves the head to a new entry."""
    await tx.execute(
        "UPDATE audit_heads SET seq = :seq, hash = :hash, at = :now WHERE org_id = :org",
        {"org": org, "seq": seq, "hash": entry_hash},
    )


async def due(tx: Tx, *, limit: int) -> list[OrgId]:
    """Returns the organizations whose chain is due for a check, longest due first."""
    rows = await tx.all(_DUE, {"limit": limit, "test_now": tx.test_now})
    return [OrgId(row["org_id"]) for row in rows]


async def save_check(
    tx: Tx, org: OrgId, checked: ChainCheck, *, check_at: datetime, pass_began_at: datetime
) -> None:
    """Stores the progress of the check and when it continues."""
    await tx.execute(
        "UPDATE audit_heads SET checked_seq = :seq, checked_hash = :hash, check_at = :check_at,"
        " pass_began_at = :pass_began_at WHERE org_id = :org",
        {
            "org": org,
            "seq": checked.seq,
            "hash": checked.hash,
            "check_at": check_at,
            "pass_began_at": pass_began_at,
        },
    )


async def save_result(tx: Tx, org: OrgId, *, verified_seq: int, fault: Fault | None) -> None:
    """Stores the end of a check: sound up to `verified_seq`, or broken."""
    await tx.execute(
        "UPDATE audit_heads SET verified_seq = :seq, verified_at = :now, broken_seq = :broken_seq,"
        " broken_how = :how WHERE org_id = :org",
        {
            "org": org,
            "seq": verified_seq,
            "broken_seq": None if fault is None else fault.seq,
            "how": None if fault is None else fault.how,
        },
    )


async def save_anchored(tx: Tx, org: OrgId) -> None:
    """Records that the head was written to the log."""
    await tx.execute("UPDATE audit_heads SET anchored_at = :now WHERE org_id = :org", {"org": org})


def _head(row: Row) -> AuditHead:
    broken = row["broken_seq"]
    return AuditHead(
        seq=row["seq"],
        hash=row["hash"],
        at=from_ms(row["at"]),
        checked=ChainCheck(row["checked_seq"], row["checked_hash"]),
        pass_began_at=from_ms(row["pass_began_at"]),
        verified_seq=row["verified_seq"],
        verified_at=from_ms_or_none(row["verified_at"]),
        fault=None if broken is None else Fault(broken, row["broken_how"]),
        anchored_at=from_ms_or_none(row["anchored_at"]),
    )
