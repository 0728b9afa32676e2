"""After a restore: what was to be written when the copy was made is looked up before anything is sent.

The copy may be older than what went out to stores. So every part of a decided change of an unfinished run is
kept as begun, and is settled by its recovery class like one of a worker that died (engine 11.4, 18).
"""

from collections.abc import Mapping
from typing import Any

from steward.connectors.base.connector import WriteOperation
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.operator import restored
from steward.database.runs import changes
from steward.database.runs import records as runs
from steward.database.runs import write_ledger as effects
from steward.database.runs.write_ledger import Intent
from steward.model.change import Change, Outcome, Part, batch_key, effect_key, request_hash
from steward.model.ids import OrgId, RunId

Operations = Mapping[str, Mapping[str, WriteOperation[Any]]]  # by kind of connection, by operation
TO_WRITE = (Outcome.APPROVED, Outcome.UNKNOWN)


async def check_first(tx: Tx, org: OrgId, operations: Operations) -> int:
    """Marks what the organisation's unfinished runs may have written since the copy; how many such runs."""
    found = await restored.going_on(tx, org)
    for run, epoch in found:
        await _check_run(tx, org, run, epoch=epoch, operations=operations)
    return len(found)


async def _check_run(tx: Tx, org: OrgId, run: RunId, *, epoch: int, operations: Operations) -> None:
    decided = [one for one in await changes.of_run(tx, org, run) if one.outcome in TO_WRITE]
    if not decided:
        return
    of = await runs.get(tx, org, run)
    version = of.plan_version or of.template_version
    intents = []
    for change in decided:
        for number, part in enumerate(change.proposal.parts, start=1):
            operation = await _operation(tx, org, part, operations)
            if operation is not None:
                key = _key(change, number, version)
                intents.append(_intent(change, number, key=key, operation=operation))
    await effects.intend(tx, org, run, epoch=epoch, intents=intents)
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
    """What the part does; None for a connection or an operation that is no more, which sends nothing."""
    found = await connections.get(tx, org, part.integration_id)
    return None if found is None else operations.get(found.kind, {}).get(part.operation)


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
