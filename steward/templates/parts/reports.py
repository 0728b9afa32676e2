"""Sends a report: a list that replaces the earlier one in a sheet, and a message.

Writes a tab only if it is empty, or contains an earlier list of the automation or one with the same header.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steward.connectors.base.commands import AppendRows, PostCard, WriteCells
from steward.connectors.base.records import Cell, SheetTable
from steward.model.change import Outcome, Proposal
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepFailed, StepOutput, StepResult
from steward.steps.rows import cell_to_json, is_blank, read_table
from steward.steps.skus import key_of
from steward.templates.parts.messages import PostedMessage, SheetInput, post_card

# Memory space: the header of the last list that this automation wrote, by tab.
_HEADER = "report_header"
# One call accepts at most 1 MiB, and the replaced cells are stored beside the new ones.
_CALL_BYTES = 400_000
_CALL_ROWS = 2_000
_CELL_CHARACTERS = 50_000


@dataclass(frozen=True, slots=True)
class SheetReport:
    """A list with its header; `if_none` is the only line when it has no rows."""

    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    if_none: str

    @property
    def lines(self) -> list[tuple[Cell, ...]]:
        """The whole list, header first."""
        rows = [tuple(_shortened(cell) for cell in row) for row in self.rows]
        return [self.header, *(rows or [(self.if_none,)])]


class _SentReport(StepOutput, frozen=True):
    """The number of calls to the sheet, and whether a message follows them."""

    sheet: int
    teams: bool
    platform: str | None = None


async def send_report(context: StepContext, report: SheetReport, card: PostCard | None) -> StepResult:
    """Proposes the list for the input `sheet` and `card` for the input `teams`, each if named.

    Raises StepFailed `tab_missing`, `wrong_header`, and CallError.
    """
    sheet_calls: list[Proposal] = []
    memory: tuple[MemoryWrite, ...] = ()
    if "sheet" in context.inputs:
        sheet_calls, memory = await _replace(context, report)
    posted = post_card(context, card) if card is not None and "teams" in context.inputs else None
    posts = posted.proposals if posted is not None else ()
    platform = PostedMessage.from_json(posted.output).platform if posted is not None else None
    targets = [
        name for name, proposals in (("the sheet", sheet_calls), (platform, posts)) if name and proposals
    ]
    return _SentReport(len(sheet_calls), bool(posts), platform).as_result(
        f"Send the report to {' and '.join(targets)}" if targets else "Nothing to send",
        proposals=(*sheet_calls, *posts),
        memory=memory,
    )


async def _replace(
    context: StepContext, report: SheetReport
) -> tuple[list[Proposal], tuple[MemoryWrite, ...]]:
    sheet = SheetInput.from_json(context.inputs["sheet"])
    account = sheet.account(context)
    table = await read_table(account, sheet.tab, sheet.spreadsheet_id)
    key = _digest([int(account.connection.integration_id), table.spreadsheet_id, table.tab])
    present, header = _header(table), _digest([key_of(name) for name in report.header])
    if any(present) and _digest(present) not in (header, (await context.memory.all(_HEADER)).get(key)):
        message = (
            f"The tab {table.tab} contains something other than an earlier list of this automation, so it was"
            " left as it is. Name an empty tab."
        )
        raise StepFailed("wrong_header", message)
    proposals = _plan(account, sheet.spreadsheet_id, table, report.lines)
    if _digest(present) == header:
        return proposals, (MemoryWrite(_HEADER, key, header),)
    # The first call writes the new header; it is remembered even if its outcome is unknown.
    written = (Outcome.APPLIED, Outcome.UNCHANGED, Outcome.UNKNOWN)
    return proposals, (MemoryWrite(_HEADER, key, header, 0, written),)


def _plan(
    account: AccountAccess, spreadsheet_id: str | None, table: SheetTable, lines: list[tuple[Cell, ...]]
) -> list[Proposal]:
    """Plans the calls after which the tab contains exactly `lines`; appends lines below its last row."""
    before = {row.number: row.cells for row in table.rows}
    used = max(before, default=0)
    height = max(table.height or len(lines), used)
    width = max(len(cells) for cells in (*lines, *before.values()))
    replaced_lines = lines[:height] + [()] * (used - len(lines))
    writes = [
        WriteCells(
            tab=table.tab,
            start=f"A{first}",
            rows=tuple((*row, *(None,) * (width - len(row))) for row in rows),
            before=tuple(before.get(number, ()) for number in range(first, first + len(rows))),
            spreadsheet_id=spreadsheet_id,
        )
        for first, rows in _blocks(replaced_lines)
    ]
    proposals = list(account.plan("sheet.write_cells", writes).proposals)
    if len(lines) > height:
        append = AppendRows(tab=table.tab, rows=tuple(lines[height:]), spreadsheet_id=spreadsheet_id)
        proposals += account.plan("sheet.append_rows", [append]).proposals
    return proposals


def _blocks(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[int, list[tuple[Cell, ...]]]]:
    """Yields rows in blocks that each fit into a call, with the number of each block's first row."""
    first, block, size = 1, list[tuple[Cell, ...]](), 0
    for number, row in enumerate(rows, start=1):
        length = len(json.dumps([cell_to_json(cell) for cell in row], ensure_ascii=False).encode("utf-8"))
        if block and (len(block) == _CALL_ROWS or size + length > _CALL_BYTES):
            yield first, block
            first, block, size = number, [], 0
        block.append(row)
        size += length
    if block:
        yield first, block


def _header(table: SheetTable) -> list[str]:
    """Returns the texts of the first row; if it is empty above data, a header that equals no other."""
    rows = {row.number: row.cells for row in table.rows if any(not is_blank(cell) for cell in row.cells)}
    if rows and 1 not in rows:
        return ["\n"]
    return [key_of(cell) for cell in rows.get(1, ())]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode("utf-8")).hexdigest()


def _shortened(cell: Cell) -> Cell:
    return cell[:_CELL_CHARACTERS] if isinstance(cell, str) else cell
