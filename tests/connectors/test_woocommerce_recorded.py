"""WooCommerce as recorded from a real shop: every error row, reads, batches and echoes.

See docs/design/connectors.md#errors and docs/design/connectors.md#woocommerce.
"""

from dataclasses import replace

import pytest

from steward.connectors.base.queries import PRODUCT, VARIANTS, ById, ProductsQuery
from steward.connectors.base.writing import WriteState
from steward.connectors.woocommerce.responses import error_of, is_gone, product_of
from steward.model.change import Part
from steward.outbound.errors import (
    CallError,
    Invalid,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
)
from tests.connectors.fake_connections import SHOP, Connection, FakePlatformsClient, outside
from tests.connectors.recorded import Recorded, exchange, recorded_response
from tests.fake_clock import FakeClock

ERRORS: list[tuple[str, bool, type[CallError]]] = [
    ("auth.none", False, Unauthorized),
    ("auth.bad_key", False, Unauthorized),
    ("auth.bad_secret", False, Unauthorized),
    ("auth.basic_over_http", False, Unauthorized),
    ("auth.read_only_write", True, MissingRight),
    ("auth.write_only_read", False, Unauthorized),
    ("auth.person_without_rights_read", False, MissingRight),
    ("auth.unknown_route_bad_key", False, WrongAddress),
    ("site.no_such_route", False, WrongAddress),
    ("site.wrong_namespace", False, WrongAddress),
    ("site.maintenance", False, PlatformUnavailable),
    ("site.database_down_write", True, PlatformUnavailable),
    ("products.get_unknown", False, RemoteNotFound),
    ("products.get_word", False, WrongAddress),
    ("products.per_page_101", False, Invalid),
    ("products.page_0", False, Invalid),
    ("product.update_unknown", True, RemoteNotFound),
    ("product.bad_status", True, Invalid),
    ("product.wrong_types", True, Invalid),
    ("price.number", True, Invalid),
    ("product.bad_json", True, Invalid),
    ("product.update_duplicate_sku", True, Invalid),
    ("variation.as_product", True, RemoteNotFound),
    ("variation.unknown", False, RemoteNotFound),
    ("variation.other_parent", False, RemoteNotFound),
    ("batch.101", True, Invalid),
    ("stock.text", True, Invalid),
    ("stock.fraction", True, Invalid),
    ("order.unknown", True, RemoteNotFound),
    ("order.note_missing", True, Invalid),
    ("order.refund_too_much", True, UnusableResponse),
    ("customer.unknown", False, RemoteNotFound),
    ("customer.delete_without_force", True, Invalid),
    ("check.write_right_no", True, MissingRight),
    ("orders.status_bad", False, Invalid),
]


@pytest.mark.parametrize(("name", "write", "kind"), ERRORS, ids=[row[0] for row in ERRORS])
def test_a_recorded_error_is_the_error_it_means(name: str, write: bool, kind: type[CallError]) -> None:
    """Maps each recorded error answer to its error class. See docs/design/connectors.md#errors."""
    error = error_of(recorded_response(name), write=write)
    assert type(error) is kind
    assert len(error.platform_text) <= 300
    assert error.message


def test_maintenance_names_its_wait_and_a_wrong_type_its_fields() -> None:
    """Reads the wait from a maintenance response and the field names from a response about wrong types.

    See docs/design/connectors.md#errors.
    """
    maintained = error_of(recorded_response("site.maintenance"), write=False)
    wrong = error_of(recorded_response("product.wrong_types"), write=True)
    assert isinstance(maintained, PlatformUnavailable)
    assert maintained.wait_s == 600
    assert isinstance(wrong, Invalid)
    assert set(wrong.fields) == {"manage_stock", "stock_quantity"}


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"null", b'"x"', b'{"a": 1}', b"\xff", b""])
def test_a_404_that_is_none_of_wordpress_is_another_address(body: bytes) -> None:
    """Reads a 404 without WordPress's error body as a wrong address. See docs/design/connectors.md#errors."""
    assert isinstance(
        error_of(replace(recorded_response("products.get_unknown"), body=body), write=False), WrongAddress
    )


