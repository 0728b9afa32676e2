"""The node openAi: text completions by OpenAI's models, through a bound account."""

from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_NAMES = (
    "echo frequencyPenalty:frequency_penalty maxTokens:max_tokens n presencePenalty:presence_penalty"
    " temperature topP:top_p"
)
_OPTIONS = OptionTable("options", _NAMES)


def _messages(value: AnyJson) -> dict[str, AnyJson]:
    rows = rows_of(value, "messages")
    return {"messages": [{"role": row.get("role", "user"), "content": row.get("content")} for row in rows]}


def _prompt(value: AnyJson) -> dict[str, AnyJson]:
    return {"prompt": value}


_PROMPTS: Mapping[str, Mapping[str, Shape]] = {
    "chatModel": {"prompt": _messages},
    "model": {"prompt": _prompt},
}


def _choices(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the choices, or the whole response if the step asks for it."""
    if not fields.flag("simplifyOutput", True):
        return [response] if isinstance(response, Mapping) else []
    rows = js.get_path(response, "choices")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _model(name: str) -> ServiceOperation:
    """Returns an operation that takes its model from the parameter `name`."""

    def problems(node: NodeDefinition) -> Iterable[StepProblem]:
        if node.get(name) in (None, ""):
            message = "It does not name its model, whose default changes. Choose a model in n8n."
            yield StepProblem("error", "parameter", message)

    is_chat = name == "chatModel"
    return send(
        "POST",
        "/chat/completions" if is_chat else "/completions",
        CallForm(f"{name}:model", (_OPTIONS,), _PROMPTS[name]),
        needed="prompt", recipient="", text="prompt", to_items=_choices, check=problems, is_query=True,
    )  # fmt: skip


_OPERATIONS = {"chat.complete": _model("chatModel"), "text.complete": _model("model")}
_DEFAULTS = {"chat": "complete", "text": "complete"}


class OpenAiNode(HttpServiceNode):
    """Supports chat and text completions, but not images, files and moderation."""

    types = ("openAi",)
    versions = (1, 1.1)
    service = "OpenAI"
    address = "https://api.openai.com/v1"
    credential_types = ("openAiApi",)
    parameters = parameters_of(_OPERATIONS, "simplifyOutput requestOptions")
    default_resource = "text"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
