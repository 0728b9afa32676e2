"""What an HTTP step tells of a tolerated failure: an object, as n8n makes of its HTTP client's error."""

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from steward.model.json import JsonObject
from steward.outbound.errors import CallError
from steward.steps.workflow.answers import StatusFailed
from steward.steps.workflow.step_types import ItemFailed

P = ParamSpec("P")
T = TypeVar("T")
_MAX_TEXT: Final = 8192  # characters of a response in a message


def status_error(status: int, text: str) -> JsonObject:
    """Returns what is told of a response with an error status."""
    quoted = json.dumps(text[:_MAX_TEXT], ensure_ascii=False)
    code = "ERR_BAD_REQUEST" if status < 500 else "ERR_BAD_RESPONSE"
    return {"message": f"{status} - {quoted}", "name": "AxiosError", "code": code, "status": status}


def telling_errors(read: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Returns a read whose ItemFailed has an object in place of its message as error."""

    @wraps(read)
    async def telling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await read(*args, **kwargs)
        except ItemFailed as failure:
            raise ItemFailed(failure.message, _error_of(failure)) from failure

    return telling


def _error_of(failure: ItemFailed) -> JsonObject:
    cause = failure.__cause__
    if isinstance(failure, StatusFailed):
        return status_error(failure.status, failure.text)
    if isinstance(cause, CallError) and cause.status is not None and cause.status >= 400:
        return status_error(cause.status, cause.platform_text)
    return {"message": failure.message, "name": "NodeApiError"}
