"""Schemas of stored JSON that responses pass on unchanged, for the OpenAPI document.

These classes are never instantiated: the rows hold this JSON, and responses contain it unchanged.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from steward.api.schema.responses import (
    ActionStr,
    BindingKindStr,
    CadenceStr,
    Count,
    Currency,
    Day,
    FieldKindStr,
    FindingLevelStr,
    Instant,
    ListeningStr,
    Monthday,
    Name,
    OutcomeStr,
    PlanStepKindStr,
    Platform,
    PositiveInt,
    StepKindStr,
    StepNeedStr,
    StepStatusStr,
    TimeOfDay,
    TriggerKindStr,
    UlidStr,
    UnconfiguredReasonStr,
    UseStr,
    WarningCodeStr,
    Weekday,
    WeekOfMonth,
)


class CountsRecord(msgspec.Struct):
    """The counts of a step or run."""

    read: Count
    matched: Count
    proposed: Count
    applied: Count
    unchanged: Count
    declined: Count
    conflicts: Count
    failed: Count
    sent: Count
    unknown: Count


class ObjectRecord(msgspec.Struct):
    """The object a change touches, as people know it; `id` is null for one that is to be created."""

    type: str
    id: str | None
    label: str
    url: str | None


class FieldRecord(msgspec.Struct):
    """The values of a field before and after; `truncated` when one was longer than 4 KiB."""

    field: str
    label: str
    before: Any
    after: Any
    kind: FieldKindStr
    currency: Currency | None
    truncated: bool | UnsetType = UNSET


class ChangeRecord(msgspec.Struct):
    """A change and its outcome."""

    id: UlidStr
    seq: PositiveInt
    object: ObjectRecord
    action: ActionStr
    fields: list[FieldRecord]
    reversible: bool
    undo_words: str | None
    undo_of: UlidStr | None
    outcome: OutcomeStr
    message: str | None
    applied_at: Instant | None
    undone_by: UlidStr | None


class TouchedRecord(msgspec.Struct):
    """The connection a step used; a store's `kind` is its platform."""

    integration_id: PositiveInt
    kind: Platform


class StepRecord(msgspec.Struct):
    """A row of a run's log, with the first 50 of its changes."""

    seq: PositiveInt
    name: Name
    title: str
    kind: StepKindStr
    status: StepStatusStr
    attempt: PositiveInt
    iteration: PositiveInt | None
    started_at: Instant
    finished_at: Instant
    connection: TouchedRecord | None
    counts: CountsRecord
    code: str | None
    message: str | None
    changes: list[ChangeRecord]
    changes_total: Count


class CurrentStepRecord(msgspec.Struct):
    """The step that a run is executing; `total` is null while it is not known."""

    name: Name
    title: str
    kind: StepKindStr
    started_at: Instant
    done: Count
    total: Count | None


class RunSummaryRecord(msgspec.Struct):
    """The outcome of a run, in words and numbers."""

    text: str
    counts: CountsRecord


class ApprovalCountsRecord(msgspec.Struct):
    """The number of changes that an approval asks for."""

    total: Count
    by_action: dict[str, int]
    irreversible: Count
    undoable: Count


class FollowingRecord(msgspec.Struct):
    """The steps after an approval: their maximum number, and whether one may need approval again."""

    steps: Count
    may_ask_again: bool


class WarningRecord(msgspec.Struct):
    """A warning for an approver, to be read before deciding."""

    code: WarningCodeStr
    message: str


class ScheduleRecord(msgspec.Struct):
    """A schedule; the fields that its cadence does not use are null."""

    cadence: CadenceStr
    run_at: TimeOfDay | None
    day_of_week: Weekday | None
    day_of_month: Monthday | None
    date: Day | None
    days: list[Weekday] | None
    week_of_month: WeekOfMonth | None


class ScheduleTriggerRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Starts on its schedule."""

    kind: Literal["schedule"]


class EventTriggerRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Starts when its store sends one of `topics`."""

    kind: Literal["event"]
    topics: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=80)]], Meta(min_length=1, max_length=8)
    ]
    words: str
    listening: ListeningStr
    reason: str | None
    events_dropped: Count
    events_dropped_at: Instant | None


