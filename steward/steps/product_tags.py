"""Tags of products on any platform: tests for a tag, and changes that add or remove it."""

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
    """Reads the ids of the store's tags by name; empty if the platform's tags have no ids."""
    if _CREATE_TAG not in store.changes:
        return {}
    tags: dict[str, str] = {}
    async for page in store.reader.read(TAGS, NoParameters()):
        for tag in page.items:
            tags.setdefault(tag.name, tag.id)
    return tags


def _spellings(store: StoreAccess, names: Collection[str], tag: str) -> list[str]:
    """Returns the `names` equal to `tag`, ignoring case or else by the store's own comparison."""
    exact = [name for name in names if name.casefold() == tag.casefold()]
    same = store.changes["product.set_tags"].same
    return exact or [name for name in names if same({"tags": [tag]}, {"tags": [name]})]


def has_tag(store: StoreAccess, product: Product, tag: str) -> bool:
    """Returns whether the product has the tag, by the store's comparison."""
    return bool(_spellings(store, product.tags, tag))


def with_tag(store: StoreAccess, product: Product, tag: str, tag_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the product's tags with `tag` added, spelled as in the store's `tag_ids`."""
    if has_tag(store, product, tag):
        return product.tags
    spelled = [*_spellings(store, tag_ids, tag), tag][0]
    return tuple(sorted((*product.tags, spelled)))


def without_tag(store: StoreAccess, product: Product, tag: str) -> tuple[str, ...]:
    """Returns the product's tags without any spelling of `tag`."""
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
    """Plans the change to exactly these tags; plans none if the product has them."""
    return store.plan("product.set_tags", [SetTags(product, tuple(tags), tag_ids, message)])


def one_change(proposals: Sequence[Proposal], *, action: Action, message: str | None) -> Proposal:
    """Merges changes of one product into one that creates missing tags first.

    In any other order, a failure to create a tag could leave the product partly changed.
    """
    change = merge_proposals(proposals, action=action, message=message)
    creates = [part for part in change.parts if part.operation == _CREATE_TAG]
    other_parts = [part for part in change.parts if part.operation != _CREATE_TAG]
    return replace(change, parts=(*creates, *other_parts))
