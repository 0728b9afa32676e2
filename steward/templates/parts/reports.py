"""Sends a report: a list that takes the place of the earlier one in a sheet, and a message (templates 5.15).

Only a tab that holds nothing, or an earlier list of the same automation or with the same header, is written.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steward.connectors.base.commands import AppendRows, PostCard, WriteCells
from steward.connectors.base.records import Cell, SheetTable
from steward.model.change import Outcome, Proposal
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepFailed, StepResult
from steward.steps.rows import cell_to_json, is_blank, read_table
from steward.steps.skus import key_of
from steward.templates.parts.messages import account_of, post_card

# The header of the list this automation wrote last, by the tab it wrote it to.
HEADER = "report_header"
# One call takes at most 1 MiB, and what stood there before is kept beside it (connectors 7.3).
CALL_BYTES = 400_000
CALL_ROWS = 2_000
CELL_CHARACTERS = 50_000


@dataclass(frozen=True, slots=True)
class Report:
    """A list with its header; `none` is the one line written when it has no rows."""

    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    none: str

    @property
    def lines(self) -> list[tuple[Cell, ...]]:
        """All of it, header first."""
        found = [tuple(_fitting(cell) for cell in row) for row in self.rows]
        return [self.header, *(found or [(self.none,)])]


async def send_report(at: StepContext, report: Report, card: PostCard | None) -> StepResult:
    """Writes the list where `sheet` says and posts `card` where `teams` says; those not named are left out.

    The output says how many calls go to the sheet; the message comes after them. Raises StepFailed
    `tab_missing`, `wrong_header`, and CallError.
    """
    proposals: list[Proposal] = []
    memory: tuple[MemoryWrite, ...] = ()
    if "sheet" in at.inputs:
        proposals, memory = await _replace(at, report)
    written = len(proposals)
    if card is not None and "teams" in at.inputs:
        proposals += post_card(at, card).proposals
    posted = len(proposals) > written
    where = [name for name, is_so in (("the sheet", written), ("Teams", posted)) if is_so]
    return StepResult(
        {"sheet": written, "teams": posted},
        title=f"Send the report to {' and '.join(where)}" if where else "Nothing to send",
        proposals=tuple(proposals),
        memory=memory,
    )


async def _replace(at: StepContext, report: Report) -> tuple[list[Proposal], tuple[MemoryWrite, ...]]:
    place: Any = at.inputs["sheet"]
    account = at.accounts[account_of(place)]
    table = await read_table(account, place["tab"], place.get("spreadsheet_id"))
    key = _digest([int(account.connection.integration_id), table.spreadsheet_id, table.tab])
    present = _header(table)
    wanted = _digest([key_of(name) for name in report.header])
    if any(present) and _digest(present) not in (wanted, (await at.memory.all(HEADER)).get(key)):
        words = (
            f"The tab {table.tab} holds something else than an earlier list of this automation, so it was"
            " left as it is. Name an empty tab."
        )
        raise StepFailed("wrong_header", words)
    proposals = _plan(account, place.get("spreadsheet_id"), table, report.lines)
    # A new header stands once the first call went through; one that may have is remembered as well.
    if _digest(present) == wanted:
        return proposals, (MemoryWrite(HEADER, key, wanted),)
    stands = (Outcome.APPLIED, Outcome.UNCHANGED, Outcome.UNKNOWN)
    return proposals, (MemoryWrite(HEADER, key, wanted, 0, stands),)


def _plan(
    account: AccountAccess, spreadsheet_id: str | None, table: SheetTable, lines: list[tuple[Cell, ...]]
) -> list[Proposal]:
    """The calls that make the tab hold exactly `lines`; rows the tab has no room for are appended."""
    number = account.connection.integration_id
    before = {row.number: row.cells for row in table.rows}
    used = max(before, default=0)
    room = max(table.height or len(lines), used)
    width = max(len(cells) for cells in (*lines, *before.values()))
    inside = lines[:room] + [()] * (used - len(lines))
    asks = [
        WriteCells(
            tab=table.tab,
            start=f"A{first}",
            rows=tuple((*row, *(None,) * (width - len(row))) for row in rows),
            before=tuple(before.get(at, ()) for at in range(first, first + len(rows))),
            spreadsheet_id=spreadsheet_id,
        )
        for first, rows in _blocks(inside)
    ]
    proposals = list(account.changes["sheet.write_cells"].plan(asks, integration_id=number).proposals)
    if len(lines) > room:
        rest = AppendRows(tab=table.tab, rows=tuple(lines[room:]), spreadsheet_id=spreadsheet_id)
        planned = account.changes["sheet.append_rows"].plan([rest], integration_id=number)
        proposals += planned.proposals
    return proposals


def _blocks(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[int, list[tuple[Cell, ...]]]]:
    """Rows in blocks that fit in a call each, with the number of each block's first row."""
    first, held, size = 1, list[tuple[Cell, ...]](), 0
    for at, row in enumerate(rows, start=1):
        own = len(json.dumps([cell_to_json(cell) for cell in row], ensure_ascii=False).encode("utf-8"))
        if held and (len(held) == CALL_ROWS or size + own > CALL_BYTES):
            yield first, held
            first, held, size = at, [], 0
        held.append(row)
        size += own
    if held:
        yield first, held


def _header(table: SheetTable) -> list[str]:
    """The first row's texts; of a tab that holds something below an empty first row, that nothing fits."""
    rows = {row.number: row.cells for row in table.rows if any(not is_blank(cell) for cell in row.cells)}
    if rows and 1 not in rows:
        return ["\n"]
    return [key_of(cell) for cell in rows.get(1, ())]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode("utf-8")).hexdigest()


def _fitting(cell: Cell) -> Cell:
    return cell[:CELL_CHARACTERS] if isinstance(cell, str) else cell