def over(clock: FakeClock, *names: str) -> tuple[FakePlatformsClient, Connection, Recorded]:
    """Returns the recorded shop with the transport that plays these exchanges."""
    transport = Recorded(*names)
    held = outside(clock)
    recorded = FakePlatformsClient(clock, held.world, transport)
    settings = {"url": "https://shop.example", "consumer_key": "ck_x", "consumer_secret": "cs_x"}
    return recorded, recorded.connection("woocommerce", settings), transport


async def test_a_check_finds_zone_currency_rights_and_order_storage(clock: FakeClock) -> None:
    """Reads time zone, currency, rights and order storage in one check, and sends keys only where needed.

    See docs/design/connectors.md#woocommerce.
    """
    names = [
        "site.index",
        "auth.good",
        "check.write_right_yes",
        "settings.currency",
        "system_status.settings",
    ]
    _, shop, transport = over(clock, *names)
    health = await shop.check()
    assert (health.ok, health.zone, health.currency, health.rights) == (
        True, "Europe/Berlin", "EUR", ("read", "write"),
    )  # fmt: skip
    assert health.facts == {"orders_stored_as": "posts", "identity": "shop.example"}
    assert "authorization" not in transport.requests[0].headers
    assert [request.method for request in transport.requests] == ["GET", "GET", "POST", "GET", "GET", "GET"]
    assert transport.requests[2].content == b"{}"


async def test_a_key_that_only_reads_connects_with_a_warning(clock: FakeClock) -> None:
    """Connects a key that only reads, with a warning. See docs/design/api/connections.md#connecting."""
    names = [
        "site.index",
        "auth.read_only_read",
        "check.write_right_no",
        "settings.currency",
        "system_status.settings",
    ]
    health = await over(clock, *names)[1].check()
    assert (health.ok, health.rights, health.missing_rights) == (True, ("read",), ("write",))
    assert [warning.code for warning in health.warnings] == ["read_only"]


async def test_a_wrong_secret_and_a_missing_right_differ_under_one_status(clock: FakeClock) -> None:
    """Tells a wrong secret from a missing right by a second call with the other method.

    See docs/design/connectors.md#errors.
    """
    wrong = await over(clock, "site.index", "auth.bad_secret", "check.write_right_no")[1].check()
    blind = await over(clock, "site.index", "auth.write_only_read", "check.write_right_yes")[1].check()
    assert isinstance(wrong.error, Unauthorized)
    assert isinstance(blind.error, MissingRight)
    assert not wrong.ok
    assert not blind.ok


async def test_the_first_page_of_a_real_shop_is_read_with_its_variations(clock: FakeClock) -> None:
    """Reads a variable product with all its variations, their prices, stock and labels.

    See docs/design/connectors.md#common-records and docs/design/connectors.md#woocommerce.
    """
    _, shop, transport = over(clock, "variable.get", "variations.list")
    [tin] = await shop.all(PRODUCT, ById("75"))
    assert (tin.kind, tin.title, tin.sellable, len(tin.variants)) == ("variable", "Tea tin", True, 3)
    first, second = tin.variants[:2]
    assert (first.id, first.sku, first.price, first.stock, first.label) == (
        "75/76", "TIN-1", "5.00", 5, "Tea tin, 50 g (TIN-1)",
    )  # fmt: skip
    assert (second.id, second.stock_target, second.stock_managed_by_parent) == ("75/77", "75/77", False)
    assert transport.requests[1].url.params["per_page"] == "100"
    assert transport.requests[1].url.params["orderby"] == "id"
    assert "_fields" in transport.requests[0].url.params


