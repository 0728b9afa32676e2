"""Tests the low stock alert: what it reports, when it reports it again, and what it never reports.

See docs/design/templates-catalogue.md#low-stock-alert.
"""

from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.run import Mode
from steward.steps.base import StoreEvent
from steward.templates.low_stock_alert import TEMPLATE
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import TEAMS, Shop, Stage, card_lines, product, variant
from tests.templates.two_platforms import lines_of


def _stage(*products: Any, **inputs: Any) -> Stage:
    all_inputs = {"threshold": 5, "teams": {"integration_id": int(TEAMS)}, **inputs}
    return Stage(TEMPLATE, all_inputs, shop=Shop(list(products)))


def _stock(stage: Stage, **levels: int) -> None:
    stage.shop.products = [
        product(variant(number[1:], stock=level)) for number, level in sorted(levels.items())
    ]


_GOODS = (
    ProductSpec("Teapot", Item("POT-1", stock=5)),
    ProductSpec("Mug", sizes={"S": Item("", stock=6), "L": Item("CUP", stock=0)}),
    ProductSpec("Bowl", Item("CUP", stock=-2)),
    ProductSpec("Vase", Item("VASE-1", stock=None)),
    ProductSpec("Draft", Item("DRAFT-1", stock=0), status="draft"),
    ProductSpec("Jug", Item("JUG-1", stock=0), vendor="Glass", type="Glass"),
)


async def test_on_each_platform_low_stock_is_reported_once(store: PlatformStore) -> None:
    """Reports the same variants on both platforms, once until their stock rises and falls again.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e3-duplicate-skus.
    """
    store.stock(*_GOODS)
    posted, written = store.both.posted, len(store.both.written())
    inputs = {"threshold": 5, "products": {"types": ["pottery"]}, "teams": store.both.teams()}
    automation = await store.set_up("low-stock-alert", inputs)
    expected = {
        "checked": 5,
        "low": 3,
        "new": 3,
        "untracked": 1,
        "variants": [
            {"sku": "POT-1", "label": "Teapot (POT-1)", "stock": 5},
            {"sku": "CUP", "label": "Mug, L (CUP)", "stock": 0},
            {"sku": "CUP", "label": "Bowl (CUP)", "stock": -2},
        ],
    }
    tried = await store.run(automation, Mode.TEST)
    assert (tried.result, posted(), len(store.both.written())) == (expected, [], written)
    assert (await store.run(automation)).result == expected
    [message] = posted()
    assert lines_of(message) == [
        f"3 variants low in stock at The {store.platform}",
        "At or under 5.",
        "Teapot (POT-1): 5 left",
        "Mug, L (CUP): 0 left",
        "Bowl (CUP): -2 left",
    ]
    store.set_stock("Teapot", 6)
    again = await store.run(automation)
    assert (again.result["low"], again.result["new"], len(posted())) == (2, 0, 1)
    store.set_stock("Teapot", 4)
    assert [variant["sku"] for variant in (await store.run(automation)).result["variants"]] == ["POT-1"]
    assert (len(posted()), len(store.both.written())) == (2, written + 2)


async def test_one_message_lists_what_is_at_or_under_the_level() -> None:
    """Reports a variant at the threshold, but not one above it, in one message.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    low = [product(variant(n, f"S{n}", stock=stock)) for n, stock in (("1", 5), ("2", 6), ("3", 0))]
    run = await _stage(*low).run()
    assert run.result == {
        "checked": 3,
        "low": 2,
        "new": 2,
        "untracked": 0,
        "variants": [
            {"sku": "S1", "label": "Tea 1 (S1)", "stock": 5},
            {"sku": "S3", "label": "Tea 3 (S3)", "stock": 0},
        ],
    }
    [proposal] = run.proposals
    assert (proposal.action.value, proposal.parts[0].operation) == ("send", "teams.post")
    assert card_lines(proposal) == [
        "2 variants low in stock at Northwind Tea",
        "At or under 5.",
        "Tea 1 (S1): 5 left",
        "Tea 3 (S3): 0 left",
    ]
    assert run.summary.text == "2 variants are at or under 5, 2 of them new. A message was handed to Teams."


async def test_nothing_to_report_sends_no_message() -> None:
    """Sends no message when nothing is low, and the run succeeds.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e17-sends.
    """
    run = await _stage(product(variant(stock=6))).run()
    assert run.proposals == []
    assert run.failed is None
    assert "no message was sent" in run.summary.text


async def test_an_empty_store_sends_no_message() -> None:
    """Sends no message for a store without products.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    run = await _stage().run()
    assert (run.proposals, run.result["checked"]) == ([], 0)


