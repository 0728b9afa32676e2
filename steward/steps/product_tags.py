"""Tags of products on any platform: which a product has, and changes that put on or take off one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from steward.connectors.base import TAGS, Action, Nothing, Planned, Product, Proposal, SetTags, together
from steward.model.json import JsonObject, JsonValue
from steward.steps.base import StoreAccess

_MAKING = "product_tag.create"


async def known_tags(store: StoreAccess) -> JsonObject:
    """The store's tags by name, where tags have ids; read before, so that a missing one is seen."""
    if _MAKING not in store.changes:
        return {}
    known: dict[str, JsonValue] = {}
    async for page in store.reader.read(TAGS, Nothing()):
        for tag in page.items:
            known.setdefault(tag.name, tag.id)
    return known


def is_same_tag(store: StoreAccess, one: str, other: str) -> bool:
    """Whether the store takes two names for the same tag."""
    return store.changes["product.set_tags"].same({"tags": [one]}, {"tags": [other]})


def has_tag(store: StoreAccess, product: Product, tag: str) -> bool:
    """Whether the product has it, as the store spells it."""
    return any(is_same_tag(store, tag, each) for each in product.tags)


def with_tag(store: StoreAccess, product: Product, tag: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """The product's tags and `tag`, in the letters the store has it in (templates 5.18)."""
    if has_tag(store, product, tag):
        return product.tags
    spelled = next((name for name in known if is_same_tag(store, name, tag)), tag)
    return tuple(sorted((*product.tags, spelled)))


def without_tag(store: StoreAccess, product: Product, tag: str) -> tuple[str, ...]:
    """The product's tags but for `tag`, as the store spells it."""
    return tuple(each for each in product.tags if not is_same_tag(store, each, tag))


def plan_tags(
    store: StoreAccess,
    product: Product,
    tags: Sequence[str],
    *,
    known: Mapping[str, str],
    message: str | None = None,
) -> Planned:
    """The change that gives the product exactly `tags`; none when it has them."""
    ask = SetTags(product, tuple(tags), known, message)
    return store.changes["product.set_tags"].plan([ask], integration_id=store.connection.integration_id)


def one_change(proposals: Sequence[Proposal], *, action: Action, message: str | None) -> Proposal:
    """Changes of one product as one, in which a missing tag is made before anything else: without it
    the product could be left half done."""
    whole = together(proposals, action=action, message=message)
    making = [part for part in whole.parts if part.operation == _MAKING]
    rest = [part for part in whole.parts if part.operation != _MAKING]
    return replace(whole, parts=(*making, *rest))
