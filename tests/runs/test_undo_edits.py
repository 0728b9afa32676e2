"""Somebody else edits what an undo puts back, at any moment: the edit stays, and all other values come back.

`UNDO_EDITS=10000` makes so many edits at a store that is read again before each write, and at one that
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
from tests.connectors.shopify.each import read_all
from tests.connectors.shopify.running import stand
from tests.fake_clock import FakeClock
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.shop import Shop, connect_all, open_shop
from tests.runs.undoing import approved, price_of, touch, undo_now

EDITS = int(os.environ.get("UNDO_EDITS", "20"))
SEED = os.environ.get("UNDO_EDITS_SEED", "undo edits")


class Moment(Enum):
    """When a value is edited."""

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
    """Edits each change of a run at its moment, once."""

    def __init__(self, changes: Sequence[Change], draw: random.Random, edit: Edit) -> None:
        self.left = {change.id: (change, draw.choice(list(Moment))) for change in changes}
        self.moment_of: Mapping[ChangeId, Moment] = {name: moment for name, (_, moment) in self.left.items()}
        self.is_approved = False
        self._edit = edit

    def at(self, moment: Moment) -> None:
        """The moment has come."""
        for change, planned in list(self.left.values()):
            if planned is moment:
                del self.left[change.id]
                self._edit(change)

    def __call__(self, point: str) -> None:
        """The undo reached a failpoint: the plan is made before the approval, all else after it."""
        moment = _AT_POINT.get(point)
        if moment is not None and (moment is Moment.WHILE_IT_PLANS) is not self.is_approved:
            self.at(moment)


@pytest.fixture
async def lone(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop on SQLite: what an undo compares does not depend on the engine."""
    opened = await open_shop(sqlite_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    watch(None)
    await opened.service.close()


async def _play(shop: Shop, run: Run, draw: random.Random, edit: Edit) -> dict[Moment, list[Change]]:
    """An undo of a run whose values somebody else edits; the undo's changes by when that was."""
    editor = Editor(await shop.changes(run), draw, edit)
    editor.at(Moment.BEFORE_THE_UNDO)
    undo_run = (await undo_now(shop, run)).run
    watch(editor)
    await shop.drain()
    if (await shop.run(undo_run)).status is RunStatus.WAITING_APPROVAL:
        editor.at(Moment.WHILE_IT_WAITS)
        await shop.approve(undo_run)
        editor.is_approved = True
        await shop.until_settled(undo_run)
    watch(None)
    editor.at(Moment.AFTERWARDS)
    by_moment: dict[Moment, list[Change]] = {moment: [] for moment in Moment}
    for change in await shop.changes(undo_run):
        if change.proposal.undo_of in editor.left:  # the moment did not come: nothing was to be written
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
    """What a change set, where the store keeps it: edited, found as edited or as before, and restored."""

    edit: Edit
    is_edited: Callable[[Change], bool]
    is_as_before: Callable[[Change], bool]
    restore: Edit


async def _judged_round(
    shop: Shop, automation: Automation, draw: random.Random, values: Values
) -> list[bool]:
    """A run and its undo while values are edited. Of each edit within a call's window whether it stayed."""
    run = await approved(shop, await shop.waiting(automation))
    original = {item.id: item for item in await shop.changes(run)}
    by_moment = await _play(shop, run, draw, values.edit)
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


async def _judge(shop: Shop, automation: Automation, values: Values) -> list[bool]:
    """Rounds until so many values were edited; of each edit within a call's window whether it stayed."""
    draw, stayed = random.Random(SEED), list[bool]()
    EDITED.clear()
    while sum(EDITED) < EDITS:
        stayed += await _judged_round(shop, automation, draw, values)
    print(
        f"{sum(EDITED)} edits, {len(stayed)} within the window of a call, {stayed.count(False)} overwritten"
    )
    return stayed


async def test_no_edit_is_overwritten_outside_the_window_of_one_call(lone: Shop) -> None:
    """A price that somebody edits before it is read again stays; each other one is as before the run."""

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
    await _judge(lone, await lone.pricing(), edited)


async def _stocks(store: ShopifyFake, reader: Reader, whose: IntegrationId) -> dict[str, Proposal]:
    """Counts each variant's stock seven higher."""
    location = str(number(store.of("Location")[0]))
    variants = await read_all(reader, VARIANTS, ProductsQuery(location=location))
    commands = [SetStock(variant, variant.stock + 7) for variant in variants if variant.stock is not None]
    writes = Shopify(version="2026-10", url=None, read_s=20.0).writes
    planned = writes["inventory.set"].plan(commands, integration_id=whose)
    return {str(index): proposal for index, proposal in enumerate(planned.proposals)}


async def test_a_store_that_compares_and_swaps_keeps_every_edit(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Also one between the last read and the call: the store itself refuses the write."""
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
        assert all(await _judge(current.shop, await current.automation(), values))
    finally:
        watch(None)
        await current.shop.service.close()
