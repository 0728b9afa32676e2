"""The one interface that changes stores; imported by runs/apply.py and the connectors alone."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self

from steward.model.change import Batch
from steward.model.json import JsonValue
from steward.outbound.errors import CallError, ErrorKind, Invalid, NotSent, WriteFailed


class WriteState(StrEnum):
    """What one attempt at a part came to (connectors 2.1)."""

    APPLIED = "applied"
    CONFLICT = "conflict"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of one part: `applied` only when the echo was `same` as wanted.

    `seen` is the value read or echoed; `modified_at` the object's own time in the echo (connectors 9.5);
    `wait_s` how long a call that was not sent should wait; `error` the kind of the call's error.
    """

    state: WriteState
    seen: JsonValue = None
    field: str | None = None
    reason: str | None = None
    modified_at: datetime | None = None
    wait_s: float | None = None
    error: ErrorKind | None = None

    @classmethod
    def of_error(cls, state: WriteState, error: CallError) -> Self:
        """The outcome of a part whose call failed with `error`; a wait is kept for what was not sent."""
        return cls(
            state,
            field=next(iter(error.fields), None) if isinstance(error, Invalid) else None,
            reason=error.message,
            wait_s=error.wait_s if state is WriteState.NOT_SENT else None,
            error=error.kind,
        )

    @classmethod
    def of_failure(cls, failure: WriteFailed) -> Self:
        """The outcome of a part whose request left no answer that can be used."""
        state = WriteState.NOT_SENT if isinstance(failure, NotSent) else WriteState.UNKNOWN
        return cls.of_error(state, failure.cause)


class Writer(Protocol):
    """Sends what was approved: one batch is one HTTP request."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch`; one outcome per part, in order (connectors 2.1).

        Never raises a call's error: what went wrong is the outcome. Never called twice for an attempt.
        """
        ...
