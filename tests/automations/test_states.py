"""Tests every transition of an automation: pause, resume, archive, restore and update.

See docs/design/api/automations.md#states.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward.automations import lifecycle, pauses
from steward.database.automations import history, streaks
from steward.database.automations.history import HistoryAction
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.connection import ConnectionState
from steward.model.ids import AutomationId
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import (
    NotConnected,
    NotFound,
    NotReady,
    StaleVersion,
    ValidationFailed,
    WrongState,
)
from steward.model.run import RunStatus, StartedBy
from tests.automations.world import BY_HAND, DAILY, HOURLY, ON_ORDERS, World

ONCE = {"cadence": "once", "run_at": "12:00", "date": "2026-05-01"}
DRAFT, ACTIVE = AutomationState.DRAFT, AutomationState.ACTIVE
PAUSED, ARCHIVED = AutomationState.PAUSED, AutomationState.ARCHIVED


async def in_state(world: World, state: AutomationState) -> Automation:
    """Creates an automation in this state."""
    if state is DRAFT:
        return await world.create(schedule=BY_HAND)
    automation = await world.create()
    if state is PAUSED:
        return await world.turn("pause", automation)
    return await world.turn("archive", automation) if state is ARCHIVED else automation


async def code_of(world: World, automation: Automation) -> list[tuple[StartedBy, RunStatus, str | None]]:
    """Returns the code of each of its runs."""
    return [(run.started_by, run.status, run.code) for run in await world.runs(automation)]


async def test_pause_by_a_person(world: World) -> None:
    """A paused automation has `paused_by` merchant and no next run."""
    automation = await world.create()
    paused = await world.turn("pause", automation, reason="Holidays")
    assert (paused.state, paused.paused_by, paused.paused_reason) == (PAUSED, PausedBy.MERCHANT, "Holidays")
    assert (paused.version, paused.next_run_at) == (2, None)
    assert paused == await world.read(automation)
    assert await world.dispatch() == 1


async def test_pause_needs_no_reason(world: World) -> None:
    """`paused_reason` is the given one or null."""
    assert (await in_state(world, PAUSED)).paused_reason is None


async def test_pause_decides_what_is_due_first(world: World) -> None:
    """Pausing first decides every due slot. See docs/design/schedule.md#dispatch."""
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance(200.5 * 3600)
    await world.turn("pause", automation)
    rows = await world.rows(automation)
    assert len(rows) == 200
    assert {row.reason for row in rows} == {SkipReason.TOO_LATE}


async def test_pause_cancels_what_only_waits_to_start(world: World) -> None:
    """Pausing cancels queued runs of slots and events; started and manual runs go on."""
    automation = await world.create()
    await world.offer(automation, StartedBy.HAND)
    lease = await world.claim()
    await world.wait_for_approval(automation, lease)
    await world.offer(automation, StartedBy.EVENT)
    await world.offer(automation, StartedBy.HAND)
    await world.turn("pause", automation)
    assert await code_of(world, automation) == [
        (StartedBy.HAND, RunStatus.WAITING_APPROVAL, None),
        (StartedBy.EVENT, RunStatus.CANCELLED, "paused"),
        (StartedBy.HAND, RunStatus.QUEUED, None),
    ]


async def test_a_slot_due_at_the_pause_is_queued_and_cancelled(world: World) -> None:
    """A slot due at the pause is recorded and its run cancelled."""
    automation = await world.create(schedule=HOURLY)
    await world.clock.advance_to(automation.next_run_at or world.now)
    await world.turn("pause", automation)
    [row] = await world.rows(automation)
    assert row.state is OccurrenceState.QUEUED
    assert await code_of(world, automation) == [(StartedBy.SCHEDULE, RunStatus.CANCELLED, "paused")]


async def test_pause_by_the_service(world: World) -> None:
    """A pause by the service has `paused_by` system and a reason."""
    automation = await world.create()
    pause = partial(pauses.pause_by_service, org=automation.org, automation=automation.id, rules=world.rules)
    paused = await world.write(partial(pause, reason="5 runs failed in a row."))
    assert paused is not None
    assert (paused.paused_by, paused.paused_reason) == (PausedBy.SYSTEM, "5 runs failed in a row.")
    assert await world.write(partial(pause, reason="again")) is None


async def test_disconnecting_pauses_all_that_need_the_connection(world: World) -> None:
    """Disconnecting an account pauses the automations that need it.

    See docs/design/api/connections.md#states.
    """
    on_store = await world.create()
    naming = await world.create(
        integration_id=world.other_store, inputs={"teams": {"integration_id": world.teams}}
    )
    same_number = await world.create(
        integration_id=world.other_store, inputs={"threshold": min(int(world.teams), 100)}
    )
    pause = partial(pauses.pause_for_connection, org=world.org, rules=world.rules, reason="Gone.")
    assert await world.write(partial(pause, integration=world.teams)) == [naming.id]
    assert await world.write(partial(pause, integration=world.store)) == [on_store.id]
    assert (await world.read(same_number)).state is ACTIVE


