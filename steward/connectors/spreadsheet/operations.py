"""Operations on cells in a sheet: appending rows and setting cells, always as raw values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from steward.connectors.base.commands import AppendRows, WriteCells
from steward.connectors.base.connector import Guard, ItemProblem, PlannedChanges
from steward.connectors.base.inverses import mirrored
from steward.connectors.base.records import Cell
from steward.connectors.spreadsheet.cells import (
    CELL_CHARACTERS,
    key_of,
    same_rows,
    single_cells,
    stored_cell,
    tab_range,
)
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue, digest
from steward.model.undo import Inverse, Irreversible, NeedsLookUp, PutBack

A = TypeVar("A", contravariant=True)
CALL_BYTES = 1024 * 1024
_COLUMNS = 18_278


@dataclass(frozen=True, slots=True)
class SheetOperation(Generic[A]):
    """The base of all sheet operations, which count as sends."""

    name: str
    recovery: Recovery
    action: Action = Action.SEND
    guard: Guard = Guard.REREAD

    def recovery_of(self, part: Part) -> Recovery:
        """Returns the class of the operation, which is the same for every part."""
        return self.recovery

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the rows after the write."""
        return {"rows": arguments["rows"]}, ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups each part into a separate call."""
        return [(part,) for part in parts]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares cell by cell, numbers by value."""
        return same_rows(expected, actual)

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Splits the value into its cells, whether they are written or cleared."""
        spreadsheet = part.arguments.get("spreadsheet_id")
        return {f"{spreadsheet}|{name}": cell for name, cell in single_cells(part.target, value).items()}


class AppendRowsOperation(SheetOperation[AppendRows]):
    """`sheet.append_rows`: adds rows below the table."""

    __slots__ = ()

    def recovery_of(self, part: Part) -> Recovery:
        """Returns `marked` with a key column, else `at_most_once`."""
        return Recovery.AT_MOST_ONCE if part.arguments["key_column"] is None else Recovery.MARKED

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the keys that were read; an append without keys never equals anything."""
        return expected is not None and expected == actual

    def inverse(self, part: Part) -> Inverse:
        """Returns `NeedsLookUp`, for the rows with these keys; `Irreversible` without keys."""
        if part.after is None:
            return Irreversible("Nothing tells these rows from others, so they stay.")
        return NeedsLookUp()

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the rows' keys, so that appends to one tab have separate values."""
        return {f"{part.arguments.get('spreadsheet_id')}|{part.target}|{digest(part.after)}": value}

    def plan(self, commands: Sequence[AppendRows], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans the rows whose keys are not present, in calls of at most 1 MiB."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        for command in commands:
            problem = _problem(command.tab, command.rows)
            if problem is None and command.key_column is not None:
                problem = _key_problem(command)
            if problem is not None:
                problems.append(problem)
                continue
            for rows in _calls(_fresh(command)):
                proposals.append(self._proposal(command, rows, integration_id))
        return PlannedChanges(tuple(proposals), tuple(problems))

    def _proposal(
        self, command: AppendRows, rows: list[tuple[Cell, ...]], integration_id: IntegrationId
    ) -> Proposal:
        keys = None if command.key_column is None else [key_of(row[command.key_column]) for row in rows]
        arguments: JsonObject = {
            "tab": command.tab,
            "rows": [[stored_cell(cell) for cell in row] for row in rows],
            "key_column": command.key_column,
            "spreadsheet_id": command.spreadsheet_id,
        }
        # Before the write none of the rows' keys is there, afterwards all are; an append without keys is not
        # looked up.
        before: JsonValue = None if keys is None else {"keys": []}
        after: JsonValue = None if keys is None else {"keys": keys}
        part = Part(self.name, integration_id, command.tab, arguments, before, after)
        label = f"{command.tab}: {len(rows)} {'row' if len(rows) == 1 else 'rows'}"
        return Proposal(
            ObjectRef("spreadsheet_row", None, label, command.url), self.action,
            (FieldChange("rows", "Rows", None, len(rows), FieldKind.NUMBER),), (part,),
            integration_id, command.message,
        )  # fmt: skip


class WriteCellsOperation(SheetOperation[WriteCells]):
    """`sheet.write_cells`: sets the cells of a block."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier cells."""
        return cells_restored(part)

    def plan(self, commands: Sequence[WriteCells], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans the blocks that differ from the current cells."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        unchanged: list[str] = []
        for command in commands:
            problem = _problem(command.tab, command.rows)
            try:
                target = tab_range(command.tab, command.start, command.rows)
            except ValueError:
                problem = ItemProblem(
                    command.start, "not_a_cell", "The first cell is named as in A1.", "start"
                )
                target = command.start
            if problem is not None:
                problems.append(problem)
                continue
            before: JsonObject = {"rows": [[stored_cell(cell) for cell in row] for row in command.before]}
            after: JsonObject = {"rows": [[stored_cell(cell) for cell in row] for row in command.rows]}
            if self.same(after, before):
                unchanged.append(target)
                continue
            arguments: JsonObject = {
                "range": target,
                "rows": after["rows"],
                "spreadsheet_id": command.spreadsheet_id,
            }
            part = Part(self.name, integration_id, target, arguments, before, after)
            fields = (FieldChange("cells", target, before["rows"], after["rows"], FieldKind.LIST),)
            ref = ObjectRef("spreadsheet_row", None, target, command.url)
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems), tuple(unchanged))


