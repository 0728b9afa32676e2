"""A way to the service on which answers are lost, and which notes what is sent."""

from collections import Counter
from collections.abc import Callable

import httpx

from steward.api.http.operation import Operation
from steward.api.http.router import Routes
from steward.api.operations import OPERATIONS
from tests.service import LOGIN

Fault = Callable[[str, int], bool]
_ROUTES: Routes[Operation] = Routes(OPERATIONS)


def name_of_call(request: httpx.Request) -> str:
    """The operation that a request is for, such as `runs.get`."""
    path = request.url.path
    if path == LOGIN:
        return "login"
    match = _ROUTES.find(path)
    return match.methods[request.method].name if match is not None else path


class FaultyTransport(httpx.AsyncBaseTransport):
    """Passes requests on; of those that `is_lost` says, the service answers and nobody hears it.

    `is_lost` takes the operation and how many requests came before. `answer` stands in for the service.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.is_lost: Fault = lambda name, number: False
        self.respond: Callable[[str, int], httpx.Response | None] = lambda name, number: None
        self.count = 0
        self.sent: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers, or raises ReadError after the service has answered."""
        name, number = name_of_call(request), self.count
        self.count += 1
        self.sent[name] += 1
        self.requests.append(request)
        instead = self.respond(name, number)
        if instead is not None:
            return instead
        response = await self._inner.handle_async_request(request)
        if self.is_lost(name, number):
            self.lost[name] += 1
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the answer was lost", request=request)
        return response
