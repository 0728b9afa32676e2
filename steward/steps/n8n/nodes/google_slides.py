"""The node googleSlides: creates and reads presentations and replaces texts, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js

_OPTIONS = OptionTable("options", "")


def _replacements(value: AnyJson) -> Mapping[str, AnyJson]:
    """Returns a request for each text; without pages it is replaced on all of them."""
    return {"requests": [_replacement(row) for row in rows_of(value, "textValues")]}


def _replacement(row: Mapping[str, AnyJson]) -> dict[str, AnyJson]:
    text = {"text": js.text(row.get("text", "")), "matchCase": js.truthy(row.get("matchCase", False))}
    pages = row.get("pageObjectIds") or []
    request = {"replaceText": js.text(row.get("replaceText", "")), "containsText": text}
    return {"replaceAllText": {**request, "pageObjectIds": pages} if pages else request}


def _texts(fields: ServiceFields) -> str:
    return "\n".join(row.text("replaceText") for row in fields.rows("textUi.textValues"))


_OPERATIONS = {
    "presentation.create": send("POST", "/presentations", CallForm("title"), needed="title", text="title"),
    "presentation.get": get("/presentations/{presentationId}"),
    "presentation.replaceText": send(
        "POST", "/presentations/{presentationId}:batchUpdate",
        CallForm("", (_OPTIONS,), {"textUi": _replacements}), needed="textUi", text=_texts,
    ),
}  # fmt: skip
_DEFAULTS = {"presentation": "create"}


class GoogleSlidesNode(HttpServiceNode):
    """Creates and reads presentations and replaces their texts; pages and thumbnails are not supported."""

    types = ("googleSlides",)
    versions = (1, 2)
    service = "Google Slides"
    address = "https://slides.googleapis.com/v1"
    credential_types = ("googleSlidesOAuth2Api", "googleApi")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "presentation"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
