"""Starts claimed runs: marks them as running and reads what they continue from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from steward.automations import readiness
from steward.automations.rules import AutomationRules, Templates
from steward.database.accounts import organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.events import records as events
from steward.database.runs import fast_runs, steps, transitions
from steward.database.runs import records as runs
from steward.database.runs.fast_runs import LeasedRun, RunToBegin
from steward.database.runs.steps import StepValue, ValueState
from steward.database.runs.transitions import Lease, RunState
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import EventRef, Mode, Run, RunStatus
from steward.run_queue.summaries import START
from steward.runs import finish
from steward.runs.claimed_run import MAX_RUN_AGE, ClaimedRun
from steward.runs.lease import LeaseLost
from steward.runs.start_refusal import hold_in_closed_period, refusal


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """A lease to start, and what decides whether its run may start."""

    lease: Lease
    rules: AutomationRules


@dataclass(frozen=True, slots=True)
class _StartResult:
    """A started run; `needs_slow_path` when it must be started on its own."""

    claimed: ClaimedRun | None = None
    needs_slow_path: bool = False


async def start_claimed(
    engine: Engine, now: datetime, lease: Lease, rules: AutomationRules
) -> ClaimedRun | None:
    """Starts a claimed run durably, most in one call with others; None when it ended. Raises LeaseLost."""
    if lease.is_first_start:
        batchable = Batchable(_StartRequest(lease, rules), _start_one, _start_batch, autocommit=True)
        result = await engine.write(now, batchable, org=lease.org)
        if not result.needs_slow_path:
            return result.claimed
    return await engine.write(now, partial(start_one, lease=lease, rules=rules), org=lease.org)


async def _start_one(tx: Tx, request: _StartRequest) -> _StartResult:
    return _StartResult(await start_one(tx, lease=request.lease, rules=request.rules))


async def _start_batch(tx: Tx, requests: Sequence[_StartRequest]) -> list[_StartResult]:
    """Starts in one call the runs that can take the fast path."""
    read = await fast_runs.read_leased(tx, [request.lease for request in requests])
    templates = requests[0].rules.templates
    by_run = {
        leased.lease.run: (leased, _to_begin(leased.lease, leased.run, leased.automation))
        for leased in read
        if leased is not None and _takes_fast_path(leased, templates)
    }
    started_at = await fast_runs.begin_runs(tx, [to_begin for _, to_begin in by_run.values()])
    return [
        _StartResult(_claimed_run(*by_run[request.lease.run], started_at[request.lease.run]))
        if request.lease.run in started_at
        else _StartResult(needs_slow_path=True)
        for request in requests
    ]


def _takes_fast_path(leased: LeasedRun, templates: Templates) -> bool:
    """Returns whether nothing refuses the run, and only its own rows are to be written."""
    run, state, automation = leased.run, leased.state, leased.automation
    return (
        state.status is RunStatus.QUEUED
        and state.started_at is None
        and run.event is None
        and run.undo_of is None
        and leased.is_on
        and readiness.is_clear(automation, templates, leased.connected)
        and automation.state is not AutomationState.ARCHIVED
        and run.plan_version == automation.plan_version
        and (run.automation_version, run.template_version)
        == (automation.version, automation.template_version)
    )


def _start_output(automation: Automation) -> dict[str, JsonValue]:
    """Returns the first row of a run's journal."""
    return {
        "inputs": automation.inputs,
        "integration_id": automation.integration_id,
        "connections": [
            [connection.integration_id, connection.kind] for connection in automation.connections
        ],
    }


def _to_begin(lease: Lease, run: Run, automation: Automation, **more: JsonValue) -> RunToBegin:
    """Returns the start of a checked run; that of an undo does not count as a run of its automation."""
    output = {**_start_output(automation), **more}
    value = StepValue(START, "", 0, ValueState.DONE, output)
    return RunToBegin(lease, automation.id, run.mode is Mode.LIVE and run.undo_of is None, value)


