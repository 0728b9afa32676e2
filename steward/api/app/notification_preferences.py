"""The notification preferences of the person signed in, and the address in a digest that ends digests."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import time
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BeforeValidator, Field, WithJsonSchema

from steward.api.http import envelope
from steward.api.http.context import ServiceContext
from steward.api.http.operation import (
    Access,
    ApiCall,
    EmptyResponse,
    Operation,
    RawOperation,
    RawRequest,
    Reply,
    Response,
)
from steward.api.schema.fields import (
    Flag,
    FromJson,
    IdText,
    Positive,
    RequestBody,
    Unique,
    ZoneText,
    field_error,
)
from steward.database.accounts import members
from steward.database.engine.base import Tx
from steward.database.notifications import own_preferences
from steward.model.account import Role
from steward.model.ids import AutomationId
from steward.model.instants import wire_time
from steward.model.notice import (
    AutomationChoice,
    Digest,
    MailChoice,
    MessageState,
    NoticeGroup,
    Preferences,
    QuietHours,
)
from steward.model.refusals import NotConfigured, NotFound, ValidationFailed
from steward.notifications import own_mail, preferences
from steward.notifications.preferences import MAX_MUTED, OwnPreferences
from steward.security.unsubscribe import Subscriber, subscriber_of

_TIME_OF_DAY = "([01][0-9]|2[0-3]):[0-5][0-9]"


def _time_of_day(value: Any) -> Any:
    if type(value) is not str or not re.fullmatch(_TIME_OF_DAY, value):
        raise field_error("Give a time of day such as 08:00.")
    return time.fromisoformat(value)


TimeOfDay = Annotated[
    time,
    BeforeValidator(_time_of_day),
    WithJsonSchema({"type": "string", "pattern": f"^{_TIME_OF_DAY}$"}),
]
_WeekDays = Annotated[list[Annotated[Positive, Field(le=7)]], Field(min_length=1, max_length=7), Unique]
_Choice = Annotated[MailChoice, FromJson]


class EmailBody(RequestBody):
    """The e-mail choice of each group; omitted groups stay as they are."""

    approvals: _Choice | None = None
    runs: _Choice | None = None
    automations: _Choice | None = None
    connections: _Choice | None = None


class QuietHoursBody(RequestBody):
    """A time of day in which nothing is sent; it may pass midnight. Days are those on which it begins."""

    start: TimeOfDay = Field(alias="from")
    end: TimeOfDay = Field(alias="to")
    days: _WeekDays


class DigestBody(RequestBody):
    """The time and weekdays of the digest; 1 is Monday."""

    at: TimeOfDay
    days: _WeekDays


_NO_EMAIL = EmailBody()
_WORKDAY_MORNING = DigestBody(at="08:00", days=[1, 2, 3, 4, 5])  # type: ignore[arg-type]


class PreferencesBody(RequestBody):
    """The fields to change; omitted ones stay as they are.

    Null restores the default of `automations` and `timezone`, and ends quiet hours.
    """

    email: EmailBody = _NO_EMAIL
    automations: Annotated[AutomationChoice, FromJson] | None = None
    muted: Annotated[list[IdText], Field(max_length=MAX_MUTED), Unique] = Field(default_factory=list)
    quiet_hours: QuietHoursBody | None = None
    wake_for_expiry: Flag = True
    digest: DigestBody = _WORKDAY_MORNING
    timezone: ZoneText | None = None


class EmailRecord(msgspec.Struct):
    """The e-mail choice of each group."""

    approvals: Literal["now", "digest", "off"]
    runs: Literal["now", "digest", "off"]
    automations: Literal["now", "digest", "off"]
    connections: Literal["now", "digest", "off"]


class QuietHoursRecord(msgspec.Struct, rename={"start": "from", "end": "to"}):
    """A time of day in which nothing is sent, and the days on which it begins."""

    start: str
    end: str
    days: list[int]


class DigestRecord(msgspec.Struct):
    """The time and weekdays of the digest; 1 is Monday."""

    at: str
    days: list[int]


class MutedRecord(msgspec.Struct):
    """An automation the person does not want to hear of."""

    id: str
    name: str


class PreferencesRecord(msgspec.Struct):
    """The preferences of a person; `automations` and `timezone` are the effective values."""

    email: EmailRecord
    automations: Literal["all", "mine"]
    muted: list[MutedRecord]
    quiet_hours: QuietHoursRecord | None
    wake_for_expiry: bool
    digest: DigestRecord
    timezone: str


class MailTestRecord(msgspec.Struct):
    """The last test mail of the person: waiting, sent or failed, with the reason."""

    state: Literal["waiting", "sent", "failed"]
    error: str | None
    at: str


class PreferencesResponse(msgspec.Struct):
    """The preferences of the person, whether mail is sent at all, and the last test of it."""

    preferences: PreferencesRecord
    mail: bool
    mail_test: MailTestRecord | None


def record(preferences: OwnPreferences) -> PreferencesRecord:
    """Returns the API record of the preferences; 1 is Monday."""
    stored = preferences.preferences
    quiet = stored.quiet_hours
    return PreferencesRecord(
        email=EmailRecord(**{str(group): stored.email[group].value for group in NoticeGroup}),
        automations=preferences.automations.value,
        muted=[
            MutedRecord(id_, name)
            for id_, name in sorted(preferences.muted.items(), key=lambda item: item[1])
        ],
        quiet_hours=None
        if quiet is None
        else QuietHoursRecord(f"{quiet.start:%H:%M}", f"{quiet.end:%H:%M}", _wire_days(quiet.days)),
        wake_for_expiry=stored.wake_for_expiry,
        digest=DigestRecord(f"{stored.digest.at:%H:%M}", _wire_days(stored.digest.days)),
        timezone=preferences.timezone,
    )


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/notification-preferences`."""
    return await _response(tx, call, await preferences.get(tx, call.actor))


