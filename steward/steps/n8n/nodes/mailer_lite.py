"""The node mailerLite: subscribers, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, elements, get, get_all, parameters_of, send, token_pages
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.workflow.javascript import values as js


def _custom_fields(value: AnyJson) -> Mapping[str, AnyJson]:
    rows = rows_of(value, "customFieldsValues")
    return {"fields": {js.text(row.get("fieldId")): row.get("value") for row in rows}} if rows else {}


_SHAPES: Mapping[str, AnyJson] = {"customFieldsUi": _custom_fields}
_FIELDS = OptionTable("additionalFields", "status", _SHAPES)
_OPERATIONS = {
    "subscriber.create": send(
        "POST", "/subscribers", CallForm("email", (_FIELDS,)), needed="email", recipient="email",
        to_items=elements("data"),
    ),
    "subscriber.get": get("/subscribers/{subscriberId}", items="data"),
    "subscriber.getAll": get_all(
        "/subscribers", "data", token_pages("meta.next_cursor", "cursor"),
        CallForm(tables=(OptionTable("filters"),), fixed={"limit": 100}),
    ),
    "subscriber.update": send(
        "PUT", "/subscribers/{subscriberId}", CallForm(tables=(_FIELDS,)), to_items=elements("data")
    ),
}  # fmt: skip
_DEFAULTS = {"subscriber": "create"}


class MailerLiteNode(HttpServiceNode):
    """Supports subscribers through MailerLite's current API, which version 2 of the node calls."""

    types = ("mailerLite",)
    versions = (2,)
    refused_versions = (1,)
    service = "MailerLite"
    address = "https://connect.mailerlite.com/api"
    credential_types = ("mailerLiteApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "subscriber"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
