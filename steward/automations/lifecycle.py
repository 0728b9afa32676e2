"""Resumes, archives and restores automations."""

from dataclasses import replace

from steward.automations import coming, due, next_runs, readiness
from steward.automations.checks import check_version
from steward.automations.due_slots import LockedAutomation
from steward.automations.pauses import StateCommand, save_state
from steward.automations.rules import AutomationRules
from steward.database import due_rows
from steward.database.automations import streaks
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.refusals import ValidationFailed, WrongState
from steward.model.schedule import Cadence
from steward.model.trigger import TriggerKind
from steward.run_queue import ending
from steward.scheduling.shape import has_passed
from steward.scheduling.zones import zone

_FROM_ARCHIVE = "Restored from the archive"
DISPATCH = "dispatch"


async def resume(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Resumes an automation at a person's request; its slots begin now.

    See docs/design/schedule.md#slot-rules, R15. Raises NotFound, StaleVersion, WrongState, ValidationFailed
    (a `once` that has passed), NotConnected, NotReady.
    """
    locked = await next_runs.lock(tx, actor.org, command.automation)
    before = locked.automation
    check_version(before, command.version)
    if not _may_resume(before):
        raise WrongState("Only a paused automation, or a draft with a schedule or an event, can be resumed.")
    tz = zone(before.timezone)
    if tz is not None and has_passed(before.schedule, tz, tx.now):
        message = "This day and time have already passed. Give a later one, then resume."
        raise ValidationFailed(errors={"schedule.date": [message]})
    await readiness.check(tx, before, templates=rules.templates)
    after = replace(
        before,
        state=AutomationState.DRAFT if _only_by_hand(before) else AutomationState.ACTIVE,
        paused_by=None,
        paused_reason=None,
        consecutive_failures=0,
    )
    await coming.skip_missed(tx, locked)
    after = await save_state(tx, actor, before, after, action=HistoryAction.RESUMED)
    await streaks.reset_failures(tx, before.org, before.id)
    await due_rows.clear(tx, DISPATCH, [before.id])
    # Rows that `this_and_later` stored up to its time stay, so the slots up to then are already decided.
    slots_after = max(tx.now, locked.timing.slots_after)
    return (
        await next_runs.begin_slots(tx, LockedAutomation(after, locked.timing), slots_after=slots_after)
    ).automation


async def archive(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Archives an automation and ends its runs. Raises NotFound, StaleVersion, WrongState."""
    locked = await next_runs.lock(tx, actor.org, command.automation)
    check_version(locked.automation, command.version)
    if locked.automation.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived already.")
    locked = await due.decide_due(tx, locked, rules=rules)
    await coming.drop_for_archive(tx, locked)
    before = locked.automation
    after = replace(before, state=AutomationState.ARCHIVED, paused_by=None)
    after = await save_state(tx, actor, before, after, action=HistoryAction.ARCHIVED)
    # The rows that `this_and_later` stored are deleted, so slots up to its time may be computed again.
    timing = replace(locked.timing, slots_after=min(tx.now, locked.timing.slots_after))
    after = (await next_runs.rewrite_next(tx, LockedAutomation(after, timing))).automation
    await ending.end_for_archive(tx, before.org, before.id)
    return after


async def restore(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Restores an archived automation, paused. Raises NotFound, StaleVersion, WrongState."""
    locked = await next_runs.lock(tx, actor.org, command.automation)
    before = locked.automation
    check_version(before, command.version)
    if before.state is not AutomationState.ARCHIVED:
        raise WrongState("Only an archived automation can be restored.")
    if _only_by_hand(before):
        after = replace(before, state=AutomationState.DRAFT, paused_by=None, paused_reason=None)
    else:
        after = replace(
            before,
            state=AutomationState.PAUSED,
            paused_by=PausedBy.MERCHANT,
            paused_reason=before.paused_reason or _FROM_ARCHIVE,
        )
    return await save_state(tx, actor, before, after, action=HistoryAction.RESTORED)


def _may_resume(automation: Automation) -> bool:
    if automation.state is AutomationState.DRAFT:
        return not _only_by_hand(automation)
    return automation.state is AutomationState.PAUSED


def _only_by_hand(automation: Automation) -> bool:
    is_manual = automation.schedule.cadence is Cadence.MANUAL
    return is_manual and automation.trigger.kind is TriggerKind.SCHEDULE
