"""Reads several stores for one report: in their order, each by a name of its own (templates 1)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.json import JsonObject, JsonValue
from steward.outbound.errors import CallError
from steward.steps.base import AccountAccess, StepContext
from steward.steps.skus import key_of
from steward.templates.parts.stock import is_on_sale

_GONE = ("archived", "trash")


def stores_of(at: StepContext) -> list[AccountAccess]:
    """The stores the automation reads, in the order of its `connections`."""
    found = [at.accounts[number] for number in at.reads]
    return [account for account in found if account.connection.is_store]


def labels_of(accounts: Sequence[AccountAccess]) -> list[str]:
    """What each is called in a report: its name, and where two have one name its address or number too."""
    names = [account.connection.name for account in accounts]
    often = Counter(names)
    return [
        name
        if often[name] == 1
        else f"{name} ({account.connection.domain or account.connection.integration_id})"
        for name, account in zip(names, accounts, strict=True)
    ]


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Names the account in the failure of a call: with several, "it" says nothing."""
    try:
        yield
    except CallError as error:
        error.message = f"{label} could not be read. {error.message}"
        raise


async def keyed_variants(
    at: StepContext, *, published_only: bool, kept: Callable[[Variant], JsonValue]
) -> JsonObject:
    """What every store has under each SKU or barcode, as the input `match` says (E1, E9, E10).

    `{labels, stores, without}`: the stores' names; for each a list of `[key, name, kept]`; and how many
    variants have no key and are left out (E2). Archived ones and those in the trash are none. Raises
    CallError naming the store.
    """
    accounts = stores_of(at)
    labels = labels_of(accounts)
    stores: list[JsonValue] = []
    without = 0
    for label, account in zip(labels, accounts, strict=True):
        found: dict[str, Variant] = {}
        with naming(label):
            async for page in account.reader.read(VARIANTS, ProductsQuery(published_only=published_only)):
                for variant in page.items:
                    if variant.status not in _GONE and (is_on_sale(variant) or not published_only):
                        found.setdefault(variant.id, variant)
        keys = {number: key_of(getattr(each, str(at.inputs["match"]))) for number, each in found.items()}
        without += sum(not key for key in keys.values())
        rows: list[JsonValue] = [
            [keys[number], _name(each), kept(each)] for number, each in found.items() if keys[number]
        ]
        stores.append(rows)
    return {"labels": labels, "stores": stores, "without": without}


def key_name(inputs: JsonObject) -> str:
    """What the input `match` compares by, as people call it."""
    return {"sku": "SKU", "barcode": "Barcode"}[str(inputs["match"])]


def by_key(stores: Sequence[Sequence[Sequence[Any]]]) -> dict[str, list[list[Any]]]:
    """What each store has under each key: a list of what was kept for each store; keys sorted."""
    found: dict[str, list[list[Any]]] = {}
    for place, rows in enumerate(stores):
        for key, _, kept in rows:
            found.setdefault(key, [[] for _ in stores])[place].append(kept)
    return dict(sorted(found.items()))


def names_by_key(stores: Sequence[Sequence[Sequence[Any]]]) -> dict[str, str]:
    """What each key is called in the first store that has it."""
    names: dict[str, str] = {}
    for rows in stores:
        for key, name, _ in rows:
            names.setdefault(key, name)
    return names


def spellings(keys: Iterable[str]) -> dict[str, list[str]]:
    """Of keys that differ in capitals alone, each with the others: they are not the same one (E1)."""
    folded: dict[str, list[str]] = {}
    for key in keys:
        folded.setdefault(key.casefold(), []).append(key)
    return {
        key: [other for other in held if other != key]
        for held in folded.values()
        if len(held) > 1
        for key in held
    }


def _name(variant: Variant) -> str:
    return f"{variant.product_title}, {variant.title}" if variant.title else variant.product_title
