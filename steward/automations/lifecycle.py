"""Pause, resume, archive and restore, by a person or the service itself."""

from dataclasses import dataclass, replace

from steward.automations import coming, due, history, readiness, topics
from steward.automations.change import check_version
from steward.automations.due import LockedAutomation
from steward.automations.rules import AutomationRules
from steward.database import due_rows as ticks
from steward.database.automations import history as store_history
from steward.database.automations import records as automations
from steward.database.automations import schedules, streaks
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.database.events import subscriptions
from steward.database.notifications import facts
from steward.database.runs import active_run
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.refusals import ValidationFailed, WrongState
from steward.model.schedule import Cadence
from steward.model.trigger import TriggerKind
from steward.run_queue import ending
from steward.scheduling.shape import has_passed
from steward.scheduling.zones import zone

_FROM_ARCHIVE = "Restored from the archive"
_BROKEN = "Its runs could not be planned. Check its schedule and timezone, then resume it."
DISPATCH = "dispatch"
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class StateCommand:
    """A requested change of state; only pause has a `reason`."""

    automation: AutomationId
    version: int | None = None
    reason: str | None = None


async def pause(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Pauses an active automation at a person's request. Raises NotFound, StaleVersion, WrongState."""
    locked = await due.lock(tx, actor.org, command.automation)
    check_version(locked.automation, command.version)
    if locked.automation.state is not AutomationState.ACTIVE:
        raise WrongState("Only an active automation can be paused.")
    return await _pause(tx, actor, locked, by=PausedBy.MERCHANT, reason=command.reason, rules=rules)


async def pause_by_service(
    tx: Tx, org: OrgId, automation: AutomationId, *, reason: str, rules: AutomationRules
) -> Automation | None:
    """Pauses an automation for the stated reason; returns None if it is no longer active."""
    locked = await due.lock(tx, org, automation)
    if locked.automation.state is not AutomationState.ACTIVE:
        return None
    paused = await _pause(tx, None, locked, by=PausedBy.SYSTEM, reason=reason, rules=rules)
    await facts.automation_paused(tx, org, automation, version=paused.version)
    return paused


async def pause_broken(tx: Tx, org: OrgId, automation: AutomationId) -> bool:
    """Pauses an automation whose slots cannot be decided; returns False if it is not active.

    Neither its slots nor its own fields are read: one of them is what is broken.
    """
    await schedules.lock(tx, org, automation)
    version = await automations.pause_unread(tx, org, automation, reason=_BROKEN)
    if version is None:
        return False
    await schedules.stop(tx, org, automation)
    await subscriptions.clear_topics(tx, org, automation)
    await ending.end_for_pause(tx, org, automation)
    await store_history.add(
        tx,
        org,
        automation,
        action=HistoryAction.PAUSED,
        version=version,
        person=None,
        via=history.SERVICE,
        api_client_id=None,
        reason=_BROKEN,
        fields=[],
    )
    await facts.automation_paused(tx, org, automation, version=version)
    return True


async def pause_for_connection(
    tx: Tx, org: OrgId, integration: IntegrationId, *, reason: str, rules: AutomationRules
) -> list[AutomationId]:
    """Pauses the active automations that need a connection which is being disconnected."""
    needing = sorted(
        automation.id
        for automation in await automations.active_naming(tx, org, integration)
        if integration in readiness.connections_of(automation, rules.templates)
    )
    if needing:  # a batch locks kind by kind
        await active_run.lock(tx, org, needing)
    return [
        automation
        for automation in needing
        if await pause_by_service(tx, org, automation, reason=reason, rules=rules) is not None
    ]


async def resume(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Resumes an automation at a person's request; its slots begin now (R15).

    Raises NotFound, StaleVersion, WrongState, ValidationFailed (a `once` that has passed), NotConnected,
    NotReady.
    """
    locked = await due.lock(tx, actor.org, command.automation)
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
    await coming.close_missed(tx, locked)
    after = await _save(tx, actor, before, after, action=HistoryAction.RESUMED)
    await streaks.succeeded(tx, before.org, before.id)
    await ticks.clear(tx, DISPATCH, [before.id])
    # After `this_and_later` the rows stored up to its time come back, and account for the slots before it.
    slots_after = max(tx.now, locked.timing.slots_after)
    return (
        await due.begin_slots(tx, LockedAutomation(after, locked.timing), slots_after=slots_after)
    ).automation


async def archive(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Archives an automation and ends its runs. Raises NotFound, StaleVersion, WrongState."""
    locked = await due.lock(tx, actor.org, command.automation)
    check_version(locked.automation, command.version)
    if locked.automation.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived already.")
    locked = await due.decide_due(tx, locked, rules=rules)
    await coming.drop_for_archive(tx, locked)
    before = locked.automation
    after = replace(before, state=AutomationState.ARCHIVED, paused_by=None)
    after = await _save(tx, actor, before, after, action=HistoryAction.ARCHIVED)
    # The rows `this_and_later` had stored are gone: nothing holds back slots up to its time any more.
    timing = replace(locked.timing, slots_after=min(tx.now, locked.timing.slots_after))
    after = (await due.rewrite_next(tx, LockedAutomation(after, timing))).automation
    await ending.end_for_archive(tx, before.org, before.id)
    return after


async def restore(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Restores an archived automation, paused. Raises NotFound, StaleVersion, WrongState."""
    locked = await due.lock(tx, actor.org, command.automation)
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
    return await _save(tx, actor, before, after, action=HistoryAction.RESTORED)


async def _pause(
    tx: Tx,
    actor: Actor | None,
    locked: LockedAutomation,
    *,
    by: PausedBy,
    reason: str | None,
    rules: AutomationRules,
) -> Automation:
    """Decides due slots first; then removes planned slots and ends runs that wait to start."""
    locked = await due.decide_due(tx, locked, rules=rules)
    before = locked.automation
    words = None if reason is None else reason[:_LONGEST_REASON]
    after = replace(before, state=AutomationState.PAUSED, paused_by=by, paused_reason=words)
    after = await _save(tx, actor, before, after, action=HistoryAction.PAUSED)
    after = (await due.rewrite_next(tx, LockedAutomation(after, locked.timing))).automation
    await ending.end_for_pause(tx, before.org, before.id)
    return after


async def _save(
    tx: Tx, actor: Actor | None, before: Automation, after: Automation, *, action: HistoryAction
) -> Automation:
    """Writes a change of state as the next version, with its line of history. Raises WrongState."""
    after = replace(after, version=before.version + 1, updated_at=tx.now)
    if await automations.save(tx, before.org, after, was=before.version) == 0:
        raise WrongState("This automation was changed at the same moment. Read it again.")
    await topics.follow(tx, after)
    await history.note(
        tx,
        actor,
        after,
        action=action,
        reason=after.paused_reason if action is HistoryAction.PAUSED else None,
        fields=history.edits(before, after),
    )
    return after


def _may_resume(automation: Automation) -> bool:
    if automation.state is AutomationState.DRAFT:
        return not _only_by_hand(automation)
    return automation.state is AutomationState.PAUSED


def _only_by_hand(automation: Automation) -> bool:
    is_manual = automation.schedule.cadence is Cadence.MANUAL
    return is_manual and automation.trigger.kind is TriggerKind.SCHEDULE
