"""The node googleCloudNaturalLanguage: the sentiment of texts, through a bound account."""

from collections.abc import Iterable

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_OPTIONS = OptionTable("options", "documentType:type encodingType language")


def _document(fields: ServiceFields) -> dict[str, AnyJson]:
    options = _OPTIONS.read(fields)
    encoding = options.pop("encodingType", None) or "UTF16"
    document = {"type": "PLAIN_TEXT", **options, "content": fields.text("content")}
    return {"document": document, "encodingType": encoding}


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("source", "content") != "content":
        message = "It reads a file of Google's storage, which is not supported. Give it the text."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "document.analyzeSentiment": send(
        "POST", "/v1/documents:analyzeSentiment", CallForm("content", (_OPTIONS,)), needed="content",
        makes=_document, is_query=True, check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"document": "analyzeSentiment"}


class GoogleLanguageNode(HttpServiceNode):
    """Analyzes a text, which is its only operation."""

    types = ("googleCloudNaturalLanguage",)
    service = "Google Cloud Natural Language"
    address = "https://language.googleapis.com"
    credential_types = ("googleCloudNaturalLanguageOAuth2Api",)
    parameters = parameters_of(_OPERATIONS, "source")
    default_resource = "document"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