def _claimed_run(leased: LeasedRun, to_begin: RunToBegin, now: datetime) -> ClaimedRun:
    run = replace(leased.run, status=RunStatus.RUNNING, started_at=now)
    state = replace(leased.state, started_at=now)
    return ClaimedRun(leased.lease, run, state, leased.automation, (to_begin.start_value,))


async def start_one(tx: Tx, *, lease: Lease, rules: AutomationRules) -> ClaimedRun | None:
    """Starts one run, or refuses it at its first start; None when it ended. Raises LeaseLost."""
    state = await transitions.read_state(tx, lease.org, lease.run)
    if state is None:
        return None
    automation = await automations.get(tx, lease.org, state.automation)
    run = await runs.get(tx, lease.org, lease.run)
    if state.status is RunStatus.QUEUED and state.started_at is None:
        if refused := await refusal(tx, rules.templates, automation, run):
            await finish.finish(
                tx,
                lease,
                refused,
                automation=automation.id,
                mode=run.mode,
                rules=rules,
                is_undo=run.undo_of is not None,
            )
            return None
        can_be_held = run.mode is Mode.LIVE and run.undo_of is None
        if can_be_held and await hold_in_closed_period(tx, rules, lease, run, automation):
            return None
        return await _first_start(tx, lease, run, state, automation)
    if state.status is RunStatus.QUEUED:
        is_owner = await transitions.start(tx, lease)
    else:
        is_owner, _ = await transitions.lock_lease(tx, lease)
    if not is_owner:  # ended or lost since it was claimed
        raise LeaseLost(lease)
    journal = await steps.values(tx, lease.org, lease.run)
    exceeds_max_age = run.started_at is not None and tx.now - run.started_at >= MAX_RUN_AGE
    return ClaimedRun(lease, run, state, _as_started(automation, journal), tuple(journal), exceeds_max_age)


async def _first_start(tx: Tx, lease: Lease, run: Run, state: RunState, automation: Automation) -> ClaimedRun:
    """Starts the run and stores what only its first start writes: versions and the journal's first row.

    Raises LeaseLost.
    """
    start_value: dict[str, JsonValue] = {}
    if (
        automation.kind is AutomationKind.WORKFLOW and run.undo_of is None
    ):  # a run keeps the send mode it started with
        organization = await organizations.get(tx, lease.org)
        may_send_unapproved = organization is not None and organization.send_without_approval
        start_value["asks"] = not may_send_unapproved or automation.send_mode != "send"  # sends need approval
    if run.event is not None:
        start_value["event"] = await _event_output(
            tx, run, run.event, is_workflow=automation.kind is AutomationKind.WORKFLOW
        )
    to_begin = _to_begin(lease, run, automation, **start_value)
    started_at = (await fast_runs.begin_runs(tx, [to_begin])).get(lease.run)
    if started_at is None:
        raise LeaseLost(lease)
    versions = (automation.version, automation.template_version)
    if versions != (run.automation_version, run.template_version):
        await runs.set_versions(tx, lease.org, lease.run, automation=versions[0], template=versions[1])
        run = replace(run, automation_version=versions[0], template_version=versions[1])
    started_run = replace(run, status=RunStatus.RUNNING, started_at=started_at)
    return ClaimedRun(
        lease, started_run, replace(state, started_at=started_at), automation, (to_begin.start_value,)
    )


async def _event_output(tx: Tx, run: Run, event: EventRef, *, is_workflow: bool) -> JsonObject:
    """Returns the data of the event that the run keeps, because the event itself is deleted earlier."""
    pointer, body = await events.content_for_run(tx, run.org, event.id, with_body=is_workflow)
    return pointer if body is None else {**pointer, "payload": json.loads(body)}


def _as_started(automation: Automation, journal: Sequence[StepValue]) -> Automation:
    """Returns the automation with the inputs and connections its run started with."""
    for value in journal:
        if value.name == START and isinstance(value.output, dict):
            start_output = value.output
            return replace(
                automation,
                inputs=start_output["inputs"],
                integration_id=start_output["integration_id"],
                connections=tuple(
                    AutomationConnection(IntegrationId(number), kind)
                    for number, kind in start_output["connections"]
                ),
            )
    return automation
