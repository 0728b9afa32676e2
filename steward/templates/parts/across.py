"""Reads several stores for one report, in their order, each under a distinct name."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.outbound.errors import CallError
from steward.steps.base import AccountAccess, JsonRecord, StepContext, StepOutput
from steward.steps.skus import key_of
from steward.templates.parts.stock import is_on_sale

T = TypeVar("T")
_REMOVED = ("archived", "trash")


class _KeyedVariant(JsonRecord, Generic[T], frozen=True):
    """A variant with the key by which it is compared, and the value that the report reads."""

    key: str
    name: str
    value: T


class StoreVariants(StepOutput, Generic[T], frozen=True):
    """The variants of each store, in the order of `labels`; `without_key` counts variants left out."""

    labels: tuple[str, ...]
    stores: tuple[tuple[_KeyedVariant[T], ...], ...]
    without_key: int

    @property
    def count(self) -> int:
        """The number of variants that have a key."""
        return sum(map(len, self.stores))

    def by_key(self) -> Mapping[str, list[list[T]]]:
        """Returns the values of each key in sorted order, as one list per store."""
        joined: dict[str, list[list[T]]] = {}
        for index, variants in enumerate(self.stores):
            for variant in variants:
                joined.setdefault(variant.key, [[] for _ in self.stores])[index].append(variant.value)
        return dict(sorted(joined.items()))

    def names(self) -> Mapping[str, str]:
        """Returns the name of each key in the first store that has it."""
        names: dict[str, str] = {}
        for variants in self.stores:
            for variant in variants:
                names.setdefault(variant.key, variant.name)
        return names


def stores_of(context: StepContext) -> list[AccountAccess]:
    """Returns the stores that the automation reads, in the order of its `connections`."""
    accounts = [context.accounts[integration_id] for integration_id in context.reads]
    return [account for account in accounts if account.connection.is_store]


def labels_of(accounts: Sequence[AccountAccess]) -> list[str]:
    """Returns each account's name in a report; accounts that share a name get their address or number too."""
    names = [account.connection.name for account in accounts]
    frequency = Counter(names)
    return [
        name
        if frequency[name] == 1
        else f"{name} ({account.connection.domain or account.connection.integration_id})"
        for name, account in zip(names, accounts, strict=True)
    ]


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Adds the account's name to a failed call's message, which would be ambiguous with several accounts."""
    try:
        yield
    except CallError as error:
        error.message = f"{label} could not be read. {error.message}"
        raise


async def keyed_variants(
    context: StepContext, *, published_only: bool, value_of: Callable[[Variant], T]
) -> StoreVariants[T]:
    """Reads every store's variants under the SKU or barcode that the input `match` chooses.

    Leaves out archived variants and those in the trash. Raises CallError that names the store.
    """
    accounts = stores_of(context)
    labels = labels_of(accounts)
    stores: list[tuple[_KeyedVariant[T], ...]] = []
    without_key = 0
    for label, account in zip(labels, accounts, strict=True):
        with naming(label):
            variants = await _read_variants(account, published_only=published_only)
        keys = [key_of(getattr(variant, str(context.inputs["match"]))) for variant in variants]
        without_key += sum(not key for key in keys)
        rows = zip(keys, variants, strict=True)
        stores.append(
            tuple(_KeyedVariant(key, _name(variant), value_of(variant)) for key, variant in rows if key)
        )
    return StoreVariants(tuple(labels), tuple(stores), without_key)


async def _read_variants(account: AccountAccess, *, published_only: bool) -> list[Variant]:
    variants: dict[str, Variant] = {}
    async for page in account.reader.read(VARIANTS, ProductsQuery(published_only=published_only)):
        for variant in page.items:
            if variant.status not in _REMOVED and (is_on_sale(variant) or not published_only):
                variants.setdefault(variant.id, variant)
    return list(variants.values())


def key_name(match: object) -> str:
    """Returns people's word for the field that the input `match` compares."""
    return {"sku": "SKU", "barcode": "Barcode"}[str(match)]


def spellings(keys: Iterable[str]) -> dict[str, list[str]]:
    """Returns keys that differ only in capitals, each with the others: they count as different keys."""
    folded: dict[str, list[str]] = {}
    for key in keys:
        folded.setdefault(key.casefold(), []).append(key)
    return {
        key: [other for other in similar if other != key]
        for similar in folded.values()
        if len(similar) > 1
        for key in similar
    }


def _name(variant: Variant) -> str:
    return f"{variant.product_title}, {variant.title}" if variant.title else variant.product_title
