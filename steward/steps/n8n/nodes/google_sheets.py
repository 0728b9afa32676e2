"""The node googleSheets: reads rows; appends, updates and clears rows as proposed writes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steward.connectors.base.commands import AppendRows, WriteCells
from steward.connectors.base.connector import ItemProblem as Fault
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Cell, SheetTable
from steward.model.change import Proposal
from steward.model.ids import IntegrationId
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Counts
from steward.steps.n8n.sheet_area import (
    READS,
    SheetArea,
    area_problems,
    default_combination,
    formats_of,
    whole_number,
)
from steward.steps.n8n.sheet_columns import SheetColumns, extra_field_problems, text_problems
from steward.steps.n8n.sheet_forms import clear, create, delete, form_problems
from steward.steps.n8n.sheet_location import SheetLocation, document_of, tab_of
from steward.steps.n8n.sheet_raw import plain, read_raw, to_cell, write_raw
from steward.steps.rows import column_letters
from steward.steps.workflow.external_calls import ItemProposals
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
    paired_with,
)

_WRITES = frozenset(("append", "appendOrUpdate", "update", "clear", "delete", "create"))


class GoogleSheetsNode(StepType):
    """Uses the connection bound to the step, not the credentials in the file."""

    types = ("googleSheets",)
    versions = (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6, 4.7)
    parameters = frozenset(
        re.findall(
            r"\w+",
            """
            authentication resource operation documentId sheetName columns options filtersUI
            combineFilters dataMode fieldsUi columnToMatchOn valueToMatchOn dataToSend fieldsToSend
            sheetId range rawData lookupColumn lookupValue key keyRow dataStartRow valueInputMode clear
            keepFirstRow startIndex toDelete numberToDelete rowsToDelete columnsToDelete title upsert
            dataPropertyName
            """,
        )
    )

    options = frozenset(
        re.findall(
            r"\w+",
            """
            cellFormat continue dataLocationOnSheet handlingExtraData hidden index locationDefine
            outputFormatting returnAllMatches returnFirstMatch rightToLeft sheetId tabColor useAppend
            usePathForKeyRow valueInputMode valueRenderMode
            """,
        )
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns `spreadsheet.read`, for example."""
        return f"spreadsheet.{_operation(node)}"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or send."""
        return StepKind.READ if _operation(node) in READS else StepKind.SEND

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns READS unless the file maps every column."""
        if step.kind is StepKind.READ:
            return FieldUse.REPLACES_ITEMS
        operation = step.config.get("operation")
        columns = step.config.get("columns")
        mapped = isinstance(columns, Mapping) and columns.get("mappingMode", "") == "defineBelow"
        if operation in ("append", "appendOrUpdate", "update"):
            return FieldUse.REPLACES_ITEMS if operation == "append" and mapped else FieldUse.READS
        return FieldUse.PASSES_ITEMS

    def required_connection(self, node: NodeDefinition) -> str:
        """Returns spreadsheet."""
        return "spreadsheet"

    def target(self, node: NodeDefinition) -> JsonObject:
        """Returns the document and tab in the file; null where an expression decides them."""
        return {"spreadsheet_id": document_of(node.parameters), "sheet": tab_of(node.parameters)}

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations and options."""
        if is_expression(node.get("operation")):
            # Whether it writes, and thus needs approval, is decided at import and never depends on data.
            message = "Its operation is decided by an expression. Choose a fixed one."
            yield StepProblem("error", "parameter", message)
        if node.get("resource", "sheet") != "sheet":
            message = "It makes or removes a whole spreadsheet, which is not supported. Remove the step."
            yield StepProblem("error", "parameter", message, is_operation=True)
        elif _operation(node) not in READS | _WRITES:
            message = f"Its operation “{_operation(node)[:40]}” is not supported. Remove the step."
            yield StepProblem("error", "parameter", message, is_operation=True)
        elif _operation(node) in ("clear", "delete", "create"):
            yield from form_problems(node, _operation(node))
        if node.get("rawData") and (_operation(node) not in ("read", "update") or node.version >= 3):
            yield StepProblem("error", "parameter", "It writes raw ranges. Map columns instead.")
        if _operation(node) in ("append", "appendOrUpdate", "update"):
            yield from extra_field_problems(node, _operation(node))
            yield from text_problems(node)
        yield from _older_option_problems(node)
        yield from area_problems(node)

    async def run(self, call: StepCall) -> NodeResult:
        """Reads rows, or proposes what to write."""
        location = SheetLocation.of(call)
        operation = str(js.text(call.first.get("operation", "read")))
        if operation in READS:
            return await _read(call, location)
        if operation == "clear":
            return await clear(call, location)
        if operation == "delete":
            return await delete(call, location)
        if operation == "create":
            return await create(call, location)
        if call.first.flag("rawData"):
            return await write_raw(call, location)
        return await _write(call, location, operation)


def _operation(node: NodeDefinition) -> str:
    return str(node.literal("operation", "read"))


def _older_option_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields options of versions 1 and 2 that are not carried out."""
    if node.get("options.usePathForKeyRow"):
        message = "Its option “Use Path For Key Row” does not run here. Remove the option or the step."
        yield StepProblem("error", "parameter", message)
    if node.get("options.continue"):
        message = "Its option “Continue If Empty” has no effect here."
        yield StepProblem("note", "parameter", f"{message} Check what later steps do if it reads no row.")


