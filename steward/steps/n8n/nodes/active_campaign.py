"""The node activeCampaign: contacts with their tags and lists, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, elements, get, get_all, offset_pages, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.workflow.javascript import values as js


def _custom_fields(value: AnyJson) -> Mapping[str, AnyJson]:
    rows = rows_of(value, "property")
    pairs = [{"field": js.text(row.get("field")), "value": row.get("value")} for row in rows]
    return {"fieldValues": pairs} if pairs else {}


_SHAPES: Mapping[str, AnyJson] = {"fields": _custom_fields}
_NEW = OptionTable("additionalFields", "firstName lastName phone", _SHAPES)
_CHANGES = OptionTable("updateFields", "email firstName lastName phone", _SHAPES)
_FILTERS = OptionTable("additionalFields", "email listid search status tagid")
_OPERATIONS = {
    "contact.create": send(
        "POST", "", CallForm("email", (_NEW,), within="contact"), needed="email", recipient="email",
        to_items=elements("contact"),
        choose_path=lambda fields: (
            "/contact/sync" if fields.flag("updateIfExists", True) else "/contacts"
        ),
    ),
    "contact.update": send(
        "PUT", "/contacts/{contactId}", CallForm(tables=(_CHANGES,), within="contact"),
        to_items=elements("contact"),
    ),
    "contact.get": get("/contacts/{contactId}"),
    "contact.getAll": get_all(
        "/contacts", "contacts", offset_pages("contacts", 100),
        CallForm(tables=(_FILTERS,), fixed={"limit": 100}), limit=100,
    ),
    "contactTag.add": send(
        "POST", "/contactTags", CallForm("contactId:contact tagId:tag", within="contactTag"),
        needed="contactId tagId", recipient="contactId", to_items=elements("contactTag"),
    ),
    "contactList.add": send(
        "POST", "/contactLists",
        CallForm("listId:list contactId:contact", fixed={"status": 1}, within="contactList"),
        needed="listId contactId", recipient="contactId", to_items=elements("contactList"),
    ),
}  # fmt: skip
_DEFAULTS = {"contact": "create", "contactTag": "add", "contactList": "add"}


class ActiveCampaignNode(HttpServiceNode):
    """Supports contacts with their tags and lists, but not deals and accounts."""

    types = ("activeCampaign",)
    service = "ActiveCampaign"
    address = "https://{host}/api/3"
    credential_types = ("activeCampaignApi",)
    parameters = parameters_of(_OPERATIONS, "updateIfExists")
    default_resource = "contact"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
