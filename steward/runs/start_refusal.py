"""Decides whether a claimed run may start: refuses it, or holds it in a closed period."""

from datetime import timedelta

from steward.automations import readiness
from steward.automations.rules import AutomationRules, Templates
from steward.closed_periods import applicable
from steward.database.accounts import organizations
from steward.database.engine.base import Tx
from steward.database.runs import closed_period_holds, transitions, undos
from steward.database.runs import records as runs
from steward.database.runs.transitions import Lease
from steward.model.automation import Automation, AutomationState
from steward.model.run import Run, RunStatus, StartedBy
from steward.runs import finish, undo
from steward.runs.lease import LeaseLost
from steward.runs.writes.ledger import WritesClosed


async def refusal(tx: Tx, templates: Templates, automation: Automation, run: Run) -> finish.RunEnd | None:
    """Returns why the run may not start, or None (docs/design/runs.md#claim)."""
    if run.undo_of is not None:
        return await _undo_refusal(tx, run)
    if automation.state is AutomationState.ARCHIVED:
        return finish.RunEnd(RunStatus.REFUSED, "archived", "The automation was archived.")
    obstacle = await readiness.obstacle(tx, automation, templates=templates)
    if obstacle is not None and obstacle.code == "switched_off":
        return finish.RunEnd(RunStatus.REFUSED, obstacle.code, obstacle.message)
    if run.plan_version is not None and run.plan_version != automation.plan_version:
        message = "The automation's steps were changed after this run was queued. Run it again."
        return finish.RunEnd(RunStatus.REFUSED, "superseded", message)
    return finish.RunEnd(RunStatus.REFUSED, obstacle.code, obstacle.message) if obstacle is not None else None


async def _undo_refusal(tx: Tx, run: Run) -> finish.RunEnd | None:
    """Returns why an undo may not start; automations are off, or a connection is not usable."""
    organization = await organizations.get(tx, run.org)
    if organization is None or not organization.automations_on:
        message = "Automations are switched off for this organization."
        return finish.RunEnd(RunStatus.REFUSED, "switched_off", message)
    stored = await undos.get(tx, run.org, run.id)
    problem = await undo.connection_problem(tx, run.org, stored.of_run, stored.chosen)
    return None if problem is None else finish.RunEnd(RunStatus.REFUSED, "not_connected", problem)


async def hold_in_closed_period(
    tx: Tx, rules: AutomationRules, lease: Lease, run: Run, automation: Automation
) -> bool:
    """Refuses a slot's run, or puts another to sleep, if a closed period keeps it from beginning now.

    Returns whether it did either. While the run sleeps, the queue limit of the automation counts from the
    period's end, or from the next check if the period has no end. Raises LeaseLost.
    """
    closing = (await applicable.current(tx, lease.org)).run_closing(automation, tx.now)
    if closing is None or await runs.is_exempt(tx, lease.org, lease.run):
        return False
    if run.started_by is StartedBy.SCHEDULE:
        message = (
            f"It would have begun in the closed period {closing.period.name}. Run it again if it is needed."
        )
        end = finish.RunEnd(RunStatus.REFUSED, "closed_period", message)
        await finish.finish(
            tx, lease, end, automation=automation.id, mode=run.mode, rules=rules, is_undo=False
        )
        return True
    closed = WritesClosed(closing, tx.now)
    wake_at = tx.now + timedelta(seconds=closed.seconds)
    await closed_period_holds.restart_queue_limit(tx, lease.org, automation.id, closing.end or wake_at)
    held_by = (closed.name, closed.until)
    if not await transitions.sleep(tx, lease, until=wake_at, leased_ms=0, settles=False, held=held_by):
        raise LeaseLost(lease)
    return True
