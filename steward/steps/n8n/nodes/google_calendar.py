"""The node googleCalendar: events of a user's calendars, through a bound account."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode, HttpServicePort
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation, ServicePort
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem

_NAMES = (
    "authentication resource operation calendar eventId start end useDefaultReminders remindersUi timeMin"
    " timeMax additionalFields updateFields options returnAll limit useN8nTimeZone"
)
_ZONE = "zone"  # setting under which the workflow's zone is added to the account's
_PAGE = 100
_CALENDAR = {"calendar": "which calendar it means"}
_EVENT = _CALENDAR | {"eventId": "which event it means"}
_EVENTS, _EVENT_PATH = "/calendars/{calendar}/events", "/calendars/{calendar}/events/{eventId}"
_SENT = ("sendUpdates", "sendNotifications", "maxAttendees")  # sent in the query
_TIMES = ("timeMin", "timeMax", "updatedMin")


def _people(value: JsonValue) -> JsonObject:
    texts = value if isinstance(value, list) else [value]
    addresses = [address.strip() for text in texts for address in js.text(text).split(",")]
    return {"attendees": [{"email": address} for address in addresses if address]}


def _meeting(value: JsonValue) -> JsonObject:
    rows = rows_of(value, "conferenceDataValues")
    kind = js.text(rows[0].get("conferenceSolution", "")) if rows else ""
    return {"conferenceData": {"createRequest": {"conferenceSolutionKey": {"type": kind}}}} if kind else {}


def _recurrence(value: JsonValue) -> JsonObject:
    return {"recurrence": [f"RRULE:{js.text(value).removeprefix('RRULE:')}"]} if value else {}


def _read_apart(value: JsonValue) -> JsonObject:
    return {}


_APART = dict.fromkeys((*_SENT, "allday"), _read_apart)
_COMMON = (
    "summary description location color:colorId visibility showMeAs:transparency guestsCanInviteOthers"
    " guestsCanModify guestsCanSeeOtherGuests"
)
_NEW = OptionTable(
    "additionalFields",
    f"{_COMMON} id",
    {
        **_APART,
        "attendees": _people,
        "conferenceDataUi": _meeting,
        "rrule": _recurrence,
    },
)
_CHANGES = OptionTable(
    "updateFields",
    _COMMON,
    {**_APART, **dict.fromkeys(("start", "end"), _read_apart), "attendees": _people},
)
_READ = OptionTable(
    "options",
    "iCalUID maxAttendees orderBy query:q showDeleted showHiddenInvitations singleEvents timeZone fields",
    {
        **dict.fromkeys(_TIMES, _read_apart),
        "recurringEventHandling": lambda value: {"singleEvents": "true" if value == "expand" else "false"},
    },
)
_ONE = OptionTable("options", "", {"returnNextInstance": _read_apart})
_NEXT = (
    "Of an event that recurs n8n passes on the next occurrence, which is not supported."
    " Choose another setting of “{}” in n8n."
)


_NO_NEXT = (
    "n8n adds the field “nextOccurrence” to events that recur, which is left out here."
    " Compute the next date in a separate step if you need it."
)


def _moment(fields: ServiceFields, value: JsonValue, label: str) -> datetime:
    """Parses a date; text without an offset is in the workflow's zone. Raises ItemFailed."""
    if isinstance(value, js.JsDate):
        value = value.text
    zone = js_dates.zone_of(fields.account.get(_ZONE, "UTC")) or UTC
    moment = js_dates.parse(js.text(value).strip(), zone)
    if moment is None:
        raise ItemFailed(
            f"“{js.text(value)[:60]}” is not a date that “{label}” takes. Write it as 2026-01-31T12:00."
        )
    return moment.astimezone(zone)


def _span(fields: ServiceFields, collection: str, parameter: str) -> JsonObject:
    """Returns the start and end of an event, as far as the step sets them."""
    is_whole_day = fields.text(f"{collection}.allday") == "yes"
    span: dict[str, JsonValue] = {}
    for name in ("start", "end"):
        value = fields.value(f"{parameter}{name}")
        if js.is_missing(value) or value == "":
            continue
        moment = _moment(fields, value, name.title())
        day: date = moment.date()
        zone = fields.account.get(_ZONE, "UTC")
        span[name] = (
            {"date": day.isoformat()} if is_whole_day else {"dateTime": moment.isoformat(), "timeZone": zone}
        )
    return span


def _reminders(fields: ServiceFields) -> JsonObject:
    if fields.flag("useDefaultReminders", True):
        return {"reminders": {"useDefault": True}}
    rows = rows_of(fields.value("remindersUi"), "remindersValues")
    overrides = [{"method": row.get("method"), "minutes": row.get("minutes")} for row in rows]
    return {"reminders": {"useDefault": False, **({"overrides": overrides} if overrides else {})}}


def _new_event(fields: ServiceFields) -> dict[str, JsonValue]:
    return {**_span(fields, "additionalFields", ""), **_reminders(fields), **_NEW.read(fields)}


