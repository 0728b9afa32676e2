"""The node pipedrive: deals, persons, organizations, activities, notes and leads."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined, named_values
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_PAGE = 100
_NAMES = (
    "authentication resource operation resolveProperties encodeProperties returnAll limit filters"
    " additionalFields updateFields term exactMatch title associateWith org_id person_id dealId personId"
    " organizationId activityId noteId leadId name subject done type content"
)
_CUSTOM = {"customProperties": named_values("property", "name")}
_DEAL = "currency label lost_reason org_id person_id probability stage_id status user_id value visible_to"
_PERSON = "email phone label marketing_status org_id owner_id visible_to"
_LINKS = "deal_id lead_id org_id person_id"
_DONE = {"done": lambda value: {"done": 1 if value in (True, "1", 1, "true") else 0}}
_SEARCH = {
    "fields": joined("fields"),
    "includeFields": joined("include_fields"),
    "status": lambda value: {} if value == "all" else {"status": value},
    "exactMatch": lambda value: {"exact_match": "true" if value else "false"},
    "rawData": lambda value: {},
}

Fields = Callable[[ServiceFields], dict[str, AnyJson]]


def _name_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("resolveProperties") or node.get("encodeProperties"):
        message = "It translates the names of your own fields, which is not supported."
        yield StepProblem("error", "parameter", f"{message} Turn it off, and use the keys of the fields.")


def _checked(table: OptionTable) -> Callable[[NodeDefinition], Iterable[StepProblem]]:
    def check(node: NodeDefinition) -> Iterable[StepProblem]:
        yield from table.check(node)
        yield from _name_problems(node)

    return check


def _data(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    """Returns the object or list in `data`, or nothing if it is `null`."""
    data = response.get("data") if isinstance(response, Mapping) else None
    return [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, Mapping)]


def _hits(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the hits of a search, each with its score beside its fields, or as raw data."""
    data = response.get("data") if isinstance(response, Mapping) else None
    rows = data.get("items") if isinstance(data, Mapping) else None
    hits = [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, Mapping)]
    if fields.flag("additionalFields.rawData"):
        return hits
    return [{"result_score": hit.get("result_score"), **_object(hit.get("item"))} for hit in hits]


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    more = _object(_object(_object(response).get("additional_data")).get("pagination"))
    if not more.get("more_items_in_collection"):
        return None
    return {**query, "start": str(more.get("next_start", ""))}


def _list(path: str, table: OptionTable) -> ServiceOperation:
    return ServiceOperation(
        "GET", path, lambda fields: {"limit": _PAGE, **table.read(fields)},
        to_items=_data, next_page=_next_page, check=_checked(table),
    )  # fmt: skip


def _search(path: str, names: str) -> ServiceOperation:
    table = OptionTable("additionalFields", names, _SEARCH)

    def query(fields: ServiceFields) -> dict[str, JsonValue]:
        exact = {"exact_match": "true"} if fields.flag("exactMatch") else {}
        return {"term": fields.text("term"), "limit": _PAGE, **exact, **table.read(fields)}

    return ServiceOperation(
        "GET", path, query, needed={"term": "what it searches for"}, to_items=_hits, next_page=_next_page,
        check=_checked(table),
    )  # fmt: skip


def _create(path: str, table: OptionTable, first: Fields, label: str, words: str) -> ServiceOperation:
    return ServiceOperation(
        "POST", path, lambda fields: {**first(fields), **table.read(fields)}, text=label,
        needed={label: words}, to_items=_data, check=_checked(table),
    )  # fmt: skip


def _update(path: str, names: str, shapes: Mapping[str, AnyJson] = _CUSTOM) -> ServiceOperation:
    table = OptionTable("updateFields", names, shapes)
    return ServiceOperation("PUT", path, table.read, to_items=_data, check=_checked(table))


def _operations_on_one(path: str) -> dict[str, ServiceOperation]:
    return {
        "get": ServiceOperation("GET", path, to_items=_data, check=_name_problems),
        "delete": ServiceOperation("DELETE", path, to_items=_data),
    }


