"""The node nocoDb: rows of tables, through a bound account."""

from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, offset_pages, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_TABLE = "/tables/{table}/records"


def _sorted(value: AnyJson) -> Mapping[str, AnyJson]:
    rows = rows_of(value, "property")
    names = [f"{'-' if row.get('direction') == 'desc' else ''}{js.text(row.get('field'))}" for row in rows]
    return {"sort": ",".join(names)} if names else {}


def _joined(name: str) -> Shape:
    return lambda value: {name: ",".join(map(str, value))} if isinstance(value, list) and value else {}


_LIST = OptionTable("options", "where", {"sort": _sorted, "fields": _joined("fields")})


def _row(fields: ServiceFields) -> dict[str, AnyJson]:
    """Returns the row to write, with its id if the step changes it."""
    number = {"Id": fields.value("id")} if fields.text("id") else {}
    if fields.text("dataToSend", "defineBelow") == "autoMapInputData":
        ignored = {part.strip() for part in fields.text("inputsToIgnore").split(",")}
        return {**{name: value for name, value in fields.item.items() if name not in ignored}, **number}
    cells = fields.rows("fieldsUi.fieldValues")
    return {**{cell.text("fieldName"): cell.value("fieldValue") for cell in cells}, **number}


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    rows = node.get("fieldsUi.fieldValues")
    if isinstance(rows, list) and any(isinstance(row, Mapping) and row.get("binaryData") for row in rows):
        yield StepProblem("error", "binary", "It sends a file, which is not supported. Send its address.")
    if node.get("downloadAttachments"):
        message = "It downloads attachments, which is not supported. Switch that off."
        yield StepProblem("error", "binary", message)
    if (node.get("version", 3) if node.version >= 3 else node.get("version", 1)) != 3:
        message = (
            "It uses the API of NocoDB before 0.200, not supported here. Choose the newest version in it."
        )
        yield StepProblem("error", "parameter", message)


_WRITTEN = CallForm("dataToSend inputsToIgnore fieldsUi")
_OPERATIONS = {
    "row.getAll": get_all(
        _TABLE, "list", offset_pages("list", 100), CallForm(tables=(_LIST,), fixed={"limit": 100}), limit=50,
        check=_problems,
    ),
    "row.get": get(f"{_TABLE}/{{id}}", check=_problems),
    "row.create": send("POST", _TABLE, _WRITTEN, makes=_row, check=_problems),
    "row.update": send(
        "PATCH", _TABLE, _WRITTEN, needed="id", recipient="id", makes=_row, check=_problems
    ),
    "row.delete": send(
        "DELETE", _TABLE, needed="id", recipient="id", makes=lambda fields: {"Id": fields.value("id")},
        check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"row": "get"}


class NocoDbNode(HttpServiceNode):
    """Supports rows, through the API of NocoDB 0.200 and later."""

    types = ("nocoDb",)
    versions = (1, 2, 3)
    service = "NocoDB"
    address = "https://{host}/api/v2"
    credential_types = ("nocoDbApiToken", "nocoDb")
    parameters = parameters_of(
        _OPERATIONS, "version workspaceId projectId downloadAttachments downloadFieldNames"
    )
    default_resource = "row"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns True for writes: n8n outputs the row, but NocoDB returns only its id."""
        return self.operation_key(node) in ("row.create", "row.update")
