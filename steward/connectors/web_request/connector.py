"""Requests of imported workflows to addresses without a connection: `http.send`."""

from collections.abc import Mapping
from typing import Any

from steward.connectors.base.connector import WriteOperation
from steward.connectors.base.requests import SendRequestOperation

CHANGES: Mapping[str, WriteOperation[Any]] = {"http.send": SendRequestOperation("http.send")}
