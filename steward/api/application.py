"""Builds the ASGI application of the API from its operations."""

from collections.abc import Sequence

import msgspec

from steward.api import openapi
from steward.api.http.context import AppContext
from steward.api.http.handler import Pages, RequestHandler
from steward.api.http.operation import Operation, RawOperation, RawRequest, Reply
from steward.api.operations import OPERATIONS, RAW_OPERATIONS


def create(
    context: AppContext,
    *,
    operations: Sequence[Operation] = OPERATIONS,
    raw_operations: Sequence[RawOperation] = RAW_OPERATIONS,
    pages: Pages | None = None,
) -> RequestHandler:
    """Returns the API as an ASGI application; `pages` serves the web app's own pages and files."""
    row = RawOperation("GET", "/openapi.json", _Document(operations), "This document")
    return RequestHandler(context, operations, [*raw_operations, row], pages=pages)


class _Document:
    """Responds with the OpenAPI document, which it builds at the first request."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._body: bytes | None = None

    async def __call__(self, raw_request: RawRequest, context: AppContext, /) -> Reply:
        if self._body is None:
            rules = context.rules
            document = openapi.document(
                self._operations, rules.base_url, version=rules.service_version, auth_url=rules.auth_url
            )
            self._body = msgspec.json.encode(document)
        return Reply(200, self._body)
