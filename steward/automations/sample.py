"""Previews what a template would select now, before the automation exists, by bounded reads.

See docs/design/api/automations.md#sample.
"""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.automations.sample_reads import FirstObjectsReader, ReadCounter
from steward.automations.stored_memory import AutomationMemory
from steward.clock import Clock
from steward.connections.opening import RunAccess
from steward.database.accounts import connections
from steward.database.engine.base import Engine
from steward.model.automation import Automation
from steward.model.change import Proposal
from steward.model.ids import IntegrationId, RunId, new_id
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import NotConnected, Unavailable
from steward.model.run import Mode
from steward.outbound.call_queue import Urgency
from steward.outbound.errors import CallError, Unauthorized
from steward.scheduling.zones import zone
from steward.steps.base import (
    AccountAccess,
    StepContext,
    StepFailed,
    StepResult,
    StoreAccess,
    TooManyChanges,
)
from steward.templates.base import Template

_SECONDS = 10.0
_NO_PAGE_AFTER_SECONDS = 7.0
_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SampledObject:
    """An object that would change, and why."""

    label: str
    message: str | None


@dataclass(frozen=True, slots=True)
class Sample:
    """The objects that a template would select now.

    `matched` of the `checked` objects meet the template's conditions, and `changes` of them would change. A
    count is None if the template does not make it, or if too few objects were read. `is_complete` tells
    whether every object was read. `steps` holds the summary of each step.
    """

    noun: str
    checked: int | None
    matched: int | None
    changes: int | None
    is_complete: bool
    steps: tuple[str, ...]
    objects: tuple[SampledObject, ...]
    message: str | None


@dataclass(frozen=True, slots=True)
class Sampler:
    """Runs the reading and deciding steps of an automation that is not stored."""

    engine: Engine
    clock: Clock
    access: RunAccess
    templates: Templates

    async def take(self, automation: Automation) -> Sample:
        """Returns the items that the automation would select now.

        Raises NotConnected, and Unavailable when an account does not answer within ten seconds.
        """
        counter = ReadCounter(asyncio.get_running_loop().time() + _NO_PAGE_AFTER_SECONDS)
        template = self.templates[automation.template_id]
        try:
            async with asyncio.timeout(_SECONDS):
                context = await self._context(automation, counter)
                return await _run_steps(template, context, counter)
        except TimeoutError as error:
            message = f"The account did not answer within {_SECONDS:.0f} s. Nothing was changed."
            raise Unavailable(message, retry_after=10) from error
        except Unauthorized as error:
            raise NotConnected(error.message, errors={}) from error
        except CallError as error:
            raise Unavailable(error.message, retry_after=10) from error

    async def _context(self, automation: Automation, counter: ReadCounter) -> StepContext:
        named = readiness.connections_of(automation, self.templates)
        load = partial(connections.among, org=automation.org, integrations=named)
        now = self.clock.now()
        connections_by_id = await self.engine.read(now, load, org=automation.org) if named else {}
        store: StoreAccess | None = None
        accounts: dict[IntegrationId, AccountAccess] = {}
        for integration, connection in connections_by_id.items():
            opened = await self.access.reader(automation.org, connection, urgency=Urgency.MANAGEMENT)
            reader = FirstObjectsReader(opened, integration, counter)
            changes = self.access.changes(connection.kind)
            if integration == automation.integration_id:
                store = StoreAccess(connection, reader, changes)
            else:
                accounts[integration] = AccountAccess(connection, reader, changes)
        return StepContext(
            org=automation.org,
            run_id=RunId(new_id(now)),
            automation_id=automation.id,
            mode=Mode.TEST,
            inputs=automation.inputs,
            zone=automation.timezone,
            now=now,
            day=_local_day(now, automation.timezone),
            event=None,
            store=store,
            accounts=accounts,
            outputs={},
            memory=AutomationMemory(self.engine, self.clock, automation.org, automation.id),
            reads=tuple(connection.integration_id for connection in automation.connections),
            automation_created_at=now,
        )


def _local_day(now: datetime, timezone: str) -> Any:
    local = zone(timezone)
    return (now if local is None else now.astimezone(local)).date()


@dataclass(slots=True)
class _Progress:
    """The outputs and proposals of the steps so far."""

    outputs: dict[str, JsonValue] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)
    checked: int | None = None
    matched: int | None = None
    proposals: list[Proposal] = field(default_factory=list)


async def _run_steps(template: Template, context: StepContext, counter: ReadCounter) -> Sample:
    """Runs the steps before the first that sends; a step that changes only proposes."""
    progress = _Progress()
    message: str | None = None
    changes: int | None = None
    try:
        for step in template.facts.steps:
            if step.kind is StepKind.SEND:
                break
            before = sum(counter.read.values())
            step_context = replace(context, outputs=progress.outputs)
            result = await template.steps[step.name](step_context)
            _add_result(progress, result, step.kind, reads_objects=sum(counter.read.values()) > before)
            progress.outputs[step.name] = result.output
            progress.titles.append(result.title or step.title)
        changes = len(progress.proposals) if template.facts.changes_store else None
    except TooManyChanges as error:
        changes, message = error.changes, error.message
    except StepFailed as error:
        message = error.message
    if not counter.is_conclusive:
        message = "There are too many objects for a preview. Start a test run, which reads all of them."
        return Sample(counter.noun, None, None, None, False, (), (), message)
    labels = tuple(
        SampledObject(proposal.object.label, proposal.message) for proposal in progress.proposals[:_MAX_SHOWN]
    )
    matched = progress.matched if template.facts.changes_store else None
    return Sample(
        counter.noun,
        progress.checked,
        matched,
        changes,
        not counter.cut,
        tuple(progress.titles),
        labels,
        message,
    )


def _add_result(progress: _Progress, result: StepResult, kind: StepKind, *, reads_objects: bool) -> None:
    if kind is StepKind.READ and reads_objects:
        progress.checked = result.counts.read
    elif kind is StepKind.DECIDE:
        progress.matched = result.counts.matched
    elif kind is StepKind.CHANGE:
        progress.proposals += result.proposals
