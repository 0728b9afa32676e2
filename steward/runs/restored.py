"""After a restore, looks up the writes that were under way at the backup before anything is sent.

The backup may be older than what reached stores. So every part of a decided change of an unfinished run is
stored as begun and reconciled by its idempotency class (docs/design/writes.md#after-a-restore).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from steward.clock import Clock
from steward.connectors.base.connector import AnyWriteOperation
from steward.database.accounts import audit, connections, organizations, sessions
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import messages
from steward.database.operator import restored
from steward.database.operator.restored import RestoreProgress
from steward.database.runs import changes, workers, write_ledger
from steward.database.runs import records as runs
from steward.database.runs.write_ledger import Intent
from steward.failpoint import failpoint
from steward.model.change import Change, Outcome, Part, batch_key, request_hash, write_key
from steward.model.ids import OrgId, RunId
from steward.model.instants import wire_time
from steward.model.refusals import WrongState
from steward.runs import recover

Operations = Mapping[str, Mapping[str, AnyWriteOperation]]  # by kind of connection, by operation
_TO_WRITE = (Outcome.APPROVED, Outcome.UNKNOWN)
_BATCH = 100
_OTHER_HISTORY = (
    "The database is not as it was served last: it was restored, or it failed over while no worker ran."
    " After a restore run `steward restored --at INSTANT`, with the instant that it was restored to. After a"
    " fail-over that lost nothing run `steward restored --nothing-lost`."
)


async def serving_obstacle(engine: Engine, now: datetime) -> str | None:
    """Returns why a process must not serve the database yet, and the command to run; None when it may.

    See docs/design/storage.md#backup-and-restore.
    """
    server = await engine.read(now, restored.server_state)
    if server.preparation is not None:
        return _unfinished(server.preparation)
    if server.served_history in (None, server.current_history) or await live_workers(engine, now):
        return None
    return _OTHER_HISTORY


async def live_workers(engine: Engine, now: datetime) -> list[str]:
    """Returns the hosts of workers whose lease is valid, except those known to have ended (`is_gone`)."""
    names = await engine.read(now, workers.live_names)
    return sorted({name.partition("|")[0] for name in names if not recover.is_gone(name)})


async def prepare(
    engine: Engine, clock: Clock, operations: Operations, *, taken_at: datetime, batch: int = _BATCH
) -> int:
    """Prepares a database that was restored to `taken_at` for being served.

    Ends leases and sessions, raises every run's epoch, has open writes checked first (see `_check_next`) and
    keeps the server's history. Processes `batch` runs per transaction; a repeated call continues where the
    last one stopped.

    Returns how many runs have to check first. Raises WrongState if another call advances it meanwhile.
    """
    preparation = await engine.write(clock.now(), partial(_start_preparation, taken_at=taken_at))
    for org in await engine.read(clock.now(), organizations.every):
        while not preparation.is_done(org):
            check = partial(_check_next, org=org, operations=operations, before=preparation, batch=batch)
            preparation = await engine.write(clock.now(), check, org=org)
            failpoint("restored_batch")
    await engine.write(clock.now(), restored.store_history)
    return preparation.runs


async def accept(engine: Engine, now: datetime) -> None:
    """Accepts the server's history after a fail-over that lost nothing.

    Raises WrongState while the preparation of a restored database is unfinished.
    """
    server = await engine.read(now, restored.server_state)
    if server.preparation is not None:
        raise WrongState(_unfinished(server.preparation))
    await engine.write(now, restored.store_history)


def _unfinished(preparation: RestoreProgress) -> str:
    instant = wire_time(preparation.taken_at)
    return f"`steward restored --at {instant}` has not ended. Run it again: it continues where it stopped."


async def _start_preparation(tx: Tx, *, taken_at: datetime) -> RestoreProgress:
    await restored.end_workers(tx)
    await sessions.end_all(tx)
    return await restored.begin(tx, taken_at)


async def _check_next(
    tx: Tx, *, org: OrgId, operations: Operations, before: RestoreProgress, batch: int
) -> RestoreProgress:
    """Marks what the organization's next unfinished runs may have written since the backup.

    The first call for an organization ends messages that may have been sent; the last one records the restore
    in its audit log.
    """
    after = before.run if before.org == org else None
    if after is None:
        await messages.forget_before_restore(tx, org)
        await restored.raise_epochs(tx, org)
    unfinished_runs = await restored.unfinished_runs(tx, org, after=after, limit=batch)
    for run, epoch in unfinished_runs:
        await _check_run(tx, org, run, epoch=epoch, operations=operations)
    last = unfinished_runs[-1][0] if len(unfinished_runs) == batch else None
    if last is None:
        await audit.record(tx, org, _entry(org, before.taken_at))
    preparation = replace(before, org=org, run=last, runs=before.runs + len(unfinished_runs))
    if not await restored.advance(tx, before, preparation):
        raise WrongState("Another `steward restored` is preparing this database. Wait until it has ended.")
    return preparation


def _entry(org: OrgId, taken_at: datetime) -> audit.AuditEntry:
    detail = {"taken_at": wire_time(taken_at)}
    return audit.AuditEntry(
        "operator", "restored", object_kind="organization", object_id=str(org), detail=detail
    )


async def _check_run(tx: Tx, org: OrgId, run: RunId, *, epoch: int, operations: Operations) -> None:
    """Stores every part that the run may have written since the backup as an open write, to be looked up."""
    decided = [item for item in await changes.of_run(tx, org, run) if item.outcome in _TO_WRITE]
    if not decided:
        return
    stored_run = await runs.get(tx, org, run)
    version = stored_run.plan_version or stored_run.template_version
    intents = []
    for change in decided:
        for number, part in enumerate(change.proposal.parts, start=1):
            operation = await _operation(tx, org, part, operations)
            if operation is not None:
                key = _key(change, number, version)
                intents.append(_intent(change, number, key=key, operation=operation))
    await write_ledger.record_intents(tx, org, run, epoch=epoch, intents=intents)
    await restored.require_lookup(tx, org, run)


def _key(change: Change, number: int, version: int) -> str:
    return write_key(
        change.run_id,
        change.name,
        change.iteration,
        position=change.position,
        part=number,
        version=version,
    )


async def _operation(tx: Tx, org: OrgId, part: Part, operations: Operations) -> AnyWriteOperation | None:
    """Returns the write operation of a part; None if its connection or operation no longer exists."""
    connection = await connections.get(tx, org, part.integration_id)
    return None if connection is None else operations.get(connection.kind, {}).get(part.operation)


def _intent(change: Change, number: int, *, key: str, operation: AnyWriteOperation) -> Intent:
    part = change.proposal.parts[number - 1]
    return Intent(
        key=key,
        change=change.id,
        part=number,
        batch_key=batch_key([key]),
        integration=part.integration_id,
        recovery=operation.recovery_of(part),
        request_sha256=request_hash([part]),
        deadline_ms=0,
        quiet_ms=0,
    )
