"""Puts the table of operations behind the gate: the application app.py serves and tests call."""

from collections.abc import Sequence
from typing import Any

import msgspec

from steward.api import openapi
from steward.api.calls import Fittings, Incoming, Operation, RawOperation, Reply
from steward.api.gate import Gate, Pages
from steward.api.operations import OPERATIONS, RAW_OPERATIONS


def create(
    fittings: Fittings,
    *,
    operations: Sequence[Operation] = OPERATIONS,
    raw_operations: Sequence[RawOperation] = RAW_OPERATIONS,
    pages: Pages | None = None,
) -> Gate:
    """The API as an ASGI application; `pages` answers the web app's own pages and files."""
    document = openapi.document(operations, fittings.rules.base_url, version=fittings.rules.service_version)
    row = RawOperation("GET", "/openapi.json", _Served(document), "This document")
    return Gate(fittings, operations, [*raw_operations, row], pages=pages)


class _Served:
    """Answers one document, encoded once."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._body = msgspec.json.encode(document)

    async def __call__(self, incoming: Incoming, fittings: Fittings, /) -> Reply:
        return Reply(200, self._body)
