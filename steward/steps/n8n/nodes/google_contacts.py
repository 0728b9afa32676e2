"""The node googleContacts: creates contacts in the address book of the person who signed in."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition


def _rows(collection: str, name: str, *members: str) -> Shape:
    """Returns a shape for the rows of an option that keeps only members that are set."""

    def shape(value: AnyJson) -> Mapping[str, AnyJson]:
        rows = [
            {member: row[member] for member in members if row.get(member) not in (None, "")}
            for row in rows_of(value, collection)
        ]
        return {name: rows} if rows else {}

    return shape


_OPTIONS = OptionTable(
    "additionalFields", "",
    {
        "emailsUi": _rows("emailsValues", "emailAddresses", "type", "value"),
        "phoneUi": _rows("phoneValues", "phoneNumbers", "type", "value"),
        "companyUi": _rows("companyValues", "organizations", "current", "domain", "name", "title"),
    },
)  # fmt: skip


def _person(fields: ServiceFields) -> dict[str, AnyJson]:
    name = {part: fields.text(part) for part in ("familyName", "givenName") if fields.text(part)}
    return {"names": [name], **_OPTIONS.read(fields)}


_OPERATIONS = {
    "contact.create": send(
        "POST", "/people:createContact", CallForm("familyName givenName", (_OPTIONS,)), makes=_person,
        recipient="givenName", text="familyName",
    ),
}  # fmt: skip
_DEFAULTS = {"contact": "create"}


class GoogleContactsNode(HttpServiceNode):
    """Creates contacts."""

    types = ("googleContacts",)
    service = "Google Contacts"
    address = "https://people.googleapis.com/v1"
    credential_types = ("googleContactsOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "contact"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns True, because n8n outputs the contact's fields in a form that Steward does not build."""
        return True