async def change(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/notification-preferences`."""
    body: PreferencesBody = call.body
    before = await preferences.get(tx, call.actor)
    after = await preferences.change(tx, call.actor, _changed(before.preferences, body))
    return await _response(tx, call, after)


async def send_test(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/notification-preferences/test`; the preferences then contain its result."""
    if not call.context.rules.mail:
        raise NotConfigured("This service has no mail server, so no mail is sent.")
    await own_mail.send_test(tx, call.actor)
    return EmptyResponse()


async def _response(tx: Tx, call: ApiCall, preferences: OwnPreferences) -> PreferencesResponse:
    test = await own_mail.last_test(tx, call.actor)
    tested = None
    if test is not None:
        tested = MailTestRecord(_TEST_STATES.get(test.state, "failed"), test.error, wire_time(test.at))
    return PreferencesResponse(record(preferences), call.context.rules.mail, tested)


def _changed(before: Preferences, body: PreferencesBody) -> Preferences:
    sent_fields = body.model_fields_set
    groups = {group: getattr(body.email, group) or before.email[group] for group in NoticeGroup}
    return Preferences(
        email=groups,
        automations=body.automations if "automations" in sent_fields else before.automations,
        muted=frozenset(map(AutomationId, body.muted)) if "muted" in sent_fields else before.muted,
        quiet_hours=_quiet_hours(body.quiet_hours) if "quiet_hours" in sent_fields else before.quiet_hours,
        wake_for_expiry=body.wake_for_expiry if "wake_for_expiry" in sent_fields else before.wake_for_expiry,
        digest=Digest(body.digest.at, _stored_days(body.digest.days))
        if "digest" in sent_fields
        else before.digest,
        timezone=body.timezone if "timezone" in sent_fields else before.timezone,
    )


def _quiet_hours(body: QuietHoursBody | None) -> QuietHours | None:
    if body is None:
        return None
    if body.start == body.end:
        raise ValidationFailed(errors={"quiet_hours.to": ["Give another time than the beginning."]})
    return QuietHours(body.start, body.end, _stored_days(body.days))


def _stored_days(days: list[int]) -> frozenset[int]:
    return frozenset(day - 1 for day in days)


def _wire_days(days: frozenset[int]) -> list[int]:
    return [day + 1 for day in sorted(days)]


_TEST_STATES: Mapping[MessageState, Literal["waiting", "sent"]] = {
    MessageState.DUE: "waiting",
    MessageState.SENDING: "waiting",
    MessageState.SENT: "sent",
}


async def end_digests(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """Handles `POST /unsubscribe/{token}`, which a mail program sends as a form. Ignores the body.

    Raises NotFound for a token that was not made here.
    """
    subscriber = subscriber_of(context.keys.cursor, raw_request.values[0])
    if subscriber is None:
        raise NotFound
    act = partial(_switch_digests_off, subscriber=subscriber)
    await context.engine.write(context.clock.now(), act, org=subscriber.org)
    return envelope.accept(EmptyResponse(), 200)


async def _switch_digests_off(tx: Tx, *, subscriber: Subscriber) -> None:
    """Switches off every group of notices that is sent in the digest."""
    org, person = subscriber.org, subscriber.person
    if await members.get(tx, org, person) is None:
        return
    before = await own_preferences.get(tx, org, person)
    email = {
        group: MailChoice.OFF if choice is MailChoice.DIGEST else choice
        for group, choice in before.email.items()
    }
    if email != before.email:
        await own_preferences.save(tx, org, person, replace(before, email=email))


OPERATIONS = (
    Operation(
        name="notification_preferences.get",
        method="GET",
        path="/app/notification-preferences",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        response=PreferencesResponse,
        small=True,
        summary="Get one's own notification preferences",
    ),
    Operation(
        name="notification_preferences.update",
        method="PATCH",
        path="/app/notification-preferences",
        access=Access.APP,
        role=Role.MEMBER,
        function=change,
        body=PreferencesBody,
        response=PreferencesResponse,
        summary="Change one's own notification preferences",
        writes=True,
    ),
    Operation(
        name="notification_preferences.test",
        method="POST",
        path="/app/notification-preferences/test",
        access=Access.APP,
        role=Role.MEMBER,
        function=send_test,
        response=EmptyResponse,
        summary="Send a test mail to oneself",
        refusals=(NotConfigured,),
        writes=True,
        wakes=("deliver_email",),
    ),
)

RAW_OPERATIONS = (
    RawOperation(
        method="POST",
        path="/unsubscribe/{unsubscribe_token}",
        function=end_digests,
        summary="End a person's digests",
    ),
)