def test_stock_of_the_parent_belongs_to_the_parent() -> None:
    """Takes the stock of a variation from its parent when the parent manages it, and targets the parent.

    See docs/design/connectors.md#common-records.
    """
    parent = {**exchange("variable.get")["response"]["body"], "manage_stock": True, "stock_quantity": 30}
    own_values = {
        **exchange("variations.list")["response"]["body"][2],
        **exchange("variation.get_parent_managed")["response"]["body"],
    }
    [variant] = product_of(parent, [own_values], base="https://shop.example", currency="EUR").variants
    assert (variant.stock, variant.tracked, variant.stock_managed_by_parent) == (30, True, True)
    assert variant.stock_target == "75"


def test_an_untracked_product_has_no_stock_and_a_sale_has_two_prices() -> None:
    """Reads no stock for an untracked product and two prices for one on sale.

    See docs/design/connectors.md#common-records.
    """
    row = {
        **exchange("products.get")["response"]["body"],
        **exchange("stock.quantity_while_unmanaged")["response"]["body"],
    }
    [untracked] = product_of(row, (), base="", currency="EUR").variants
    assert (untracked.stock, untracked.tracked) == (None, False)
    row = {**row, **exchange("price.sale_price")["response"]["body"]}
    [sale] = product_of(row, (), base="", currency="EUR").variants
    assert (sale.price, sale.compare_at) == (row["sale_price"], row["regular_price"])
    none = {**row, "regular_price": "", "sale_price": ""}
    assert product_of(none, (), base="", currency="EUR").variants[0].price is None


def test_a_variation_that_shows_its_parents_sku_has_none() -> None:
    """Treats the parent's SKU on a variation as no SKU. See docs/design/templates.md#e9-variants."""
    parent = exchange("variable.get")["response"]["body"]
    own_values = {**exchange("variations.list")["response"]["body"][0], "sku": parent["sku"]}
    assert product_of(parent, [own_values], base="", currency=None).variants[0].sku == ""


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": "59"},
        {"id": True},
        {"name": None},
        {"status": 1},
        {"manage_stock": "maybe"},
        {"tags": {}},
        {"tags": [1]},
        {"stock_quantity": "many"},
        {"type": None},
        {"catalog_visibility": []},
    ],
)
def test_a_needed_field_of_another_type_is_broken(change: dict[str, object]) -> None:
    """Raises UnusableResponse when a required field has another type. See docs/design/connectors.md#rules."""
    row = {**exchange("products.get")["response"]["body"], **change}
    with pytest.raises(UnusableResponse):
        product_of(row, (), base="", currency=None)


def price_part(target: str, price: str) -> Part:
    """Returns a part that sets a new regular price."""
    after = {"regular_price": price, "sale_price": ""}
    return Part("variant.set_price", SHOP, target, after, {"regular_price": "1", "sale_price": ""}, after)


async def test_a_batch_distinguishes_good_items_from_bad_ones(clock: FakeClock) -> None:
    """Judges batch items by position and id: a good one is applied, missing ones are conflicts.

    See docs/design/connectors.md#woocommerce.
    """
    _, shop, transport = over(clock, "variations.batch_mixed")
    parts = [price_part(f"75/{number}", "6.50") for number in (76, 999999, 59)]
    outcomes = await shop.send(parts)
    assert [outcome.state for outcome in outcomes] == [
        WriteState.APPLIED,
        WriteState.CONFLICT,
        WriteState.CONFLICT,
    ]
    assert outcomes[0].modified_at is not None
    assert "_fields" not in transport.requests[0].url.params


async def test_an_item_with_an_error_or_another_echo_stands_alone(clock: FakeClock) -> None:
    """Judges items one by one: applied, gone, echoed otherwise and refused.

    See docs/design/connectors.md#change-operations.
    """
    _, shop, _ = over(clock, "batch.mixed")
    parts = [price_part(number, "13.00") for number in ("10", "999999", "11", "12")]
    states = [outcome.state for outcome in await shop.send(parts)]
    assert states == [WriteState.APPLIED, WriteState.CONFLICT, WriteState.UNKNOWN, WriteState.REFUSED]


