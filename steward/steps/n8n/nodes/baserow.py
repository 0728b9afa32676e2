"""The node baserow: rows of tables, through a bound account."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject
from steward.steps.n8n.calls.tables import (
    CallForm,
    get,
    get_all,
    numbered_pages,
    parameters_of,
    send,
    success,
)
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServicePort, parsed_response
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem

_TABLE = "/rows/table/{tableId}/"
_NAMES = {"user_field_names": "true"}
_SEARCH = OptionTable("additionalOptions", "search")


def _with_names(fields: ServiceFields) -> Mapping[str, str]:
    return _NAMES


def _more_options(node: NodeDefinition) -> Iterable[StepProblem]:
    options = node.get("additionalOptions")
    for name in options if isinstance(options, Mapping) else ():
        if name != "search":
            message = "It filters or sorts by the ids of columns, which is not supported. Use later steps."
            yield StepProblem("error", "parameter", message)


_WRITTEN = CallForm("dataToSend inputsToIgnore fieldsUi")
_OPERATIONS = {
    "row.getAll": get_all(
        _TABLE, "results", numbered_pages("results", 100),
        CallForm(tables=(_SEARCH,), fixed={"size": 100, **_NAMES}), limit=50, check=_more_options,
    ),
    "row.get": get(f"{_TABLE}{{rowId}}/", CallForm(fixed=dict(_NAMES))),
    "row.create": send("POST", _TABLE, _WRITTEN, query=_with_names, makes=lambda fields: {}),
    "row.update": send(
        "PATCH", f"{_TABLE}{{rowId}}/", _WRITTEN, query=_with_names, makes=lambda fields: {}
    ),
    "row.delete": send("DELETE", f"{_TABLE}{{rowId}}/", to_items=success),
}  # fmt: skip
_DEFAULTS = {"row": "getAll"}


class BaserowNode(HttpServiceNode):
    """Reads and writes rows by the names of their columns; does not filter by column."""

    types = ("baserow",)
    service = "Baserow"
    address = "https://{host}/api/database"
    credential_types = ("baserowApi",)
    parameters = parameters_of(_OPERATIONS, "databaseId additionalOptions")
    default_resource = "row"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with the row that it writes. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        if key not in ("row.create", "row.update"):
            return prepared
        return replace(prepared, body=await _row(port, fields))


async def _row(port: ServicePort, fields: ServiceFields) -> JsonObject:
    """Returns a row by column names, from the item or from the step, which names columns by id.

    Raises ItemFailed for an unknown column.
    """
    if fields.text("dataToSend", "defineBelow") == "autoMapInputData":
        ignored = {part.strip() for part in fields.text("inputsToIgnore").split(",")}
        return {name: js.to_json(value) for name, value in fields.item.items() if name not in ignored}
    table = path_segment(fields.text("tableId"), "table")
    response = await port.read(f"/fields/table/{table}/", {})
    columns = parsed_response(response.body.decode("utf-8", "replace"))
    names = {
        js.text(column.get("id")): js.text(column.get("name"))
        for column in (columns if isinstance(columns, list) else [])
        if isinstance(column, Mapping)
    }
    row: dict[str, AnyJson] = {}
    for cell in fields.rows("fieldsUi.fieldValues"):
        column = cell.text("fieldId")
        if column not in names:
            raise ItemFailed(f"The table has no column with the id “{column[:80]}”. Choose another column.")
        row[names[column]] = js.to_json(cell.value("fieldValue"))
    return row
