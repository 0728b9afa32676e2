"""The types of responses' fields for the OpenAPI document; responses are not validated against them."""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from msgspec import Meta

from steward.api.schema.fields import ID_PATTERN, MAX_INTEGER, PLATFORM_PATTERN, TEMPLATE_ID_PATTERN
from steward.model.account import CreatedVia
from steward.model.approval import ApprovalKind, ApprovalStatus
from steward.model.automation import AutomationKind, AutomationState, PausedBy
from steward.model.change import Action, FieldKind, Outcome
from steward.model.connection import Auth, ConnectionState
from steward.model.finding import FindingLevel
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.plan import BOUND_KINDS, STEP_NEEDS, StepKind, StepStatus
from steward.model.run import Mode, RunStatus, StartedBy
from steward.model.schedule import Cadence, SlotNote
from steward.model.trigger import Listening, TriggerKind
from steward.templates.base import Category, ConnectionUse


def _one_of(words: Iterable[str]) -> Meta:
    return Meta(extra_json_schema={"enum": [str(word) for word in words]})


UlidStr: TypeAlias = Annotated[str, Meta(pattern=ID_PATTERN)]
Instant: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
PositiveInt: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
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

AutomationStateStr: TypeAlias = Annotated[str, _one_of(AutomationState)]
AutomationKindStr: TypeAlias = Annotated[str, _one_of(AutomationKind)]
PausedByStr: TypeAlias = Annotated[str, _one_of(PausedBy)]
ViaStr: TypeAlias = Annotated[str, _one_of(CreatedVia)]
CadenceStr: TypeAlias = Annotated[str, _one_of(Cadence)]
SlotNoteStr: TypeAlias = Annotated[str, _one_of(SlotNote)]
TriggerKindStr: TypeAlias = Annotated[str, _one_of(TriggerKind)]
ListeningStr: TypeAlias = Annotated[str, _one_of(Listening)]
ImportSourceStr: TypeAlias = Annotated[str, _one_of(("workflow_tool", "store_flow"))]
SendModeStr: TypeAlias = Annotated[str, _one_of(("ask", "send"))]
OccurrenceStateStr: TypeAlias = Annotated[str, _one_of(OccurrenceState)]
SkipReasonStr: TypeAlias = Annotated[str, _one_of(SkipReason)]
RunStatusStr: TypeAlias = Annotated[str, _one_of(RunStatus)]
ModeStr: TypeAlias = Annotated[str, _one_of(Mode)]
StartedByStr: TypeAlias = Annotated[str, _one_of(StartedBy)]
StepKindStr: TypeAlias = Annotated[str, _one_of(StepKind)]
PlanStepKindStr: TypeAlias = Annotated[str, _one_of((*StepKind, "unsupported"))]
StepStatusStr: TypeAlias = Annotated[str, _one_of(StepStatus)]
ActionStr: TypeAlias = Annotated[str, _one_of(Action)]
FieldKindStr: TypeAlias = Annotated[str, _one_of(FieldKind)]
OutcomeStr: TypeAlias = Annotated[str, _one_of(Outcome)]
ApprovalKindStr: TypeAlias = Annotated[str, _one_of(ApprovalKind)]
ApprovalStatusStr: TypeAlias = Annotated[str, _one_of(ApprovalStatus)]
WarningCodeStr: TypeAlias = Annotated[
    str, _one_of(("large_change_percent", "irreversible", "not_undoable", "stale_over_1h", "many_objects"))
]
ConnectionStateStr: TypeAlias = Annotated[str, _one_of(ConnectionState)]
AuthStr: TypeAlias = Annotated[str, _one_of(Auth)]
DestinationKindStr: TypeAlias = Annotated[str, _one_of(("spreadsheet", "tab", "channel", "folder"))]
CategoryStr: TypeAlias = Annotated[str, _one_of(Category)]
UseStr: TypeAlias = Annotated[str, _one_of(ConnectionUse)]
FindingLevelStr: TypeAlias = Annotated[str, _one_of(FindingLevel)]
StepNeedStr: TypeAlias = Annotated[str, _one_of(STEP_NEEDS)]
BindingKindStr: TypeAlias = Annotated[str, _one_of(BOUND_KINDS)]
UnconfiguredReasonStr: TypeAlias = Annotated[
    str, _one_of(("no_connection", "wrong_target", "needs_reconnecting", "not_arrived"))
]
SchedulerStateStr: TypeAlias = Annotated[str, _one_of(("ok", "delayed"))]
