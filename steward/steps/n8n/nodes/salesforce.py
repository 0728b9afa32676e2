"""The node salesforce: records by query and by id, as the person who signed in."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, named_values
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed

_CUSTOM: Mapping[str, AnyJson] = {"customFieldsUi": named_values("customFieldsValues", "fieldId")}
_LEAD = (
    "annualRevenue:AnnualRevenue city:City country:Country description:Description email:Email fax:Fax"
    " firstname:FirstName industry:Industry leadSource:LeadSource mobilePhone:MobilePhone"
    " numberOfEmployees:NumberOfEmployees owner:OwnerId phone:Phone postalCode:PostalCode rating:Rating"
    " salutation:Salutation state:State status:Status street:Street title:Title website:Website"
)
_CONTACT = (
    "assistantName:AssistantName assistantPhone:AssistantPhone department:Department description:Description"
    " email:Email fax:Fax firstName:FirstName homePhone:HomePhone leadSource:LeadSource"
    " mailingCity:MailingCity mailingCountry:MailingCountry mailingPostalCode:MailingPostalCode"
    " mailingState:MailingState mailingStreet:MailingStreet mobilePhone:MobilePhone owner:OwnerId phone:Phone"
    " salutation:Salutation title:Title"
)
_ACCOUNT = (
    "annualRevenue:AnnualRevenue description:Description fax:Fax industry:Industry"
    " numberOfEmployees:NumberOfEmployees owner:OwnerId phone:Phone website:Website"
)


def _refuse_more(response: AnyJson, query: Mapping[str, AnyJson]) -> None:
    if js.truthy(js.get_path(response, "nextRecordsUrl")):
        raise ItemFailed("The query has more records than one page. Limit it.")


def _record(resource: str, name: str, number: str, fields: str, first: str) -> dict[str, ServiceOperation]:
    """Returns the operations of one kind of record; `first` lists the parameters a new one needs."""
    path = f"/sobjects/{name}"
    new = OptionTable("additionalFields", fields, _CUSTOM)
    changes = OptionTable("updateFields", f"{fields} {first}", _CUSTOM)
    needed = " ".join(pair.partition(":")[0] for pair in first.split())
    text = needed.split()[0]
    return {
        f"{resource}.create": send("POST", path, CallForm(first, (new,)), needed=needed, text=text),
        f"{resource}.update": send(
            "PATCH", f"{path}/{{{number}}}", CallForm(tables=(changes,)), to_items=_changed
        ),
        f"{resource}.get": get(f"{path}/{{{number}}}"),
        f"{resource}.delete": send("DELETE", f"{path}/{{{number}}}", to_items=_changed),
    }


def _changed(response: AnyJson, fields: ServiceFields) -> list[dict[str, AnyJson]]:
    return [{"errors": [], "success": True}]


_OPERATIONS = {
    "search.query": get_all(
        "/query", "records", _refuse_more, CallForm("query:q"), needed="query", returns_all=True
    ),
    **_record("lead", "Lead", "leadId", _LEAD, "company:Company lastname:LastName"),
    **_record("contact", "Contact", "contactId", _CONTACT, "lastname:LastName"),
    **_record("account", "Account", "accountId", _ACCOUNT, "name:Name"),
}
_DEFAULTS = {"lead": "create", "contact": "create", "account": "create", "search": "query"}


class SalesforceNode(HttpServiceNode):
    """Supports queries, leads, contacts and accounts, at the account's host."""

    types = ("salesforce",)
    service = "Salesforce"
    address = "https://{host}/services/data/v59.0"
    credential_types = ("salesforceOAuth2Api", "salesforceJwtApi")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "lead"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