class NeedRecord(msgspec.Struct):
    """A connection that a template needs in addition to its store; `kind` `store` is any store platform."""

    kind: Platform
    use: UseStr
    required: bool
    min: Count
    max: Count


class TemplateStepRecord(msgspec.Struct):
    """A step of a template as people see it."""

    name: Name
    title: str
    kind: StepKindStr
    needs_approval: bool


class FindingRecord(msgspec.Struct):
    """A finding of an import; `step` is null if it concerns the whole file."""

    step: str | None
    level: FindingLevelStr
    code: str
    message: str


class StepTargetRecord(msgspec.Struct):
    """The target that a step writes to; a part that its file leaves open is null."""

    spreadsheet_id: str | None
    sheet: str | None


class PlanTriggerRecord(msgspec.Struct):
    """The start an import proposes: topics or a schedule."""

    kind: TriggerKindStr
    topics: list[str] | None
    schedule: ScheduleRecord | None


class ProposedTriggerRecord(PlanTriggerRecord):
    """The same, with the zone the file names."""

    timezone: str | None


class ReachRecord(msgspec.Struct):
    """The number of an import's steps that a run executes, and the trigger they follow."""

    runs: Count
    steps: Count
    start: str | None


class PlanStepRecord(msgspec.Struct):
    """A step of an import, in the order it would run."""

    name: Name
    title: str
    kind: PlanStepKindStr
    operation: str
    needs: Platform | None
    supported: bool
    after: list[str]
    target: StepTargetRecord | None


class PlanEdgeRecord(msgspec.Struct):
    """An edge from a step's port to another step."""

    from_: str = msgspec.field(name="from")
    port: str
    to: str


class PlanRecord(msgspec.Struct):
    """The plan that an import would run as."""

    trigger: PlanTriggerRecord | None
    steps: list[PlanStepRecord]
    edges: list[PlanEdgeRecord]


class UnconfiguredRecord(msgspec.Struct):
    """A step without a usable connection, and why."""

    step: str
    kind: StepNeedStr
    target: StepTargetRecord | None
    why: UnconfiguredReasonStr


class UnboundRecord(msgspec.Struct):
    """A step without a usable account, which is bound by `accounts`, and why."""

    step: str
    kind: Platform
    why: UnconfiguredReasonStr


class StepAccountRecord(msgspec.Struct):
    """The connection a step is bound to by `accounts`."""

    integration_id: PositiveInt


class CalledImportRecord(msgspec.Struct):
    """The import that a step calls."""

    import_id: UlidStr


class CallableStepRecord(msgspec.Struct):
    """A step that calls a workflow of another file: how its file names it, and what is chosen for it.

    Behind a chosen workflow, `step` is the path of step names. `proposed` is the one import of that name.
    """

    step: str
    workflow: str
    import_id: UlidStr | None
    name: str | None
    proposed: UlidStr | None


class ReadVariableRecord(msgspec.Struct):
    """A variable of n8n that a workflow reads; one that is not required has a fallback."""

    name: str
    required: bool


class VariableRecord(msgspec.Struct):
    """A variable of n8n that a workflow reads, and its value."""

    name: str
    required: bool
    value: str | None


class StepBindingRecord(msgspec.Struct):
    """The connection a step is bound to, and the place in it."""

    integration_id: PositiveInt
    kind: BindingKindStr
    target: StepTargetRecord | None


class BindableStepRecord(msgspec.Struct):
    """A step whose connection a person chooses, and where its file leads.

    `proposed` is the one connected account that fits; `hosts` are those the step signs in at. `sign_in` is
    how it does, as far as its file tells: `none` for a private host that it calls without a key.
    """

    step: str
    kind: Platform
    target: StepTargetRecord | None
    hosts: list[str]
    sign_in: str | None
    proposed: PositiveInt | None


