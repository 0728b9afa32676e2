"""Reads the first objects for a sample, and counts them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from steward.connectors.base.forwarding import ForwardingReader
from steward.connectors.base.queries import CUSTOMERS, ORDERS, PRODUCTS, VARIANTS, ReadOp, RecordPage
from steward.model.ids import IntegrationId

_MAX_OBJECTS = 500
_NOUNS = {
    PRODUCTS.name: "product",
    VARIANTS.name: "variant",
    ORDERS.name: "order",
    CUSTOMERS.name: "customer",
}
P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


@dataclass(slots=True)
class ReadCounter:
    """Counts the objects read, by account and read, and which reads were cut short; `stop_at` ends them."""

    stop_at: float
    read: dict[tuple[IntegrationId, str], int] = field(default_factory=dict)
    cut: set[tuple[IntegrationId, str]] = field(default_factory=set)

    @property
    def is_conclusive(self) -> bool:
        """Whether counts from the reads are meaningful: no list was cut short, or only one list was read."""
        return not self.cut or len(self.read) == 1

    @property
    def noun(self) -> str:
        """Returns the noun for the objects that were read last."""
        return _NOUNS[list(self.read)[-1][1]] if self.read else "object"


@dataclass(frozen=True, slots=True)
class FirstObjectsReader(ForwardingReader):
    """A reader that stops a list of objects after the first 500."""

    integration: IntegrationId
    counter: ReadCounter

    async def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields the pages of a read; of a list of objects only the first ones."""
        if op.name not in _NOUNS:
            async for page in self.reader.read(op, params):
                yield page
            return
        key = self.integration, op.name
        count = self.counter.read.setdefault(key, 0)
        async for page in self.reader.read(op, _in_pages(params)):
            items = page.items[: _MAX_OBJECTS - count]
            count += len(items)
            self.counter.read[key] = count
            yield replace(page, items=items)
            is_enough = count == _MAX_OBJECTS or asyncio.get_running_loop().time() > self.counter.stop_at
            if is_enough and (len(items) < len(page.items) or page.next is not None):
                self.counter.cut.add(key)
                return


def _in_pages(params: P) -> P:
    """Returns the parameters for a read of the first pages only."""
    has_choice = is_dataclass(params) and any(parameter.name == "in_pages" for parameter in fields(params))
    if not has_choice:
        return params
    choice: dict[str, Any] = {"in_pages": True}
    return replace(params, **choice)  # type: ignore[type-var]
