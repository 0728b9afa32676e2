"""Counts failed sign-ins and logins, and records them in the audit log ten minutes later.

See docs/design/audit.md#failed-sign-ins.
"""

from datetime import datetime
from functools import partial
from typing import Final

from steward.accounts.attempts import hashed
from steward.database.accounts import audit, credentials, failed_sign_ins, people
from steward.database.accounts.failed_sign_ins import AttemptedKind, FailedSignIns
from steward.database.engine.base import Engine, Tx, from_ms
from steward.model.ids import OrgId, PersonId
from steward.model.instants import wire_time
from steward.model.json import JsonObject

_RECORDED = 50
_FORGOTTEN = 1_000
_ACTIONS: Final = {"person": "sign_in_failed", "credential": "login_failed"}


async def count(
    engine: Engine, now: datetime, kind: AttemptedKind, key: str, *, object_id: str | None
) -> None:
    """Counts a failure under the name that was entered; `object_id` is the matching account, if any."""
    act = partial(failed_sign_ins.count, kind=kind, key_hash=hashed(key), object_id=object_id)
    await engine.write(now, act)


async def record_ended(engine: Engine, now: datetime) -> bool:
    """Writes an entry for each account whose ten minutes are over. Returns whether more probably wait.

    Each account is a transaction of its own, in which its count is removed: it is recorded once.
    """
    forgotten = await engine.write(now, partial(failed_sign_ins.forget_unknown, max_rows=_FORGOTTEN))
    rows = await engine.read(now, partial(failed_sign_ins.ended, limit=_RECORDED))
    for row in rows:
        await engine.write(now, partial(_record, kind=row.kind, key_hash=row.key_hash))
    return len(rows) == _RECORDED or forgotten == _FORGOTTEN


async def _record(tx: Tx, kind: AttemptedKind, key_hash: str) -> None:
    failed = await failed_sign_ins.take(tx, kind, key_hash)
    if failed is None:
        return
    detail: JsonObject = {"times": failed.times, "since": wire_time(from_ms(failed.began_at))}
    orgs = await _organizations(tx, failed)
    await tx.set_tenant(orgs)
    for org in orgs:
        entry = audit.AuditEntry(
            "service", _ACTIONS[kind], object_kind=kind, object_id=failed.object_id, detail=detail
        )
        await audit.record(tx, org, entry)


async def _organizations(tx: Tx, failed: FailedSignIns) -> list[OrgId]:
    """Returns the organizations whose log gets the entry, in the order in which they are locked."""
    object_id = str(failed.object_id)
    if failed.kind == "person":
        return sorted(await people.organizations_of(tx, PersonId(int(object_id))))
    org = await credentials.organization_of(tx, object_id)
    return [] if org is None else [org]
