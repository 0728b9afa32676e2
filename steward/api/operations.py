"""The table of operations: one row an endpoint; the gate, OpenAPI and the scope tests all read it."""

from steward.api.calls import Operation, RawOperation

OPERATIONS: list[Operation] = []
RAW_OPERATIONS: list[RawOperation] = []
