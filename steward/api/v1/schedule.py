"""Previews a schedule over HTTP: the next three runs, before an automation is saved."""

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Field

from steward.api.http.operation import ApiCall, Operation, Response
from steward.api.schema.fields import IdText, Positive, RequestBody, Timestamp, ZoneText, absent
from steward.api.schema.responses import Count, Instant, SlotNoteStr
from steward.api.v1.automation_bodies import ScheduleJson
from steward.closed_periods import applicable
from steward.database.accounts import connections, organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.model.account import Scope
from steward.model.closed_period import ClosedPeriod
from steward.model.ids import AutomationId, IntegrationId
from steward.model.instants import wire_time
from steward.model.refusals import FieldErrors, ValidationFailed
from steward.model.schedule import Schedule
from steward.scheduling.preview import PreviewRun, preview, preview_open
from steward.scheduling.shape import read_schedule
from steward.scheduling.words import schedule_words, spread_words
from steward.scheduling.zones import FIRST, zone

_NO_ZONE = "UTC"


class PreviewRunRecord(msgspec.Struct):
    """One of the next runs; `note` says what the clock or a short month does to it."""

    slot_at: Instant
    local: str
    note: SlotNoteStr | None


class ClosedRunRecord(msgspec.Struct):
    """A run that a closed period leaves out, with the name of the period."""

    slot_at: Instant
    local: str
    period: str


class PreviewResponse(msgspec.Struct):
    """The next runs of a schedule, and the schedule in words.

    `closed` are the first runs that closed periods leave out before the third one, `closed_more` counts the
    others; both absent when there are none.
    """

    timezone: str
    next: list[PreviewRunRecord]
    words: str
    spread_note: str | None
    closed: list[ClosedRunRecord] | UnsetType = UNSET
    closed_more: Count | UnsetType = UNSET


class PreviewBody(RequestBody):
    """A schedule to preview."""

    schedule: ScheduleJson
    timezone: ZoneText = Field(default="")
    integration_id: Positive = absent(1)
    automation_id: IdText = Field(default="")
    since: Timestamp = absent(FIRST, alias="from")


async def show(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /v1/automations/schedule/preview` with the coming slots.

    Raises ValidationFailed with all faults at once.
    """
    body: PreviewBody = call.body
    errors: dict[str, list[str]] = {}
    name = await _zone_name(tx, call, errors)
    local_zone = zone(name)
    assert local_zone is not None
    since = body.since if "since" in body.model_fields_set else tx.now
    schedule: Schedule | FieldErrors = read_schedule(body.schedule.sent, zone=local_zone, now=since)
    if not isinstance(schedule, Schedule):
        errors |= {path: list(words) for path, words in schedule.items()}
    periods = await _periods(tx, call, errors)
    if errors or not isinstance(schedule, Schedule):
        raise ValidationFailed(errors=errors)
    words = spread_words(call.context.automation_rules.spread_max)
    if not periods:
        runs = [_run_record(run) for run in preview(schedule, local_zone, after=since)]
        return PreviewResponse(name, runs, schedule_words(schedule, name), words)
    judged = preview_open(schedule, local_zone, periods, after=since)
    response = PreviewResponse(
        name, [_run_record(run) for run in judged.next], schedule_words(schedule, name), words
    )
    if judged.closed:
        response.closed = [
            ClosedRunRecord(wire_time(run.slot_at), run.local, period) for run, period in judged.closed
        ]
        response.closed_more = judged.closed_more
    return response


def _run_record(run: PreviewRun) -> PreviewRunRecord:
    return PreviewRunRecord(wire_time(run.slot_at), run.local, None if run.note is None else run.note.value)


async def _periods(tx: Tx, call: ApiCall, errors: dict[str, list[str]]) -> tuple[ClosedPeriod, ...]:
    """Returns the closed periods that omit runs: the organization's, the store's and the automation's."""
    body: PreviewBody = call.body
    sent_fields = body.model_fields_set
    automation = AutomationId(body.automation_id) if "automation_id" in sent_fields else None
    integration = IntegrationId(body.integration_id) if "integration_id" in sent_fields else None
    if automation is not None:
        stored_automation = (await automations.among(tx, call.actor.org, [automation])).get(automation)
        if stored_automation is None:
            message = "There is no such automation. Use an id from the list of automations."
            errors["automation_id"] = [message]
        elif integration is None:
            integration = stored_automation.integration_id
    return (await applicable.read(tx, call.actor.org, since=tx.now)).on_runs_of(automation, integration)


async def _zone_name(tx: Tx, call: ApiCall, errors: dict[str, list[str]]) -> str:
    """Returns the zone of the body, else the store's, else the organization's, else UTC."""
    body: PreviewBody = call.body
    sent_fields = body.model_fields_set
    name = body.timezone if "timezone" in sent_fields else None
    if "integration_id" in sent_fields:
        integration = IntegrationId(body.integration_id)
        connection = await connections.get(tx, call.actor.org, integration)
        if connection is None:
            errors["integration_id"] = [
                "There is no such store or account. Use an id from the list of stores."
            ]
        elif name is None and connection.zone is not None and zone(connection.zone) is not None:
            name = connection.zone
    if name is None:
        organization = await organizations.get(tx, call.actor.org)
        name = _NO_ZONE if organization is None or zone(organization.zone) is None else organization.zone
    return name


OPERATIONS = (
    Operation(
        name="schedule.preview",
        method="POST",
        path="/v1/automations/schedule/preview",
        scope=Scope.READ,
        function=show,
        body=PreviewBody,
        response=PreviewResponse,
        summary="Preview schedule",
    ),
)
