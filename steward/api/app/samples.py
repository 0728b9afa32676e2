"""The items that a template would select now, read while an automation is set up in the web app."""

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.v1.automation_bodies import CreateBody, create_command
from steward.automations import setup
from steward.automations.sample import Sample, Sampler
from steward.connections.opening import RunAccess
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.automation import Automation
from steward.model.refusals import NotConnected


class SampledRecord(msgspec.Struct):
    """An object that would change, and why."""

    label: str
    message: str | None


class SampleResponse(msgspec.Struct):
    """`matched` of `checked` objects fit, and `changes` would be proposed; null where nothing says so.

    `complete`: everything was read, else the first 500 of a list.
    """

    noun: str
    checked: int | None
    matched: int | None
    changes: int | None
    complete: bool
    steps: list[str]
    objects: list[SampledRecord]
    message: str | None


async def prepare(call: ApiCall) -> Sample:
    """Reads from the accounts, outside of a transaction."""
    context = call.context

    async def load(tx: Tx) -> Automation:
        return await setup.draft_automation(
            tx, call.actor, create_command(call.body), rules=context.automation_rules
        )

    automation = await context.engine.read(context.clock.now(), load, org=call.actor.org)
    access = RunAccess(context.engine, context.clock, context.vault)
    sampler = Sampler(context.engine, context.clock, access, context.automation_rules.templates)
    return await sampler.take(automation)


async def preview(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/automations/sample` with what the template would select now.

    Stores and writes nothing.
    """
    sample: Sample = call.prepared
    return SampleResponse(
        sample.noun,
        sample.checked,
        sample.matched,
        sample.changes,
        sample.is_complete,
        list(sample.steps),
        [SampledRecord(sampled.label, sampled.message) for sampled in sample.objects],
        sample.message,
    )


OPERATIONS = (
    Operation(
        name="automations.sample",
        method="POST",
        path="/app/automations/sample",
        access=Access.APP,
        role=Role.MEMBER,
        prepare=prepare,
        function=preview,
        body=CreateBody,
        response=SampleResponse,
        summary="Get what an automation would select now",
        refusals=(NotConnected,),
        seconds=15.0,
    ),
)
