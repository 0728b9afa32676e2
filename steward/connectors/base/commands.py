"""The command records that a step gives a write operation to plan; one record per canonical operation.

`docs/design/connectors.md#operations` lists the operations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from steward.connectors.base.records import (
    Cell,
    Customer,
    DraftOrder,
    FulfilmentOrder,
    ObjectFields,
    Order,
    Product,
    Redirect,
    Variant,
)
from steward.model.json import JsonValue

MAX_STOCK = 1_000_000  # of one variant at one location


class Keep(StrEnum):
    """Leaves a value unchanged, where null would clear it."""

    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class SetPrice:
    """Command of `variant.set_price`: a null compare-at price clears it, KEEP leaves it unchanged."""

    variant: Variant
    price: str
    compare_at: str | Keep | None = None
    allow_zero: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetStock:
    """Command of `inventory.set`: an absolute quantity of a tracked variant.

    On platforms with locations the variant must have been read at the location it is written to.
    """

    variant: Variant
    quantity: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Command of `product.set_status`: one of the platform's own status values."""

    product: Product
    status: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetPublished:
    """Command of `product.set_published`.

    Publishes the product to the sales channels with those ids, or removes it from them.
    """

    product: Product
    channels: tuple[str, ...]
    published: bool
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetVisible:
    """Command of `product.set_visible`.

    `restore` is the platform's value for visible, remembered when it was hidden.
    """

    product: Product
    visible: bool
    restore: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetTags:
    """Command of `product.set_tags`: the whole new list.

    `tag_ids` maps the store's tag names to their ids; a name that it lacks is created first, in a separate
    part.
    """

    product: Product
    tags: tuple[str, ...]
    tag_ids: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetOrderTags:
    """Command of `order.set_tags`: the whole new list."""

    order: Order
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetCustomerTags:
    """Command of `customer.set_tags`: the whole new list."""

    customer: Customer
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetDraftOrderTags:
    """Command of `draft_order.set_tags`: the whole new list."""

    draft: DraftOrder
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeTags:
    """Command of `order.change_tags` and similar: adds and removes single tags and leaves the others."""

    subject: Order | Product | Customer | DraftOrder
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetNote:
    """Command of `order.set_note` or `customer.set_note`: the whole text; an empty one removes the note."""

    subject: Order | Customer
    note: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """Command of `order.cancel`; `reason` is one of the platform's values, null for its default."""

    order: Order
    restock: bool = True
    notify: bool = False
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CloseOrder:
    """Command of `order.close`: archives the order, or unarchives it with `reopen`."""

    order: Order
    reopen: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class HoldFulfilment:
    """Command of `fulfillment.hold` for one fulfilment order.

    An order with several fulfilment orders needs one command for each.
    """

    order: Order
    fulfilment: FulfilmentOrder
    reason: str | None = None
    notes: str = ""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseFulfilment:
    """Command of `fulfillment.release` for one fulfilment order: ends the named holds and no others."""

    order: Order
    fulfilment: FulfilmentOrder
    holds: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetObjectFields:
    """Command of `product.set_fields` and similar: plain fields by the platform's own names."""

    subject: ObjectFields
    values: Mapping[str, JsonValue]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetRedirect:
    """Command of `redirect.set`: points an existing redirect to `target`."""

    present: Redirect
    target: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CapturePayment:
    """Command of `order.capture`: captures everything the order's authorization has reserved."""

    order: Order
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetMetafield:
    """Command of `metafield.set`: `value` as the platform's text of `type`.

    `before` and `digest` are the value and version that were read, null when there was none.
    """

    owner: Product | Variant | Order | Customer
    namespace: str
    key: str
    type: str
    value: str
    before: str | None = None
    digest: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateRedirect:
    """Command of `redirect.create`: points a path of the shop to `target`.

    `present` is its current target.
    """

    path: str
    target: str
    present: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateRefund:
    """Command of `refund.create`: (line id, quantity) pairs of returned goods, and the amount to refund.

    `amount` null: goods without money. `transaction` is the payment to refund. `location` is where the
    goods are restocked; null: they are not.
    """

    order: Order
    lines: tuple[tuple[str, int], ...]
    amount: str | None = None
    transaction: str | None = None
    gateway: str | None = None
    location: str | None = None
    notify: bool = False
    note: str = ""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetOrderStatus:
    """Command of `order.set_status`: one of the platform's own values; `order.cancel` cancels."""

    order: Order
    status: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AddNote:
    """Command of `order.add_note`: plain text for the shop's staff, or also for the customer."""

    order: Order
    text: str
    for_customer: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Command of `sheet.append_rows` for the tab with that title.

    With `key_column` (0 = first), rows whose key is in `present`, the keys already in the sheet, are left
    out, and an interrupted write is reconciled by its keys. Without it the write is never repeated.
    """

    tab: str
    rows: tuple[tuple[Cell, ...], ...]
    key_column: int | None = None
    present: frozenset[str] = frozenset()
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WriteCells:
    """Command of `sheet.write_cells`.

    It writes a block of cells from `start` (A1 notation); `before` holds their current values.
    """

    tab: str
    start: str
    rows: tuple[tuple[Cell, ...], ...]
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ClearCells:
    """Command of `sheet.clear`.

    It empties the range `area` of a tab (A1 notation; null: the whole tab); `before` holds its values.
    """

    tab: str
    area: str | None
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Command of `sheet.delete_rows`: deletes `count` rows from row `first` (1-based).

    `tab_id` is the tab's own number, `used` the number of rows in the tab, and `before` the values of the
    rows to delete.
    """

    tab: str
    tab_id: str
    first: int
    count: int
    used: int
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AddTab:
    """Command of `sheet.add_tab`: a new, empty tab with that title; `present` are the existing titles."""

    title: str
    present: frozenset[str] = frozenset()
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PostCard:
    """Command of a message operation: plain text that the connector escapes and cuts.

    `facts` are (name, value) pairs. Lines that do not fit are cut from the end of `facts`, then of `text`,
    and counted by `more`.
    """

    title: str
    text: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    link: tuple[str, str] | None = None
    more: str = "and {n} more"
    message: str | None = None