async def test_a_second_run_repeats_no_message() -> None:
    """Counts the variant as low but not as new, and sends no message.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant(stock=1)))
    assert len((await stage.run()).proposals) == 1
    again = await stage.run()
    assert again.proposals == []
    assert (again.result["low"], again.result["new"], again.result["variants"]) == (1, 0, [])


async def test_only_the_new_one_is_reported() -> None:
    """Reports only the new variant and says how many were reported before.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage()
    _stock(stage, n1=1, n2=9)
    await stage.run()
    _stock(stage, n1=1, n2=2)
    run = await stage.run()
    assert (run.result["low"], run.result["new"]) == (2, 1)
    assert card_lines(run.proposals[0])[1] == "At or under 5. 1 more was reported before."
    assert [variant["label"] for variant in run.result["variants"]] == ["Tea 2 (TEA-1)"]


async def test_a_variant_that_came_back_and_fell_again_is_new() -> None:
    """Reports a variant again after its stock was above the threshold in between.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage()
    for level, messages in ((1, 1), (9, 0), (1, 1)):
        _stock(stage, n1=level)
        assert len((await stage.run()).proposals) == messages


async def test_without_only_new_all_are_listed_every_time() -> None:
    """Reports all low variants in every run when `only_new` is false.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant(stock=1)), only_new=False)
    assert len((await stage.run()).proposals) == 1
    assert len((await stage.run()).proposals) == 1


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.FAILED])
async def test_the_content_of_a_lost_message_is_still_new(outcome: Outcome) -> None:
    """Remembers nothing of a message that failed or whose outcome is unknown.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant(stock=1)))
    await stage.run(outcome=outcome)
    assert stage.memory.kept == {}
    assert len((await stage.run()).proposals) == 1


async def test_a_test_run_shows_the_message_and_remembers_nothing() -> None:
    """Shows the message that would be sent and remembers nothing. See docs/design/templates.md#rules."""
    stage = _stage(product(variant(stock=1)))
    run = await stage.run(mode=Mode.TEST)
    assert len(run.proposals) == 1
    assert "would go to Teams" in run.summary.text
    assert stage.memory.kept == {}


async def test_a_test_run_reads_the_memory() -> None:
    """A test run does not report what a live run has reported. See docs/design/templates.md#rules."""
    stage = _stage(product(variant(stock=1)))
    await stage.run()
    assert (await stage.run(mode=Mode.TEST)).proposals == []


async def test_negative_stock_counts_as_low_and_is_shown_as_it_is() -> None:
    """Reports a negative stock as low, with its number.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e7-negative-stock.
    """
    run = await _stage(product(variant(stock=-2))).run()
    assert run.result["variants"][0]["stock"] == -2
    assert card_lines(run.proposals[0])[-1].endswith(": -2 left")


async def test_a_missing_sku_does_not_hide_a_variant() -> None:
    """Names a variant without a SKU by its product and size.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e2-missing-skus.
    """
    run = await _stage(product(variant("7/1", "", stock=1))).run()
    assert run.result["variants"] == [{"sku": None, "label": "Tea 7, size 1", "stock": 1}]


async def test_two_variants_with_one_sku_are_two_lines() -> None:
    """Reports two variants with the same SKU on two lines.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e3-duplicate-skus.
    """
    run = await _stage(product(variant("7/1", "A", stock=1), variant("7/2", "A", stock=2))).run()
    assert [each_variant["stock"] for each_variant in run.result["variants"]] == [1, 2]


async def test_untracked_and_back_orderable_are_counted_apart() -> None:
    """Counts untracked and back-orderable variants as `untracked` and reports none of them.

    See docs/design/templates.md#e8-untracked-stock.
    """
    odd = [variant("7/1", tracked=False, stock=None), variant("7/2", backorders_allowed=True, stock=-3)]
    run = await _stage(product(*odd)).run()
    assert (run.result["checked"], run.result["low"], run.result["untracked"]) == (2, 0, 2)
    assert run.proposals == []


