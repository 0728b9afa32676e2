"""Each write operation has an inverse, and the inverse of the inverse is the first change.

`UNDO_PARTS=10000` tries that many random parts of each operation; the suite tries a few.
"""

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from steward import connectors
from steward.connectors.base.connector import Connector, WriteOperation
from steward.model.change import Action, Part
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Irreversible, NeedsLookUp, NothingToUndo, PutBack, undoability
from tests.connectors.conformance.test_every_connector import BUILT, OPTIONS

PARTS = int(os.environ.get("UNDO_PARTS", "25"))
STORE = IntegrationId(3)
_TAGS = ("sale", "new", "Late", "gold", "old")


def _money(random_: random.Random) -> str:
    return f"{random_.randrange(1, 99_999) / 100:.2f}"


def _tags(random_: random.Random) -> list[str]:
    return sorted(random_.sample(_TAGS, random_.randrange(len(_TAGS))))


def _rows(random_: random.Random) -> list[JsonValue]:
    return [[random_.choice(["x", "", None, {"number": "3"}]) for _ in range(3)] for _ in range(2)]


def _value(name: str, values: Callable[[random.Random], JsonValue]) -> Callable[[random.Random], Part]:
    """Returns a maker of parts whose arguments are the value that they set."""

    def random_part(random_: random.Random) -> Part:
        before, after = {name: values(random_)}, {name: values(random_)}
        return Part("", STORE, "7", after, before, after)

    return random_part


def _prices(random_: random.Random, names: tuple[str, str], more: JsonObject) -> Part:
    before, after = [{name: _money(random_) for name in names} for _ in range(2)]
    return Part("", STORE, "7/8", {**more, **after}, before, after)


def _tag_change(random_: random.Random) -> Part:
    verb = random_.choice(["add", "remove"])
    return Part(
        "", STORE, "7", {verb: [random_.choice(_TAGS)]}, {"has": verb == "remove"}, {"has": verb == "add"}
    )


def _tags_part(random_: random.Random) -> Part:
    verb, tags = random_.choice(["add", "remove"]), _tags(random_) or ["sale"]
    with_tags: JsonObject = {"tags": tags}
    without: JsonObject = {"tags": []}
    before, after = (without, with_tags) if verb == "add" else (with_tags, without)
    return Part("", STORE, "7", {verb: tags}, before, after)


def _stock(random_: random.Random) -> Part:
    was, becomes = random_.randrange(99), random_.randrange(99)
    arguments: JsonObject = {"item": "1", "location": "2", "quantity": becomes, "was": was}
    return Part("", STORE, "1@2", arguments, {"quantity": was}, {"quantity": becomes})


def _channels(random_: random.Random) -> Part:
    channels, published = ["1", "2"][: random_.randrange(1, 3)], random_.random() < 0.5
    on, off = (channels, []) if published else ([], channels)
    return Part("", STORE, "7", {"channels": channels, "published": published}, {"on": off}, {"on": on})


def _product_tags(random_: random.Random) -> Part:
    before, after = _tags(random_), _tags(random_)
    arguments: JsonObject = {"tags": after, "ids": {tag: "1" for tag in (*before, *after)}}
    return Part("", STORE, "7", arguments, {"tags": before}, {"tags": after})


def _cells(random_: random.Random) -> Part:
    before, after = _rows(random_), _rows(random_)
    arguments: JsonObject = {"range": "'A'!A1:C2", "rows": after, "spreadsheet_id": "s"}
    return Part("", STORE, "'A'!A1:C2", arguments, {"rows": before}, {"rows": after})


def _redirect(random_: random.Random) -> Part:
    before, after = (f"/{random_.randrange(99)}" for _ in range(2))
    return Part("", STORE, "/a", {"id": "5", "target": after}, {"target": before}, {"target": after})


