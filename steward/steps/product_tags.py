"""Tags of products on any platform: which a product has, and changes that add or remove a tag."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.commands import SetTags
from steward.connectors.base.connector import PlannedChanges, merge_proposals
from steward.connectors.base.queries import TAGS, NoParameters
from steward.connectors.base.records import Product
from steward.model.change import Action, Proposal
from steward.steps.base import StoreAccess

_CREATE_TAG = "product_tag.create"


async def store_tags(store: StoreAccess) -> dict[str, str]:
    """Reads the ids of the store's tags by name, so that a missing tag is seen; none without tag ids."""
    if _CREATE_TAG not in store.changes:
        return {}
    tags: dict[str, str] = {}
    async for page in store.reader.read(TAGS, NoParameters()):
        for tag in page.items:
            tags.setdefault(tag.name, tag.id)
    return tags


def _spellings(store: StoreAccess, names: Collection[str], tag: str) -> list[str]:
    """Returns those of `names` that mean `tag`: the same letters, or else what the store treats as equal."""
    exact = [name for name in names if name.casefold() == tag.casefold()]
    same = store.changes["product.set_tags"].same
    return exact or [name for name in names if same({"tags": [tag]}, {"tags": [name]})]


def has_tag(store: StoreAccess, product: Product, tag: str) -> bool:
    """Returns whether the product has the tag, as the store spells it."""
    return bool(_spellings(store, product.tags, tag))


def with_tag(store: StoreAccess, product: Product, tag: str, tag_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the product's tags and `tag`, spelled as in the store's `tag_ids`."""
    if has_tag(store, product, tag):
        return product.tags
    spelled = [*_spellings(store, tag_ids, tag), tag][0]
    return tuple(sorted((*product.tags, spelled)))


def without_tag(store: StoreAccess, product: Product, tag: str) -> tuple[str, ...]:
    """Returns the product's tags without `tag`, as the store spells it."""
    spelled = _spellings(store, product.tags, tag)
    return tuple(name for name in product.tags if name not in spelled)


def plan_tags(
    store: StoreAccess,
    product: Product,
    tags: Sequence[str],
    *,
    tag_ids: Mapping[str, str],
    message: str | None = None,
) -> PlannedChanges:
    """Plans the change that gives the product exactly `tags`; no change when it has them."""
    return store.plan("product.set_tags", [SetTags(product, tuple(tags), tag_ids, message)])


def one_change(proposals: Sequence[Proposal], *, action: Action, message: str | None) -> Proposal:
    """Returns changes of one product as one, in which a missing tag is created first.

    Without that order, a failure to create the tag could leave the product changed in part.
    """
    change = merge_proposals(proposals, action=action, message=message)
    creates = [part for part in change.parts if part.operation == _CREATE_TAG]
    rest = [part for part in change.parts if part.operation != _CREATE_TAG]
    return replace(change, parts=(*creates, *rest))
