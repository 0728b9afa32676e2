"""The node googleTranslate: translates texts with Google, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, elements, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode

_OPERATIONS = {
    "language.translate": send(
        "POST", "/language/translate/v2", CallForm("text:q translateTo:target"), needed="text translateTo",
        is_query=True, to_items=elements("data", "translations"),
    ),
}  # fmt: skip
_DEFAULTS = {"language": "translate"}


class GoogleTranslateNode(HttpServiceNode):
    """Translates a text, which is its only operation."""

    types = ("googleTranslate",)
    versions = (1, 2)
    service = "Google Translate"
    address = "https://translation.googleapis.com"
    credential_types = ("googleTranslateOAuth2Api", "googleApi")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "language"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
