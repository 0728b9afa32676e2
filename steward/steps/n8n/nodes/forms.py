"""The node form: further pages of a form, which nobody sees during a run."""

from collections.abc import Iterable
from types import MappingProxyType

from steward.model.plan import PlanStep
from steward.steps.n8n.nodes.plain import passed
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

# The names and values of a page's fields, added by the export reader; the start form contains them.
START_FIELDS = "startFields"


class FormNode(StepType):
    """Outputs a page's fields as entered at the start of the run; a completion page passes items on."""

    types = ("form",)
    versions = (1, 2.3, 2.4, 2.5)
    field_use = FieldUse.PASSES_ITEMS
    per_item = False
    options = frozenset(
        (
            "formTitle",
            "formDescription",
            "buttonLabel",
            "customCss",
            "appendAttribution",
            "respondWithOptions",
        )
    )
    choices = MappingProxyType({"operation": frozenset(("page", "completion"))})
    parameters = (
        frozenset(
            (
                "operation",
                "defineForm",
                "jsonOutput",
                START_FIELDS,
                "formFields",
                "limitWaitTime",
                "limitType",
                "resumeAmount",
            )
        )
        | frozenset(
            (
                "resumeUnit",
                "maxDateAndTime",
                "respondWith",
                "redirectUrl",
                "completionTitle",
                "completionMessage",
            )
        )
        | frozenset(("responseText", "inputDataFieldName", "useJson", "triggerNotice", "options"))
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a problem for a page that cannot be filled in advance, and warnings for other pages."""
        if node.get(START_FIELDS):
            message = "It shows a further page of a form. Its fields are asked for at the start of a run."
            yield StepProblem("warning", "parameter", f"{message} Give them all then.")
        elif node.get("operation", "page") != "completion":
            message = (
                "It shows a further page of a form, which nobody can fill in during a run."
                " Ask for its fields on the first page, and remove the step."
            )
            yield StepProblem("error", "parameter", message)
        else:
            message = "It shows the last page of a form, which nobody sees here. Items pass; nothing to do."
            yield StepProblem("warning", "parameter", message)

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns REPLACES_ITEMS for a page with fields, which outputs only these."""
        return FieldUse.REPLACES_ITEMS if START_FIELDS in step.config else self.field_use

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the fields of the page, or passes the items on."""
        rows = call.first.rows(START_FIELDS) if call.items else []
        if not rows:
            return NodeResult([passed(call.items)])
        values = {row.text("name"): row.get("value") for row in rows}
        json = {name: js.to_json(value) for name, value in values.items() if not js.is_missing(value)}
        return NodeResult([[Item(json, paired_with(0))]])
