"""The node dataTable: rows that a workflow keeps between runs.

See docs/design/static-data.md#data-tables.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep
from steward.steps.n8n.tables.rows import CONDITIONS, OWN_COLUMNS, VALUELESS, Condition, Table
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.static_data import TOO_LARGE, StaticDataTooLarge
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
    for_each_item,
    is_expression,
    paired_with,
)

_INSERT, _GET, _UPDATE, _UPSERT, _DELETE = "insert", "get", "update", "upsert", "deleteRows"
_EXISTS, _NOT_EXISTS = "rowExists", "rowNotExists"
FILLING: Final = frozenset((_INSERT, _UPSERT))
_WRITING: Final = FILLING | {_UPDATE, _DELETE}
_PASSING: Final = frozenset((_EXISTS, _NOT_EXISTS))
_LIMIT: Final = 50


def table_of(locator: object) -> tuple[str, str]:
    """Returns how a raw resource locator names its table, `id` or `name`, and the value."""
    if not isinstance(locator, Mapping):
        return "id", str(locator or "")
    return ("name" if locator.get("mode") == "name" else "id"), str(locator.get("value") or "")


def operation_of(node: NodeDefinition) -> str:
    """Returns the operation of a node; the default is to insert."""
    return str(node.get("operation") or _INSERT)


class DataTableNode(StepType):
    """Reads and writes rows of the automation's own data tables; the first row creates a table."""

    types = ("dataTable",)
    versions = (1, 1.1)
    options = frozenset(("optimizeBulk", "dryRun"))
    choices = MappingProxyType(
        {
            "resource": frozenset(("row",)),
            "operation": _WRITING | _PASSING | {_GET},
            "matchType": frozenset(("anyCondition", "allConditions")),
            "orderByDirection": frozenset(("ASC", "DESC")),
        }
    )
    parameters = frozenset(
        (
            "resource",
            "operation",
            "dataTableId",
            "matchType",
            "filters",
            "columns",
            "returnAll",
            "limit",
            "orderBy",
            "orderByColumn",
            "orderByDirection",
            "options",
        )
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns `dataTable.insert`, for example."""
        return f"dataTable.{operation_of(node)}"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields missing tables and conditions, and settings whose default is undocumented."""
        operation = operation_of(node)
        if not table_of(node.get("dataTableId"))[1]:
            yield _error("It does not say which data table it means. Choose one in n8n and import it again.")
        if is_expression(operation):
            yield _error("An expression decides what it does with the rows. Choose an operation.")
        if operation != _INSERT:
            yield from _condition_problems(node, operation)
        if node.get("options.dryRun"):
            yield _error("It only tries out what it would change (“Dry run”). Switch that off.")
        if operation == _GET and node.get("orderBy"):
            for name, label in (("orderByColumn", "Order By Column"), ("orderByDirection", "Direction")):
                if not node.get(name):
                    yield _error(f"It sorts the rows and does not say its “{label}”. Choose it in n8n.")

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns READS for operations that map an item's fields by name; no others read them."""
        operation = step.config.get("operation", _INSERT)
        if operation in _PASSING:
            return FieldUse.PASSES_ITEMS
        columns = step.config.get("columns")
        is_mapped = isinstance(columns, Mapping) and columns.get("mappingMode") == "autoMapInputData"
        return FieldUse.READS if is_mapped and operation in FILLING | {_UPDATE} else FieldUse.REPLACES_ITEMS

    async def run(self, call: StepCall) -> NodeResult:
        """Applies the operation item by item, then stores the tables. Raises WorkflowStepFailed."""
        tables = _Tables(call)
        outcomes = [await tables.outcome(index, item) for index, item in enumerate(call.items)]
        result = for_each_item(call, lambda index, _: _items_of(outcomes[index]))
        await tables.keep()
        is_counted = call.first.text("operation", _INSERT) == _INSERT and call.first.flag(
            "options.optimizeBulk"
        )
        return _counted(result) if is_counted else result


def _error(words: str) -> StepProblem:
    return StepProblem("error", "parameter", words)


def _condition_problems(node: NodeDefinition, operation: str) -> Iterable[StepProblem]:
    rows = node.get("filters.conditions", [])
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    if not rows and operation != _GET:
        yield _error("It has no condition that says which rows it means. Add one in n8n.")
    if len(rows) > 1 and not node.get("matchType"):
        message = (
            "It does not say whether rows must meet all of its conditions or one. Choose “Must Match” in n8n."
        )
        yield _error(message)
    for row in rows:
        if not row.get("keyName"):
            yield _error("One of its conditions names no column. Choose one in n8n.")
        name = row.get("condition", "eq")
        if not is_expression(name) and name not in CONDITIONS:
            yield _error(f"Its condition “{str(name)[:80]}” does not run here. Choose another one.")
        if name == "neq":
            message = (
                "Rows without a value in the column are not among those that differ. Check its conditions."
            )
            yield StepProblem("warning", "parameter", message)


class _Tables:
    """The tables that one run of a step uses; an expression may name several."""

    def __init__(self, call: StepCall) -> None:
        self.call = call
        self.by_key: dict[str, Table] = {}

    async def outcome(self, index: int, item: Item) -> list[Item] | ItemFailed:
        """Returns the items that the operation outputs for one item, or why it failed."""
        await self.call.sleep(0)  # yields to other tasks, because a large table takes a while
        try:
            key = _key(self.call.params(index))
            if key not in self.by_key:
                stored = await self.call.environment.static_data.read_table(key)
                self.by_key[key] = Table.of_stored(stored)
            items = self._applied(self.by_key[key], index, item)
        except ItemFailed as failure:
            return failure
        self.call.budget.add(*(worked.json for worked in items))
        return items

    async def keep(self) -> None:
        """Stores the changed tables. Raises WorkflowStepFailed if one is too large."""
        if self.call.first.text("operation", _INSERT) not in _WRITING:
            return
        for key, table in self.by_key.items():
            try:
                await self.call.environment.static_data.write_table(key, table.stored())
            except StaticDataTooLarge:
                raise WorkflowStepFailed(TOO_LARGE) from None

    def _applied(self, table: Table, index: int, item: Item) -> list[Item]:
        params = self.call.params(index)
        operation = params.text("operation", _INSERT)
        if operation == _INSERT:
            rows = [table.insert(_values(params, item, table), self.call.environment.now)]
        else:
            conditions = [_condition(row, table) for row in params.rows("filters.conditions")]
            all_of_them = params.text("matchType", "allConditions") == "allConditions"
            rows = table.matching(conditions, all_of_them=all_of_them)
            if operation in _PASSING:
                is_passed = bool(rows) is (operation == _EXISTS)
                return [Item(item.json, paired_with(index), binary=item.binary)] if is_passed else []
            rows = self._changed(operation, table, rows, params, item)
        return [Item(table.shown(row), paired_with(index)) for row in rows]

    def _changed(
        self, operation: str, table: Table, rows: list[dict[str, JsonValue]], params: Params, item: Item
    ) -> list[dict[str, JsonValue]]:
        now = self.call.environment.now
        if operation == _GET:
            return _chosen(table, rows, params)
        if operation == _DELETE:
            table.delete(rows)
            return rows
        values = _values(params, item, table)
        if operation == _UPSERT and not rows:
            return [table.insert(values, now)]
        table.update(rows, values, now)
        return rows


def _items_of(outcome: list[Item] | ItemFailed) -> list[Item]:
    """Returns the items of an outcome, or raises its ItemFailed."""
    if isinstance(outcome, ItemFailed):
        raise outcome
    return outcome


def _counted(inserted: NodeResult) -> NodeResult:
    """Replaces the inserted rows with one item that counts them, as “Optimize Bulk” does."""
    failed = [item for item in inserted.outputs[0] if item.error is not None]
    count = len(inserted.outputs[0]) - len(failed)
    return NodeResult([[Item({"success": True, "insertedRows": count}), *failed], *inserted.outputs[1:]])


def _key(params: Params) -> str:
    mode, name = table_of(params.get("dataTableId"))
    if not name:
        raise ItemFailed("The name of the data table is empty. Check its expression.")
    return f"{mode}:{name}"


def _condition(row: Params, table: Table) -> Condition:
    name = row.text("condition", "eq")
    if name not in CONDITIONS:
        raise ItemFailed(f"The condition “{name[:80]}” does not run here. Choose another one.")
    return table.condition(row.text("keyName"), name, None if name in VALUELESS else row.get("keyValue"))


def _chosen(table: Table, rows: list[dict[str, JsonValue]], params: Params) -> list[dict[str, JsonValue]]:
    if params.flag("orderBy"):
        is_descending = params.text("orderByDirection") == "DESC"
        rows = table.ordered(rows, params.text("orderByColumn"), is_descending=is_descending)
    if params.flag("returnAll"):
        return rows
    limit = js.number(params.get("limit", _LIMIT))
    if limit != limit or limit < 1:
        raise ItemFailed("The limit is not a number from 1 on.")
    return rows[: int(min(limit, len(rows)))]


def _values(params: Params, item: Item, table: Table) -> JsonObject:
    """Returns the values of a row. Raises ItemFailed for a field without a column in the table."""
    schema = {row.text("id"): row.text("type") for row in params.rows("columns.schema")}
    table.add_columns(schema)
    if params.text("columns.mappingMode", "defineBelow") == "autoMapInputData":
        values = {name: value for name, value in item.json.items() if name not in OWN_COLUMNS}
        unknown = next((name for name in values if schema and name not in schema), None)
        if unknown is not None:
            message = f"The data table has no column “{unknown[:80]}”."
            raise ItemFailed(f"{message} Remove the field before, or map the columns by hand.")
        return values
    defined = params.get("columns.value")
    members: Mapping[str, AnyJson] = defined if js.is_object(defined) else {}
    return {name: value for name, value in members.items() if value is not js.UNDEFINED}
