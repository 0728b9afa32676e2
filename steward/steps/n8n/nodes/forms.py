"""The node form: the pages of a form after its first, which nobody sees during a run."""

from collections.abc import Iterable
from types import MappingProxyType

from steward.steps.n8n.nodes.plain import passed
from steward.steps.workflow.step_types import (
    FieldUse,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
)


class FormNode(StepType):
    """A page that asks for fields cannot run; the page that ends a form passes items on."""

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
        """Yields a problem for a page that a person fills in, and a warning for the last one."""
        if node.get("operation", "page") != "completion":
            words = (
                "It shows a further page of a form, which nobody can fill in during a run."
                " Ask for its fields on the first page, and remove the step."
            )
            yield StepProblem("error", "parameter", words)
        else:
            words = "It shows the last page of a form, which nobody sees here. Items pass; nothing to do."
            yield StepProblem("warning", "parameter", words)

    async def run(self, call: StepCall) -> NodeResult:
        """Passes the items on."""
        return NodeResult([passed(call.items)])
