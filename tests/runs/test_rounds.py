"""Tests the planning of writes: each part once, a change's parts in order, calls of at most 20 s."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.connectors.base.connector import WriteOperation
from steward.connectors.shopify import operations as shopify
from steward.connectors.woocommerce import operations as products
from steward.connectors.woocommerce import operations_orders as orders
from steward.model.change import Action, Change, ObjectRef, Outcome, Part, Proposal, write_key
from steward.model.ids import ChangeId, IntegrationId, RunId
from steward.runs import batch_sizes
from steward.runs.batch_sizes import MAX_CANDIDATES, BatchSizes, batch_size
from steward.runs.writes import rounds
from steward.runs.writes.rounds import PartToApply

RUN = RunId("01JD3Z0QH8N2Y5V7W9X1C4B6A8")
STORE, OTHER = IntegrationId(1), IntegrationId(2)
OPERATIONS: dict[str, WriteOperation[Any]] = {
    operation.name: operation
    for operation in (
        products.SET_PRICE,
        products.SET_STOCK,
        products.SET_VISIBLE,
        products.SET_TAGS,
        products.MAKE_TAG,
        orders.SET_STATUS,
        orders.SET_ORDER_TAGS,
        orders.CANCEL,
        orders.ADD_NOTE,
    )
}
IN_TURN = ("order.cancel", "order.add_note")


@dataclass
class Operations:
    """Looks up operations as the planner does, for a WooCommerce or a Shopify store."""

    shopify: bool = False

    def operation(self, part: Part) -> WriteOperation[Any]:
        """Returns the real operation of the part."""
        return shopify.SET_STOCK if self.shopify else OPERATIONS[part.operation]

    def is_order_free(self, part: Part) -> bool:
        """Tells whether other parts may overtake the part, as runs/writes/ledger.py does."""
        return part.operation not in ("order.cancel", "order.add_note")


def part(operation: str, target: str, value: int = 1, store: IntegrationId = STORE) -> Part:
    """Builds a part whose before, after and arguments all derive from `value`."""
    return Part(operation, store, target, {"value": value}, {"value": 0}, {"value": value})


def changes(*parts: Sequence[Part]) -> list[list[PartToApply]]:
    """Builds one change from each list of parts and returns its pieces."""
    pieces = []
    for position, own_parts in enumerate(parts):
        proposal = Proposal(ObjectRef("product", "1", "It"), Action.UPDATE, (), tuple(own_parts), STORE)
        change = Change(
            id=ChangeId(f"{position:026}"),
            run_id=RUN,
            seq=1,
            name="step",
            iteration="",
            position=position,
            round=1,
            proposal=proposal,
            item_hash="",
            outcome=Outcome.APPROVED,
            message=None,
            applied_at=None,
        )
        keys = [
            write_key(RUN, "step", "", position=position, part=number, version=1)
            for number in range(1, len(own_parts) + 1)
        ]
        pieces.append(
            [
                PartToApply(change, number, part, key)
                for number, (part, key) in enumerate(zip(own_parts, keys, strict=True), 1)
            ]
        )
    return pieces


PARTS = st.builds(
    part,
    operation=st.sampled_from(sorted(OPERATIONS)),
    target=st.sampled_from(["1", "2", "3", "7/1", "7/2", "8/1"]),
    value=st.integers(1, 2),
    store=st.sampled_from([STORE, OTHER]),
)
SETS = st.lists(st.lists(PARTS, min_size=1, max_size=4), max_size=30)
FATES = (
    Outcome.APPLIED,
    Outcome.APPLIED,
    Outcome.UNCHANGED,
    Outcome.CONFLICT,
    Outcome.FAILED,
    Outcome.UNKNOWN,
)


@given(
    part_lists=SETS, fates=st.lists(st.sampled_from(FATES), min_size=1), limit=st.sampled_from([None, 1, 3])
)
def test_every_part_is_sent_once_and_in_the_order_of_its_change(
    part_lists: list[list[Part]], fates: list[Outcome], limit: int | None
) -> None:
    """Each part is sent once, after the parts before it succeeded; after a failed part none is sent."""
    every = changes(*part_lists)
    order = {piece.key: index for index, piece in enumerate(piece for pieces in every for piece in pieces)}
    known_by_name: dict[str, tuple[Outcome, str | None]] = {}
    sent: list[PartToApply] = []
    while unsettled := [
        own_pieces for own_pieces in every if any(piece.key not in known_by_name for piece in own_pieces)
    ]:
        planned = rounds.next_round(unsettled, known_by_name, Operations(), max_parts=limit)
        assert planned.blocked or planned.requests
        for piece, outcome, _ in planned.blocked:
            earlier = [
                known_by_name[own_piece.key][0]
                for own_piece in every[piece.change.position][: piece.number - 1]
            ]
            assert set(earlier) - {Outcome.APPLIED, Outcome.UNCHANGED}
            known_by_name[piece.key] = (outcome, None)
        requested = [piece for request in planned.requests for piece in request]
        for request in planned.requests:
            assert len({(piece.part.operation, piece.part.integration_id) for piece in request}) == 1
            assert len({piece.part.target.rpartition("/")[0] for piece in request}) == 1
        for piece in rounds.one_of_each_object(requested):
            _may_be_sent(piece, every, known_by_name, order)
            known_by_name[piece.key] = (fates[len(sent) % len(fates)], None)
            sent.append(piece)
    assert max(Counter(piece.key for piece in sent).values(), default=1) == 1


def _may_be_sent(
    piece: PartToApply, every: list[list[PartToApply]], known_by_name: dict[str, Any], order: dict[str, int]
) -> None:
    """Asserts that everything the piece depends on is settled."""
    assert piece.key not in known_by_name
    for own_piece in every[piece.change.position][: piece.number - 1]:
        assert known_by_name[own_piece.key][0] in (Outcome.APPLIED, Outcome.UNCHANGED)
    before = [item for pieces in every for item in pieces if order[item.key] < order[piece.key]]
    for each_piece in before:
        same_object = (each_piece.part.integration_id, each_piece.part.target) == (
            piece.part.integration_id,
            piece.part.target,
        )
        in_turn = each_piece.part.operation in IN_TURN or piece.part.operation in IN_TURN
        if (same_object and each_piece.part != piece.part) or in_turn:
            assert each_piece.key in known_by_name


def _sizes(
    every: list[list[PartToApply]], *, shop: Operations | None = None, limit: int | None = None
) -> list[int]:
    planned = rounds.next_round(every, {}, shop or Operations(), max_parts=limit)
    return [len(request) for request in planned.requests]


def test_parts_of_many_changes_share_a_request() -> None:
    """Parts of the same operation share a request of up to 100 items."""
    two = [[part("product.set_visible", str(n)), part("product.set_tags", str(n))] for n in range(250)]
    every = changes(*two)
    assert _sizes(every) == [100]
    assert _sizes(every, limit=7) == [7]
    assert _sizes(changes(*two[:99])) == [99]
    first = {pieces[0].key: (Outcome.APPLIED, None) for pieces in every[:100]}
    then = rounds.next_round(every, first, Operations())
    assert [piece.key for piece in then.requests[0]] == [own_pieces[1].key for own_pieces in every[:100]]


def test_variations_go_by_their_product_and_are_read_together() -> None:
    """Variations of one product share a request; a round holds about one page of them."""
    every = changes(*[[part("variant.set_price", f"{n // 3}/{n}")] for n in range(300)])
    assert _sizes(every) == [3] * 34


def test_a_platform_that_takes_250_gets_250() -> None:
    """A request of `inventory.set` holds at most 250 quantities."""
    every = changes(*[[part("inventory.set", f"{n}@1")] for n in range(300)])
    assert _sizes(every, shop=Operations(shopify=True)) == [250]


def test_irreversible_writes_are_sent_one_by_one_in_order() -> None:
    """Irreversible writes are sent one by one, and nothing overtakes them."""
    created_items = [
        [part("order.set_tags", "1")],
        [part("order.cancel", "2")],
        [part("order.set_tags", "3")],
    ]
    every, known_items = changes(*created_items), {}
    for pieces in every:
        planned = rounds.next_round(every, known_items, Operations())
        assert planned.requests == ((pieces[0],),)
        known_items[pieces[0].key] = (Outcome.APPLIED, None)


def test_one_tag_wanted_by_many_is_made_once() -> None:
    """A tag that several changes create is created once."""
    created_items = [[part("product_tag.create", "sale"), part("product.set_tags", str(n))] for n in range(3)]
    every = changes(*created_items)
    planned = rounds.next_round(every, {}, Operations())
    pieces = [piece for request in planned.requests for piece in request]
    assert pieces == [own_pieces[0] for own_pieces in every]
    assert rounds.one_of_each_object(pieces) == [every[0][0]]


@pytest.mark.parametrize(
    ("item_seconds", "max_items", "size"),
    [
        (None, 100, 10),
        (None, 4, 4),
        (0.0, 100, 100),
        (0.2, 100, 100),
        (0.201, 100, 99),
        (0.2, 101, 100),
        (2.0, 100, 10),
        (10.0, 100, 2),
        (10.1, 100, 1),
        (20.0, 100, 1),
        (900.0, 100, 1),
        (900.0, 1, 1),
    ],
)
def test_a_call_is_sized_to_take_at_most_twenty_seconds(
    item_seconds: float | None, max_items: int, size: int
) -> None:
    """The time of the last call sets the next size, from 1 to the platform's maximum."""
    assert batch_size(item_seconds, limit=max_items) == size