def _changed_event(fields: ServiceFields) -> dict[str, JsonValue]:
    reminders = {} if fields.flag("useDefaultReminders", True) else _reminders(fields)
    return {**_span(fields, "updateFields", "updateFields."), **reminders, **_CHANGES.read(fields)}


def _sent(collection: str) -> AnyJson:
    def query(fields: ServiceFields) -> dict[str, str]:
        query_fields = {name: js.text(value) for name, value in fields.options(collection, *_SENT).items()}
        has_meeting = bool(rows_of(fields.value(f"{collection}.conferenceDataUi"), "conferenceDataValues"))
        return query_fields | ({"conferenceDataVersion": "1"} if has_meeting else {})

    return query


def _listed(fields: ServiceFields) -> dict[str, JsonValue]:
    query = {"maxResults": _PAGE, **_READ.read(fields)}
    for name in _TIMES:
        value = fields.value(name if fields.version >= 1.3 and name != "updatedMin" else f"options.{name}")
        if value not in (None, ""):
            query[name] = _moment(fields, value, name).isoformat()
    return query


def _list_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _READ.check(node)
    if node.version >= 1.3 and (node.get("timeMin") is None or node.get("timeMax") is None):
        message = "Its file does not say which days it reads. Fill in “After” and “Before” in n8n."
        yield StepProblem("error", "parameter", message)
    if node.version >= 1.3 and node.get("options.recurringEventHandling") not in ("expand", "first"):
        message = _NEXT.format("Recurring Event Handling")
        yield StepProblem("error", "parameter", message)
    elif node.version < 1.3 and not node.get("options.singleEvents"):
        yield StepProblem("note", "parameter", _NO_NEXT)


def _one_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields problems of reading one event, such as a request for its next occurrence."""
    yield from _ONE.check(node)
    if node.get("options.returnNextInstance", node.version >= 1.3) is not False:
        message = _NEXT.format("Return Next Instance of Recurring Event")
        yield StepProblem("error", "parameter", message)
    elif node.version < 1.3:
        yield StepProblem("note", "parameter", _NO_NEXT)


def _new_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _NEW.check(node)
    for name in ("start", "end"):
        if node.get(name) in (None, ""):
            message = f"It does not say when the event {name}s. Fill in “{name.title()}” in n8n."
            yield StepProblem("error", "parameter", message)


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    token = response.get("nextPageToken") if isinstance(response, Mapping) else None
    return {**query, "pageToken": str(token)} if token else None


def _success(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    return [{"success": True}]


_DEFAULTS = {"event": "create", "calendar": "availability"}
_OPERATIONS = {
    "event.create": ServiceOperation(
        "POST", _EVENTS, _new_event, query=_sent("additionalFields"), needed=_CALENDAR,
        recipient="calendar", text="additionalFields.summary", check=_new_problems,
    ),
    "event.update": ServiceOperation(
        "PATCH", _EVENT_PATH, _changed_event, query=_sent("updateFields"), needed=_EVENT,
        recipient="eventId", text="updateFields.summary", check=_CHANGES.check,
    ),
    "event.get": ServiceOperation("GET", _EVENT_PATH, needed=_EVENT, check=_one_problems),
    "event.delete": ServiceOperation(
        "DELETE", _EVENT_PATH, query=lambda fields: _texts(fields.options("options", "sendUpdates")),
        needed=_EVENT, recipient="eventId", to_items=_success,
        check=OptionTable("options", "sendUpdates").check,
    ),
    "event.getAll": ServiceOperation(
        "GET", _EVENTS, _listed, "items", next_page=_next_page, limit=50, needed=_CALENDAR,
        check=_list_problems,
    ),
}  # fmt: skip


class GoogleCalendarNode(HttpServiceNode):
    """Supports events, with recurrence only by rule; does not query whether a calendar is free."""

    types = ("googleCalendar",)
    versions = (1, 1.1, 1.2, 1.3)
    service = "Google Calendar"
    address = "https://www.googleapis.com/calendar/v3"
    credential_types = ("googleCalendarOAuth2Api",)
    parameters = frozenset(_NAMES.split())
    default_resource = "event"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def port(self, call: StepCall) -> HttpServicePort:
        """Returns the port for the step's calls, with the zone that dates are in."""
        port = super().port(call)
        port.settings = {**port.settings, _ZONE: call.environment.zone}
        return port

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item, with a meeting id that stays the same when a run resumes."""
        prepared = self.operations[key].call(fields)
        meeting: AnyJson = prepared.body.get("conferenceData")
        if not isinstance(meeting, Mapping) or not isinstance(meeting.get("createRequest"), Mapping):
            return prepared
        parts = f"{call.environment.now.isoformat()} {call.step.name} {index}"
        request = {
            **dict(meeting["createRequest"]),
            "requestId": hashlib.sha256(parts.encode()).hexdigest()[:32],
        }
        return replace(prepared, body={**prepared.body, "conferenceData": {"createRequest": request}})


def _texts(values: JsonObject) -> dict[str, str]:
    return {name: js.text(value) for name, value in values.items()}
