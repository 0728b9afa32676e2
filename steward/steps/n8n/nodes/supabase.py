"""The node supabase: rows of a project's tables, through a bound account."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlencode

from steward.model.json import AnyJson, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_PAGE = 100
_NAMES = (
    "resource operation tableId dataToSend inputsToIgnore fieldsUi filterType matchType filters filterString"
    " returnAll limit useCustomSchema schema"
)
_TABLE = {"tableId": "which table it means"}
_CONDITIONS = frozenset(["eq", "neq", "gt", "gte", "lt", "lte", "like", "ilike", "is", "fullText"])
_SEARCHES = frozenset(["fts", "plfts", "phfts", "wfts"])


def _row(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the columns to write, from the item or from the step."""
    if fields.text("dataToSend", "defineBelow") == "autoMapInputData":
        ignored = {name.strip() for name in fields.text("inputsToIgnore").split(",")}
        return {name: value for name, value in fields.item.items() if name not in ignored}
    rows = fields.rows("fieldsUi.fieldValues")
    return {row.text("fieldId"): js.to_json(row.value("fieldValue")) for row in rows}


def _conditions(fields: ServiceFields) -> list[tuple[str, str]]:
    """Returns the column and the condition of each filter in the API's syntax."""
    conditions: list[tuple[str, str]] = []
    for row in fields.rows("filters.conditions"):
        condition = row.text("condition", "eq")
        operator = row.text("searchFunction") if condition == "fullText" else condition
        conditions.append((row.text("keyName"), f"{operator}.{row.text('keyValue')}"))
    return conditions


def _filter(fields: ServiceFields) -> list[tuple[str, str]]:
    """Returns the row filter as query parameters; without one, every row matches."""
    kind = fields.text("filterType", "manual")
    if kind == "none":
        return []
    if kind == "string":
        pairs = [part.partition("=") for part in fields.text("filterString").split("&") if part]
        return [(name, value) for name, _, value in pairs]
    conditions = _conditions(fields)
    if not conditions or fields.text("matchType", "anyFilter") == "allFilters":
        return conditions
    return [("or", "(" + ",".join(f"{name}.{condition}" for name, condition in conditions) + ")")]


def _address(filters: AnyJson, *, requires_filter: bool = False) -> AnyJson:
    def choose(fields: ServiceFields) -> str:
        pairs = filters(fields)
        if requires_filter and not pairs:
            raise ItemFailed("This step does not say which rows it means. Add a condition.")
        query = urlencode(pairs, quote_via=quote)
        return f"/{path_segment(fields.text('tableId'), 'table')}{'?' if query else ''}{query}"

    return choose


def _chooses_rows(node: NodeDefinition) -> bool:
    """Returns whether the node filters rows by conditions that a setting joins with AND or OR."""
    is_joined = node.literal("operation", "create") in ("getAll", "update", "delete")
    return is_joined and node.literal("filterType", "manual") == "manual"


def _joining_problems(node: NodeDefinition, rows: JsonValue) -> Iterable[StepProblem]:
    if isinstance(rows, list) and len(rows) > 1 and _chooses_rows(node) and node.get("matchType") is None:
        is_read = node.literal("operation", "create") == "getAll"
        message = (
            "It does not say whether all of its conditions must hold; here one is enough, as by default."
        )
        yield StepProblem("warning" if is_read else "error", "parameter", f"{message} Choose it in n8n.")


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("useCustomSchema"):
        message = "It uses another schema than the public one, which is not supported. Remove the setting."
        yield StepProblem("error", "parameter", message)
    rows = node.get("filters.conditions", [])
    yield from _joining_problems(node, rows)
    for row in rows if isinstance(rows, list) else ():
        condition = row.get("condition", "eq") if isinstance(row, Mapping) else None
        search = row.get("searchFunction") if isinstance(row, Mapping) else None
        if condition not in _CONDITIONS or (condition == "fullText" and search not in _SEARCHES):
            message = f"The condition “{str(condition)[:60]}” is not known here. Choose another one."
            yield StepProblem("error", "parameter", message)


def _next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
    is_full = isinstance(response, list) and len(response) == _PAGE
    return {**query, "offset": str(int(query.get("offset", "0")) + _PAGE)} if is_full else None


_HEADERS = {"accept": "application/json", "prefer": "return=representation"}
_DEFAULTS = {"row": "create"}
_OPERATIONS = {
    "row.create": ServiceOperation(
        "POST", "", _row, choose_path=_address(lambda fields: []), recipient="tableId", needed=_TABLE,
        check=_problems,
    ),
    "row.get": ServiceOperation(
        "GET", "", choose_path=_address(_conditions, requires_filter=True), needed=_TABLE, check=_problems
    ),
    "row.getAll": ServiceOperation(
        "GET", "", lambda fields: {"limit": _PAGE}, choose_path=_address(_filter), next_page=_next_page,
        limit=50, needed=_TABLE, check=_problems,
    ),
    "row.update": ServiceOperation(
        "PATCH", "", _row, choose_path=_address(_filter, requires_filter=True), recipient="tableId",
        needed=_TABLE, check=_problems,
    ),
    "row.delete": ServiceOperation(
        "DELETE", "", choose_path=_address(_filter, requires_filter=True), recipient="tableId",
        needed=_TABLE, check=_problems,
    ),
}  # fmt: skip


class SupabaseNode(HttpServiceNode):
    """Supports rows in the public schema; outputs written and deleted rows as Supabase returns them."""

    types = ("supabase",)
    versions = (1,)
    service = "Supabase"
    address = "https://{host}/rest/v1"
    credential_types = ("supabaseApi",)
    headers = _HEADERS
    parameters = frozenset(_NAMES.split())
    default_resource = "row"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
