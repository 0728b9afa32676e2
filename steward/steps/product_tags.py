"""Tags of products on any platform: which a product has, and changes that put on or take off one of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.commands import SetTags
from steward.connectors.base.connector import PlannedChanges, merge_proposals
from steward.connectors.base.queries import TAGS, NoParameters
from steward.connectors.base.records import Product
from steward.model.change import Action, Proposal
from steward.model.json import JsonObject, JsonValue
from steward.steps.base import StoreAccess

_MAKING = "product_tag.create"


async def store_tags(store: StoreAccess) -> JsonObject:
    """The store's tags by name, where tags have ids; read before, so that a missing one is seen."""
    if _MAKING not in store.changes:
        return {}
    known: dict[str, JsonValue] = {}
    async for page in store.reader.read(TAGS, NoParameters()):
        for tag in page.items:
            known.setdefault(tag.name, tag.id)
    return known


def _spellings(store: StoreAccess, names: Collection[str], tag: str) -> list[str]:
    """Returns those of `names` that mean `tag`: the same letters, or else what the store makes of it."""
    exact = [name for name in names if name.casefold() == tag.casefold()]
    same = store.changes["product.set_tags"].same
    return exact or [name for name in names if same({"tags": [tag]}, {"tags": [name]})]


def has_tag(store: StoreAccess, product: Product, tag: str) -> bool:
    """Whether the product has it, as the store spells it."""
    return bool(_spellings(store, product.tags, tag))


def with_tag(store: StoreAccess, product: Product, tag: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """The product's tags and `tag`, in the letters the store has it in (templates 5.18)."""
    if has_tag(store, product, tag):
        return product.tags
    spelled = [*_spellings(store, known, tag), tag][0]
    return tuple(sorted((*product.tags, spelled)))


def without_tag(store: StoreAccess, product: Product, tag: str) -> tuple[str, ...]:
    """The product's tags but for `tag`, as the store spells it."""
    spelled = _spellings(store, product.tags, tag)
    return tuple(each for each in product.tags if each not in spelled)


def plan_tags(
    store: StoreAccess,
    product: Product,
    tags: Sequence[str],
    *,
    known: Mapping[str, str],
    message: str | None = None,
) -> PlannedChanges:
    """The change that gives the product exactly `tags`; none when it has them."""
    ask = SetTags(product, tuple(tags), known, message)
    return store.changes["product.set_tags"].plan([ask], integration_id=store.connection.integration_id)


def one_change(proposals: Sequence[Proposal], *, action: Action, message: str | None) -> Proposal:
    """Changes of one product as one, in which a missing tag is made before anything else: without it
    the product could be left half done."""
    whole = merge_proposals(proposals, action=action, message=message)
    making = [part for part in whole.parts if part.operation == _MAKING]
    rest = [part for part in whole.parts if part.operation != _MAKING]
    return replace(whole, parts=(*making, *rest))
