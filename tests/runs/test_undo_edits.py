"""Tests edits by somebody else during an undo: the edit stays and all other values are restored.

`UNDO_EDITS=10000` makes that many edits at a store that is read again before each write, and at one that
compares and swaps; `UNDO_EDITS_SEED` chooses when. The suite makes a few.
"""

import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from steward.connectors.base.commands import SetStock
from steward.connectors.base.connector import Reader
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.shopify.connector import Shopify
from steward.connectors.shopify.objects import item_and_location
from steward.failpoint import watch
from steward.model.automation import Automation
from steward.model.change import Change, Outcome, Proposal
from steward.model.ids import ChangeId, IntegrationId
from steward.model.run import Run, RunStatus
from tests.connectors.shopify.changing_service import stand
from tests.connectors.shopify.every_operation import read_all
from tests.fake_clock import FakeClock
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.shop import Shop, connect_all, open_shop
from tests.runs.undoing import approved, price_of, touch, undo_now

EDITS = int(os.environ.get("UNDO_EDITS", "20"))
SEED = os.environ.get("UNDO_EDITS_SEED", "undo edits")


class Moment(Enum):
    """The moments at which a value is edited."""

    NEVER = auto()
    BEFORE_THE_UNDO = auto()
    WHILE_IT_PLANS = auto()
    WHILE_IT_WAITS = auto()
    BEFORE_IT_READS_AGAIN = auto()
    BEFORE_THE_INTENT = auto()
    BEFORE_THE_CALL = auto()
    AFTERWARDS = auto()


_AT_POINT = {
    "after_checkpoint": Moment.WHILE_IT_PLANS,
    "after_claim": Moment.BEFORE_IT_READS_AGAIN,
    "before_intent": Moment.BEFORE_THE_INTENT,
    "after_intent": Moment.BEFORE_THE_CALL,
}
# Between the value's being read again and the call: nothing but the store itself can keep the edit then.
WINDOW = frozenset({Moment.BEFORE_THE_INTENT, Moment.BEFORE_THE_CALL})
Edit: TypeAlias = Callable[[Change], None]
# How many values each round edited.
EDITED: list[int] = []


class Editor:
    """Edits the object of each change once, at a random moment."""

    def __init__(self, changes: Sequence[Change], draw: random.Random, edit: Edit) -> None:
        self.pending = {change.id: (change, draw.choice(list(Moment))) for change in changes}
        self.moment_of: Mapping[ChangeId, Moment] = {
            name: moment for name, (_, moment) in self.pending.items()
        }
        self.is_approved = False
        self._edit = edit

    def make_edits(self, moment: Moment) -> None:
        """Makes the edits of this moment."""
        for change, planned in list(self.pending.values()):
            if planned is moment:
                del self.pending[change.id]
                self._edit(change)

    def __call__(self, point: str) -> None:
        """Maps the failpoint that the undo reached to a moment and makes its edits."""
        moment = _AT_POINT.get(point)
        if moment is not None and (moment is Moment.WHILE_IT_PLANS) is not self.is_approved:
            self.make_edits(moment)


