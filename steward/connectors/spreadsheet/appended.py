"""Finds rows that were appended with a key, and plans their removal; pure."""

from collections.abc import Sequence

from steward.connectors.spreadsheet.cells import area_range, same_rows
from steward.model.change import Part
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import CHANGED_SINCE, GONE, FoundInverse, LookUpResult

_DELETE = "sheet.delete_rows"


class AppendedRows:
    """The current rows of one tab, from which the removals of several appends are planned one after another.

    Each removal takes the earlier ones into account, so that its row numbers are right once they are done.
    """

    def __init__(self, tab_id: str | None, rows: Sequence[JsonValue]) -> None:
        self._tab_id = tab_id
        self._rows = rows
        self._removed: set[int] = set()

    def removal(self, part: Part) -> LookUpResult:
        """Returns the parts that delete the rows of an append that still hold what was written."""
        if self._tab_id is None:
            return GONE
        written = part.arguments["rows"]
        assert isinstance(written, list | tuple)
        positions = [position for row in written if (position := self._taken(row)) is not None]
        if not positions:
            return CHANGED_SINCE
        remaining = len(written) - len(positions)
        rows = "row was" if remaining == 1 else "rows were"
        note = f"{remaining} {rows} changed or taken out since, and left as it is." if remaining else None
        return FoundInverse(tuple(self._deletions(part, positions)), note)

    def _taken(self, written: JsonValue) -> int | None:
        """Claims the last row that holds exactly what was written; returns its position."""
        for position in range(len(self._rows) - 1, -1, -1):
            row = self._rows[position]
            if position not in self._removed and same_rows({"rows": [written]}, {"rows": [row]}):
                self._removed.add(position)
                return position
        return None

    def _deletions(self, part: Part, positions: Sequence[int]) -> list[Part]:
        """Returns one removal for each block of rows, the last block first."""
        used = len(self._rows) - len(self._removed) + len(positions)
        earlier = self._removed - set(positions)
        deletions: list[Part] = []
        for block in _blocks(positions):
            first = block[0] + 1 - sum(position < block[0] for position in earlier)
            deletions.append(self._deletion(part, first, block, used))
            used -= len(block)
        return deletions

    def _deletion(self, part: Part, first: int, block: Sequence[int], used: int) -> Part:
        arguments: JsonObject = {
            "tab": part.target,
            "tab_id": self._tab_id,
            "first": first,
            "count": len(block),
            "used": used,
            "spreadsheet_id": part.arguments.get("spreadsheet_id"),
        }
        rows: list[JsonValue] = [self._rows[position] for position in block]
        target = area_range(part.target, f"{first}:{first + len(block) - 1}")
        before: JsonObject = {"used": used, "rows": rows}
        return Part(_DELETE, part.integration_id, target, arguments, before, {"used": used - len(block)})


def _blocks(positions: Sequence[int]) -> list[list[int]]:
    """Returns runs of adjacent positions, the last run first."""
    blocks: list[list[int]] = []
    for position in sorted(positions):
        if blocks and blocks[-1][-1] == position - 1:
            blocks[-1].append(position)
        else:
            blocks.append([position])
    return blocks[::-1]