async def test_untracked_ones_are_listed_when_asked_for() -> None:
    """Reports untracked variants once when `include_untracked` is set.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant(tracked=False, stock=None)), include_untracked=True)
    run = await stage.run()
    assert run.result["variants"] == [{"sku": "TEA-1", "label": "Tea 7 (TEA-1)", "stock": None}]
    assert (run.result["low"], run.result["new"], run.result["untracked"]) == (0, 0, 1)
    assert card_lines(run.proposals[0])[-1].endswith("not tracked")
    assert "1 variant without a stock number." in run.summary.text
    assert (await stage.run()).proposals == []


async def test_a_stock_shared_through_the_parent_is_one_line() -> None:
    """Reports a stock that variants share through their parent on one line.

    See docs/design/templates.md#e9-variants.
    """
    shared = {"stock_target": "7", "stock_managed_by_parent": True, "stock": 2}
    run = await _stage(product(variant("7/1", "A", **shared), variant("7/2", "B", **shared))).run()
    assert run.result["variants"] == [{"sku": None, "label": "Tea 7", "stock": 2}]


async def test_kinds_without_stock_of_their_own_are_left_out_and_counted() -> None:
    """Leaves out grouped products and others without stock, and says how many there are.

    See docs/design/templates.md#e9-variants.
    """
    run = await _stage(product(id="8", kind="grouped", sellable=False), product(variant(stock=9))).run()
    assert run.result["checked"] == 1
    assert "1 product" in str(run.messages[0])


async def test_drafts_are_not_looked_at_unless_all_are() -> None:
    """Leaves out drafts and variations that are switched off, unless all products are chosen.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    draft = product(variant("1", stock=0), status="draft")
    off = product(variant("2/1", stock=0, status="private"), variant("2/2", stock=9))
    assert (await _stage(draft, off).run()).result["low"] == 0
    assert (await _stage(draft, off, products={"all": True}).run()).result["low"] == 2


async def test_only_the_products_wanted_are_looked_at() -> None:
    """Checks only the products that the filter `products` includes.

    See docs/design/templates.md#shared-definitions.
    """
    tagged, other = product(variant("1", stock=0), tags=("Tea",)), product(variant("2", stock=0))
    run = await _stage(tagged, other, products={"tags_any": ["tea"]}).run()
    assert run.result["checked"] == 1


async def test_every_page_is_read_and_what_is_seen_twice_counts_once() -> None:
    """Reads every page, and counts a product that two pages repeat once.

    See docs/design/templates.md#e10-pages.
    """
    many = [product(variant(str(n), stock=1)) for n in range(1, 8)]
    assert (await _stage(*many).run()).result["low"] == 7


async def test_an_event_reads_and_compares_its_own_item_alone() -> None:
    """Reads only the product of the event, and checks only the variant that it names.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant("1", stock=0)), product(variant("2/1", stock=1), variant("2/2", stock=1)))
    run = await stage.run(event=StoreEvent("inventory_levels/update", "variation", "2", "2"))
    assert (run.result["checked"], stage.shop.reads) == (1, ["product"])
    assert run.result["variants"][0]["label"] == "Tea 2, size 2 (TEA-1)"


async def test_an_event_forgets_nothing_it_did_not_read() -> None:
    """Forgets only the variant of the event when its stock is high again.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    stage = _stage(product(variant("1", stock=0)), product(variant("2", stock=0)))
    await stage.run()
    stage.shop.products[1] = product(variant("2", stock=9))
    await stage.run(event=StoreEvent("inventory_levels/update", "product", "2"))
    assert set(stage.memory.kept) == {("told", "11:1")}


async def test_an_event_of_a_deleted_product_reports_nothing() -> None:
    """Succeeds without a message when the product of the event is gone or in the trash.

    See docs/design/templates.md#rules.
    """
    gone = StoreEvent("inventory_levels/update", "product", "99")
    run = await _stage().run(event=gone)
    assert (run.failed, run.proposals) == (None, [])
    trashed = product(variant("99", stock=0), status="trash")
    assert (await _stage(trashed, products={"all": True}).run(event=gone)).proposals == []


async def test_a_long_list_is_cut_and_the_result_holds_200() -> None:
    """Lists 200 variants in the result and cuts the message with the number of the others.

    See docs/design/templates.md#e17-sends and docs/design/templates.md#rules.
    """
    many = [product(variant(str(n), f"SKU-{n}", stock=0)) for n in range(1, 1202)]
    run = await _stage(*many).run()
    assert (run.result["low"], len(run.result["variants"])) == (1201, 200)
    assert len(str(run.proposals[0].parts[0].arguments).encode()) < 25_000
    assert card_lines(run.proposals[0])[-1].endswith(" more")


async def test_text_of_the_store_stays_text() -> None:
    """Escapes mark-up and links in the names of products.

    See docs/design/templates.md#e17-sends and docs/design/connectors.md#teams.
    """
    run = await _stage(product(variant(stock=0, product_title="**Sale** [x](https://evil.example)"))).run()
    part = str(run.proposals[0].parts[0].arguments)
    assert "**Sale**" not in part
    assert "](https://evil" not in part
