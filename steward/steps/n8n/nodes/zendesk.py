"""The node zendesk: tickets, users and organizations, through a bound account."""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_PAGE = 100
_NAMES = (
    "authentication resource operation id ticketType description name jsonParameters additionalFields"
    " updateFields filters options returnAll limit"
)


def _custom_fields(value: JsonValue) -> JsonObject:
    """Returns the custom fields of a ticket."""
    rows = rows_of(value, "customFieldsValues")
    return {"custom_fields": [{"id": row.get("id"), "value": row.get("value")} for row in rows]}


def _internal_note(value: JsonValue) -> JsonObject:
    return {"comment": {"html_body": value, "public": False}} if value else {}


def _public_reply(value: JsonValue) -> JsonObject:
    return {"comment": {"body": value, "public": True}} if value else {}


_CUSTOM: Mapping[str, AnyJson] = {"customFieldsUi": _custom_fields}
_NEW_TICKET = OptionTable(
    "additionalFields", "externalId:external_id group:group_id recipient status subject tags type", _CUSTOM
)
_TICKET_CHANGES = OptionTable(
    "updateFields",
    "assigneeEmail:assignee_email externalId:external_id group:group_id recipient status subject tags type",
    {**_CUSTOM, "internalNote": _internal_note, "publicReply": _public_reply},
)
_USER = (
    "alias custom_role_id details email external_id locale moderator notes only_private_comments"
    " organization_id phone report_csv restricted_agent role signature suspended tags ticket_restriction"
    " time_zone verified"
)
_NEW_USER = OptionTable("additionalFields", _USER)
_USER_CHANGES = OptionTable("updateFields", f"name {_USER}")


def _json_problems(table: OptionTable) -> Callable[[NodeDefinition], list[StepProblem]]:
    def check(node: NodeDefinition) -> list[StepProblem]:
        problems = list(table.check(node))
        if node.get("jsonParameters"):
            message = "Its fields are written as JSON, which is not supported. Write them one by one."
            problems.append(StepProblem("error", "parameter", message))
        if node.get("updateFields.internalNote") and node.get("updateFields.publicReply"):
            message = "It writes a note and a reply at once; Zendesk takes one. Use a step for each."
            problems.append(StepProblem("error", "parameter", message))
        return problems

    return check


def _new_ticket(fields: ServiceFields) -> JsonObject:
    return {"ticket": {"comment": {"body": fields.text("description")}, **_NEW_TICKET.read(fields)}}


def _written(fields: ServiceFields) -> str:
    return fields.text("updateFields.publicReply") or fields.text("updateFields.internalNote")


def _new_user(fields: ServiceFields) -> JsonObject:
    return {"user": {"name": fields.text("name"), **_NEW_USER.read(fields)}}


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    following = response.get("next_page") if isinstance(response, Mapping) else None
    return {**query, "page": str(int(query.get("page", "1")) + 1)} if following else None


def _list(path: str, items: str, table: OptionTable) -> ServiceOperation:
    def choose(fields: ServiceFields) -> str:
        roles = fields.value("filters.role") if "role" in table.shapes else None
        pairs = [
            ("role[]", js.text(role)) for role in (roles if isinstance(roles, list) else [roles]) if role
        ]
        return f"{path}?{urlencode(pairs)}" if pairs else path

    return ServiceOperation(
        "GET", path, lambda fields: {"per_page": _PAGE, **table.read(fields)}, items,
        next_page=_next_page, check=table.check, choose_path=choose,
    )  # fmt: skip


def _tickets(fields: ServiceFields) -> JsonObject:
    """Returns n8n's search for tickets: by group, status and query."""
    chosen = fields.options("options")
    parts = ["type:ticket"]
    parts += [js.text(chosen["query"])] if chosen.get("query") else []
    parts += [f"group:{js.text(chosen['group'])}"] if chosen.get("group") else []
    parts += [f"status:{js.text(chosen['status'])}"] if chosen.get("status") else []
    order = {name: chosen.get(api) for name, api in (("sort_by", "sortBy"), ("sort_order", "sortOrder"))}
    return {"query": " ".join(parts), "per_page": _PAGE, **order}


def _success(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    return [response] if isinstance(response, dict) and response else [{"success": True}]


def _suspended(node: NodeDefinition) -> list[StepProblem]:
    if node.get("ticketType", "regular") == "regular":
        return []
    message = "It means suspended tickets, which are not supported. Remove the step."
    return [StepProblem("error", "parameter", message)]


_USER_PATH = "/users/{id}.json"
_OPERATIONS = {
    "ticket.create": ServiceOperation(
        "POST", "/tickets.json", _new_ticket, "ticket", text="description",
        needed={"description": "the text of the ticket"}, check=_json_problems(_NEW_TICKET),
    ),
    "ticket.update": ServiceOperation(
        "PUT", "/tickets/{id}.json", lambda fields: {"ticket": _TICKET_CHANGES.read(fields)}, "ticket",
        recipient="updateFields.assigneeEmail",
        text=_written,
        check=_json_problems(_TICKET_CHANGES),
    ),
    "ticket.get": ServiceOperation(
        "GET", "/tickets/{id}.json", items="ticket", check=_suspended
    ),
    "ticket.getAll": ServiceOperation(
        "GET", "/search.json", _tickets, "results", next_page=_next_page,
        check=lambda node: [
            *OptionTable("options", "query group status sortBy sortOrder").check(node), *_suspended(node)
        ],
    ),
    "ticket.delete": ServiceOperation(
        "DELETE", "/tickets/{id}.json", to_items=_success, check=_suspended
    ),
    "user.create": ServiceOperation(
        "POST", "/users.json", _new_user, "user", recipient="additionalFields.email", text="name",
        needed={"name": "the name of the person"}, check=_NEW_USER.check,
    ),
    "user.update": ServiceOperation(
        "PUT", _USER_PATH, lambda fields: {"user": _USER_CHANGES.read(fields)}, "user",
        check=_USER_CHANGES.check,
    ),
    "user.get": ServiceOperation("GET", _USER_PATH, items="user"),
    "user.delete": ServiceOperation("DELETE", _USER_PATH, items="user"),
    "user.getAll": _list("/users.json", "users", OptionTable("filters", "", {"role": lambda value: {}})),
    "user.search": _list("/users/search.json", "users", OptionTable("filters", "query external_id")),
    "organization.get": ServiceOperation("GET", "/organizations/{id}.json", items="organization"),
    "organization.getAll": _list("/organizations.json", "organizations", OptionTable("filters")),
    "ticketField.get": ServiceOperation(
        "GET", "/ticket_fields/{ticketFieldId}.json", items="ticket_field"
    ),
    "ticketField.getAll": _list("/ticket_fields.json", "ticket_fields", OptionTable("filters")),
}  # fmt: skip


_DEFAULTS = {"ticket": "create", "ticketField": "get", "user": "create", "organization": "create"}


class ZendeskNode(HttpServiceNode):
    """Supports tickets, users and organizations, but not suspended tickets and fields given as JSON."""

    types = ("zendesk",)
    versions = (1,)
    service = "Zendesk"
    address = "https://{host}/api/v2"
    credential_types = ("zendeskApi", "zendeskOAuth2Api")
    parameters = frozenset((*_NAMES.split(), "ticketFieldId"))
    default_resource = "ticket"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
