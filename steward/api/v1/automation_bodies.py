"""Bodies of requests that make or change automations."""

from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from steward.api.schema.body_rules import (
    BY_EVENTS,
    by_step,
    component,
)
from steward.api.schema.fields import (
    IdempotencyKey,
    NameText,
    OpenObject,
    PlatformText,
    Positive,
    RequestBody,
    TemplateIdText,
    Text,
    ZoneText,
    absent,
    check_open_json,
    field_error,
)
from steward.automations.checks import BY_SCHEDULE, MAX_CONNECTIONS, MAX_TOPICS, RequestedTrigger
from steward.automations.setup import CreateCommand
from steward.imports.secrets.variables import holds_key
from steward.model.connection import AutomationConnection
from steward.model.ids import IntegrationId
from steward.model.schedule import Schedule
from steward.model.trigger import TriggerKind
from steward.scheduling.shape import read_schedule
from steward.scheduling.zones import FIRST

_MAX_VALUE = 10_000  # characters of a variable's value
_MAX_VALUES = 500
_MAX_ALL_VALUES = 100_000  # characters; each message to the sandbox has all values


class SentSchedule(NamedTuple):
    """A schedule as sent and as parsed."""

    sent: dict[str, Any]
    read: Schedule


def _schedule(value: Any) -> Any:
    """Parses a schedule; its errors are reported together with those of other fields."""
    if not isinstance(value, dict):
        raise field_error("Give an object.")
    schedule = read_schedule(value, zone=None, now=FIRST, path="schedule")
    if isinstance(schedule, Schedule):
        return SentSchedule(value, schedule)
    faults = [
        InitErrorDetails(
            type=PydanticCustomError("plain", "{words}", {"words": words}) if name in value else "missing",
            loc=(name,),
            input=value,
        )
        for name, words in ((path.partition(".")[2], words[0]) for path, words in schedule.items())
    ]
    raise ValidationError.from_exception_data("schedule", faults)


ScheduleJson = Annotated[SentSchedule, PlainValidator(_schedule), WithJsonSchema(component("ScheduleBody"))]
Bindings = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("StepBindingBody", 500))
]
Accounts = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("StepAccountBody", 500))
]
Calls = Annotated[
    dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema(by_step("CalledImportBody", 20))
]


def _variables(value: Any) -> Any:
    """Checks the values of variables; all of their faults are reported together."""
    texts = [text for text in check_open_json(value).values() if isinstance(text, str)]
    if len(value) > _MAX_VALUES or sum(map(len, texts)) > _MAX_ALL_VALUES:
        raise field_error(f"Give at most {_MAX_VALUES} values, of {_MAX_ALL_VALUES:,} characters together.")
    faults = [
        InitErrorDetails(
            type=PydanticCustomError("plain", "{words}", {"words": words}), loc=(name,), input=member
        )
        for name, member in value.items()
        if (words := _value_fault(name, member)) is not None
    ]
    if faults:
        raise ValidationError.from_exception_data("variables", faults)
    return value


def _value_fault(name: str, value: Any) -> str | None:
    """Returns the error in the value of a variable, or None."""
    if not isinstance(value, str) or len(value) > _MAX_VALUE or not value.strip():
        return f"Give a text of 1 to {_MAX_VALUE:,} characters, or leave the variable out."
    if holds_key(name, value):
        return (
            "This value contains a key, and everyone in the organization can read the values of variables. "
            "Write it into the workflow in n8n and import it again: an account takes its place then."
        )
    return None


Variables = Annotated[
    dict[str, str],
    BeforeValidator(_variables),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": _MAX_VALUES,
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": _MAX_VALUE},
        }
    ),
]


class ConnectionBody(RequestBody):
    """A connection an automation reads."""

    integration_id: Positive
    kind: PlatformText


class ScheduleTriggerBody(RequestBody):
    """Starts on its schedule."""

    kind: Literal["schedule"]


class EventTriggerBody(RequestBody):
    """Starts when its store sends one of `topics`; the other fields are the service's."""

    kind: Literal["event"]
    topics: list[Text] = Field(json_schema_extra={"minItems": 1, "maxItems": MAX_TOPICS, "uniqueItems": True})


TriggerBody = Annotated[ScheduleTriggerBody | EventTriggerBody, Field(discriminator="kind")]


class CreateBody(RequestBody):
    """A new automation."""

    model_config = ConfigDict(json_schema_extra=BY_EVENTS)

    template_id: TemplateIdText
    name: NameText
    inputs: OpenObject
    schedule: ScheduleJson
    integration_id: Positive | None = None
    connections: list[ConnectionBody] = Field(default=[], json_schema_extra={"maxItems": MAX_CONNECTIONS})
    timezone: ZoneText = Field(default="")
    trigger: TriggerBody = ScheduleTriggerBody(kind="schedule")
    idempotency_key: IdempotencyKey = Field(default="")


class UpdateBody(RequestBody):
    """A change of an automation; a field that is absent stays as it is."""

    version: Positive
    name: NameText = Field(default="")
    inputs: OpenObject = Field(default={})
    schedule: ScheduleJson = Field(default=cast("SentSchedule", None))
    integration_id: Positive | None = None
    connections: list[ConnectionBody] = Field(default=[], json_schema_extra={"maxItems": MAX_CONNECTIONS})
    timezone: ZoneText = Field(default="")
    trigger: TriggerBody = ScheduleTriggerBody(kind="schedule")
    template_version: Positive = absent(1)
    bindings: Bindings = Field(default={})
    accounts: Accounts = Field(default={})
    calls: Calls = Field(default={})
    variables: Variables = Field(default={})
    send_mode: Literal["ask", "send"] = "ask"


def bound_connections(bodies: list[ConnectionBody]) -> tuple[AutomationConnection, ...]:
    return tuple(AutomationConnection(IntegrationId(body.integration_id), body.kind) for body in bodies)


def requested_trigger(body: ScheduleTriggerBody | EventTriggerBody) -> RequestedTrigger:
    """Returns the trigger that a body requests."""
    if isinstance(body, EventTriggerBody):
        return RequestedTrigger(TriggerKind.EVENT, tuple(body.topics))
    return BY_SCHEDULE


def integration_of(number: int | None) -> IntegrationId | None:
    return None if number is None else IntegrationId(number)


def create_command(body: CreateBody) -> CreateCommand:
    """Returns the command to create the automation that a body describes."""
    return CreateCommand(
        template_id=body.template_id,
        name=body.name,
        inputs=body.inputs,
        schedule=body.schedule.sent,
        parsed_schedule=body.schedule.read,
        integration_id=integration_of(body.integration_id),
        connections=bound_connections(body.connections),
        timezone=body.timezone if "timezone" in body.model_fields_set else None,
        trigger=requested_trigger(body.trigger),
        idempotency_key=body.idempotency_key or None,
    )