_status = _value("status", lambda random_: random_.choice(["draft", "pending", "private", "publish"]))
_order_status = _value("status", lambda random_: random_.choice(["pending", "processing", "on-hold"]))
_KINDS = ("product", "order", "customer", "draft_order")
_note = _value("note", lambda random_: random_.choice(["", "Call first", "Blue"]))
_title = _value("title", lambda random_: f"Pot {random_.randrange(99)}")
PART_MAKERS: Mapping[tuple[str, str], Callable[[random.Random], Part]] = {
    ("woocommerce", "variant.set_price"): lambda random_: _prices(
        random_, ("regular_price", "sale_price"), {}
    ),
    ("woocommerce", "inventory.set"): _value("stock_quantity", lambda random_: random_.randrange(99)),
    ("woocommerce", "product.set_visible"): _value(
        "catalog_visibility", lambda random_: random_.choice(["visible", "hidden"])
    ),
    ("woocommerce", "product.set_status"): _status,
    ("woocommerce", "product.set_tags"): _product_tags,
    ("woocommerce", "order.set_tags"): _value("tags", _tags),
    ("woocommerce", "customer.set_tags"): _value("tags", _tags),
    ("woocommerce", "order.set_status"): _order_status,
    ("shopify", "variant.set_price"): lambda random_: _prices(
        random_, ("price", "compare_at"), {"product": "7"}
    ),
    ("shopify", "inventory.set"): _stock,
    ("shopify", "product.set_status"): _status,
    ("shopify", "product.set_published"): _channels,
    **{("shopify", f"{kind}.set_tags"): _tags_part for kind in _KINDS},
    **{("shopify", f"{kind}.change_tags"): _tag_change for kind in _KINDS},
    **{("shopify", f"{kind}.set_note"): _note for kind in ("order", "customer")},
    **{("shopify", f"{kind}.set_fields"): _title for kind in ("product", "order", "customer")},
    ("shopify", "order.close"): _value("closed", lambda random_: random_.random() < 0.5),
    ("shopify", "redirect.set"): _redirect,
    ("spreadsheet", "sheet.write_cells"): _cells,
}
# Operations whose inverse needs a look-up, and those without an inverse.
LOOKED_UP = {
    ("shopify", "fulfillment.hold"),
    ("shopify", "metafield.set"),
    ("shopify", "redirect.create"),
}
IRREVERSIBLE = {
    *(("woocommerce", name) for name in ("order.cancel", "order.add_note")),
    *(
        ("shopify", name)
        for name in ("order.cancel", "order.capture", "refund.create", "fulfillment.release")
    ),
    *(("spreadsheet", name) for name in ("sheet.delete_rows", "sheet.add_tab")),
}
_BARE = Part("", STORE, "7", {}, {"status": "x"}, {"status": "y"})


def _operation(kind: str, name: str) -> WriteOperation[Any]:
    return BUILT[kind].writes[name]


@pytest.mark.parametrize(("kind", "name"), PART_MAKERS, ids=str)
def test_putting_back_what_was_put_back_is_the_first_change_again(kind: str, name: str) -> None:
    """Swaps the values before and after in the inverse, and its inverse sets the first value again."""
    operation, random_ = _operation(kind, name), random.Random(f"{kind} {name}")
    for _ in range(PARTS):
        part = replace(PART_MAKERS[kind, name](random_), operation=name)
        back = operation.inverse(part)
        assert isinstance(back, PutBack), part
        assert (back.part.before, back.part.after) == (part.after, part.before)
        assert (back.part.target, back.part.integration_id) == (part.target, part.integration_id)
        again = _operation(kind, back.part.operation).inverse(back.part)
        assert isinstance(again, PutBack)
        assert (again.part.before, again.part.after) == (part.before, part.after)
        assert operation.same(again.part.after, part.after)
        opposite = _operation(kind, back.part.operation)
        assert opposite.values(back.part, part.after) == operation.values(part, part.after)
        assert all(
            operation.same(value, operation.values(part, part.after)[name])
            for name, value in operation.values(
                part, operation.predict(part.before, part.arguments)[0]
            ).items()
        )


def test_each_operation_of_a_store_and_a_sheet_is_tried_here() -> None:
    """Checks that each write operation is in one of the lists, so that its inverse is tested."""
    alone = {("woocommerce", "product_tag.create"), ("spreadsheet", "sheet.append_rows")}
    displayed = {
        ("spreadsheet", "sheet.clear"),
        ("shopify", "metafield.delete"),
        ("shopify", "redirect.delete"),
    }
    listed = {*PART_MAKERS, *LOOKED_UP, *IRREVERSIBLE, *alone, *displayed}
    registered = {
        (kind, name) for kind in ("woocommerce", "shopify", "spreadsheet") for name in BUILT[kind].writes
    }
    assert registered == listed


@pytest.mark.parametrize("connector", BUILT.values(), ids=list(BUILT))
def test_a_message_is_never_taken_back(connector: Connector) -> None:
    """Gives a reason instead of an inverse for each operation that sends a message."""
    for name, operation in connector.writes.items():
        if operation.action is Action.SEND and not name.startswith("sheet."):
            inverse = operation.inverse(replace(_BARE, operation=name))
            assert isinstance(inverse, Irreversible)
            assert inverse.words.endswith(".")


@pytest.mark.parametrize(("kind", "name"), sorted(LOOKED_UP | IRREVERSIBLE))
def test_operations_without_an_inverse_are_irreversible_or_need_a_look_up(kind: str, name: str) -> None:
    """Money, cancellations and notes are irreversible; some inverses need an id or digest first."""
    inverse = _operation(kind, name).inverse(replace(_BARE, operation=name))
    assert isinstance(inverse, NeedsLookUp if (kind, name) in LOOKED_UP else Irreversible)


