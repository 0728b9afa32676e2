"""The only interface that changes stores; only runs/writes/apply.py and the connectors import it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self

from steward.model.change import Batch
from steward.model.json import JsonValue
from steward.model.write_response import WriteResponse
from steward.outbound.errors import (
    CallError,
    ErrorKind,
    Invalid,
    NotSent,
    PlatformUnavailable,
    Throttled,
    UnusableResponse,
    WriteFailed,
)


class WriteState(StrEnum):
    """The result of one attempt at a part."""

    APPLIED = "applied"
    CONFLICT = "conflict"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of one part: `applied` only when the response had the expected value.

    `seen` is the value read or returned; `modified_at` the object's own time in the response; `wait_s` the
    seconds to wait after a call that was not sent; `error` the kind of the call's error; `response` the
    response, also to a refused or doubtful call, for later steps of a workflow; `response_maker` creates it
    on demand, as most callers do not use it.
    """

    state: WriteState
    seen: JsonValue = None
    field: str | None = None
    reason: str | None = None
    modified_at: datetime | None = None
    wait_s: float | None = None
    error: ErrorKind | None = None
    response: WriteResponse | None = None
    response_maker: Callable[[], WriteResponse] | None = None

    @classmethod
    def of_error(cls, state: WriteState, error: CallError, response: WriteResponse | None = None) -> Self:
        """Returns the outcome of a part whose call failed; only an unsent call keeps its wait."""
        return cls(
            state,
            field=next(iter(error.fields), None) if isinstance(error, Invalid) else None,
            reason=error.message,
            wait_s=error.wait_s if state is WriteState.NOT_SENT else None,
            error=error.kind,
            response=response,
        )

    @classmethod
    def of_response(cls, failure: CallError | None, response: WriteResponse | None = None) -> Self:
        """Returns the outcome of a part from the failure that its response reports; null for none.

        A response that neither accepts nor refuses the call leaves it unknown whether the call took effect.
        """
        match failure:
            case None:
                return cls(WriteState.APPLIED, response=response)
            case Throttled():
                return cls.of_error(WriteState.NOT_SENT, failure)
            case PlatformUnavailable() | UnusableResponse():
                return cls.of_error(WriteState.UNKNOWN, failure, response)
            case _:
                return cls.of_error(WriteState.REFUSED, failure, response)

    @classmethod
    def of_failure(cls, failure: WriteFailed) -> Self:
        """Returns the outcome of a part whose request got no usable response."""
        state = WriteState.NOT_SENT if isinstance(failure, NotSent) else WriteState.UNKNOWN
        return cls.of_error(state, failure.cause)


class Writer(Protocol):
    """Sends approved changes: one batch is one HTTP request."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch` and returns one outcome per part, in order.

        Never raises a call's error: the outcome reports it. Never called twice for one attempt.
        """
        ...