def _column_names(table: SheetTable, area: SheetArea) -> list[str]:
    header = area.header(table)
    return [js.text(plain(cell)) for cell in header.cells] if header else []


def _row(heads: Sequence[str], cells: Sequence[Cell]) -> dict[str, JsonValue]:
    return {
        head: plain(cells[column]) if column < len(cells) else "" for column, head in enumerate(heads) if head
    }


async def _read(call: StepCall, location: SheetLocation) -> NodeResult:
    area = SheetArea.of(call.first, call.version)
    _, table = await location.table(area.range, **formats_of(call.first, call.version))
    if call.first.flag("rawData"):
        return read_raw(call, table)
    rows = _filled_rows(table, area)
    out: Items = []
    for number in range(len(call.items)):
        params = call.params(number)
        filters = _filters(params)
        matching_rows = _looked_up_rows(rows, filters, params, call.version) if filters else rows
        call.budget.add(*matching_rows)
        out += [Item(_unnumbered(row, call.version), paired_with(number)) for row in matching_rows]
        if not filters:
            break  # a read without filters happens only once
    return NodeResult([out], counts=Counts(read=len(rows)))


def _looked_up_rows(
    rows: Sequence[dict[str, JsonValue]],
    filters: Sequence[tuple[str, AnyJson]],
    params: Params,
    version: float,
) -> Sequence[dict[str, JsonValue]]:
    """Returns the rows that an item looks up."""
    one_is_enough = params.text("combineFilters", default_combination(version)) == "OR"
    matching_rows = [row for row in rows if _fits(row, filters, one_is_enough=one_is_enough)]
    if version < 3 and not matching_rows:
        return [{}]  # these versions output an item for every lookup
    return matching_rows[:1] if _takes_first(params, version) else matching_rows


def _takes_first(params: Params, version: float) -> bool:
    """Returns whether a lookup returns only its first match, the default before version 4.5."""
    if version >= 4.5:
        return params.flag("options.returnFirstMatch")
    return params.get("options.returnAllMatches") not in (True, "returnAllMatches")


def _filled_rows(table: SheetTable, area: SheetArea) -> list[dict[str, JsonValue]]:
    """Returns the fields of each data row that is not empty."""
    heads = _column_names(table, area)
    return [{"row_number": row.number, **_row(heads, row.cells)} for row in area.data_rows(table)]


def _filters(params: Params) -> list[tuple[str, AnyJson]]:
    """Returns the columns and values to look rows up by."""
    filters = [
        (row.text("lookupColumn"), row.get("lookupValue", "")) for row in params.rows("filtersUI.values")
    ]
    if params.text("operation", "read") == "lookup":
        filters.append((params.text("lookupColumn"), params.get("lookupValue", "")))
    return filters


def _unnumbered(row: dict[str, JsonValue], version: float) -> dict[str, JsonValue]:
    return row if version >= 3 else {name: value for name, value in row.items() if name != "row_number"}


def _fits(row: JsonObject, filters: Sequence[tuple[str, JsonValue]], *, one_is_enough: bool) -> bool:
    fits = [js.text(row.get(column, "")) == js.text(value) for column, value in filters]
    return any(fits) if one_is_enough else all(fits)


def _may_be_displayed_differently(row: JsonObject, values_by_column: Iterable[tuple[str, JsonValue]]) -> bool:
    """Returns whether a text has to match a number, which the tab may display as a date or in a format."""
    return any(
        isinstance(value, str) and isinstance(row.get(name), int | float) for name, value in values_by_column
    )


