"""Helpers that undo runs and read the shop's tables without the values that every write changes."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.fake_platforms.sheets import FakeTab
from steward.model.account import Actor
from steward.model.change import Change, Outcome
from steward.model.run import TERMINAL, Mode, Run, RunStatus
from steward.runs import undo
from steward.runs.start import StartedRun
from steward.runs.undo import UndoCommand, UndoFacts, UndoRules
from tests.runs.shop import Shop

RULES = UndoRules(timedelta(days=365), timedelta(seconds=120), 1000)
_TIMES = {"date_modified", "date_modified_gmt", "total_sales", "avatar_url"}


async def undo_now(
    shop: Shop,
    run: Run,
    changes: Sequence[Change] | None = None,
    *,
    key: str = "",
    mode: Mode = Mode.LIVE,
    actor: Actor | None = None,
    rules: UndoRules = RULES,
) -> StartedRun:
    """Requests the undo of a run and returns the result."""
    shop.keys += 1
    chosen = None if changes is None else [change.id for change in changes]
    command = UndoCommand(run.id, key or f"undo-{shop.keys}", chosen, mode)
    return await shop.write(partial(undo.undo, actor=actor or shop.owner, command=command, rules=rules))


async def undone(shop: Shop, run: Run, changes: Sequence[Change] | None = None) -> Run:
    """Undoes a run, approves the undo and follows it to its end."""
    undo_run = (await undo_now(shop, run, changes)).run
    await shop.drain()
    undo_run = await shop.run(undo_run)
    if undo_run.status is RunStatus.WAITING_APPROVAL:
        await shop.approve(undo_run)
        undo_run = await shop.until_settled(undo_run)
    assert undo_run.status in TERMINAL, undo_run
    return undo_run


async def approved(shop: Shop, run: Run) -> Run:
    """Approves a waiting run and follows it to its end."""
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    return ended


async def facts(shop: Shop, run: Run, rules: UndoRules = RULES) -> UndoFacts | None:
    """Returns what the API reports about undoing the run, which is what the whole read of it gives."""

    async def both(tx: Tx) -> tuple[UndoFacts | None, UndoFacts | None]:
        row, _ = await runs.get_with_steps(tx, run.org, run.id, after_seq=0, limit=1)
        return (
            await undo.facts_of_row(tx, row, rules),
            await undo.facts_of(tx, await runs.get(tx, run.org, run.id), rules),
        )

    reported, whole = await shop.read(both)
    assert reported == whole
    return reported


def outcomes(changes: Sequence[Change]) -> list[Outcome]:
    """Returns the outcomes of the changes in order."""
    return [change.outcome for change in changes]


def tables(shop: Shop) -> dict[str, Any]:
    """Returns the shop's products, orders and customers without timestamps."""
    fake = shop.world.state.shop
    return {
        name: {number: _plain(row) for number, row in getattr(fake, name).items()}
        for name in ("products", "variations", "orders", "customers")
    }


def _plain(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _plain(value) for name, value in row.items() if name not in _TIMES}
    return [_plain(item) for item in row] if isinstance(row, list) else row


def _row(shop: Shop, change: Change) -> dict[str, Any]:
    fake = shop.world.state.shop
    product, _, variation = str(change.proposal.object.id).partition("/")
    return fake.variations[int(variation)] if variation else fake.products[int(product)]


def touch(shop: Shop, change: Change, *, by: str | None = None) -> None:
    """Sets the price that a change set as somebody else would: to 77.77, or raised by `by`."""
    row = _row(shop, change)
    price = "77.77" if by is None else str(Decimal(row["regular_price"]) + Decimal(by))
    row.update(regular_price=price, price=price)


def touched(shop: Shop, change: Change) -> bool:
    """Tells whether the price still is the one that `touch` set."""
    return price_of(shop, change) == "77.77"


def price_of(shop: Shop, change: Change) -> str:
    """Returns the current price of the object whose price the change set."""
    return str(_row(shop, change)["regular_price"])


def _tab(shop: Shop, title: str) -> Any:
    return shop.world.state.google.books["sheet-prices"].tab(title)


def add_tab(shop: Shop, title: str) -> None:
    """Adds a tab to the spreadsheet."""
    shop.world.state.google.books["sheet-prices"].tabs.append(FakeTab(77, title))


def cells(shop: Shop, title: str) -> list[list[Any]]:
    """Returns the non-empty rows of a tab, each as a list of its values."""
    rows: dict[int, list[Any]] = {}
    for (row, _), value in sorted(_tab(shop, title).cells.items()):
        rows.setdefault(row, []).append(value)
    return [rows[row] for row in sorted(rows)]


def change_cell(shop: Shop, title: str, row: int, column: int, value: str) -> None:
    """Writes a cell as somebody else would."""
    _tab(shop, title).cells[row, column] = value
