"""The interface of a template: its record, its plan, its step functions, and its report on a run."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TypeVar

from steward.model.automation import Automation
from steward.model.change import Action, FieldKind, Outcome
from steward.model.connection import Auth, Connection, Readiness
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.limits import MAX_RESULT_BYTES
from steward.model.plan import Plan, PlanStep, StepKind, in_line
from steward.model.refusals import FieldErrors
from steward.model.run import Counts, Mode
from steward.model.schedule import Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import JsonRecord, StepFunction, plain_json
from steward.templates.parts.inputs import SHEET_OR_TEAMS, CheckedInputs, check, named_accounts
from steward.templates.parts.messages import STORES, accepted_kinds, names_channel, wrong_kind
from steward.templates.parts.results import RESULT_ENTRIES

_SUMMARY_LENGTH = 500
T = TypeVar("T")
R = TypeVar("R", bound=JsonRecord)


class Category(StrEnum):
    """The categories by which the catalogue groups templates."""

    STOCK = "stock"
    PRICES = "prices"
    ORDERS = "orders"
    CUSTOMERS = "customers"
    PRODUCTS = "products"
    REPORTS = "reports"


class ConnectionUse(StrEnum):
    """Whether a template reads a connection or sends through it."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ConnectionNeed:
    """A connection needed in addition to the automation's own store; `kind` `store` is any store platform."""

    kind: str
    use: ConnectionUse
    min: int
    max: int

    @property
    def required(self) -> bool:
        """Whether at least one such connection is required."""
        return self.min > 0