def _fits_one_of(rows: Iterable[JsonObject], name: str, value: JsonValue) -> bool:
    return any(_fits(row, [(name, value)], one_is_enough=True) for row in rows)


def _mapped(call: StepCall, number: int) -> JsonObject:
    """Returns the values that one item writes, by column."""
    params, item = call.params(number), call.items[number]
    if call.version >= 4:
        if params.text("columns.mappingMode", "defineBelow") == "autoMapInputData":
            return {name: value for name, value in item.json.items() if name != "row_number"}
        mapping = params.get("columns.value", {})
        return dict(mapping) if isinstance(mapping, Mapping) else {}
    if call.version >= 3 and params.text("dataMode", "defineBelow") == "defineBelow":
        rows = params.rows("fieldsUi.fieldValues") or params.rows("fieldsUi.values")
        key = _key_of(params, call.version) if params.text("operation") == "appendOrUpdate" else {}
        return key | {row.text("fieldId", row.text("column")): row.get("fieldValue", "") for row in rows}
    return dict(item.json)


async def _write(call: StepCall, location: SheetLocation, operation: str) -> NodeResult:
    area = SheetArea.of(call.first, call.version)
    tab, table = await location.table()
    columns = SheetColumns.of(location, tab, table, _column_names(table, area), header_row=area.header_row)
    writing = _Writing(call, location, tab, table, area, columns, ItemProposals(call))
    written: list[_Row] = []
    for number in range(len(call.items)):
        try:
            fields = dict(js.members(_mapped(call, number)))
            row_number = None if operation == "append" else await writing.match(number, fields, operation)
            cells = columns.admit(call, number, fields, operation)
            if _keeps_cells(call, number, operation):
                cells = {name: value for name, value in cells.items() if not _is_empty(value)}
        except ItemFailed as failure:
            writing.item_proposals.fail_item(number, failure.message)
            continue
        if row_number is not None or operation != "update":
            written.append(_Row(number, js.to_json(fields), cells, row_number))
    # All added columns are known only after every item has been mapped.
    for row in written:
        if row.row_number is not None:
            writing.change(row, row.row_number)
    writing.append([row for row in written if row.row_number is None])
    return writing.item_proposals.result(read=len(table.rows))


def _keeps_cells(call: StepCall, number: int, operation: str) -> bool:
    """Returns whether an empty value leaves a row's cell as it is, as in mappings of versions 4 to 4.6."""
    mode = call.params(number).text("columns.mappingMode", "defineBelow")
    return 4 <= call.version < 4.7 and mode == "defineBelow" and operation != "append"


def _is_empty(value: JsonValue) -> bool:
    return js.is_missing(value) or value == ""


@dataclass(frozen=True, slots=True)
class _Row:
    """The row that one item writes: its mapped fields, its cells, and its number in the sheet, if any."""

    item_index: int
    fields: Mapping[str, AnyJson]
    cells: JsonObject
    row_number: int | None


def _key_of(params: Params, version: float) -> dict[str, JsonValue]:
    """Returns the column and value to match, which version 3 holds apart from the fields to write."""
    value = params.get("valueToMatchOn")
    is_mapped = 3 <= version < 4 and params.text("dataMode", "defineBelow") == "defineBelow"
    return {js.text(params.get("columnToMatchOn", "")): value} if is_mapped and value is not None else {}


def _columns_to_match(params: Params) -> list[str]:
    columns = params.get("columns.matchingColumns", [])
    names = [js.text(column) for column in columns] if js.is_list(columns) else []
    return names or [js.text(params.get("columnToMatchOn", params.get("key", "id")))]