@given(seconds=st.floats(0, 1e6), max_items=st.integers(1, 250))
def test_a_size_is_never_out_of_bounds(seconds: float, max_items: int) -> None:
    """A size is between 1 and the maximum, and over 1 only if the items fit into 20 s."""
    size = batch_size(seconds, limit=max_items)
    assert 1 <= size <= max_items
    assert size == 1 or size * seconds <= batch_sizes.CALL_SECONDS + 1e-6


def test_a_call_without_a_response_halves_the_next_and_the_limit_comes_back() -> None:
    """A failed call halves the next size; successful calls raise it again."""
    sizes, each_part = BatchSizes(), part("product.set_visible", "1")
    assert sizes.next(each_part, limit=100) == 10
    sizes.note(each_part, items=10, seconds=1.0, has_response=True)
    assert sizes.next(each_part, limit=100) == 100
    sizes.note(each_part, items=100, seconds=1.0, has_response=False)
    assert sizes.next(each_part, limit=100) == 50
    sizes.note(each_part, items=50, seconds=1.0, has_response=True)
    assert sizes.next(each_part, limit=100) == 55
    sizes.note(each_part, items=1, seconds=60.0, has_response=False)
    assert sizes.next(each_part, limit=100) == 1
    for _ in range(60):
        sizes.note(each_part, items=1, seconds=0.01, has_response=True)
    assert sizes.next(each_part, limit=1000) == MAX_CANDIDATES
    elsewhere = replace(each_part, integration_id=OTHER)
    assert sizes.next(elsewhere, limit=100) == 10
