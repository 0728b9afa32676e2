"""Serves an HTTP address that accepts orders, returns the number of each, and can be made to fail."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

ADDRESS = "https://orders.example"
Responder = Callable[[httpx.Request, int], httpx.Response]


def with_number(request: httpx.Request, number: int) -> httpx.Response:
    """Responds as most services do: returns what was sent with its new number."""
    sent = json.loads(request.content or b"{}")
    return httpx.Response(201, json={"number": number, "sent": sent}, headers={"x-shard": "a"})


@dataclass
class OrdersAddress(httpx.AsyncBaseTransport):
    """Serves one host beside the fake platforms; `respond` computes the response to the next requests."""

    inner: httpx.AsyncBaseTransport | None = None
    respond: Responder = with_number
    requests: list[tuple[str, str, Any]] = field(default_factory=list)  # method, path and body
    keys: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # key: the body as JSON
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers a request to the host of orders; passes all others on to the fake platforms."""
        assert self.inner is not None
        if request.url.host != "orders.example":
            return await self.inner.handle_async_request(request)
        await request.aread()
        self.requests.append((request.method, request.url.path, json.loads(request.content or b"null")))
        self.keys.append(request.headers.get("idempotency-key", ""))
        number = next(self._numbers)
        self.numbers[json.dumps(self.requests[-1][2], sort_keys=True)] = number
        response = self.respond(request, number)
        stream = httpx.ByteStream(response.content)  # a stream that was not read yet, as from a socket
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

    def sent_twice(self) -> list[Any]:
        """Returns the requests that arrived more than once."""
        counts = Counter(json.dumps(entry, sort_keys=True) for entry in self.requests)
        return [entry for entry, times in counts.items() if times > 1]

    def forget(self) -> None:
        """Forgets the recorded requests, and numbers the next order 1."""
        self.requests.clear()
        self.keys.clear()
        self.numbers.clear()
        self._numbers = itertools.count(1)
