"""Pauses automations, at a person's request or by the service itself."""

from dataclasses import dataclass, replace

from steward.automations import due, history, next_runs, readiness, topics
from steward.automations.checks import check_version
from steward.automations.due_slots import LockedAutomation
from steward.automations.rules import AutomationRules
from steward.database.automations import history as store_history
from steward.database.automations import records as automations
from steward.database.automations import schedules
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.database.events import subscriptions
from steward.database.notifications import facts
from steward.database.runs import active_run
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.refusals import WrongState
from steward.run_queue import ending

_BROKEN = "Its runs could not be planned. Check its schedule and timezone, then resume it."
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class StateCommand:
    """A requested change of state; only pause has a `reason`."""

    automation: AutomationId
    version: int | None = None
    reason: str | None = None


async def pause(tx: Tx, actor: Actor, command: StateCommand, *, rules: AutomationRules) -> Automation:
    """Pauses an active automation at a person's request. Raises NotFound, StaleVersion, WrongState."""
    locked = await next_runs.lock(tx, actor.org, command.automation)
    check_version(locked.automation, command.version)
    if locked.automation.state is not AutomationState.ACTIVE:
        raise WrongState("Only an active automation can be paused.")
    return await _pause(tx, actor, locked, by=PausedBy.MERCHANT, reason=command.reason, rules=rules)


async def pause_by_service(
    tx: Tx, org: OrgId, automation: AutomationId, *, reason: str, rules: AutomationRules
) -> Automation | None:
    """Pauses an automation for the stated reason; returns None if it is no longer active."""
    locked = await next_runs.lock(tx, org, automation)
    if locked.automation.state is not AutomationState.ACTIVE:
        return None
    paused = await _pause(tx, None, locked, by=PausedBy.SYSTEM, reason=reason, rules=rules)
    await facts.automation_paused(tx, org, automation, version=paused.version)
    return paused


async def pause_broken(tx: Tx, org: OrgId, automation: AutomationId) -> bool:
    """Pauses an automation whose slots cannot be decided; returns False if it is not active.

    It reads neither its slots nor its own fields, since one of them is what cannot be read.
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
    if needing:  # all schedules are locked before any automation is paused, so that batches do not deadlock
        await active_run.lock(tx, org, needing)
    return [
        automation
        for automation in needing
        if await pause_by_service(tx, org, automation, reason=reason, rules=rules) is not None
    ]


async def _pause(
    tx: Tx,
    actor: Actor | None,
    locked: LockedAutomation,
    *,
    by: PausedBy,
    reason: str | None,
    rules: AutomationRules,
) -> Automation:
    """Decides the due slots, then stores the paused state and clears the next run.

    Ends queued runs of slots and events; other runs continue.
    """
    locked = await due.decide_due(tx, locked, rules=rules)
    before = locked.automation
    words = None if reason is None else reason[:_LONGEST_REASON]
    after = replace(before, state=AutomationState.PAUSED, paused_by=by, paused_reason=words)
    after = await save_state(tx, actor, before, after, action=HistoryAction.PAUSED)
    after = (await next_runs.rewrite_next(tx, LockedAutomation(after, locked.timing))).automation
    await ending.end_for_pause(tx, before.org, before.id)
    return after


async def save_state(
    tx: Tx, actor: Actor | None, before: Automation, after: Automation, *, action: HistoryAction
) -> Automation:
    """Stores a change of state as the next version, with an entry of the history. Raises WrongState."""
    after = replace(after, version=before.version + 1, updated_at=tx.now)
    if await automations.save(tx, before.org, after, expected_version=before.version) == 0:
        raise WrongState("Somebody else changed this automation at the same moment. Reload it.")
    await topics.update_subscription(tx, after)
    await history.add_entry(
        tx,
        actor,
        after,
        action=action,
        reason=after.paused_reason if action is HistoryAction.PAUSED else None,
        fields=history.edits(before, after),
    )
    return after