TEAMS = ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1)
OPTIONAL_TEAMS = ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1)
# Report connections, of which the inputs must name at least one.
REPORT_NEEDS = (ConnectionNeed("spreadsheet", ConnectionUse.WRITE, 0, 1), OPTIONAL_TEAMS)
SHEET_TO_READ = ConnectionNeed("spreadsheet", ConnectionUse.READ, 1, 1)
STORES_TO_READ = ConnectionNeed("store", ConnectionUse.READ, 2, 10)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step as people see it."""

    name: str
    title: str
    kind: StepKind


@dataclass(frozen=True, slots=True)
class TemplateStep:
    """A step with its function."""

    kind: StepKind
    name: str
    title: str
    function: StepFunction


read_step = partial(TemplateStep, StepKind.READ)
decide_step = partial(TemplateStep, StepKind.DECIDE)
change_step = partial(TemplateStep, StepKind.CHANGE)
send_step = partial(TemplateStep, StepKind.SEND)


@dataclass(frozen=True, slots=True)
class ChangeField:
    """A field of a change row, by its canonical name."""

    field: str
    label: str
    kind: FieldKind


# The canonical fields that several templates change.
PRICE = ChangeField("price", "Price", FieldKind.MONEY)
COMPARE_AT_PRICE = ChangeField("compare_at_price", "Compare-at price", FieldKind.MONEY)
STOCK = ChangeField("stock", "Stock", FieldKind.NUMBER)
TAGS = ChangeField("tags", "Tags", FieldKind.TAGS)
VISIBLE = ChangeField("visible", "Visible", FieldKind.BOOLEAN)
STATUS = ChangeField("status", "Status", FieldKind.TEXT)


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The approver's view of one kind of change."""

    step: str
    object: str
    action: Action
    fields: tuple[ChangeField, ...]
    shown_beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """The template record of the public interface, without its readiness."""

    template_id: str
    template_version: int
    name: str
    description: str
    category: Category
    platforms: tuple[str, ...]
    connections: tuple[ConnectionNeed, ...]
    inputs_schema: JsonObject
    result_schema: JsonObject
    steps: tuple[StepFacts, ...]
    changes_store: bool
    triggers: tuple[TriggerKind, ...]
    topics: Mapping[str, tuple[str, ...]]
    default_schedule: Schedule
    changes: tuple[ChangeRow, ...]
    example_result: JsonObject

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns the record in its API form, without `readiness`."""
        return {
            "template_id": self.template_id,
            "template_version": self.template_version,
            "name": self.name,
            "description": self.description,
            "category": self.category.value,
            "platforms": list(self.platforms),
            "connections": [
                {
                    "kind": need.kind,
                    "use": need.use.value,
                    "required": need.required,
                    "min": need.min,
                    "max": need.max,
                }
                for need in self.connections
            ],
            "inputs_schema": self.inputs_schema,
            "result_schema": self.result_schema,
            "steps": [
                {
                    "name": step.name,
                    "title": step.title,
                    "kind": step.kind.value,
                    "needs_approval": step.kind is StepKind.CHANGE,
                }
                for step in self.steps
            ],
            "changes_store": self.changes_store,
            "triggers": [trigger.value for trigger in self.triggers],
            "topics": {platform: list(topics) for platform, topics in self.topics.items()},
            "default_schedule": self.default_schedule.to_wire(),
            "example_result": self.example_result,
        }


@dataclass(frozen=True, slots=True)
class NamedConnection:
    """A connection that the inputs name: the path and value of its id, and its kind; `store`: any store."""

    path: str
    integration_id: IntegrationId
    kind: str


@dataclass(frozen=True, slots=True)
class SetupContext:
    """The context of input checks.

    It holds the chosen store, the organization's connections by id, and the automations that the inputs
    name, including archived ones.
    """

    store: Connection | None
    connections: Mapping[IntegrationId, Connection]
    automations: Mapping[AutomationId, Automation] = field(default_factory=dict)


# Outcomes of changes that were not applied, in words.
OTHER_OUTCOMES = {
    Outcome.UNCHANGED: "already up to date",
    Outcome.DECLINED: "left out",
    Outcome.CONFLICT: "changed in the meantime and left unchanged",
    Outcome.FAILED: "failed",
    Outcome.UNKNOWN: "unknown",
    Outcome.EXPIRED: "not approved in time",
    Outcome.CANCELLED: "cancelled",
}
_ALL_CHANGES = slice(None)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that waits for approval or has ended, for its summary and result.

    Steps that did not run are absent from `outputs`. `outcomes` holds the outcomes of the changes that each
    step proposed, in their order. `counts` is for the whole run.
    """

    mode: Mode
    inputs: JsonObject
    outputs: Mapping[str, JsonValue]
    counts: Counts
    outcomes: Mapping[str, Sequence[Outcome]]

    def output(self, step: str, kind: type[R]) -> R:
        """Returns the output of a step; a record of defaults when the step did not run."""
        return kind.from_json(self.outputs.get(step, {}))

    def has_ended(self, step: str) -> bool:
        """Returns whether the step ended, so that objects without a proposal needed no change."""
        return step in self.outputs

    def applied(self, step: str, changes: slice = _ALL_CHANGES) -> int:
        """Counts the step's applied changes; in a test run, those that would have been applied."""
        return sum(outcome in self.success for outcome in self._outcomes(step, changes))

    def applied_rows(self, step: str, rows: Iterable[T]) -> list[T]:
        """Returns the `rows`, one for each change of the step, whose change was applied."""
        outcomes = self.outcomes.get(step, ())
        return [row for row, outcome in zip(rows, outcomes, strict=False) if outcome in self.success]

    def other_outcomes(self, step: str, changes: slice = _ALL_CHANGES) -> str:
        """Returns the outcomes of the step's other changes in words, such as `, 2 left out, 1 unknown`."""
        tally = Counter(self._outcomes(step, changes))
        return "".join(
            f", {tally[outcome]} {words}" for outcome, words in OTHER_OUTCOMES.items() if tally[outcome]
        )

    def changes_sentence(
        self, step: str, noun: str, done: str, *, if_none: str = "", changes: slice = _ALL_CHANGES
    ) -> str:
        """Returns a sentence about the step's changes, such as `11 of 12 prices changed, 1 unknown.`

        `done` is the verb as in `changed` and `would be changed`; `if_none` is the sentence for no proposal.
        """
        outcomes = self._outcomes(step, changes)
        if not outcomes:
            return if_none
        number = counted(len(outcomes), noun)
        if self.mode is Mode.TEST or all(outcome is Outcome.PROPOSED for outcome in outcomes):
            return f"{number} would be {done}."
        return f"{self.applied(step, changes)} of {number} {done}{self.other_outcomes(step, changes)}."

    def message_sentence(self, step: str, *, position: int = 0) -> str:
        """Returns a sentence about the outcome of the step's message, or that there was none to send."""
        sent = tuple(self.outcomes.get(step, ()))[position:][:1]
        if not sent:
            return (
                "Nothing to tell, so no message was sent." if self.has_ended(step) else "No message was sent."
            )
        platform = self._platform(step)
        if self.mode is Mode.TEST:
            return f"A message would go to {platform}."
        if Outcome.APPLIED in sent:
            return f"A message was handed to {platform}."
        if Outcome.UNKNOWN in sent:
            return f"A message may have been sent to {platform}; it is unknown whether it arrived."
        return f"No message was sent to {platform}."

    def _platform(self, step: str) -> str:
        """Returns the platform of a step's message; Teams for runs of releases that did not store it."""
        output = self.outputs.get(step)
        platform = output.get("platform") if isinstance(output, Mapping) else None
        return platform if isinstance(platform, str) else "Teams"

    def report_sentence(self, step: str) -> str:
        """Returns sentences about the outcome of a report's list and message, if the inputs name them."""
        output = self.outputs.get(step)
        calls = output.get("sheet") if isinstance(output, Mapping) else 0
        sheet_calls = calls if isinstance(calls, int) else 0
        return sentences(
            self._list_sentence(step, sheet_calls) if "sheet" in self.inputs else None,
            self.message_sentence(step, position=sheet_calls) if "teams" in self.inputs else None,
        )

    @property
    def success(self) -> frozenset[Outcome]:
        """The outcomes of an applied change, or in a test run of one that would have been applied."""
        applied = {Outcome.APPLIED}
        return frozenset(applied | {Outcome.REFUSED_TEST} if self.mode is Mode.TEST else applied)

    def _outcomes(self, step: str, changes: slice) -> tuple[Outcome, ...]:
        return tuple(self.outcomes.get(step, ()))[changes]

    def _list_sentence(self, step: str, sheet_calls: int) -> str:
        outcomes = set(tuple(self.outcomes.get(step, ()))[:sheet_calls])
        if step not in self.outputs:
            return "The sheet was not written."
        if not outcomes:
            return "The sheet already contains this list."
        if self.mode is Mode.TEST:
            return "The list would be written to the sheet."
        if outcomes <= {Outcome.APPLIED, Outcome.UNCHANGED}:
            return "The list was written to the sheet."
        return "The list was not wholly written to the sheet."


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary's text (≤ 500 characters) and the result, with exactly the fields of `result_schema`."""

    text: str
    result: JsonObject