async def test_resume_takes_slots_up_from_now(world: World) -> None:
    """Resuming starts at the present; slots of the pause never run. See docs/design/schedule.md#calendar."""
    automation = await world.create(schedule=HOURLY)
    await world.turn("pause", automation, reason="x")
    await world.clock.advance(10 * 3600)
    resumed = await world.turn("resume", automation)
    assert (resumed.state, resumed.paused_by, resumed.paused_reason) == (ACTIVE, None, None)
    assert resumed.next_run_at is not None
    assert resumed.next_run_at > world.now
    await world.dispatch()
    assert await world.rows(automation) == []


async def test_resume_forgets_failures(world: World) -> None:
    """Resuming resets `consecutive_failures`."""
    automation = await in_state(world, PAUSED)
    await world.write(partial(streaks.count_failure, org=automation.org, automation=automation.id))
    assert (await world.read(automation)).consecutive_failures == 1
    assert (await world.turn("resume", automation)).consecutive_failures == 0
    assert (await world.read(automation)).consecutive_failures == 0


async def test_resume_of_what_runs_by_hand_gives_a_draft(world: World) -> None:
    """Resuming a manual automation gives a draft."""
    automation = await in_state(world, PAUSED)
    manual = await world.update(automation, schedule=BY_HAND)
    assert manual.state is PAUSED
    assert (await world.turn("resume", manual)).state is DRAFT


async def test_resume_needs_its_connections(world: World) -> None:
    """Resuming without a needed connection answers 422 `not_connected`."""
    automation = await in_state(world, PAUSED)
    await world.set_connection(world.store, ConnectionState.DISCONNECTED)
    with pytest.raises(NotConnected, match="Corner"):
        await world.turn("resume", automation)
    assert (await world.read(automation)).state is PAUSED


async def test_resume_needs_a_template_that_is_offered(world: World) -> None:
    """An automation of a withdrawn template cannot be resumed."""
    automation = await in_state(world, PAUSED)
    world.rules = replace(world.rules, templates={})
    with pytest.raises(NotReady):
        await world.turn("resume", automation)


async def test_resume_of_a_day_that_is_over_is_refused(world: World) -> None:
    """A past `once` cannot be resumed; its spread does not count."""
    automation = await world.turn("pause", await world.create(schedule=ONCE))
    await world.at("2026-05-01T12:00")
    with pytest.raises(ValidationFailed) as raised:
        await world.turn("resume", automation)
    assert list(raised.value.errors or {}) == ["schedule.date"]


async def test_an_event_draft_is_switched_on_with_resume(world: World) -> None:
    """Resuming activates an event-triggered draft."""
    automation = await world.create(schedule=BY_HAND, trigger=ON_ORDERS)
    resumed = await world.turn("resume", automation)
    assert (resumed.state, resumed.next_run_at) == (ACTIVE, None)


async def test_an_event_draft_needs_its_store_to_be_switched_on(world: World) -> None:
    """Activating an event-triggered draft needs its store connected."""
    automation = await world.create(schedule=BY_HAND, trigger=ON_ORDERS)
    await world.set_connection(world.store, ConnectionState.NEEDS_RECONNECTING)
    with pytest.raises(NotConnected):
        await world.turn("resume", automation)


async def test_a_draft_with_a_cadence_becomes_active(world: World) -> None:
    """An update with a cadence activates a draft."""
    automation = await in_state(world, DRAFT)
    changed = await world.update(automation, schedule=DAILY)
    assert changed.state is ACTIVE
    assert changed.next_run_at is not None


async def test_a_draft_renamed_stays_a_draft(world: World) -> None:
    """Another update leaves it a draft."""
    assert (await world.update(await in_state(world, DRAFT), name="N")).state is DRAFT


async def test_an_active_one_made_manual_becomes_a_draft(world: World) -> None:
    """An active automation that becomes manual is a draft."""
    changed = await world.update(await in_state(world, ACTIVE), schedule=BY_HAND)
    assert (changed.state, changed.next_run_at) == (DRAFT, None)


async def test_an_active_one_given_an_event_trigger_stays_active(world: World) -> None:
    """An active automation that gets an event trigger stays active."""
    changed = await world.update(await in_state(world, ACTIVE), schedule=BY_HAND, trigger=ON_ORDERS)
    assert (changed.state, changed.next_run_at) == (ACTIVE, None)


async def test_a_paused_one_stays_paused_when_changed(world: World) -> None:
    """An update leaves a paused automation paused."""
    changed = await world.update(await in_state(world, PAUSED), schedule=HOURLY)
    assert (changed.state, changed.next_run_at) == (PAUSED, None)


@pytest.mark.parametrize("state", [DRAFT, ACTIVE, PAUSED])
async def test_archive_ends_everything(world: World, state: AutomationState) -> None:
    """Archiving works from draft, active and paused."""
    automation = await in_state(world, state)
    await world.offer(automation)
    lease = await world.claim()
    await world.wait_for_approval(automation, lease)
    await world.offer(automation)
    archived = await world.turn("archive", automation)
    assert (archived.state, archived.paused_by, archived.next_run_at) == (ARCHIVED, None, None)
    assert archived.version == automation.version + 1
    assert [(status, code) for _, status, code in await code_of(world, automation)] == [
        (RunStatus.CANCELLED, "archived"),
        (RunStatus.CANCELLED, "archived"),
    ]
    assert archived == await world.read(automation)


