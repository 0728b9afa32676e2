"""Operations on a sheet's structure: clearing ranges, deleting rows, adding tabs."""

from collections.abc import Sequence

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.connector import ItemProblem, PlannedChanges
from steward.connectors.spreadsheet.cells import AREA, area_range, same_rows, stored_cell
from steward.connectors.spreadsheet.operations import SheetOperation, cells_restored
from steward.model.change import FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, Irreversible

_TAB_CHARACTERS = 100


class ClearCellsOperation(SheetOperation[ClearCells]):
    """`sheet.clear`: removes values; formats stay."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier cells."""
        return cells_restored(part)

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns no rows."""
        return {"rows": []}, ()

    def plan(self, commands: Sequence[ClearCells], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans the ranges that hold values."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        unchanged: list[str] = []
        for command in commands:
            if not _is_tab(command.tab) or (command.area is not None and not AREA.fullmatch(command.area)):
                message = "Name a tab and a range as in A1:D20."
                problems.append(ItemProblem(command.tab, "not_a_range", message, "area"))
                continue
            target = area_range(command.tab, command.area)
            before: JsonObject = {"rows": [[stored_cell(cell) for cell in row] for row in command.before]}
            after: JsonObject = {"rows": []}
            if self.same(after, before):
                unchanged.append(target)
                continue
            arguments: JsonObject = {"range": target, "spreadsheet_id": command.spreadsheet_id}
            part = Part(self.name, integration_id, target, arguments, before, after)
            fields = (FieldChange("cells", target, before["rows"], [], FieldKind.LIST),)
            ref = ObjectRef("spreadsheet_row", None, target, command.url)
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems), tuple(unchanged))


class DeleteRowsOperation(SheetOperation[DeleteRows]):
    """`sheet.delete_rows`: verified by the number of rows and the content of the deleted ones."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: deleted rows have lost their position."""
        return Irreversible("The place of these rows may have moved, so they are not put in again.")

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the number of remaining rows."""
        used, count = arguments["used"], arguments["count"]
        assert isinstance(used, int)
        assert isinstance(count, int)
        return {"used": used - count}, ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the number of rows, and before the deletion also their content."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        if expected.get("used") != actual.get("used"):
            return False
        return "rows" not in expected or same_rows(expected, actual)

    def plan(self, commands: Sequence[DeleteRows], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one block of rows per command. Callers send the last block first, because rows move up."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        for command in commands:
            last = command.first + command.count - 1
            if (
                not _is_tab(command.tab)
                or not command.tab_id.isdigit()
                or not 1 <= command.first <= last <= command.used
            ):
                message = "Only rows that are used can be taken out."
                problems.append(ItemProblem(command.tab, "not_rows", message, "first"))
                continue
            target = area_range(command.tab, f"{command.first}:{last}")
            rows: JsonValue = [[stored_cell(cell) for cell in row] for row in command.before]
            before: JsonObject = {"used": command.used, "rows": rows}
            arguments: JsonObject = {
                "tab": command.tab,
                "tab_id": command.tab_id,
                "first": command.first,
                "count": command.count,
                "used": command.used,
                "spreadsheet_id": command.spreadsheet_id,
            }
            after: JsonObject = {"used": command.used - command.count}
            part = Part(self.name, integration_id, target, arguments, before, after)
            fields = (FieldChange("rows", "Rows taken out", rows, None, FieldKind.LIST),)
            ref = ObjectRef("spreadsheet_row", None, target, command.url)
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems))


class AddTabOperation(SheetOperation[AddTab]):
    """`sheet.add_tab`: titles are unique in a spreadsheet, so a tab cannot be added twice."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: others may have used the tab."""
        return Irreversible("Others may have written in the new tab, so it stays.")

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the title."""
        return {"title": arguments["title"]}, ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares titles."""
        return expected == actual

    def plan(self, commands: Sequence[AddTab], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans the tabs that do not exist."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        unchanged: list[str] = []
        for command in commands:
            if not _is_tab(command.title):
                message = f"A tab has a title of 1 to {_TAB_CHARACTERS} characters."
                problems.append(ItemProblem(command.title, "not_a_title", message, "title"))
                continue
            if command.title in command.present:
                unchanged.append(command.title)
                continue
            arguments: JsonObject = {"title": command.title, "spreadsheet_id": command.spreadsheet_id}
            part = Part(self.name, integration_id, command.title, arguments, None, {"title": command.title})
            fields = (FieldChange("tab", "Tab", None, command.title, FieldKind.TEXT),)
            ref = ObjectRef("spreadsheet_row", None, command.title, command.url)
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems), tuple(unchanged))


def _is_tab(title: str) -> bool:
    return 1 <= len(title) <= _TAB_CHARACTERS and title.isprintable()


CLEAR = ClearCellsOperation("sheet.clear", Recovery.READABLE)
DELETE_ROWS = DeleteRowsOperation("sheet.delete_rows", Recovery.READABLE)
ADD_TAB = AddTabOperation("sheet.add_tab", Recovery.READABLE)