def run_summary(text: str, result: Mapping[str, object]) -> RunSummary:
    """Returns the summary; cuts the result's lists to 200 entries each and to 64 KiB together.

    `result` holds JSON values and records.
    """
    fitting = {
        name: list(value[:RESULT_ENTRIES]) if isinstance(value, list | tuple) else value
        for name, value in plain_json(result).items()
    }
    lists = [value for value in fitting.values() if isinstance(value, list)]
    while len(json.dumps(fitting, ensure_ascii=False).encode("utf-8")) > MAX_RESULT_BYTES and any(lists):
        longest = max(lists, key=len)
        del longest[len(longest) * 3 // 4 :]
    return RunSummary(text, fitting)


def _no_errors(_: JsonObject, __: SetupContext) -> FieldErrors:
    """Accepts any checked inputs."""
    return {}


def _no_automations(_: JsonObject) -> tuple[AutomationId, ...]:
    """Returns no automation: the inputs name none."""
    return ()


@dataclass(frozen=True, slots=True)
class Template:
    """A template: `steps` has a function for every step of the facts; `finish` reports on a run.

    `check_setup` checks what a schema cannot express, against the last check of each connection.
    `automations_of` returns the other automations that checked inputs name.
    """

    facts: TemplateFacts
    steps: Mapping[str, StepFunction]
    finish: Callable[[EndedRun], RunSummary]
    check_setup: Callable[[JsonObject, SetupContext], FieldErrors] = _no_errors
    automations_of: Callable[[JsonObject], tuple[AutomationId, ...]] = _no_automations
    plan: Plan = field(init=False, repr=False, compare=False)  # the steps in sequence

    def __post_init__(self) -> None:
        steps = (
            PlanStep(step.name, step.title, step.kind, f"{self.template_id}.{step.name}")
            for step in self.facts.steps
        )
        object.__setattr__(self, "plan", in_line(tuple(steps)))

    @property
    def template_id(self) -> str:
        """The id of the template."""
        return self.facts.template_id

    def check_inputs(self, inputs: JsonValue) -> CheckedInputs:
        """Returns the inputs with their defaults, or all faults at once by dotted path."""
        return check(self.facts.inputs_schema, inputs)

    def connections_of(self, inputs: JsonObject) -> tuple[NamedConnection, ...]:
        """Returns the connections that checked inputs name, in the order of the schema."""
        return tuple(
            NamedConnection(f"inputs.{path}", IntegrationId(integration_id), kind)
            for path, integration_id, kind in named_accounts(self.facts.inputs_schema, inputs)
        )

    def check_connections(self, inputs: JsonObject, setup: SetupContext) -> FieldErrors:
        """Returns the faults of the connections that checked inputs name, by path.

        The caller checks whether they are connected: that has a code of its own (`not_connected`).
        """
        errors: dict[str, list[str]] = {}
        for named in self.connections_of(inputs):
            connection = setup.connections.get(named.integration_id)
            if connection is None:
                errors[named.path] = ["This organization has no such connection."]
            elif connection.kind not in accepted_kinds(named.kind):
                errors[named.path] = [wrong_kind(connection, named.kind)]
            elif named.kind == "teams" and not names_channel(connection):
                errors[named.path] = ["This connection names no channel: choose one made with a webhook."]
            else:
                errors.update(_target_errors(named, connection, inputs))
        for path, messages in self.check_setup(inputs, setup).items():
            errors.setdefault(path, []).extend(messages)
        return errors

    def readiness(self, connected: Mapping[str, int]) -> Readiness:
        """Returns which connections are missing; `connected` counts stores and accounts by kind."""
        counts = {
            need.kind: sum(connected.get(kind, 0) for kind in accepted_kinds(need.kind))
            for need in self.facts.connections
        }
        missing = tuple(
            need.kind for need in self.facts.connections if counts[need.kind] < self._minimum(need)
        )
        alternatives = self._alternatives()
        if not any(counts[need.kind] for need in alternatives):
            missing += tuple(need.kind for need in alternatives)
        platforms = self.facts.platforms
        has_store = not platforms or any(connected.get(platform, 0) for platform in platforms)
        return Readiness(ready=has_store and not missing, missing=missing)

    def _minimum(self, need: ConnectionNeed) -> int:
        # A store that the template reads is not the store on which it runs.
        runs_on_store = need.kind == "store" and bool(self.facts.platforms)
        return need.min + 1 if need.min and runs_on_store else need.min

    def _alternatives(self) -> tuple[ConnectionNeed, ...]:
        """Returns the connections of which the inputs must name at least one."""
        if self.facts.inputs_schema.get("anyOf") != SHEET_OR_TEAMS["anyOf"]:
            return ()
        return tuple(need for need in self.facts.connections if need.min == 0)


def define(
    template_id: str,
    name: str,
    description: str,
    *,
    category: Category,
    inputs: JsonObject,
    result: JsonObject,
    steps: Sequence[TemplateStep],
    schedule: Schedule,
    example: JsonObject,
    finish: Callable[[EndedRun], RunSummary],
    platforms: tuple[str, ...] = STORES,
    connections: tuple[ConnectionNeed, ...] = (),
    topics: tuple[str, ...] = (),
    changes: tuple[ChangeRow, ...] = (),
    check_setup: Callable[[JsonObject, SetupContext], FieldErrors] = _no_errors,
    automations_of: Callable[[JsonObject], tuple[AutomationId, ...]] = _no_automations,
) -> Template:
    """Returns the first version of a template; `topics` are the store events that can start it."""
    triggers = (TriggerKind.SCHEDULE, *((TriggerKind.EVENT,) if topics else ()))
    facts = TemplateFacts(
        template_id=template_id,
        template_version=1,
        name=name,
        description=description,
        category=category,
        platforms=platforms,
        connections=connections,
        inputs_schema=inputs,
        result_schema=result,
        steps=tuple(StepFacts(step.name, step.title, step.kind) for step in steps),
        changes_store=any(step.kind is StepKind.CHANGE for step in steps),
        triggers=triggers,
        topics=dict.fromkeys(platforms, topics) if topics else {},
        default_schedule=schedule,
        changes=changes,
        example_result=example,
    )
    functions = {step.name: step.function for step in steps}
    return Template(facts, functions, finish, check_setup, automations_of)


def _target_errors(
    named: NamedConnection, connection: Connection, inputs: JsonObject
) -> dict[str, list[str]]:
    """Checks the spreadsheet or channel that an input names together with its connection."""
    target = inputs[named.path.split(".")[1]]
    if not isinstance(target, Mapping):
        return {}
    if named.kind == "spreadsheet":
        return sheet_errors(named.path.replace("integration_id", "spreadsheet_id"), connection, target)
    if named.kind == "teams":
        channel, labels = target.get("channel"), {connection.name, connection.account_label}
        if channel is not None and channel not in labels:
            message = f"This connection is the channel {connection.account_label or connection.name}."
            return {named.path.replace("integration_id", "channel"): [message]}
    return {}


def sheet_errors(path: str, connection: Connection, target: JsonObject) -> dict[str, list[str]]:
    """Checks that inputs name a spreadsheet if, and only if, the connection has access to several."""
    spreadsheet_id = target.get("spreadsheet_id")
    if connection.auth is Auth.USER_SIGN_IN:
        several = "Name the spreadsheet: this sign-in has access to several."
        return {} if spreadsheet_id is not None else {path: [several]}
    if spreadsheet_id is not None and spreadsheet_id != connection.facts.get("subject"):
        return {path: ["This connection is one spreadsheet, and not this one. Leave it empty."]}
    return {}


def vendor_errors(inputs: JsonObject, setup: SetupContext) -> FieldErrors:
    """Rejects a filter by vendor on a platform whose products have none."""
    products = inputs.get("products")
    vendors = isinstance(products, Mapping) and products.get("vendors")
    if vendors and setup.store is not None and setup.store.kind == "woocommerce":
        return {"inputs.products.vendors": ["WooCommerce has no vendors. Choose by tag or by type."]}
    return {}


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 variant` and `12 variants`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int, singular: str, plural: str) -> str:
    """Returns the form of a verb that agrees with the number, such as `is` and `are`."""
    return singular if number == 1 else plural


def if_any(number: int, sentence: str) -> str | None:
    """Returns the sentence when the number is not 0, for `sentences`."""
    return sentence if number else None


def sentences(*words: str | None) -> str:
    """Joins sentences into one text of at most 500 characters; leaves out absent ones."""
    text = " ".join(word for word in words if word)
    return text if len(text) <= _SUMMARY_LENGTH else text[: _SUMMARY_LENGTH - 1].rstrip() + "…"