async def test_archive_asks_a_running_run_to_stop(world: World) -> None:
    """Archiving requests a cancel of the running run."""
    automation = await in_state(world, ACTIVE)
    await world.offer(automation)
    await world.claim()
    await world.turn("archive", automation)
    [run] = await world.runs(automation)
    assert (run.status, run.cancel_requested_at) == (RunStatus.RUNNING, world.now)


@pytest.mark.parametrize("reason", ["Holidays", None])
async def test_restore_gives_a_paused_one_with_its_reason(world: World, reason: str | None) -> None:
    """Restoring gives a paused automation with its former reason."""
    automation = await world.create()
    fields: dict[str, Any] = {} if reason is None else {"reason": reason}
    await world.turn("pause", automation, **fields)
    assert (await world.turn("archive", automation)).paused_reason == reason
    restored = await world.turn("restore", automation)
    assert (restored.state, restored.paused_by) == (PAUSED, PausedBy.MERCHANT)
    assert restored.paused_reason == (reason or "Restored from the archive")
    assert (await world.turn("resume", automation)).state is ACTIVE


async def test_restore_of_what_runs_by_hand_gives_a_draft(world: World) -> None:
    """Restoring a manual automation gives a draft."""
    automation = await world.turn("archive", await in_state(world, DRAFT))
    restored = await world.turn("restore", automation)
    assert (restored.state, restored.paused_by, restored.paused_reason) == (DRAFT, None, None)


ALLOWED = {
    (ACTIVE, "pause"),
    (PAUSED, "resume"),
    (DRAFT, "archive"),
    (ACTIVE, "archive"),
    (PAUSED, "archive"),
    (ARCHIVED, "restore"),
}
VERBS = ("pause", "resume", "archive", "restore")


@pytest.mark.parametrize("state", list(AutomationState))
async def test_every_other_pair_is_refused(world: World, state: AutomationState) -> None:
    """Every other pair of state and command is refused."""
    automation = await in_state(world, state)
    for verb in VERBS:
        if (state, verb) not in ALLOWED:
            with pytest.raises(WrongState):
                await world.turn(verb, automation)
    if state is ARCHIVED:
        with pytest.raises(WrongState):
            await world.update(automation, name="N")
    assert await world.read(automation) == automation


@pytest.mark.parametrize(("verb", "state"), [("pause", ACTIVE), ("resume", PAUSED), ("restore", ARCHIVED)])
async def test_a_stale_version_is_refused_with_what_is_current(
    world: World, verb: str, state: AutomationState
) -> None:
    """A given version that is stale is refused with the current automation.

    See docs/design/api/automations.md#requests.
    """
    automation = await in_state(world, state)
    with pytest.raises(StaleVersion) as raised:
        await world.turn(verb, automation, version=automation.version + 1)
    assert raised.value.data == {"occurrence": None, "automation": automation}
    assert (await world.turn(verb, automation, version=automation.version)).version == automation.version + 1


@pytest.mark.parametrize("verb", VERBS)
async def test_another_organizations_automation_is_absent(world: World, verb: str) -> None:
    """An automation of another organization answers as an absent one. See docs/design/security.md#roles."""
    automation = await world.create()
    command = pauses.StateCommand(automation.id)
    states = pauses if verb == "pause" else lifecycle
    act = partial(getattr(states, verb), actor=world.stranger, rules=world.rules)
    with pytest.raises(NotFound) as foreign:
        await world.write(partial(act, command=command), world.stranger.org)
    absent = replace(command, automation=AutomationId("0" * 26))
    with pytest.raises(NotFound) as missing:
        await world.write(partial(act, command=absent), world.stranger.org)
    assert str(foreign.value) == str(missing.value)
    assert await world.read(automation) == automation


async def test_history_shows_every_change_of_state(world: World) -> None:
    """Every change of state is in the history. See docs/design/api/automations.md#history."""
    automation = await world.create()
    await world.clock.advance(1)
    await world.turn("pause", automation, reason="Holidays")
    for verb in ("resume", "archive", "restore"):
        await world.clock.advance(1)
        await world.turn(verb, automation)
    history_entries = await world.write(
        partial(history.find, org=automation.org, automation=automation.id, limit=10)
    )
    assert [(line.action, line.version) for line in history_entries] == [
        (HistoryAction.RESTORED, 5),
        (HistoryAction.ARCHIVED, 4),
        (HistoryAction.RESUMED, 3),
        (HistoryAction.PAUSED, 2),
        (HistoryAction.CREATED, 1),
    ]
    assert history_entries[3].reason == "Holidays"
    assert history_entries[3].at == automation.created_at + timedelta(seconds=1)
    assert [edit.field for edit in history_entries[3].fields] == ["state", "paused_by", "paused_reason"]
