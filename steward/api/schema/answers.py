"""The types of answers' fields as the document describes them; no answer is checked by them."""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from msgspec import Meta

from steward.api.schema.fields import ID_PATTERN, MOST_INTEGER, PLATFORM_PATTERN, TEMPLATE_ID_PATTERN
from steward.model.account import Via
from steward.model.approval import ApprovalKind, ApprovalStatus
from steward.model.automation import AutomationState, Kind, PausedBy
from steward.model.change import Action, FieldKind, Outcome
from steward.model.connection import Auth, ConnectionState
from steward.model.finding import Level
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.plan import StepKind, StepStatus
from steward.model.run import Mode, RunStatus, StartedBy
from steward.model.schedule import Cadence, SlotNote
from steward.model.trigger import Listening, TriggerKind
from steward.templates.base import Category, ConnectionUse


def _one_of(words: Iterable[str]) -> Meta:
    return Meta(extra_json_schema={"enum": [str(word) for word in words]})


AnId: TypeAlias = Annotated[str, Meta(pattern=ID_PATTERN)]
Instant: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
FromOne: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_INTEGER)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_INTEGER)]
Name: TypeAlias = Annotated[str, Meta(max_length=120)]
TemplateName: TypeAlias = Annotated[str, Meta(pattern=TEMPLATE_ID_PATTERN)]
Platform: TypeAlias = Annotated[str, Meta(pattern=PLATFORM_PATTERN)]
Currency: TypeAlias = Annotated[str, Meta(pattern="^[A-Z]{3}$")]
Minutes: TypeAlias = Annotated[int, Meta(ge=0, le=9)]
Cursor: TypeAlias = Annotated[str, Meta(max_length=512)]
TimeOfDay: TypeAlias = Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Day: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date"})]
Weekday: TypeAlias = Annotated[int, Meta(ge=1, le=7)]
Monthday: TypeAlias = Annotated[int, Meta(ge=1, le=31)]
WeekOfMonth: TypeAlias = Annotated[int, Meta(extra_json_schema={"enum": [1, 2, 3, 4, -1]})]

OneAutomationState: TypeAlias = Annotated[str, _one_of(AutomationState)]
OneKind: TypeAlias = Annotated[str, _one_of(Kind)]
OnePauser: TypeAlias = Annotated[str, _one_of(PausedBy)]
OneVia: TypeAlias = Annotated[str, _one_of(Via)]
OneCadence: TypeAlias = Annotated[str, _one_of(Cadence)]
OneNote: TypeAlias = Annotated[str, _one_of(SlotNote)]
OneTriggerKind: TypeAlias = Annotated[str, _one_of(TriggerKind)]
OneListening: TypeAlias = Annotated[str, _one_of(Listening)]
OneSource: TypeAlias = Annotated[str, _one_of(("workflow_tool", "store_flow"))]
OneSendMode: TypeAlias = Annotated[str, _one_of(("ask", "send"))]
OneOccurrenceState: TypeAlias = Annotated[str, _one_of(OccurrenceState)]
OneSkipReason: TypeAlias = Annotated[str, _one_of(SkipReason)]
OneRunStatus: TypeAlias = Annotated[str, _one_of(RunStatus)]
OneMode: TypeAlias = Annotated[str, _one_of(Mode)]
OneStarter: TypeAlias = Annotated[str, _one_of(StartedBy)]
OneStepKind: TypeAlias = Annotated[str, _one_of(StepKind)]
OnePlanKind: TypeAlias = Annotated[str, _one_of((*StepKind, "unsupported"))]
OneStepStatus: TypeAlias = Annotated[str, _one_of(StepStatus)]
OneAction: TypeAlias = Annotated[str, _one_of(Action)]
OneFieldKind: TypeAlias = Annotated[str, _one_of(FieldKind)]
OneOutcome: TypeAlias = Annotated[str, _one_of(Outcome)]
OneApprovalKind: TypeAlias = Annotated[str, _one_of(ApprovalKind)]
OneApprovalStatus: TypeAlias = Annotated[str, _one_of(ApprovalStatus)]
OneWarning: TypeAlias = Annotated[
    str, _one_of(("large_change_percent", "irreversible", "stale_over_1h", "many_objects"))
]
OneConnectionState: TypeAlias = Annotated[str, _one_of(ConnectionState)]
OneAuth: TypeAlias = Annotated[str, _one_of(Auth)]
OnePlace: TypeAlias = Annotated[str, _one_of(("spreadsheet", "tab", "channel", "folder"))]
OneCategory: TypeAlias = Annotated[str, _one_of(Category)]
OneUse: TypeAlias = Annotated[str, _one_of(ConnectionUse)]
OneLevel: TypeAlias = Annotated[str, _one_of(Level)]
OneNeed: TypeAlias = Annotated[str, _one_of(("store", "spreadsheet", "teams"))]
OneBound: TypeAlias = Annotated[str, _one_of(("spreadsheet", "teams"))]
OneWhy: TypeAlias = Annotated[
    str, _one_of(("no_connection", "wrong_target", "needs_reconnecting", "not_arrived"))
]
OneScheduler: TypeAlias = Annotated[str, _one_of(("ok", "delayed"))]
