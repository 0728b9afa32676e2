"""After a restore: looks up what was about to be written when the backup was made before sending anything.

The backup may be older than what reached stores. So every part of a decided change of an unfinished run is
stored as begun and reconciled by its idempotency class (docs/design/writes.md#after-a-restore).
"""

from collections.abc import Mapping
from typing import Any

from steward.connectors.base.connector import WriteOperation
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.notifications import messages
from steward.database.operator import restored
from steward.database.runs import changes, write_ledger
from steward.database.runs import records as runs
from steward.database.runs.write_ledger import Intent
from steward.model.change import Change, Outcome, Part, batch_key, effect_key, request_hash
from steward.model.ids import OrgId, RunId

Operations = Mapping[str, Mapping[str, WriteOperation[Any]]]  # by kind of connection, by operation
_TO_WRITE = (Outcome.APPROVED, Outcome.UNKNOWN)


async def check_first(tx: Tx, org: OrgId, operations: Operations) -> int:
    """Marks what the organization's unfinished runs may have written since the backup, and ends messages
    that may have been sent.

    Returns how many such runs.
    """
    await messages.forget_before_restore(tx, org)
    unfinished_runs = await restored.going_on(tx, org)
    for run, epoch in unfinished_runs:
        await _check_run(tx, org, run, epoch=epoch, operations=operations)
    return len(unfinished_runs)


async def _check_run(tx: Tx, org: OrgId, run: RunId, *, epoch: int, operations: Operations) -> None:
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
    await write_ledger.intend(tx, org, run, epoch=epoch, intents=intents)
    await restored.look_first(tx, org, run)


def _key(change: Change, number: int, version: int) -> str:
    return effect_key(
        change.run_id,
        change.name,
        change.iteration,
        position=change.position,
        part=number,
        version=version,
    )


async def _operation(tx: Tx, org: OrgId, part: Part, operations: Operations) -> WriteOperation[Any] | None:
    """Returns what the part does; None when its connection or operation no longer exists."""
    connection = await connections.get(tx, org, part.integration_id)
    return None if connection is None else operations.get(connection.kind, {}).get(part.operation)


def _intent(change: Change, number: int, *, key: str, operation: WriteOperation[Any]) -> Intent:
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