@pytest.mark.parametrize("name", ["batch.with_fields", "check.write_right_yes", "batch.update_good"])
async def test_an_echo_that_does_not_fit_the_items_is_unknown(clock: FakeClock, name: str) -> None:
    """Treats items as unknown when the echo does not fit them, in spite of status 200.

    See docs/design/connectors.md#rules.
    """
    _, shop, _ = over(clock, name)
    outcomes = await shop.send([price_part("998", "1.00"), price_part("999", "1.00")])
    assert {outcome.state for outcome in outcomes} == {WriteState.UNKNOWN}


async def test_a_batch_over_the_limit_is_refused_whole(clock: FakeClock) -> None:
    """Refuses a whole batch that is over the shop's limit. See docs/design/connectors.md#errors."""
    outcomes = await over(clock, "batch.101")[1].send([price_part("10", "1.00")])
    assert outcomes[0].state is WriteState.REFUSED


def tag_part(name: str = "Sale") -> Part:
    """Returns a part that creates a tag."""
    return Part("product_tag.create", SHOP, name, {"name": name}, None, {"name": name})


@pytest.mark.parametrize("name", ["tag.create", "tag.create_again", "tag.create_other_case"])
async def test_a_tag_that_is_there_already_is_as_good_as_made(clock: FakeClock, name: str) -> None:
    """Treats an existing tag as applied, also one with other case. See docs/design/connectors.md#errors."""
    [outcome] = await over(clock, name)[1].send([tag_part()])
    assert outcome.state is WriteState.APPLIED


async def test_a_dropped_sale_price_and_an_ignored_quantity_are_not_applied(clock: FakeClock) -> None:
    """Treats a write as unknown when its echo shows the old value. See docs/design/connectors.md#rules."""
    _, shop, _ = over(clock, "product.visibility_visible")
    hide = Part(
        "product.set_visible",
        SHOP,
        "20",
        {"catalog_visibility": "hidden"},
        None,
        {"catalog_visibility": "hidden"},
    )
    [outcome] = await shop.send([hide])
    assert (outcome.state, outcome.seen) == (WriteState.UNKNOWN, {"catalog_visibility": "visible"})


async def test_a_failing_shop_leaves_a_write_unknown_and_a_read_only_key_refuses_it(clock: FakeClock) -> None:
    """Leaves a write unknown after a 5xx and refuses it for a read-only key.

    See docs/design/connectors.md#errors.
    """
    after = {"catalog_visibility": "hidden"}
    hide = Part("product.set_visible", SHOP, "59", after, None, after)
    [lost] = await over(clock, "site.database_down_write")[1].send([hide])
    [refused] = await over(clock, "auth.read_only_write")[1].send([hide])
    assert (lost.state, lost.error) == (WriteState.UNKNOWN, "unavailable")
    assert (refused.state, refused.error) == (WriteState.REFUSED, "forbidden")


async def test_skus_of_variations_lead_to_their_product(clock: FakeClock) -> None:
    """Reads the parent product of a variation that a SKU search returns.

    See docs/design/connectors.md#woocommerce.
    """
    _, shop, transport = over(clock, "products.sku_of_variation")
    with pytest.raises(LookupError):
        await shop.all(VARIANTS, ProductsQuery(skus=("TIN-1",)))
    assert transport.requests[0].url.params["sku"] == "TIN-1"
    assert transport.requests[1].url.params["include"] == "75"


@pytest.mark.parametrize(
    "code",
    ["woocommerce_rest_product_invalid_id", "wc_user_invalid_id", "woocommerce_rest_invalid_product_id"],
)
def test_codes_of_objects_that_are_gone(code: str) -> None:
    """Recognises the codes of objects that are gone. See docs/design/connectors.md#errors."""
    assert is_gone(code)
    assert not is_gone("rest_invalid_param")
