"""The node hubspot: contacts, companies and deals, through a bound account."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem, is_expression

_PAGE = 100
_NAMES = (
    "authentication resource operation email contactId companyId dealId stage name domain returnAll limit"
    " filters filterGroupsUi additionalFields updateFields options listId by id"
)
_CONTACT = (
    "annualRevenue:annualrevenue associatedCompanyId:associatedcompanyid city companyName:company"
    " companySize:company_size contactOwner:hubspot_owner_id country degree faxNumber:fax"
    " fieldOfStudy:field_of_study firstName:firstname gender industry jobFunction:job_function"
    " jobTitle:jobtitle lastName:lastname leadStatus:hs_lead_status lifeCycleStage:lifecyclestage"
    " maritalStatus:marital_status message mobilePhoneNumber:mobilephone numberOfEmployees:numemployees"
    " phoneNumber:phone postalCode:zip relationshipStatus:relationship_status salutation school seniority"
    " stateRegion:state streetAddress:address twitterUsername:twitterhandle websiteUrl:website"
    " workEmail:work_email"
)
_COMPANY = (
    "aboutUs:about_us annualRevenue:annualrevenue city companyDomainName:domain"
    " companyOwner:hubspot_owner_id countryRegion:country description industry leadStatus:hs_lead_status"
    " numberOfEmployees:numberofemployees phoneNumber:phone postalCode:zip stateRegion:state"
    " streetAddress:address streetAddress2:address2 twitterHandle:twitterhandle type websiteUrl:website"
    " yearFounded:founded_year"
)
_DEAL = "amount dealName:dealname dealOwner:hubspot_owner_id dealType:dealtype description pipeline"
_OPERATORS = frozenset(
    (
        *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "HAS_PROPERTY", "NOT_HAS_PROPERTY"),
        *("CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN"),
    )
)
_NO_VALUE = ("HAS_PROPERTY", "NOT_HAS_PROPERTY")


def _plain(value: JsonValue) -> AnyJson:
    """Returns the value inside a resource locator, or any other value unchanged."""
    return value.get("value") if isinstance(value, Mapping) and value.get("__rl") is True else value


def _moment(value: JsonValue) -> int:
    """Returns a date in milliseconds since 1970. Raises ItemFailed."""
    try:
        moment = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ItemFailed(
            f"“{str(value)[:60]}” is not a date that HubSpot accepts. Write it as 2026-01-31."
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


_CLOSED = {"closeDate": lambda value: {"closedate": _moment(value)} if value not in ("", None) else {}}
_LINKED: Mapping[str, AnyJson] = dict.fromkeys(("associatedCompany", "associatedVids"), lambda value: {})
_SHAPES: Mapping[str, AnyJson] = {**_CLOSED, "customPropertiesUi": lambda value: {}}
_NEW_CONTACT = OptionTable("additionalFields", _CONTACT, _SHAPES)
_NEW_DEAL = OptionTable("additionalFields", _DEAL, {**_SHAPES, **_LINKED})
_NEW_COMPANY = OptionTable("additionalFields", _COMPANY, _SHAPES)
_DEAL_CHANGES = OptionTable("updateFields", f"{_DEAL} stage:dealstage", _SHAPES)
_COMPANY_CHANGES = OptionTable("updateFields", f"{_COMPANY} name", _SHAPES)


def _properties(
    fields: ServiceFields, table: OptionTable, label: str, **first: JsonValue
) -> list[dict[str, JsonValue]]:
    """Returns the properties that are set; custom ones are kept even if empty."""
    named = {**first, **{name: _plain(value) for name, value in table.read(fields).items()}}
    pairs = [(name, value) for name, value in named.items() if value not in ("", None)]
    custom = fields.value(f"{table.path}.customPropertiesUi")
    for row in rows_of(custom, "customPropertiesValues"):
        pairs.append((js.text(row.get("property", "")).partition("|")[0], row.get("value")))
    return [{label: name, "value": js.to_json(value)} for name, value in pairs if name]


def _contact(fields: ServiceFields) -> JsonObject:
    return {"properties": _properties(fields, _NEW_CONTACT, "property")}


def _new_deal(fields: ServiceFields) -> dict[str, JsonValue]:
    chosen = fields.options("additionalFields")
    linked = {"associatedCompanyIds": "associatedCompany", "associatedVids": "associatedVids"}
    lists = {api: _list_of(chosen.get(name)) for api, name in linked.items()}
    properties = _properties(fields, _NEW_DEAL, "name", dealstage=fields.text("stage"))
    return {"associations": {name: ids for name, ids in lists.items() if ids}, "properties": properties}


def _list_of(value: JsonValue) -> list[JsonValue]:
    values = value if isinstance(value, list) else [value]
    return [element for element in values if element not in ("", None)]


def _filter_groups(fields: ServiceFields) -> Sequence[JsonObject]:
    groups = []
    for group in rows_of(fields.value("filterGroupsUi"), "filterGroupsValues"):
        filters = [_filter(row) for row in rows_of(group.get("filtersUi"), "filterValues")]
        if filters:
            groups.append({"filters": filters})
    return groups


def _filter(row: JsonObject) -> dict[str, JsonValue]:
    operator = js.text(row.get("operator", "EQ"))
    if operator not in _OPERATORS:
        raise ItemFailed(f"The comparison “{operator[:60]}” is not known. Choose another.")
    name = js.text(row.get("propertyName", "")).partition("|")[0]
    value = {} if operator in _NO_VALUE else {"value": js.text(row.get("value", ""))}
    return {"propertyName": name, "operator": operator, **value}


def _search(fields: ServiceFields) -> dict[str, JsonValue]:
    chosen = fields.options("additionalFields")
    sort = {"propertyName": chosen.get("sortBy"), "direction": chosen.get("direction")}
    return {
        "filterGroups": _filter_groups(fields),
        "limit": _PAGE,
        "query": chosen.get("query") or None,
        "properties": _list_of(chosen.get("properties")) or None,
        "sorts": [sort] if chosen.get("sortBy") else None,
    }


def _search_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from OptionTable("additionalFields", "direction query properties sortBy").check(node)
    if node.get("additionalFields.sortBy") and not node.get("additionalFields.direction"):
        message = "It sorts without saying in which direction. Choose the direction."
        yield StepProblem("error", "parameter", message)
    for group in rows_of(node.get("filterGroupsUi"), "filterGroupsValues"):
        for row in rows_of(group.get("filtersUi"), "filterValues"):
            operator = row.get("operator", "EQ")
            if not is_expression(operator) and operator not in _OPERATORS:
                message = f"Its comparison “{str(operator)[:60]}” is not known here. Choose another."
                yield StepProblem("error", "parameter", message)


def _resolve_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _NEW_CONTACT.check(node)
    yield from OptionTable("options", "resolveData").check(node)
    if node.get("options.resolveData", True) is not False:
        message = (
            "n8n reads the contact again and passes it on. Here only its “vid” and “isNew” are passed on."
        )
        yield StepProblem(
            "warning", "parameter", f"{message} Get the contact in a next step if you need more."
        )


def _with_properties(path: str, table: str, label: str, **query: str) -> Callable[[ServiceFields], str]:
    """Returns a path with a query of read options, in which each property is a separate parameter."""

    def choose(fields: ServiceFields) -> str:
        chosen = fields.options(table)
        named = chosen.get("properties")
        if isinstance(inner := chosen.get("propertiesCollection"), Mapping):
            rows = rows_of(inner, "propertiesValues")
            named = rows[0].get("properties") if rows else None
        texts = named.split(",") if isinstance(named, str) else _list_of(named)
        pairs = [(label, js.text(text).strip().partition("|")[0]) for text in texts]
        pairs += [(api, js.text(chosen[name])) for name, api in query.items() if name in chosen]
        written = urlencode([pair for pair in pairs if pair[1]])
        return f"{path}?{written}" if written else path

    return choose


def _read(path: str, table: str, label: str, **query: str) -> ServiceOperation:
    options = OptionTable(table, " ".join(("properties", "propertiesCollection", *query)))
    return ServiceOperation(
        "GET", "", choose_path=_with_properties(path, table, label, **query), check=options.check
    )


def _pages(
    path: str,
    table: str,
    items: str,
    label: str,
    next_query: Callable[[AnyJson], Mapping[str, AnyJson] | None],
    **query: str,
) -> ServiceOperation:
    """Returns an operation that lists; `next_query` returns the query of the next page from a response."""
    options = OptionTable(table, " ".join(("properties", "propertiesCollection", *query)))

    def next_page(response: JsonValue, query_sent: JsonObject) -> Mapping[str, AnyJson] | None:
        query_of_next = next_query(response) if isinstance(response, Mapping) else None
        return None if query_of_next is None else {**query_sent, **query_of_next}

    count = "count" if items == "contacts" else "limit"
    return ServiceOperation(
        "GET", "", {count: lambda fields: _PAGE}, items, next_page=next_page, check=options.check,
        choose_path=_with_properties(path, table, label, **query),
    )  # fmt: skip


def _next_hits(response: JsonValue, query_sent: JsonObject) -> JsonObject | None:
    following = js.get_path(response, "paging.next.after")
    return None if js.is_missing(following) else {**query_sent, "after": js.text(following)}


def _next_contacts(response: JsonObject) -> JsonObject | None:
    return {"vidOffset": js.text(response["vid-offset"])} if response.get("has-more") else None


def _next_companies(response: JsonObject) -> JsonObject | None:
    return {"offset": js.text(response["offset"])} if response.get("has-more") else None


def _next_deals(response: JsonObject) -> JsonObject | None:
    return {"offset": js.text(response["offset"])} if response.get("hasMore") else None


def _searching(kind: str) -> ServiceOperation:
    return ServiceOperation(
        "POST", f"/crm/v3/objects/{kind}/search", _search, "results", next_page=_next_hits, is_query=True,
        check=_search_problems,
    )  # fmt: skip


def _deleted(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    return [response] if isinstance(response, Mapping) and response else [{"success": True}]


def _listed(name: str) -> Shape:
    return lambda value: {name: [value]}


_MODES = {"formSubmissionMode": "formSubmissionMode", "propertyMode": "propertyMode"}
_CONTACT_PATH = "/contacts/v1/contact/vid/{contactId}"
_COMPANY_PATH = "/companies/v2/companies/{companyId}"
_DEAL_PATH = "/deals/v1/deal/{dealId}"
_OPERATIONS = {
    "contact.upsert": ServiceOperation(
        "POST", "/contacts/v1/contact/createOrUpdate/email/{email}", _contact, recipient="email",
        needed={"email": "the email of the contact"}, check=_resolve_problems,
    ),
    "contact.get": _read(f"{_CONTACT_PATH}/profile", "additionalFields", "property", **_MODES),
    "contact.getAll": _pages(
        "/contacts/v1/lists/all/contacts/all", "additionalFields", "contacts", "property", _next_contacts,
        **_MODES,
    ),
    "contact.search": _searching("contacts"),
    "contact.delete": ServiceOperation("DELETE", _CONTACT_PATH, to_items=_deleted),
    "contactList.add": send(
        "POST", "/contacts/v1/lists/{listId}/add",
        CallForm("by", shapes={"email": _listed("emails"), "id": _listed("vids")}), text="email",
    ),
    "contactList.remove": send(
        "POST", "/contacts/v1/lists/{listId}/remove", CallForm(shapes={"id": _listed("vids")}), needed="id"
    ),
    "company.create": ServiceOperation(
        "POST", "/companies/v2/companies",
        lambda fields: {
            "properties": _properties(fields, _NEW_COMPANY, "name", name=fields.text("name"))
        },
        recipient="name", needed={"name": "the name of the company"}, check=_NEW_COMPANY.check,
    ),
    "company.update": ServiceOperation(
        "PUT", _COMPANY_PATH, lambda fields: {"properties": _properties(fields, _COMPANY_CHANGES, "name")},
        check=_COMPANY_CHANGES.check,
    ),
    "company.get": _read(
        _COMPANY_PATH, "additionalFields", "properties", includeMergeAudits="includeMergeAudits"
    ),
    "company.getAll": _pages(
        "/companies/v2/companies/paged", "options", "companies", "properties", _next_companies
    ),
    "company.delete": ServiceOperation("DELETE", _COMPANY_PATH, to_items=_deleted),
    "deal.create": ServiceOperation(
        "POST", "/deals/v1/deal", _new_deal, text="additionalFields.dealName",
        needed={"stage": "the stage of the deal"}, check=_NEW_DEAL.check,
    ),
    "deal.update": ServiceOperation(
        "PUT", _DEAL_PATH, lambda fields: {"properties": _properties(fields, _DEAL_CHANGES, "name")},
        check=_DEAL_CHANGES.check,
    ),
    "deal.get": _read(
        _DEAL_PATH, "filters", "properties", includePropertyVersions="includePropertyVersions"
    ),
    "deal.getAll": _pages(
        "/deals/v1/deal/paged", "filters", "deals", "properties", _next_deals,
        includeAssociations="includeAssociations",
    ),
    "deal.search": _searching("deals"),
    "deal.delete": ServiceOperation("DELETE", _DEAL_PATH, to_items=_deleted),
}  # fmt: skip
_DEFAULTS = {
    "contact": "upsert",
    "company": "create",
    "deal": "create",
    "ticket": "create",
    "contactList": "add",
}


class HubspotNode(HttpServiceNode):
    """Supports contacts with their lists, companies and deals, but not tickets, engagements and forms."""

    types = ("hubspot",)
    versions = (1, 2, 2.1, 2.2)
    service = "HubSpot"
    address = "https://api.hubapi.com"
    credential_types = ("hubspotAppToken", "hubspotApi", "hubspotOAuth2Api")
    parameters = frozenset(_NAMES.split())
    default_resource = "contact"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`; the default resource of version 1 is deal."""
        if node.version < 2 and "resource" not in node.parameters:
            node = NodeDefinition(node.name, node.version, {**node.parameters, "resource": "deal"})
        return super().operation_key(node)