@pytest.fixture
async def lone(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a shop on SQLite; the comparisons of an undo do not depend on the engine."""
    opened = await open_shop(sqlite_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    watch(None)
    await opened.service.close()


async def _undo_during_edits(
    shop: Shop, run: Run, draw: random.Random, edit: Edit
) -> dict[Moment, list[Change]]:
    """Undoes a run during edits; returns the undo's changes by the moment of their edit."""
    editor = Editor(await shop.changes(run), draw, edit)
    editor.make_edits(Moment.BEFORE_THE_UNDO)
    undo_run = (await undo_now(shop, run)).run
    watch(editor)
    await shop.drain()
    if (await shop.run(undo_run)).status is RunStatus.WAITING_APPROVAL:
        editor.make_edits(Moment.WHILE_IT_WAITS)
        await shop.approve(undo_run)
        editor.is_approved = True
        await shop.until_settled(undo_run)
    watch(None)
    editor.make_edits(Moment.AFTERWARDS)
    by_moment: dict[Moment, list[Change]] = {moment: [] for moment in Moment}
    for change in await shop.changes(undo_run):
        if change.proposal.undo_of in editor.pending:  # the moment did not come: nothing was to be written
            by_moment[Moment.NEVER].append(change)
        else:
            by_moment[editor.moment_of[ChangeId(str(change.proposal.undo_of))]].append(change)
    return by_moment


def _outcomes(by_moment: Mapping[Moment, Sequence[Change]], *moments: Moment) -> set[Outcome]:
    return {change.outcome for moment in moments for change in by_moment[moment]}


EARLIER = (
    Moment.BEFORE_THE_UNDO,
    Moment.WHILE_IT_PLANS,
    Moment.WHILE_IT_WAITS,
    Moment.BEFORE_IT_READS_AGAIN,
)


@dataclass(frozen=True)
class Values:
    """How a test edits a value, recognizes the edit or the original, and restores it."""

    edit: Edit
    is_edited: Callable[[Change], bool]
    is_as_before: Callable[[Change], bool]
    restore: Edit


async def _run_round(shop: Shop, automation: Automation, draw: random.Random, values: Values) -> list[bool]:
    """Runs, edits and undoes once; returns for each edit within a call's window whether it stayed."""
    run = await approved(shop, await shop.waiting(automation))
    original = {item.id: item for item in await shop.changes(run)}
    by_moment = await _undo_during_edits(shop, run, draw, values.edit)
    assert _outcomes(by_moment, *EARLIER) <= {Outcome.CONFLICT}, by_moment
    assert _outcomes(by_moment, Moment.NEVER, Moment.AFTERWARDS) <= {Outcome.APPLIED}
    stayed: list[bool] = []
    for moment, changes in by_moment.items():
        for each_change in (original[ChangeId(str(change.proposal.undo_of))] for change in changes):
            if moment in WINDOW:
                stayed.append(values.is_edited(each_change))
            elif moment is Moment.NEVER:
                assert values.is_as_before(each_change), each_change
            else:
                assert values.is_edited(each_change), (moment, each_change)
    for each_change in original.values():
        values.restore(each_change)
    EDITED.append(sum(len(changes) for moment, changes in by_moment.items() if moment is not Moment.NEVER))
    return stayed


async def _run_rounds(shop: Shop, automation: Automation, values: Values) -> list[bool]:
    """Repeats rounds until EDITS values were edited; returns the results of all rounds."""
    draw, stayed = random.Random(SEED), list[bool]()
    EDITED.clear()
    while sum(EDITED) < EDITS:
        stayed += await _run_round(shop, automation, draw, values)
    print(
        f"{sum(EDITED)} edits, {len(stayed)} within the window of a call, {stayed.count(False)} overwritten"
    )
    return stayed


async def test_no_edit_is_overwritten_outside_the_window_of_one_call(lone: Shop) -> None:
    """A price edited before it is read again stays; every other price is restored."""

    prices: dict[ChangeId, str] = {}
    draw = random.Random(f"prices {SEED}")

    def before(change: Change) -> str:
        [part] = change.proposal.parts
        assert isinstance(part.before, dict)
        return str(part.before["regular_price"])

    def edit(change: Change) -> None:
        written = price_of(lone, change)
        while price_of(lone, change) in (
            written,
            before(change),
        ):  # that would be no edit, or an undo by hand
            touch(lone, change, by=f"0.{draw.randrange(1, 100):02}")
        prices[change.id] = price_of(lone, change)

    def restore(change: Change) -> None:
        touch(lone, change, by=str(Decimal(before(change)) - Decimal(price_of(lone, change))))

    edited = Values(
        edit,
        lambda change: price_of(lone, change) == prices[change.id],
        lambda change: price_of(lone, change) == before(change),
        restore,
    )
    await _run_rounds(lone, await lone.pricing(), edited)


async def _stocks(store: ShopifyFake, reader: Reader, whose: IntegrationId) -> dict[str, Proposal]:
    """Proposes to raise each variant's stock by seven."""
    location = str(number(store.of("Location")[0]))
    variants = await read_all(reader, VARIANTS, ProductsQuery(location=location))
    commands = [SetStock(variant, variant.stock + 7) for variant in variants if variant.stock is not None]
    writes = Shopify(version="2026-10", url=None, read_s=20.0).writes
    planned = writes["inventory.set"].plan(commands, integration_id=whose)
    return {str(index): proposal for index, proposal in enumerate(planned.proposals)}


async def test_a_store_that_compares_and_swaps_keeps_every_edit(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Shopify refuses a write whose value changed after the last read, so every edit stays."""
    current = await stand(monkeypatch, sqlite_url, clock, tmp_path, (_stocks,))

    def level(change: Change) -> dict[str, Any]:
        item, location = item_and_location(change.proposal.parts[0].target)
        rows = current.store.owned(f"gid://shopify/InventoryItem/{item}")
        [results] = [row for row in rows if row["location"] == f"gid://shopify/Location/{location}"]
        return results

    def before(change: Change) -> int:
        [part] = change.proposal.parts
        assert isinstance(part.before, dict)
        return int(str(part.before["quantity"]))

    def edit(change: Change) -> None:
        level(change)["available"] += 1000

    def restore(change: Change) -> None:
        level(change)["available"] = before(change)

    try:
        values = Values(
            edit,
            lambda change: level(change)["available"] >= before(change) + 1000,
            lambda change: level(change)["available"] == before(change),
            restore,
        )
        assert all(await _run_rounds(current.shop, await current.automation(), values))
    finally:
        watch(None)
        await current.shop.service.close()
