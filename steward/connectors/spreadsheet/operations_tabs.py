"""Changes of a sheet's form: ranges emptied, rows taken out, tabs added; pure (connectors 6, imports 6)."""

from collections.abc import Sequence

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.connector import Planned, Problem
from steward.connectors.spreadsheet.cells import AREA, area_range, same_rows, stored_cell
from steward.connectors.spreadsheet.operations import SheetOperation
from steward.model.change import FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue

TAB_CHARACTERS = 100


class ClearCellsOperation(SheetOperation[ClearCells]):
    """`sheet.clear`: values only, formats stay."""

    __slots__ = ()

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Nothing is left."""
        return {"rows": []}, ()

    def plan(self, asks: Sequence[ClearCells], *, integration_id: IntegrationId) -> Planned:
        """Ranges in which something stands."""
        proposals: list[Proposal] = []
        problems: list[Problem] = []
        unchanged: list[str] = []
        for ask in asks:
            if not _is_tab(ask.tab) or (ask.area is not None and not AREA.fullmatch(ask.area)):
                words = "Name a tab and a range as in A1:D20."
                problems.append(Problem(ask.tab, "not_a_range", words, "area"))
                continue
            target = area_range(ask.tab, ask.area)
            before: JsonObject = {"rows": [[stored_cell(cell) for cell in row] for row in ask.before]}
            after: JsonObject = {"rows": []}
            if self.same(after, before):
                unchanged.append(target)
                continue
            arguments: JsonObject = {"range": target, "spreadsheet_id": ask.spreadsheet_id}
            part = Part(self.name, integration_id, target, arguments, before, after)
            fields = (FieldChange("cells", target, before["rows"], [], FieldKind.LIST),)
            ref = ObjectRef("spreadsheet_row", None, target, ask.url)
            proposals.append(
                Proposal(ref, self.action, fields, (part,), integration_id, self.reversible, ask.message)
            )
        return Planned(tuple(proposals), tuple(problems), tuple(unchanged))


class DeleteRowsOperation(SheetOperation[DeleteRows]):
    """`sheet.delete_rows`: told by how many rows there are and what stands in those taken out."""

    __slots__ = ()

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """How many rows are left."""
        used, count = arguments["used"], arguments["count"]
        assert isinstance(used, int)
        assert isinstance(count, int)
        return {"used": used - count}, ()

    def same(self, wanted: JsonValue, seen: JsonValue) -> bool:
        """The number of rows; before they are taken out also what stands in them."""
        if not isinstance(wanted, dict) or not isinstance(seen, dict):
            return wanted == seen
        if wanted.get("used") != seen.get("used"):
            return False
        return "rows" not in wanted or same_rows(wanted, seen)

    def plan(self, asks: Sequence[DeleteRows], *, integration_id: IntegrationId) -> Planned:
        """One block of rows an ask; the last of several first, as numbers move up."""
        proposals: list[Proposal] = []
        problems: list[Problem] = []
        for ask in asks:
            last = ask.first + ask.count - 1
            if not _is_tab(ask.tab) or not ask.tab_id.isdigit() or not 1 <= ask.first <= last <= ask.used:
                words = "Only rows that are used can be taken out."
                problems.append(Problem(ask.tab, "not_rows", words, "first"))
                continue
            target = area_range(ask.tab, f"{ask.first}:{last}")
            rows: JsonValue = [[stored_cell(cell) for cell in row] for row in ask.before]
            before: JsonObject = {"used": ask.used, "rows": rows}
            arguments: JsonObject = {
                "tab": ask.tab,
                "tab_id": ask.tab_id,
                "first": ask.first,
                "count": ask.count,
                "used": ask.used,
                "spreadsheet_id": ask.spreadsheet_id,
            }
            after: JsonObject = {"used": ask.used - ask.count}
            part = Part(self.name, integration_id, target, arguments, before, after)
            fields = (FieldChange("rows", "Rows taken out", rows, None, FieldKind.LIST),)
            ref = ObjectRef("spreadsheet_row", None, target, ask.url)
            proposals.append(
                Proposal(ref, self.action, fields, (part,), integration_id, self.reversible, ask.message)
            )
        return Planned(tuple(proposals), tuple(problems))


class AddTabOperation(SheetOperation[AddTab]):
    """`sheet.add_tab`: titles are unique in a spreadsheet, so it cannot be made twice."""

    __slots__ = ()

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """The title is there."""
        return {"title": arguments["title"]}, ()

    def same(self, wanted: JsonValue, seen: JsonValue) -> bool:
        """By title."""
        return wanted == seen

    def plan(self, asks: Sequence[AddTab], *, integration_id: IntegrationId) -> Planned:
        """Tabs that are not there."""
        proposals: list[Proposal] = []
        problems: list[Problem] = []
        unchanged: list[str] = []
        for ask in asks:
            if not _is_tab(ask.title):
                words = f"A tab has a title of 1 to {TAB_CHARACTERS} characters."
                problems.append(Problem(ask.title, "not_a_title", words, "title"))
                continue
            if ask.title in ask.present:
                unchanged.append(ask.title)
                continue
            arguments: JsonObject = {"title": ask.title, "spreadsheet_id": ask.spreadsheet_id}
            part = Part(self.name, integration_id, ask.title, arguments, None, {"title": ask.title})
            fields = (FieldChange("tab", "Tab", None, ask.title, FieldKind.TEXT),)
            ref = ObjectRef("spreadsheet_row", None, ask.title, ask.url)
            proposals.append(
                Proposal(ref, self.action, fields, (part,), integration_id, self.reversible, ask.message)
            )
        return Planned(tuple(proposals), tuple(problems), tuple(unchanged))


def _is_tab(title: str) -> bool:
    return 1 <= len(title) <= TAB_CHARACTERS and title.isprintable()


CLEAR = ClearCellsOperation("sheet.clear", Recovery.READABLE)
DELETE_ROWS = DeleteRowsOperation("sheet.delete_rows", Recovery.READABLE)
ADD_TAB = AddTabOperation("sheet.add_tab", Recovery.READABLE)
