"""Columns that a spreadsheet step adds for fields that have none, as n8n's automatic mapping does."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from steward.connectors.base.commands import WriteCells
from steward.connectors.base.records import SheetTable
from steward.model.change import FieldChange, FieldKind, Part, Proposal
from steward.model.json import JsonObject
from steward.steps.n8n.sheet_location import SheetLocation
from steward.steps.rows import column_letters
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem, is_expression

INSERT, IGNORE, ERROR = "insertInNewColumn", "ignoreIt", "error"
# Matches a formula, or an expression that begins with one as text, as in {{ '=A' + $json.row }}.
_FORMULA = re.compile(r"\s*(=|\{\{\s*['\"`]\s*=)")
# Reading adds this column to items; writing never adds it to the sheet.
_ROW_NUMBER = "row_number"


def _maps_automatically(parameters: JsonObject, version: float) -> bool:
    """Returns whether columns are matched by field name, in a version that has options for extra fields."""
    if version >= 4:
        columns = parameters.get("columns")
        mode = columns.get("mappingMode") if isinstance(columns, Mapping) else None
        return mode == "autoMapInputData"
    return version >= 3 and parameters.get("dataMode") == "autoMapInputData"


def extra_field_problems(node: NodeDefinition, operation: str) -> Iterable[StepProblem]:
    """Yields problems with fields that have no column."""
    if not _maps_automatically(node.parameters, node.version):
        return
    choice = node.get("options.handlingExtraData")
    if is_expression(choice):
        return
    if choice is None and operation == "update":
        message = "A field without a column is left out here. Add its column to the tab, or remove the field."
        yield StepProblem("warning", "parameter", message)
    elif choice not in (None, INSERT, IGNORE, ERROR):
        message = "What it does with fields without a column is not known. Choose it again in n8n."
        yield StepProblem("error", "parameter", message)
    elif choice in (None, INSERT):
        message = (
            "A field without a column adds one, which the approval shows. The columns are written at the"
        )
        message += " right of the tab’s data, where the tab must have empty columns. Check that it has."
        yield StepProblem("note", "parameter", message)


def text_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields problems with texts that Google Sheets would interpret; here they are written unchanged."""
    older, newer = node.get("options.valueInputMode", "RAW"), node.get("options.cellFormat", "USER_ENTERED")
    if (older if node.version < 3 else newer) == "RAW":
        return
    formulas = [
        str(name)[:60]
        for name, value in _written_values(node)
        if isinstance(value, str) and _FORMULA.match(value.removeprefix("="))
    ]
    if formulas:
        message = f"It writes a formula into “{formulas[0]}”. Here a text that begins with = stays a text."
        yield StepProblem("error", "parameter", f"{message} Remove the column from the step.")
        return
    message = "In n8n Google Sheets turns texts into dates, numbers and formulas. Here a text stays a text."
    yield StepProblem("warning", "parameter", f"{message} Hand on numbers as numbers where it matters.")


def _written_values(node: NodeDefinition) -> Iterable[tuple[object, object]]:
    """Yields the columns that a step maps, each with its value or expression."""
    mapped = node.get("columns.value")
    yield from mapped.items() if isinstance(mapped, Mapping) else ()
    for path in ("fieldsUi.fieldValues", "fieldsUi.values"):
        rows = node.get(path)
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield row.get("fieldId", row.get("column", "")), row.get("fieldValue")


def _without(row: JsonObject, names: Collection[str]) -> JsonObject:
    return {name: value for name, value in row.items() if name not in names}


@dataclass(slots=True)
class SheetColumns:
    """The columns in a tab's header row, and those that this run adds to the right of its data."""

    location: SheetLocation
    tab: str
    present: list[str]
    added: list[str] = field(default_factory=list)
    first_free: int = 0
    header_row: int = 1

    @classmethod
    def of(
        cls, location: SheetLocation, tab: str, table: SheetTable, heads: list[str], *, header_row: int
    ) -> "SheetColumns":
        """Returns the columns of a tab with this header row."""
        widest = max((len(row.cells) for row in table.rows), default=0)
        return cls(location, tab, heads, first_free=max(widest, len(heads)), header_row=header_row)

    @property
    def heads(self) -> list[str]:
        """The header row including the added columns."""
        if not self.added:
            return self.present
        blanks = [""] * (self.first_free - len(self.present))
        return [*self.present, *blanks, *self.added]

    @property
    def is_empty_tab(self) -> bool:
        """Whether the tab is empty."""
        return self.first_free == 0

    def admit(self, call: StepCall, number: int, row: JsonObject, operation: str) -> JsonObject:
        """Returns the fields of a row to write, adding columns for new fields if the step allows it.

        Raises ItemFailed if the step rejects fields without a column.
        """
        fields = _without(row, ("", _ROW_NUMBER))
        extra = [name for name in fields if name not in self.present]
        if self.is_empty_tab and operation != "update":
            self._add(extra)
        elif extra and _maps_automatically(call.params(number).tree, call.version):
            default = IGNORE if operation == "update" else INSERT
            choice = call.params(number).text("options.handlingExtraData", default)
            if choice == IGNORE:
                return _without(row, extra)
            if choice != INSERT:
                message = f"The sheet has no column “{extra[0][:80]}”. Add the column, or remove the field."
                raise ItemFailed(message)
            self._add(extra)
        return fields

    def with_header(self, proposal: Proposal) -> Proposal:
        """Returns the proposal with a first part that writes the header cells of the added columns.

        Every proposal that uses the columns has this part, because a person may decline any of the others.
        Writing headers that are already there counts as unchanged. Raises ItemFailed.
        """
        part = self._header_part()
        field_change = FieldChange("columns", "Columns added", [], list(self.added), FieldKind.LIST)
        return replace(proposal, parts=(part, *proposal.parts), fields=(field_change, *proposal.fields))

    def _add(self, names: Iterable[str]) -> None:
        self.added += [name for name in names if name not in self.added]

    def _header_part(self) -> Part:
        command = WriteCells(
            tab=self.tab,
            start=f"{column_letters(self.first_free)}{self.header_row}",
            rows=(tuple(self.added),),
            before=(),
            spreadsheet_id=self.location.document,
        )
        operation = self.location.account.changes["sheet.write_cells"]
        integration = self.location.account.connection.integration_id
        planned = operation.plan([command], integration_id=integration)
        if planned.problems:
            raise ItemFailed(planned.problems[0].message)
        [header] = planned.proposals
        [part] = header.parts
        return part
