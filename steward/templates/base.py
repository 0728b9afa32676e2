"""What a template is: its facts, plan, step functions and last words; leaves running it to runs/."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from steward.model.automation import Automation
from steward.model.change import Action, FieldKind, Outcome
from steward.model.connection import Auth, Connection, Readiness
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, PlanStep, StepKind, in_line
from steward.model.refusals import FieldErrors
from steward.model.run import Counts, Mode
from steward.model.schedule import Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepFunction
from steward.templates.parts.inputs import CheckedInputs, check, named_accounts
from steward.templates.parts.results import RESULT_ENTRIES

SUMMARY_LENGTH = 500
RESULT_BYTES = 64 * 1024
T = TypeVar("T")


class Category(StrEnum):
    """Contract 3.7."""

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
    """A connection beside the store (contract 3.7); `kind` `store` is any store platform."""

    kind: str
    use: ConnectionUse
    min: int
    max: int

    @property
    def required(self) -> bool:
        """Whether at least one must be connected."""
        return self.min > 0


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step as people see it."""

    name: str
    title: str
    kind: StepKind


@dataclass(frozen=True, slots=True)
class ChangeField:
    """A field of a change row by its canonical name (templates 2)."""

    field: str
    label: str
    kind: FieldKind


# The canonical fields that several templates change (templates 2, "Fields").
PRICE = ChangeField("price", "Price", FieldKind.MONEY)
COMPARE_AT_PRICE = ChangeField("compare_at_price", "Compare-at price", FieldKind.MONEY)
STOCK = ChangeField("stock", "Stock", FieldKind.NUMBER)
TAGS = ChangeField("tags", "Tags", FieldKind.TAGS)
VISIBLE = ChangeField("visible", "Visible", FieldKind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """What the approver sees of one kind of change (templates 2, 6)."""

    step: str
    object: str
    action: Action
    fields: tuple[ChangeField, ...]
    reversible: bool
    shown_beside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """The template record but for its readiness (contract 3.7)."""

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
        """As answered, without `readiness`."""
        return {
            "template_id": self.template_id,
            "template_version": self.template_version,
            "name": self.name,
            "description": self.description,
            "category": self.category.value,
            "platforms": list(self.platforms),
            "connections": [
                {
                    "kind": each.kind,
                    "use": each.use.value,
                    "required": each.required,
                    "min": each.min,
                    "max": each.max,
                }
                for each in self.connections
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
    """A connection the inputs name: the dotted path of its id, and the kind it must be; `store`: any."""

    path: str
    integration_id: IntegrationId
    kind: str


@dataclass(frozen=True, slots=True)
class SetupContext:
    """What set-up knows: the store chosen, and the organisation's connections by id; of its automations
    those that the inputs name, archived ones too."""

    store: Connection | None
    connections: Mapping[IntegrationId, Connection]
    automations: Mapping[AutomationId, Automation] = field(default_factory=dict)


# What became of changes that were not made, in words.
OTHER_OUTCOMES = {
    Outcome.UNCHANGED: "already so",
    Outcome.DECLINED: "declined",
    Outcome.CONFLICT: "changed meanwhile and left alone",
    Outcome.FAILED: "failed",
    Outcome.UNKNOWN: "unknown",
    Outcome.EXPIRED: "not approved in time",
    Outcome.CANCELLED: "cancelled",
}


ALL_OF_THEM = slice(None)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that waits or has ended, for its summary and result; steps that did not run are absent.

    `outcomes`: of the changes each step proposed, in their order. `counts` is the whole run's.
    """

    mode: Mode
    inputs: JsonObject
    outputs: Mapping[str, JsonValue]
    counts: Counts
    outcomes: Mapping[str, Sequence[Outcome]]

    def output_of(self, step: str) -> Mapping[str, JsonValue]:
        """The output of a step; empty when it did not run."""
        output = self.outputs.get(step)
        return output if isinstance(output, Mapping) else {}

    def ran(self, step: str) -> bool:
        """Whether the step came to its end, so that what it did not propose was not to be done."""
        return step in self.outputs

    def applied(self, step: str, among: slice = ALL_OF_THEM) -> int:
        """How many of the step's changes were applied; in a test run, would have been."""
        return sum(outcome in self.did for outcome in self._of(step, among))

    def applied_rows(self, step: str, rows: Iterable[T]) -> list[T]:
        """Of `rows`, one for each change of the step, those whose change was made; as `done` counts them."""
        outcomes = self.outcomes.get(step, ())
        return [row for row, outcome in zip(rows, outcomes, strict=False) if outcome in self.did]

    def other_outcomes(self, step: str, among: slice = ALL_OF_THEM) -> str:
        """What became of the step's other changes, such as `, 2 conflicts, 1 unknown` (engine 11.4)."""
        found = Counter(self._of(step, among))
        rest = [f", {found[outcome]} {words}" for outcome, words in OTHER_OUTCOMES.items() if found[outcome]]
        return "".join(rest)

    def changes_sentence(
        self, step: str, noun: str, done: str, *, none: str = "", among: slice = ALL_OF_THEM
    ) -> str:
        """What the step did, such as `11 of 12 prices changed, 1 unknown.`; `none` when it proposed nothing.

        `done` is the verb as in `changed` and `would be changed`; `among` of which of its changes it is told.
        """
        outcomes = self._of(step, among)
        if not outcomes:
            return none
        number = counted(len(outcomes), noun)
        if self.mode is Mode.TEST or all(outcome is Outcome.PROPOSED for outcome in outcomes):
            return f"{number} would be {done}."
        return f"{self.applied(step, among)} of {number} {done}{self.other_outcomes(step, among)}."

    def _of(self, step: str, among: slice) -> tuple[Outcome, ...]:
        return tuple(self.outcomes.get(step, ()))[among]

    def message_sentence(self, step: str, *, position: int = 0) -> str:
        """What became of the message the step posts to Teams; said also when there was none to post."""
        sent = tuple(self.outcomes.get(step, ()))[position:][:1]
        if not sent:
            ran = self.ran(step)
            return "Nothing to tell, so no message was sent." if ran else "No message was sent to Teams."
        if self.mode is Mode.TEST:
            return "A message would go to Teams."
        if Outcome.APPLIED in sent:
            return "A message was handed to Teams."
        if Outcome.UNKNOWN in sent:
            return "A message may have been sent to Teams; whether it arrived cannot be told."
        return "No message was sent to Teams."

    def report_sentence(self, step: str) -> str:
        """What became of the list and the message of a step that sends both, each where it was asked for."""
        calls = whole(self.output_of(step).get("sheet"))
        return sentences(
            self._written(step, calls) if "sheet" in self.inputs else None,
            self.message_sentence(step, position=calls) if "teams" in self.inputs else None,
        )

    def _written(self, step: str, calls: int) -> str:
        found = set(tuple(self.outcomes.get(step, ()))[:calls])
        if step not in self.outputs:
            return "The sheet was not written."
        if not found:
            return "The sheet holds this list already."
        if self.mode is Mode.TEST:
            return "The list would be written to the sheet."
        if found <= {Outcome.APPLIED, Outcome.UNCHANGED}:
            return "The list was written to the sheet."
        return "The list was not wholly written to the sheet."

    @property
    def did(self) -> frozenset[Outcome]:
        """The outcomes that stand for a change made, or in a test run for one that would be."""
        return frozenset(
            {Outcome.APPLIED, Outcome.REFUSED_TEST} if self.mode is Mode.TEST else {Outcome.APPLIED}
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary's text (≤ 500 characters) and the result, exactly the fields of `result_schema`."""

    text: str
    result: JsonObject


def run_summary(text: str, result: Mapping[str, JsonValue]) -> RunSummary:
    """The result with its lists cut to 200 entries, and to what fits into 64 KiB (contract 3.2 `result`)."""
    kept = {
        name: list(value[:RESULT_ENTRIES]) if isinstance(value, list) else value
        for name, value in result.items()
    }
    lists = [value for value in kept.values() if isinstance(value, list)]
    while len(json.dumps(kept, ensure_ascii=False).encode("utf-8")) > RESULT_BYTES and any(lists):
        longest = max(lists, key=len)
        del longest[len(longest) * 3 // 4 :]
    return RunSummary(text, kept)


def nothing_more(_: JsonObject, __: SetupContext) -> FieldErrors:
    """For templates whose inputs need no look at the world beyond their connections."""
    return {}


def names_none(_: JsonObject) -> tuple[AutomationId, ...]:
    """For templates whose inputs name no other automation."""
    return ()


@dataclass(frozen=True, slots=True)
class Template:
    """One template: `steps` has a function for every step of the facts; `finish` gives the last words.

    `check_world` judges what a schema cannot say, by what the last check of a connection found.
    `automations_of` are the other automations that checked inputs name.
    """

    facts: TemplateFacts
    steps: Mapping[str, StepFunction]
    finish: Callable[[EndedRun], RunSummary]
    check_setup: Callable[[JsonObject, SetupContext], FieldErrors] = nothing_more
    automations_of: Callable[[JsonObject], tuple[AutomationId, ...]] = names_none
    plan: Plan = field(init=False, repr=False, compare=False)  # its steps one after the other

    def __post_init__(self) -> None:
        steps = (
            PlanStep(step.name, step.title, step.kind, f"{self.template_id}.{step.name}")
            for step in self.facts.steps
        )
        object.__setattr__(self, "plan", in_line(tuple(steps)))

    @property
    def template_id(self) -> str:
        """Its id."""
        return self.facts.template_id

    def check_inputs(self, inputs: JsonValue) -> CheckedInputs:
        """The inputs with defaults filled in, or all faults at once by dotted path (contract 1.4 step 9)."""
        return check(self.facts.inputs_schema, inputs)

    def connections_of(self, inputs: JsonObject) -> tuple[NamedConnection, ...]:
        """The connections that checked inputs name, in the order of the schema."""
        return tuple(
            NamedConnection(f"inputs.{path}", IntegrationId(number), kind)
            for path, number, kind in named_accounts(self.facts.inputs_schema, inputs)
        )

    def check_connections(self, inputs: JsonObject, world: SetupContext) -> FieldErrors:
        """What is wrong with the connections that checked inputs name (templates 1; contract 1.4 step 13).

        Whether they are connected is the caller's question: that has a code of its own (`not_connected`).
        """
        errors: dict[str, list[str]] = {}
        for named in self.connections_of(inputs):
            found = world.connections.get(named.integration_id)
            if found is None:
                errors[named.path] = ["This organisation has no such connection."]
            elif named.kind == "store" and not found.is_store:
                errors[named.path] = [f"This connection is a {found.kind}; a store is needed."]
            elif named.kind not in ("store", found.kind):
                errors[named.path] = [f"This connection is a {found.kind}; a {named.kind} is needed."]
            else:
                errors.update(_place_errors(named, found, inputs))
        for path, messages in self.check_setup(inputs, world).items():
            errors.setdefault(path, []).extend(messages)
        return errors

    def readiness(self, connected: Mapping[str, int]) -> Readiness:
        """Contract 3.7; `connected` counts the organisation's connected stores and accounts by kind."""
        stores = sum(connected.get(platform, 0) for platform in STORES)
        have = {**connected, "store": stores}
        # A store it reads is another one than the store it runs on.
        own = {"store": 1} if self.facts.platforms else {}
        missing = tuple(
            each.kind
            for each in self.facts.connections
            if each.min and have.get(each.kind, 0) < each.min + own.get(each.kind, 0)
        )
        if not any(have.get(each.kind, 0) for each in self._either()):
            missing += tuple(each.kind for each in self._either())
        home = not self.facts.platforms or any(connected.get(name, 0) for name in self.facts.platforms)
        return Readiness(ready=home and not missing, missing=missing)

    def _either(self) -> tuple[ConnectionNeed, ...]:
        """Connections of which the inputs must name at least one (templates 1, "sheet or teams")."""
        asked = self.facts.inputs_schema.get("anyOf")
        if asked != [{"required": ["sheet"]}, {"required": ["teams"]}]:
            return ()
        return tuple(each for each in self.facts.connections if each.min == 0)


# Kinds an automation can run on (contract 3.8).
STORES = ("shopify", "woocommerce")


def _place_errors(named: NamedConnection, found: Connection, inputs: JsonObject) -> dict[str, list[str]]:
    place = inputs[named.path.split(".")[1]]
    if not isinstance(place, Mapping):
        return {}
    if named.kind == "spreadsheet":
        return _sheet_errors(named.path.replace("integration_id", "spreadsheet_id"), found, place)
    if named.kind == "teams":
        channel, labels = place.get("channel"), {found.name, found.account_label}
        if channel is not None and channel not in labels:
            return {
                named.path.replace("integration_id", "channel"): [
                    f"This connection is the channel {found.account_label or found.name}."
                ]
            }
    return {}


def _sheet_errors(path: str, found: Connection, place: JsonObject) -> dict[str, list[str]]:
    given = place.get("spreadsheet_id")
    if found.auth is Auth.USER_SIGN_IN:
        return {} if given is not None else {path: ["Name the spreadsheet: this sign-in reaches several."]}
    if given is not None and given != found.facts.get("subject"):
        return {path: ["This connection is one spreadsheet, and not this one. Leave it empty."]}
    return {}


def vendor_errors(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Refuses a filter by vendor on a platform whose products have none (templates 6, last line)."""
    products = inputs.get("products")
    named = isinstance(products, Mapping) and products.get("vendors")
    if named and world.store is not None and world.store.kind == "woocommerce":
        return {"inputs.products.vendors": ["WooCommerce has no vendors. Choose by tag or by type."]}
    return {}


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as `1 variant` and `12 variants`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def verb(number: int, one: str, more: str) -> str:
    """The form of a verb that fits the number, such as `is` and `are`."""
    return one if number == 1 else more


def whole(value: JsonValue) -> int:
    """A count out of a step's output; 0 when the step did not run."""
    return value if isinstance(value, int) else 0


def sentences(*words: str | None) -> str:
    """Sentences as one text of at most 500 characters (contract 3.2); absent ones are left out."""
    text = " ".join(word for word in words if word)
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1].rstrip() + "…"
