"""What a step asks a change operation to plan: one record per canonical operation (connectors 6)."""

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


class Keep(StrEnum):
    """Leaves a value as it is, where null means clearing it."""

    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class SetPrice:
    """Asks `variant.set_price`: compare-at null clears it, KEEP leaves it alone (templates 2)."""

    variant: Variant
    price: str
    compare_at: str | Keep | None = None
    allow_zero: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetStock:
    """Asks `inventory.set`: an absolute quantity of a tracked variant.

    On platforms with locations the variant was read at the location it is written to.
    """

    variant: Variant
    quantity: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Asks `product.set_status`: one of the platform's own words."""

    product: Product
    status: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetPublished:
    """Asks `product.set_published`: on or off the sales channels of those ids, others left alone."""

    product: Product
    channels: tuple[str, ...]
    published: bool
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetVisible:
    """Asks `product.set_visible`; `restore` is the platform's word for visible remembered at hiding."""

    product: Product
    visible: bool
    restore: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetTags:
    """Asks `product.set_tags`: the whole list wanted. `known` maps the store's tag names to their ids;
    a name missing there is made first, in a part of its own."""

    product: Product
    tags: tuple[str, ...]
    tag_ids: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetOrderTags:
    """Asks `order.set_tags`: the whole list wanted."""

    order: Order
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetCustomerTags:
    """Asks `customer.set_tags`: the whole list wanted."""

    customer: Customer
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetDraftOrderTags:
    """Asks `draft_order.set_tags`: the whole list wanted."""

    draft: DraftOrder
    tags: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeTags:
    """Asks `order.change_tags` and its like: single tags put on and taken off, whatever others there are."""

    subject: Order | Product | Customer | DraftOrder
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetNote:
    """Asks `order.set_note` or `customer.set_note`: the whole text; empty takes it away."""

    subject: Order | Customer
    note: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """Asks `order.cancel`; `reason` is one of the platform's words, null its plainest."""

    order: Order
    restock: bool = True
    notify: bool = False
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CloseOrder:
    """Asks `order.close`: the order is archived, or with `reopen` taken out of the archive."""

    order: Order
    reopen: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class HoldFulfilment:
    """Asks `fulfillment.hold` of one fulfilment order; an order with several asks once for each."""

    order: Order
    fulfilment: FulfilmentOrder
    reason: str | None = None
    notes: str = ""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseFulfilment:
    """Asks `fulfillment.release` of one fulfilment order: the holds that are shown end, and no other."""

    order: Order
    fulfilment: FulfilmentOrder
    holds: tuple[str, ...]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetObjectFields:
    """Asks `product.set_fields` and its like: plain fields by the platform's own names, others left alone."""

    subject: ObjectFields
    values: Mapping[str, JsonValue]
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetRedirect:
    """Asks `redirect.set`: a path that leads somewhere leads to `target` from then on."""

    present: Redirect
    target: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CapturePayment:
    """Asks `order.capture`: takes all that the order's authorisation has reserved."""

    order: Order
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SetMetafield:
    """Asks `metafield.set`: `value` as the platform's text of `type`; `before` and `digest` as it was read,
    null when there was none."""

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
    """Asks `redirect.create`: a path of the shop leads to `target`; `present` where it leads now."""

    path: str
    target: str
    present: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateRefund:
    """Asks `refund.create`: (line id, quantity) of what is given back, and the money paid out for it.

    `amount` null: goods without money. `transaction` is the payment it goes back to, `location` where the
    goods are put back in stock, null: not at all.
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
    """Asks `order.set_status`: one of the platform's own words; cancelling is `order.cancel`."""

    order: Order
    status: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AddNote:
    """Asks `order.add_note`: plain text for the shop's people, or for the customer too."""

    order: Order
    text: str
    for_customer: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Asks `sheet.append_rows` to the tab of that title.

    With `key_column` (0 = first) rows whose key is in `present`, the keys already in the sheet, are left
    out, and an interrupted send is settled by looking for the keys; without it it is never repeated.
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
    """Asks `sheet.write_cells`: a block of cells from `start` (A1 form), with what stands there now."""

    tab: str
    start: str
    rows: tuple[tuple[Cell, ...], ...]
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ClearCells:
    """Asks `sheet.clear`: empties a range of a tab (A1 form; null: the whole tab), with what stands there."""

    tab: str
    area: str | None
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Asks `sheet.delete_rows`: `count` rows from row `first` (from 1) are taken out.

    `tab_id` is the tab's own number, `used` how many rows the tab has and `before` what stands in those.
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
    """Asks `sheet.add_tab`: a new, empty tab of that title; `present` are the titles there are."""

    title: str
    present: frozenset[str] = frozenset()
    url: str | None = None
    spreadsheet_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PostCard:
    """Asks `teams.post`: plain text that the connector escapes and cuts; `facts` are name and value.

    What does not fit is left out from the end of `facts`, then of `text`, and counted by `more`.
    """

    title: str
    text: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    link: tuple[str, str] | None = None
    more: str = "and {n} more"
    message: str | None = None
