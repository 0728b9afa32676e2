"""The nodes noOp, respondToWebhook, wait and stopAndError."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from steward.model.plan import StepKind
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
    is_expression,
    paired_with,
)

_LONGEST_WAIT = timedelta(days=90)
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


def passed(items: Items) -> Items:
    """Returns the items, each paired with itself."""
    return [Item(item.json, paired_with(index)) for index, item in enumerate(items)]


class NoOpNode(StepType):
    """The node noOp: passes items on."""

    types = ("noOp",)
    knows_all_parameters = True
    field_use = FieldUse.PASSES_ITEMS
    per_item = False

    async def run(self, call: StepCall) -> NodeResult:
        """Passes the items on."""
        return NodeResult([passed(call.items)])


class ExecutionDataNode(NoOpNode):
    """The node executionData: passes items on; does not store its notes for n8n's list of executions."""

    types = ("executionData",)
    knows_all_parameters = False
    versions = (1, 1.1)
    parameters = frozenset(("operation", "dataToSave"))


class RespondToWebhookNode(StepType):
    """The node respondToWebhook: passes items on, because no client waits for a response."""

    types = ("respondToWebhook",)
    knows_all_parameters = True  # no caller receives a response, so its contents do not matter
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 1.1, 1.2, 1.3, 1.4, 1.5)
    per_item = False
    parameters = frozenset(
        ("respondWith", "responseBody", "payload", "redirectURL", "responseDataSource", "inputFieldName")
    ) | frozenset(("enableResponseOutput", "generalNotice", "webhookNotice", "options"))
    options = frozenset(
        ("responseCode", "responseHeaders", "responseKey", "enableStreaming", "enableResponseOutput")
    )
    choices = MappingProxyType(
        {
            "respondWith": frozenset(
                (
                    "allIncomingItems",
                    "binary",
                    "firstIncomingItem",
                    "json",
                    "jwt",
                    "noData",
                    "redirect",
                    "text",
                )
            )
        }
    )

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns the output of the items, and that of the response if the step has one."""
        return ("out:0", _RESPONSE_PORT) if _has_response_output(node) else ("out:0",)

    def unfilled_outputs(self, node: NodeDefinition) -> Mapping[str, str]:
        """Returns the output of the response, which no run fills here."""
        message = "Its output “Response” passes on the response, which is not supported."
        return {_RESPONSE_PORT: f"{message} Connect what follows to its first output in n8n."}

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a warning that no response is sent."""
        message = "It responds to the caller of the webhook. No caller waits here, so nobody gets it."
        yield StepProblem("warning", "parameter", f"{message} Items pass; nothing to do.")
        if node.version < 1.3 and _sets_response_output(node):
            message = "Whether this version has an output “Response” is not certain. Switch it off in n8n."
            yield StepProblem("error", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Passes the items on."""
        return NodeResult([passed(call.items)])


_RESPONSE_PORT = "out:1"


def _has_response_output(node: NodeDefinition) -> bool:
    """Returns whether the step has a second output; version 1.3 always has it, later ones if it is set."""
    return node.version == 1.3 or (node.version > 1.3 and _sets_response_output(node))


def _sets_response_output(node: NodeDefinition) -> bool:
    return bool(node.get("enableResponseOutput") or node.get("options.enableResponseOutput"))


class StopAndErrorNode(StepType):
    """The node stopAndError: fails with the configured message."""

    types = ("stopAndError",)
    knows_all_parameters = True
    field_use = FieldUse.REPLACES_ITEMS
    per_item = False
    options = frozenset()
    parameters = frozenset(("errorType", "errorMessage", "errorObject"))

    async def run(self, call: StepCall) -> NodeResult:
        """Raises WorkflowStepFailed."""
        params = call.first
        if params.text("errorType", "errorMessage") == "errorObject":
            value = params.get("errorObject", "")
            message = value if isinstance(value, str) else js.json_text(value)
        else:
            message = params.text("errorMessage")
        raise WorkflowStepFailed(message or "The workflow was stopped by this step.")


class WaitNode(StepType):
    """The node wait: waits until a time or for a duration of up to 90 days, but not in test runs."""

    types = ("wait",)
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 1.1)
    kind = StepKind.WAIT
    per_item = False
    parameters = frozenset(("resume", "amount", "unit", "dateTime", "options", "limitWaitTime")) | frozenset(
        # of a wait for a call or a form, which `check` reports once and not once for each parameter
        (
            *("limitType", "resumeAmount", "resumeUnit", "maxDateAndTime", "httpMethod", "responseMode"),
            *("responseCode", "responseData", "responseBinaryPropertyName", "incomingAuthentication"),
            *("formTitle", "formDescription", "formFields", "defineForm", "jsonOutput", "respondWith"),
        )
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields waits that have no end time or are too long."""
        resume = node.get("resume", "timeInterval")
        if resume in ("webhook", "form"):
            message = "It waits for a call or a form, which cannot reach it here. Wait for a time instead."
            yield StepProblem("error", "parameter", message)
        elif is_expression(resume):
            message = "Its “Resume” is an expression. Choose an interval or a time."
            yield StepProblem("error", "parameter", message)
        elif resume not in ("timeInterval", "specificTime"):
            message = "n8n has no such choice for “Resume”. Choose an interval or a time."
            yield StepProblem("error", "parameter", message)
        yield from _duration_problems(node, resume)
        date_time = node.get("dateTime", "=")
        if (
            resume == "specificTime"
            and not is_expression(date_time)
            and js_dates.parse(str(date_time), UTC) is None
        ):
            yield StepProblem(
                "error", "parameter", "The time it waits for cannot be read. Give a date and time."
            )

    async def run(self, call: StepCall) -> NodeResult:
        """Passes the items on and returns the time until which the run sleeps."""
        now = call.environment.now
        until = _end_of_wait(call, now)
        if until - now > _LONGEST_WAIT:
            raise WorkflowStepFailed("This step would wait longer than 90 days.")
        return NodeResult([passed(call.items)], wait_until=until if until > now else None)


def _duration_problems(node: NodeDefinition, resume: object) -> Iterable[StepProblem]:
    amount = node.get("amount", 5 if node.version > 1 else 1)
    unit = str(node.get("unit", "seconds" if node.version > 1 else "hours"))
    is_interval = resume == "timeInterval" and js.is_number(amount) and unit in _UNITS
    if is_interval and amount * _UNITS[unit] > _LONGEST_WAIT.total_seconds():
        yield StepProblem("error", "parameter", "It waits longer than 90 days. Wait for less.")
    if resume == "timeInterval" and not is_expression(unit) and unit not in _UNITS:
        yield StepProblem("error", "parameter", "The unit of its time is not known. Choose another one.")


def _end_of_wait(call: StepCall, now: datetime) -> datetime:
    """Returns the end of the wait. Raises ItemFailed."""
    params = call.first
    if params.text("resume", "timeInterval") == "specificTime":
        until = js_dates.parse(params.text("dateTime"), js_dates.zone_of(call.environment.zone) or UTC)
        if until is None:
            raise ItemFailed("The time to wait for cannot be read. Give a date and time.")
        return until
    unit = params.text("unit", "seconds" if call.version > 1 else "hours")
    amount = js.number(params.get("amount", 5 if call.version > 1 else 1))
    if amount != amount or amount < 0 or unit not in _UNITS:
        raise ItemFailed("How long to wait cannot be read. Set a time span.")
    return now + timedelta(seconds=min(amount * _UNITS[unit], 10 * _LONGEST_WAIT.total_seconds()))
