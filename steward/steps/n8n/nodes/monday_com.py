"""The node mondayCom: items of boards and their updates, through a bound account."""

from collections.abc import Callable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, graphql_data, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_ITEM = (
    "id name created_at state board { id }"
    " column_values { id text type value column { title archived description settings_str } }"
)
_COLUMNS = OptionTable("additionalFields", "columnValues")


def _operation(text: str, path: str, variables: str, needed: str) -> ServiceOperation:
    """Returns an operation that sends a GraphQL document with the parameters `variables`."""

    def body(fields: ServiceFields) -> dict[str, AnyJson]:
        return {"query": text, "variables": {name: fields.text(name) for name in variables.split()}}

    return send(
        "POST", "", CallForm(variables), needed=needed, makes=body, to_items=_objects_at(path),
        recipient=needed.split()[0], text=needed.split()[-1], is_query=text.startswith("query"),
    )  # fmt: skip


def _objects_at(path: str) -> Callable[[AnyJson, ServiceFields], Sequence[Mapping[str, AnyJson]]]:
    def to_items(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
        return graphql_data(response, path)

    return to_items


def _new_item(fields: ServiceFields) -> dict[str, AnyJson]:
    names = {"boardId": "ID!", "groupId": "String!", "itemName": "String!"}
    values: dict[str, AnyJson] = {
        "boardId": fields.text("boardId"), "groupId": fields.text("groupId"), "itemName": fields.text("name")
    }  # fmt: skip
    arguments = "board_id: $boardId, group_id: $groupId, item_name: $itemName"
    columns = fields.text("additionalFields.columnValues")
    if columns:
        names["columnValues"], values["columnValues"] = "JSON", columns
        arguments += ", column_values: $columnValues"
    declared = ", ".join(f"${name}: {kind}" for name, kind in names.items())
    return {
        "query": f"mutation ({declared}) {{ create_item({arguments}) {{ id }} }}",
        "variables": values,
    }


_OPERATIONS = {
    "boardItem.create": send(
        "POST", "", CallForm(tables=(_COLUMNS,)), needed="boardId groupId name", makes=_new_item,
        recipient="boardId", text="name", to_items=_objects_at("create_item"),
    ),
    "boardItem.get": _operation(
        f"query ($itemId: [ID!]) {{ items(ids: $itemId) {{ {_ITEM} }} }}", "items", "itemId", "itemId"
    ),
    "boardItem.addUpdate": _operation(
        "mutation ($itemId: ID!, $value: String!) { create_update(item_id: $itemId, body: $value) { id } }",
        "create_update", "itemId value", "itemId value",
    ),
    "boardItem.changeColumnValue": _operation(
        "mutation ($boardId: ID!, $itemId: ID!, $columnId: String!, $value: JSON!)"
        " { change_column_value(board_id: $boardId, item_id: $itemId, column_id: $columnId, value: $value)"
        " { id } }",
        "change_column_value", "boardId itemId columnId value", "boardId itemId columnId value",
    ),
    "boardItem.changeMultipleColumnValues": _operation(
        "mutation ($boardId: ID!, $itemId: ID!, $columnValues: JSON!)"
        " { change_multiple_column_values(board_id: $boardId, item_id: $itemId, column_values: $columnValues)"
        " { id } }",
        "change_multiple_column_values", "boardId itemId columnValues", "boardId itemId columnValues",
    ),
    "boardItem.move": _operation(
        "mutation ($itemId: ID!, $groupId: String!)"
        " { move_item_to_group(item_id: $itemId, group_id: $groupId) { id } }",
        "move_item_to_group", "itemId groupId", "itemId groupId",
    ),
    "boardItem.delete": _operation(
        "mutation ($itemId: ID!) { delete_item(item_id: $itemId) { id } }", "delete_item", "itemId", "itemId"
    ),
}  # fmt: skip
_DEFAULTS = {"boardItem": "create"}


class MondayNode(HttpServiceNode):
    """Supports items of boards, but not boards, groups and columns themselves."""

    types = ("mondayCom",)
    service = "monday.com"
    address = "https://api.monday.com/v2"
    credential_types = ("mondayComApi", "mondayComOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "board"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
