"""Tasks without changes: condition, for-each, count, sum, run code and wait."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, timedelta
from decimal import Decimal, InvalidOperation

from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.steps.shopify_flow import conditions, selection
from steward.steps.shopify_flow.environment import elements
from steward.steps.shopify_flow.order import LOOP
from steward.steps.shopify_flow.task_types import (
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    TaskDefinition,
    WorkflowStepFailed,
)
from steward.steps.workflow.expressions.views import CodeFailed
from steward.steps.workflow.javascript import dates as js_dates

_MAX_WAIT = timedelta(days=90)
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)


class Condition(FlowType):
    """Continues at `true` or at `false`."""

    tasks = ("shopify::flow::condition",)
    label = "Check if condition is met"
    fields = frozenset(("condition",))

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `condition`."""
        return "condition"

    def ports(self, definition: TaskDefinition) -> tuple[str, ...]:
        """Returns the ports of both results."""
        return ("true", "false")

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the port of the condition's result."""
        tree = call.value("condition")
        if not isinstance(tree, Mapping):
            raise WorkflowStepFailed("The condition of this step cannot be read. Import the flow again.")
        zone = js_dates.zone_of(call.run_environment.zone) or UTC
        result = conditions.holds(tree, call.environment, zone)
        return FlowResult(ports=("true" if result else "false",), counts=Counts(matched=int(result)))


class _ListTask(FlowType):
    """The base of tasks over a list, which the file names by its path."""

    fields = frozenset(("list",))

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields a problem if no list is named."""
        path = definition.literal("list")
        if not isinstance(path, str) or not _PATH.match(path):
            yield StepProblem("error", "parameter", "It names no list. Choose one in Shopify Flow.")

    def items_of(self, call: FlowCall) -> list[JsonValue]:
        """Returns the list's elements; a path through nested lists joins them all."""
        return elements(call.environment.resolve(call.text("list")))


class ForEach(_ListTask):
    """Runs the steps of its body once per element, in order, and then those that follow."""

    tasks = ("shopify::flow::foreach",)
    label = "For each loop"
    fields = frozenset(("list", "item"))

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `for_each`."""
        return "for_each"

    def ports(self, definition: TaskDefinition) -> tuple[str, ...]:
        """Returns the ports of the body and of the steps that follow."""
        return (LOOP, "after")

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the elements to run the body for."""
        items = self.items_of(call)
        return FlowResult(ports=(LOOP, "after"), elements=tuple(items), counts=Counts(matched=len(items)))


class Count(_ListTask):
    """Counts the elements of a list."""

    tasks = ("shopify::flow::count",)
    label = "Count"
    variable = "count"
    reads_store = True

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `count`."""
        return "count"

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the number of elements."""
        return FlowResult(len(self.items_of(call)))


class Sum(_ListTask):
    """Adds up the numbers of a list; empty values count as nothing."""

    tasks = ("shopify::flow::sum",)
    label = "Sum"
    variable = "sum"
    reads_store = True

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `sum`."""
        return "sum"

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the sum of the elements, as an integer if it has no fraction."""
        total = Decimal(0)
        for element in self.items_of(call):
            if element is None or element == "":
                continue
            total += _number(element)
        return FlowResult(int(total) if total == total.to_integral_value() else float(total))


def _number(value: JsonValue) -> Decimal:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            number = Decimal(str(value).strip())
            if number.is_finite() and abs(number.adjusted()) < 30:
                return number
    except InvalidOperation:
        pass
    raise ItemFailed(f"“{str(value)[:40]}” cannot be added up: it is not a number.")


class RunCode(FlowType):
    """Runs a script in the sandbox over the selected part of the environment."""

    tasks = ("shopify::flow::run_code",)
    label = "Run code"
    variable = "runCode"
    fields = frozenset(("input", "script", "output_schema"))

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `code`."""
        return "code"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields problems with its input and output types; the import compiles all scripts together."""
        try:
            selection.read_selection(str(definition.config.get("input") or ""))
        except selection.UnreadableSelection as fault:
            message = f"Its input cannot be read: {fault.message} Select fields without arguments."
            yield StepProblem("error", "parameter", message)
        try:
            if str(definition.config.get("output_schema") or "").strip():
                selection.read_schema(str(definition.config["output_schema"]))
        except selection.UnreadableSelection as fault:
            yield StepProblem(
                "error", "parameter", f"The types of its output cannot be read: {fault.message}"
            )
        if not str(definition.config.get("script") or "").strip():
            yield StepProblem("error", "parameter", "It has no script. Remove the step.")

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the script's result, cut and checked to the types of its output."""
        fields = selection.read_selection(call.text("input"))
        script_input = selection.cut(call.environment, fields)
        try:
            value = await call.evaluator.run_flow_code(call.text("script"), script_input, call.now)
        except CodeFailed as failure:
            raise WorkflowStepFailed(failure.message) from None
        schema = call.text("output_schema")
        if not schema:
            return FlowResult(value)
        try:
            return FlowResult(selection.fitted(value, selection.read_schema(schema)))
        except selection.OutputMismatch as misfit:
            raise WorkflowStepFailed(
                f"The script's output does not fit its types: {misfit.message}"
            ) from None


class Wait(FlowType):
    """Waits for a time span or until a time, at most 90 days; then the flow's objects are read again."""

    tasks = ("shopify::flow::wait",)
    label = "Wait"
    kind = StepKind.WAIT
    fields = frozenset(("seconds", "until"))

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `wait`."""
        return "wait"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields a problem if it has no span or time within the limit."""
        seconds, until = definition.literal("seconds"), definition.config.get("until")
        if seconds is None and until is None:
            yield StepProblem("error", "parameter", "How long it waits cannot be read. Set a time span.")
        if isinstance(seconds, int | float) and seconds > _MAX_WAIT.total_seconds():
            yield StepProblem("error", "parameter", "It waits longer than 90 days. Wait for less.")
        if isinstance(until, str) and js_dates.parse(until, UTC) is None:
            yield StepProblem(
                "error", "parameter", "The time it waits for cannot be read. Give a date and time."
            )

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the time until which the run sleeps, or none if it has passed."""
        seconds = call.value("seconds")
        if seconds is not None:
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
                raise ItemFailed("How long to wait cannot be read. Set a time span.")
            until = call.now + timedelta(seconds=min(seconds, 10 * _MAX_WAIT.total_seconds()))
        else:
            zone = js_dates.zone_of(call.run_environment.zone) or UTC
            parsed = js_dates.parse(call.text("until"), zone)
            if parsed is None:
                raise ItemFailed("The time to wait for cannot be read. Give a date and time.")
            until = parsed
        if until - call.now > _MAX_WAIT:
            raise WorkflowStepFailed("This step would wait longer than 90 days.")
        return FlowResult(wait_until=until if until > call.now else None)