class WorkflowReadinessRecord(msgspec.Struct):
    """Which steps of a workflow lack a connection, and which variables of n8n a value."""

    ready: bool
    missing: list[str]
    unconfigured: list[UnconfiguredRecord]
    unbound: list[UnboundRecord]
    unset: list[str]


def _described(record: type[msgspec.Struct]) -> Meta:
    return Meta(extra_json_schema={"$ref": f"#/components/schemas/{record.__name__}"})


Change: TypeAlias = Annotated[msgspec.Raw, _described(ChangeRecord)]
Step: TypeAlias = Annotated[msgspec.Raw, _described(StepRecord)]
CurrentStep: TypeAlias = Annotated[Mapping[str, Any], _described(CurrentStepRecord)]
RunSummary: TypeAlias = Annotated[Mapping[str, Any], _described(RunSummaryRecord)]
ApprovalCounts: TypeAlias = Annotated[Mapping[str, Any], _described(ApprovalCountsRecord)]
FollowingWire: TypeAlias = Annotated[Mapping[str, Any], _described(FollowingRecord)]
ApprovalWarning: TypeAlias = Annotated[Mapping[str, Any], _described(WarningRecord)]
ScheduleWire: TypeAlias = Annotated[Mapping[str, Any], _described(ScheduleRecord)]
TriggerWire: TypeAlias = Annotated[
    Mapping[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/AutomationTrigger"})
]
Need: TypeAlias = Annotated[Mapping[str, Any], _described(NeedRecord)]
TemplateStep: TypeAlias = Annotated[Mapping[str, Any], _described(TemplateStepRecord)]
Finding: TypeAlias = Annotated[Mapping[str, Any], _described(FindingRecord)]
ProposedTrigger: TypeAlias = Annotated[Mapping[str, Any], _described(ProposedTriggerRecord)]
ReachWire: TypeAlias = Annotated[Mapping[str, Any], _described(ReachRecord)]
PlanWire: TypeAlias = Annotated[Mapping[str, Any], _described(PlanRecord)]
StepBindings: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(
        extra_json_schema={
            "additionalProperties": {"$ref": "#/components/schemas/StepBindingRecord"},
            "maxProperties": 500,
        }
    ),
]
StepAccounts: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(
        extra_json_schema={
            "additionalProperties": {"$ref": "#/components/schemas/StepAccountRecord"},
            "maxProperties": 500,
        }
    ),
]
CalledImports: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(
        extra_json_schema={
            "additionalProperties": {"$ref": "#/components/schemas/CalledImportRecord"},
            "maxProperties": 20,
        }
    ),
]
UsedConnection: TypeAlias = Annotated[Mapping[str, Any], _described(TouchedRecord)]
CallableStep: TypeAlias = Annotated[Mapping[str, Any], _described(CallableStepRecord)]
ReadVariable: TypeAlias = Annotated[Mapping[str, Any], _described(ReadVariableRecord)]
Variable: TypeAlias = Annotated[Mapping[str, Any], _described(VariableRecord)]
BindableStep: TypeAlias = Annotated[Mapping[str, Any], _described(BindableStepRecord)]
WorkflowReadiness: TypeAlias = Annotated[Mapping[str, Any], _described(WorkflowReadinessRecord)]

DESCRIBED: tuple[type[msgspec.Struct], ...] = (
    ChangeRecord,
    StepRecord,
    CurrentStepRecord,
    RunSummaryRecord,
    ApprovalCountsRecord,
    FollowingRecord,
    WarningRecord,
    ScheduleRecord,
    ScheduleTriggerRecord,
    EventTriggerRecord,
    NeedRecord,
    TemplateStepRecord,
    FindingRecord,
    ProposedTriggerRecord,
    ReachRecord,
    PlanRecord,
    BindableStepRecord,
    StepAccountRecord,
    CalledImportRecord,
    CallableStepRecord,
    ReadVariableRecord,
    VariableRecord,
    StepBindingRecord,
    TouchedRecord,
    WorkflowReadinessRecord,
)
