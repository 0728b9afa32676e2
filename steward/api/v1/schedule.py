"""Preview schedule over HTTP: the next three runs before an automation is saved."""

import msgspec
from pydantic import Field

from steward.api.http.operation import Answer, ApiCall, Operation
from steward.api.schema.answers import Instant, SlotNoteStr
from steward.api.schema.fields import Positive, RequestBody, Timestamp, ZoneText
from steward.api.v1.automations import ScheduleJson
from steward.database.accounts import connections, organizations
from steward.database.engine.base import Tx
from steward.model.account import Scope
from steward.model.ids import IntegrationId
from steward.model.instants import wire_time
from steward.model.refusals import FieldErrors, ValidationFailed
from steward.model.schedule import Schedule
from steward.scheduling.preview import preview
from steward.scheduling.shape import read_schedule
from steward.scheduling.words import schedule_words, spread_words
from steward.scheduling.zones import FIRST, zone

NO_ZONE = "UTC"


class PreviewRunRecord(msgspec.Struct):
    """One of the next runs; `note` says what the clock or a short month does to it."""

    slot_at: Instant
    local: str
    note: SlotNoteStr | None


class PreviewAnswer(msgspec.Struct):
    """The next runs of a schedule, and the schedule in words."""

    timezone: str
    next: list[PreviewRunRecord]
    words: str
    spread_note: str | None


class PreviewBody(RequestBody):
    """A schedule to look at."""

    schedule: ScheduleJson
    timezone: ZoneText = Field(default="")
    integration_id: Positive = Field(default=1)
    since: Timestamp = Field(default=FIRST, alias="from")


async def show(tx: Tx, call: ApiCall) -> Answer:
    """`POST /schedule/preview`. Raises ValidationFailed, all faults at once."""
    body: PreviewBody = call.body
    errors: dict[str, list[str]] = {}
    name = await _zone_name(tx, call, errors)
    local_zone = zone(name)
    assert local_zone is not None
    since = body.since if "since" in body.model_fields_set else tx.now
    schedule: Schedule | FieldErrors = read_schedule(body.schedule.sent, zone=local_zone, now=since)
    if not isinstance(schedule, Schedule):
        errors |= {path: list(words) for path, words in schedule.items()}
    if errors or not isinstance(schedule, Schedule):
        raise ValidationFailed(errors=errors)
    runs = [
        PreviewRunRecord(wire_time(run.slot_at), run.local, None if run.note is None else run.note.value)
        for run in preview(schedule, local_zone, after=since)
    ]
    words = spread_words(call.context.rules.spread_max)
    return PreviewAnswer(name, runs, schedule_words(schedule, name), words)


async def _zone_name(tx: Tx, call: ApiCall, errors: dict[str, list[str]]) -> str:
    """The zone given; else the store's, else the organisation's, else UTC."""
    body: PreviewBody = call.body
    sent_fields = body.model_fields_set
    name = body.timezone if "timezone" in sent_fields else None
    if "integration_id" in sent_fields:
        integration = IntegrationId(body.integration_id)
        connection = await connections.get(tx, call.actor.org, integration)
        if connection is None:
            errors["integration_id"] = [
                "There is no such store or account. Take an id of the list of stores."
            ]
        elif name is None and connection.zone is not None and zone(connection.zone) is not None:
            name = connection.zone
    if name is None:
        organization = await organizations.get(tx, call.actor.org)
        name = NO_ZONE if organization is None or zone(organization.zone) is None else organization.zone
    return name


OPERATIONS = (
    Operation(
        method="POST",
        path="/v1/automations/schedule/preview",
        scope=Scope.READ,
        function=show,
        body=PreviewBody,
        answer=PreviewAnswer,
        summary="Preview schedule",
    ),
)