def test_rows_without_a_key_stay_and_those_with_one_are_looked_for() -> None:
    """Looks for appended rows by their key, and leaves rows without a key, which nothing identifies."""
    append = _operation("spreadsheet", "sheet.append_rows")
    arguments: JsonObject = {"rows": [["a"]], "key_column": 0, "tab": "A", "spreadsheet_id": None}
    part = Part("sheet.append_rows", STORE, "A", arguments, {"keys": []}, {"keys": ["a"]})
    assert isinstance(append.inverse(part), NeedsLookUp)
    assert isinstance(append.inverse(replace(part, before=None, after=None)), Irreversible)


def test_cleared_cells_are_written_again_and_none_of_a_written_block_stays() -> None:
    """Writes cleared cells again, and empties the part of a written block that held nothing before."""
    clear, write = (_operation("spreadsheet", f"sheet.{name}") for name in ("clear", "write_cells"))
    area: JsonObject = {"range": "'A'!A1:B2", "spreadsheet_id": None}
    cleared = clear.inverse(Part("sheet.clear", STORE, "'A'!A1:B2", area, {"rows": [["x"]]}, {"rows": []}))
    assert isinstance(cleared, PutBack)
    assert (cleared.part.operation, cleared.part.arguments["rows"]) == ("sheet.write_cells", [["x"]])
    wrote = Part(
        "sheet.write_cells", STORE, "'A'!A1:B2", area, {"rows": [["x"]]}, {"rows": [["1", "2"], ["3", "4"]]}
    )
    back = write.inverse(wrote)
    assert isinstance(back, PutBack)
    assert back.part.arguments["rows"] == [["x", None], [None, None]]
    assert clear.values(wrote, wrote.after) == write.values(wrote, wrote.after)
    cells = write.values(wrote, wrote.before)
    assert [cells[name] for name in sorted(cells)] == [{"rows": [[cell]]} for cell in ("x", None, None, None)]
    assert sorted(cells)[3].endswith("'A'!B2")


def test_an_order_is_not_cancelled_or_refunded_by_an_undo() -> None:
    """Refuses to undo into a status such as cancelled or refunded, which would do more than change it."""
    operation = _operation("woocommerce", "order.set_status")
    for status in ("cancelled", "refunded", "checkout-draft"):
        part = Part("order.set_status", STORE, "7", {}, {"status": status}, {"status": "completed"})
        inverse = operation.inverse(part)
        assert isinstance(inverse, Irreversible)
        assert status in inverse.words


def test_a_metafield_or_redirect_that_an_undo_removed_comes_back_with_what_it_held() -> None:
    """Undoes a removal by the operation that creates, with the values that were removed."""
    held: JsonObject = {"owner": "gid", "namespace": "a", "key": "b", "type": "t", "value": "x"}
    part = Part("metafield.delete", STORE, "gid#a.b", held, {"value": "x"}, {"value": None})
    inverse = _operation("shopify", "metafield.delete").inverse(part)
    assert isinstance(inverse, PutBack)
    assert (inverse.part.operation, inverse.part.arguments["digest"]) == ("metafield.set", None)
    part = Part(
        "redirect.delete", STORE, "/a", {"id": "5", "target": "/b"}, {"target": "/b"}, {"target": None}
    )
    inverse = _operation("shopify", "redirect.delete").inverse(part)
    assert isinstance(inverse, PutBack)
    assert (inverse.part.operation, inverse.part.arguments) == ("redirect.create", {"target": "/b"})


def test_a_change_can_be_undone_when_each_of_its_parts_can() -> None:
    """Allows an undo when each part has one, ignores parts that leave nothing, and states reasons once."""
    back = PutBack(_BARE, "Mails stay sent.")
    assert undoability([NothingToUndo("It stays."), back, back]).words == "Mails stay sent."
    refused = undoability([back, Irreversible("A refund stays."), Irreversible("Another.")])
    assert (refused.undoable, refused.words) == (False, "A refund stays.")


def test_an_operation_without_an_inverse_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises ValueError at start-up for a connector whose write operation has no inverse."""
    build = connectors.ALL["woocommerce"].from_options

    def without(options: Any) -> Any:
        connector = build(options)
        [name, *_] = connector.writes
        lacking = type("Lacking", (), {"name": name, "recovery": connector.writes[name].recovery})
        connector.writes = {name: lacking()}  # type: ignore[misc]
        return connector

    monkeypatch.setattr(connectors.ALL["woocommerce"], "from_options", without)
    with pytest.raises(ValueError, match="does not say how it is undone"):
        connectors.build(OPTIONS)
