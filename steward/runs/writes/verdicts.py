"""Stores the verdicts on open writes, and updates their changes and the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx
from steward.database.events import own_changes
from steward.database.events.own_changes import ChangedObject
from steward.database.runs import changes, transitions, write_ledger
from steward.database.runs import records as runs
from steward.database.runs.changes import SettledChange
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import EntryOutcome, LedgerState, WriteEntry
from steward.model.change import Change
from steward.model.ids import OrgId, RunId
from steward.run_queue import summaries
from steward.runs import change_outcomes, finish
from steward.runs.lease import LeaseLost
from steward.runs.writes.open_ledger import OpenLedger


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one write; without a state it is looked up again at `retry_at`."""

    entry: WriteEntry
    state: LedgerState | None
    by: str = "read_back"
    message: str | None = None
    retry_at: datetime | None = None


async def store_verdicts(
    tx: Tx, *, org: OrgId, lease: Lease | None, ledger: OpenLedger, verdicts: Sequence[Verdict]
) -> None:
    """Stores verdicts that were found together. Raises LeaseLost."""
    for verdict in verdicts:
        await _store_verdict(tx, org=org, lease=lease, ledger=ledger, verdict=verdict)
    if lease is not None and any(verdict.state is LedgerState.DONE for verdict in verdicts):
        await transitions.forget_losses(tx, lease)


async def _store_verdict(
    tx: Tx, *, org: OrgId, lease: Lease | None, ledger: OpenLedger, verdict: Verdict
) -> None:
    """Stores a verdict and the change's outcome with it. Raises LeaseLost."""
    entry = verdict.entry
    if lease is not None:
        is_owner, _ = await transitions.lock_lease(tx, lease)
        if not is_owner:
            raise LeaseLost(lease)
    if verdict.retry_at is not None:
        await write_ledger.postpone(tx, org, entry.key, until=verdict.retry_at)
    if verdict.state is None:
        return
    outcome = EntryOutcome(entry.key, verdict.state, verdict.message)
    await write_ledger.settle(tx, org, [outcome], by=verdict.by)
    if verdict.state is not LedgerState.NOT_SENT:
        change = ledger.changes[entry.change]
        written_object = change.proposal.object
        if (
            verdict.state is LedgerState.DONE
            and entry.integration is not None
            and written_object.id is not None
        ):
            # A write whose response was lost is still the automation's own, so its event is an echo.
            own_change = ChangedObject(
                entry.integration, written_object.type, written_object.id, None, set_modified_at=False
            )
            await own_changes.note(tx, org, change.run_id, [own_change], applied_at=entry.intent_at)
        entries_of_change = await write_ledger.of_change(tx, org, change.id)
        await _settle_change(tx, org, change, entries_of_change, run_continues=lease is not None)


async def _settle_change(
    tx: Tx, org: OrgId, change: Change, entries_of_change: Sequence[WriteEntry], *, run_continues: bool
) -> None:
    """Stores the outcome of the change that follows from its writes, also in a finished run."""
    results = change_outcomes.part_results(change, entries_of_change)
    result = change_outcomes.change_result(change.proposal.parts, results, run_continues=run_continues)
    if result is not None:
        outcome, message = result
        await changes.settle(tx, org, change.run_id, [SettledChange(change.id, outcome, message)])


async def _correct_summary(tx: Tx, org: OrgId, run_id: RunId) -> None:
    """Rewrites the summary of a finished run after one of its changes got its outcome."""
    run = await runs.get(tx, org, run_id)
    if run.summary is None:
        return
    record = await summaries.of_run(tx, org, run_id)
    message = finish.final_message(run.code, record.counts) or run.message
    summary = record.summary(run.status, run.code, message)
    result = None if run.result is None else finish.shrink_result(record.run_summary.result)
    await transitions.set_outcome(
        tx, org, run_id, code=run.code, message=message, summary=summary, result=result
    )


async def store_late_verdict(tx: Tx, *, org: OrgId, ledger: OpenLedger, verdict: Verdict) -> None:
    """Stores the verdict on a write of a finished run and corrects the run's summary."""
    await _store_verdict(tx, org=org, lease=None, ledger=ledger, verdict=verdict)
    if verdict.state is not None:
        await _correct_summary(tx, org, verdict.entry.run)