def _new_deal(fields: ServiceFields) -> dict[str, JsonValue]:
    linked = "org_id" if fields.text("associateWith", "organization") == "organization" else "person_id"
    number = fields.value(linked)
    return {"title": fields.text("title")} | ({linked: number} if number not in (None, "", 0) else {})


def _new_activity(fields: ServiceFields) -> dict[str, AnyJson]:
    activity = {"subject": fields.text("subject"), "done": fields.text("done", "0")}
    return activity | ({"type": fields.text("type")} if fields.text("type") else {})


def _new(name: str) -> Fields:
    return lambda fields: {name: fields.text(name)}


def _extra(names: str) -> OptionTable:
    return OptionTable("additionalFields", names, _CUSTOM)


_RESOURCES: dict[str, dict[str, ServiceOperation]] = {
    "deal": {
        **_operations_on_one("/deals/{dealId}"),
        "create": _create("/deals", _extra(_DEAL), _new_deal, "title", "the title of the deal"),
        "update": _update("/deals/{dealId}", f"title {_DEAL}"),
        "duplicate": ServiceOperation("POST", "/deals/{dealId}/duplicate", to_items=_data),
        "getAll": _list(
            "/deals",
            OptionTable(
                "filters",
                "filter_id stage_id status user_id",
                {"owned_by_you": lambda value: {"owned_by_you": 1 if value else 0}},
            ),
        ),
        "search": _search("/deals/search", "organizationId:organization_id personId:person_id"),
    },
    "person": {
        **_operations_on_one("/persons/{personId}"),
        "create": _create("/persons", _extra(_PERSON), _new("name"), "name", "the name of the person"),
        "update": _update("/persons/{personId}", f"name {_PERSON}"),
        "getAll": _list(
            "/persons", OptionTable("additionalFields", "filterId:filter_id firstChar:first_char sort")
        ),
        "search": _search("/persons/search", "organizationId:organization_id"),
    },
    "organization": {
        **_operations_on_one("/organizations/{organizationId}"),
        "create": _create(
            "/organizations", _extra("label owner_id visible_to"), _new("name"), "name",
            "the name of the organization",
        ),
        "update": _update("/organizations/{organizationId}", "name label owner_id visible_to"),
        "getAll": _list("/organizations", OptionTable("filters", "filter_id first_char")),
        "search": _search("/organizations/search", ""),
    },
    "activity": {
        **_operations_on_one("/activities/{activityId}"),
        "create": _create(
            "/activities", _extra("deal_id due_date note org_id person_id user_id"), _new_activity, "subject",
            "the subject of the activity",
        ),
        "update": _update(
            "/activities/{activityId}",
            "busy_flag deal_id due_date note org_id person_id public_description subject type user_id",
            {**_CUSTOM, **_DONE},
        ),
        "getAll": _list(
            "/activities",
            OptionTable(
                "additionalFields", "filterId:filter_id start_date end_date user_id",
                {"type": joined("type"), **_DONE},
            ),
        ),
    },
    "note": {
        **_operations_on_one("/notes/{noteId}"),
        "create": _create(
            "/notes", OptionTable("additionalFields", _LINKS), _new("content"), "content",
            "the text of the note",
        ),
        "update": _update("/notes/{noteId}", f"content {_LINKS}", {}),
        "getAll": _list("/notes", OptionTable("additionalFields", _LINKS)),
    },
    "lead": {
        **_operations_on_one("/leads/{leadId}"),
        "getAll": _list("/leads", OptionTable("filters", "archived_status")),
    },
}  # fmt: skip
_OPERATIONS = {
    f"{resource}.{name}": operation
    for resource, operations in _RESOURCES.items()
    for name, operation in operations.items()
}


class PipedriveNode(HttpServiceNode):
    """Supports Pipedrive's records, but not files, products of deals and custom field names."""

    types = ("pipedrive",)
    versions = (1,)
    service = "Pipedrive"
    address = "https://api.pipedrive.com/v1"
    credential_types = ("pipedriveApi", "pipedriveOAuth2Api")
    parameters = frozenset(_NAMES.split())
    default_resource = "deal"
    default_operations = dict.fromkeys(_RESOURCES, "create")
    operations = _OPERATIONS