@dataclass(slots=True)
class _Writing:
    """Collects the changes of one run of a writing step."""

    call: StepCall
    location: SheetLocation
    tab: str
    table: SheetTable
    area: SheetArea
    columns: SheetColumns
    item_proposals: ItemProposals
    data_rows: dict[int, dict[str, JsonValue]] = field(init=False)
    shown_rows: dict[int, dict[str, JsonValue]] | None = None

    def __post_init__(self) -> None:
        self.data_rows = self._rows_of(self.table)

    @property
    def integration_id(self) -> IntegrationId:
        """The connection that the writes go to."""
        return self.location.account.connection.integration_id

    async def match(self, number: int, row: JsonObject, operation: str) -> int | None:
        """Returns the number of the sheet row that matches an item, or None. Raises ItemFailed."""
        params = self.call.params(number)
        names = _columns_to_match(params)
        fields = {**self.call.items[number].json, **row, **_key_of(params, self.call.version)}
        if "row_number" in names:
            if operation == "appendOrUpdate" and _is_empty(fields.get("row_number")):
                return None
            return whole_number(Params(fields), "row_number", 0, self.area.first_data_row)
        heads = self.columns.present
        if self.columns.is_empty_tab and operation == "appendOrUpdate":
            return None
        if not all(name in heads for name in names):
            raise ItemFailed(f"The sheet has no column “{names[0][:80]}” to find rows by.")
        return await self._matching_row([(name, fields.get(name)) for name in names])

    async def _matching_row(self, values_by_column: Sequence[tuple[str, AnyJson]]) -> int | None:
        """Returns the number of the first row with these values, or else of the first that displays them.

        A step that read the tab may have received dates and numbers as displayed.
        """
        for row_number, row in self.data_rows.items():
            if _fits(row, values_by_column, one_is_enough=False):
                return row_number
        if not any(_may_be_displayed_differently(row, values_by_column) for row in self.data_rows.values()):
            return None
        if self.shown_rows is None:
            _, table = await self.location.table(values="FORMATTED_VALUE")
            self.shown_rows = self._rows_of(table)
        for row_number, row in self.data_rows.items():
            displayed_row = self.shown_rows.get(row_number, {})
            if all(_fits_one_of((row, displayed_row), name, value) for name, value in values_by_column):
                return row_number
        return None

    def _rows_of(self, table: SheetTable) -> dict[int, dict[str, JsonValue]]:
        """Returns the fields of each row below the header, by number."""
        heads, first_row = self.columns.present, self.area.first_data_row
        return {row.number: _row(heads, row.cells) for row in table.rows if row.number >= first_row}

    def change(self, row: _Row, row_number: int) -> None:
        """Proposes changes to the cells of an existing row, with headers for added columns."""
        present_cells = next(
            (sheet_row.cells for sheet_row in self.table.rows if sheet_row.number == row_number), ()
        )
        heads, present = self.columns.heads, self.columns.present
        operation = self.location.account.changes["sheet.write_cells"]
        proposals: list[Proposal] = []
        problems: list[Fault] = []
        for name, value in row.cells.items():
            if name not in heads:
                continue
            column = heads.index(name)
            before = present_cells[column] if column < len(present_cells) else None
            command = WriteCells(
                tab=self.tab,
                start=f"{column_letters(column)}{row_number}",
                rows=((to_cell(value),),),
                before=((before,),),
                spreadsheet_id=self.location.document,
            )
            planned = operation.plan([command], integration_id=self.integration_id)
            is_added = name not in present
            proposals += [
                self.columns.with_header(proposal) if is_added else proposal for proposal in planned.proposals
            ]
            problems += planned.problems
        item = Item({**row.fields, "row_number": row_number}, paired_with(row.item_index))
        self.item_proposals.add_plan(row.item_index, PlannedChanges(tuple(proposals), tuple(problems)), item)

    def append(self, fresh: Sequence[_Row]) -> None:
        """Proposes all new rows in one request, after the headers of the columns they add."""
        if not fresh:
            return
        heads = self.columns.heads
        missing = [name for row in fresh for name in row.cells if name not in heads]
        if missing:
            for row in fresh:
                message = f"The sheet has no column “{missing[0][:80]}”. Add it, or do not map it."
                self.item_proposals.fail_item(row.item_index, message)
            return
        self._propose_append(fresh)

    def _propose_append(self, fresh: Sequence[_Row]) -> None:
        heads = self.columns.heads
        rows = tuple(tuple(to_cell(row.cells.get(head)) for head in heads) for row in fresh)
        command = AppendRows(tab=self.tab, rows=rows, spreadsheet_id=self.location.document)
        planned = self.location.account.changes["sheet.append_rows"].plan(
            [command], integration_id=self.integration_id
        )
        first = len(self.item_proposals.items)
        for row in fresh:
            self.item_proposals.items.append(Item(dict(row.fields), paired_with(row.item_index)))
        if planned.problems:
            raise ItemFailed(planned.problems[0].message)
        for proposal in planned.proposals:
            whole = self.columns.with_header(proposal) if self.columns.added else proposal
            self.item_proposals.proposals.append(whole)
            self.item_proposals.item_of.append(first)
