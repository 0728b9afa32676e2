"""The node deepL: translates texts, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, elements, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable

_OPTIONS = OptionTable("additionalFields", "sourceLang:source_lang formality")
_TRANSLATION = CallForm("translateTo:target_lang", (_OPTIONS,), {"text": lambda text: {"text": [text]}})
_OPERATIONS = {
    "language.translate": send(
        "POST", "/translate", _TRANSLATION, needed="text translateTo", is_query=True,
        to_items=elements("translations"),
    ),
}  # fmt: skip
_DEFAULTS = {"language": "translate"}


class DeepLNode(HttpServiceNode):
    """Translates texts at the account's host; DeepL has a separate host for free accounts."""

    types = ("deepL",)
    service = "DeepL"
    address = "https://{host}/v2"
    credential_types = ("deepLApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "language"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
