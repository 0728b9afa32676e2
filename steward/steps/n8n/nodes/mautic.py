"""The node mautic: contacts, through a bound account on the host of the Mautic installation."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined, named_values
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js

_CUSTOM: Mapping[str, AnyJson] = {
    "customFieldsUi": named_values("customFieldValues", "fieldId", "fieldValue"),
    "tags": joined("tags"),
}
_NEW = OptionTable("additionalFields", "ipAddress mobile owner", _CUSTOM)
_CHANGES = OptionTable(
    "updateFields",
    "company email firstName:firstname ipAddress lastName:lastname mobile owner position title",
    _CUSTOM,
)
_SIZE = 100
_RAW = OptionTable("options", "rawData")
_LIST = OptionTable("options", "search orderBy orderByDir minimal publishedOnly rawData")


def _contact(contact: AnyJson, fields: ServiceFields) -> Mapping[str, AnyJson]:
    """Returns only the fields of a contact, or the raw data if the step asks for it."""
    if fields.flag("options.rawData"):
        return contact if isinstance(contact, Mapping) else {}
    values = js.get_path(contact, "fields.all")
    return values if isinstance(values, Mapping) else {}


def _single(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    return [_contact(js.get_path(response, "contact"), fields)]


def _all(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the contacts of a page, which Mautic keys by their ids."""
    contacts = js.get_path(response, "contacts")
    rows = list(contacts.values()) if isinstance(contacts, Mapping) else contacts
    return [_contact(contact, fields) for contact in rows] if isinstance(rows, list) else []


def _query(fields: ServiceFields) -> dict[str, AnyJson]:
    options = _LIST.read(fields)
    options.pop("rawData", None)
    flags = {name: "true" for name in ("minimal", "publishedOnly") if options.pop(name, None)}
    texts = {name: value for name, value in options.items() if value != ""}
    return {"limit": _SIZE, **texts, **flags}


def _next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
    contacts = js.get_path(response, "contacts")
    if not isinstance(contacts, Mapping | list) or len(contacts) < _SIZE:
        return None
    return {**query, "start": str(int(str(query.get("start") or 0)) + _SIZE)}


_NEW_CONTACT = CallForm("email firstName:firstname lastName:lastname company position title", (_NEW,))
_OPERATIONS = {
    "contact.create": send(
        "POST", "/contacts/new",
        CallForm("email firstName lastName company position title", (_NEW, _RAW)),
        recipient="email", to_items=_single, makes=_NEW_CONTACT,
    ),
    "contact.update": send(
        "PATCH", "/contacts/{contactId}/edit", CallForm(tables=(_CHANGES, _RAW)), to_items=_single,
        makes=_CHANGES.read,
    ),
    "contact.get": get(
        "/contacts/{contactId}", CallForm(tables=(_RAW,)), to_items=_single, makes=lambda fields: {}
    ),
    "contact.getAll": get_all(
        "/contacts", "", _next_page, CallForm(tables=(_LIST,)), limit=30, to_items=_all, makes=_query
    ),
    "contact.delete": send("DELETE", "/contacts/{contactId}/delete", to_items=_single),
    "segmentContact.add": send("POST", "/segments/{segmentId}/contact/{contactId}/add"),
    "campaignContact.add": send("POST", "/campaigns/{campaignId}/contact/{contactId}/add"),
}  # fmt: skip
_DEFAULTS = {"contact": "create", "segmentContact": "add", "campaignContact": "add"}


class MauticNode(HttpServiceNode):
    """Supports contacts, and adding them to segments and campaigns."""

    types = ("mautic",)
    service = "Mautic"
    address = "https://{host}/api"
    credential_types = ("mauticApi", "mauticOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "contact"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    response_parameters = ("options",)