def cells_restored(part: Part) -> Inverse:
    """Returns the part that restores the earlier cells of the whole block, with empty ones."""
    assert isinstance(part.before, dict)
    assert isinstance(part.after, dict)
    rows = _filled(part.before["rows"], part.after["rows"])
    arguments: JsonObject = {
        "range": part.target,
        "rows": rows,
        "spreadsheet_id": part.arguments.get("spreadsheet_id"),
    }
    return PutBack(mirrored(part, arguments, "sheet.write_cells"), "Formulas come back as their values.")


def _filled(rows: JsonValue, block: JsonValue) -> list[JsonValue]:
    """Returns `rows` with empty cells where only `block` has a cell, so that the write clears them."""
    before, after = [list(row) for row in _row_lists(rows)], _row_lists(block)
    before += [[] for _ in after[len(before) :]]
    for row, written in zip(before, after, strict=False):
        row += [None] * (len(written) - len(row))
    return [*before]


def _row_lists(rows: JsonValue) -> list[Sequence[JsonValue]]:
    listed = rows if isinstance(rows, list | tuple) else ()
    return [row for row in listed if isinstance(row, list | tuple)]


def _fresh(command: AppendRows) -> list[tuple[Cell, ...]]:
    if command.key_column is None:
        return list(command.rows)
    seen = set(command.present)
    fresh: list[tuple[Cell, ...]] = []
    for row in command.rows:
        key = key_of(row[command.key_column])
        if key not in seen:
            seen.add(key)
            fresh.append(row)
    return fresh


def _calls(rows: list[tuple[Cell, ...]]) -> list[list[tuple[Cell, ...]]]:
    calls: list[list[tuple[Cell, ...]]] = []
    size = CALL_BYTES
    for row in rows:
        row_bytes = len(json.dumps([stored_cell(cell) for cell in row]).encode("utf-8")) + 1
        if not calls or size + row_bytes > CALL_BYTES - 1024:
            calls.append([])
            size = 0
        calls[-1].append(row)
        size += row_bytes
    return calls


def _problem(tab: str, rows: Sequence[Sequence[Cell]]) -> ItemProblem | None:
    if not 1 <= len(tab) <= 100:
        return ItemProblem(tab, "tab_missing", "A tab is named by its title.", "tab")
    for row in rows:
        if len(row) > _COLUMNS:
            return ItemProblem(tab, "too_many_columns", f"A row has at most {_COLUMNS} cells.", "rows")
        for cell in row:
            if isinstance(cell, str) and len(cell) > CELL_CHARACTERS:
                message = f"A cell holds at most {CELL_CHARACTERS} characters."
                return ItemProblem(tab, "cell_too_long", message, "rows")
    return None


def _key_problem(command: AppendRows) -> ItemProblem | None:
    column = command.key_column or 0
    if column < 0 or any(len(row) <= column or not key_of(row[column]) for row in command.rows):
        return ItemProblem(command.tab, "key_missing", "Every row needs a value in the key column.", "rows")
    return None


APPEND = AppendRowsOperation("sheet.append_rows", Recovery.AT_MOST_ONCE)
WRITE = WriteCellsOperation("sheet.write_cells", Recovery.READABLE)
