"""Requests of imported workflows to addresses without a connection: `http.send`."""

from collections.abc import Mapping

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.requests import SendRequestOperation

CHANGES: Mapping[str, AnyWriteOperation] = {"http.send": SendRequestOperation("http.send")}
