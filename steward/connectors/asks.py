"""What a step asks a change operation to plan: one record per canonical operation (connectors 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from steward.connectors.records import Cell, Product, Variant


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
    """Asks `inventory.set`: an absolute quantity of a tracked variant."""

    variant: Variant
    quantity: int
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
    known: Mapping[str, str] = field(default_factory=dict)
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
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WriteCells:
    """Asks `sheet.write_cells`: a block of cells from `start` (A1 form), with what stands there now."""

    tab: str
    start: str
    rows: tuple[tuple[Cell, ...], ...]
    before: tuple[tuple[Cell, ...], ...]
    url: str | None = None
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
