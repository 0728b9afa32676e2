"""Recorded exchanges with a real shop, and a transport that answers from them."""

import json
from functools import cache
from typing import Any

import httpx

from steward.outbound.response import PlatformResponse
from tests.case_data import case_data

FILES = (
    "auth", "store_info", "products_read", "products_write", "products_batch", "product_terms", "stock",
    "variations", "orders_read", "orders_write", "customers", "webhooks_manage",
)  # fmt: skip


@cache
def _all() -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for name in FILES:
        held = json.loads(case_data(f"woocommerce/{name}.json").read_text("utf-8"))
        results |= {exchange["id"]: exchange for exchange in held["exchanges"]}
    return results


def exchange(name: str) -> dict[str, Any]:
    """Returns one exchange by its id."""
    return _all()[name]


def _body(response: dict[str, Any]) -> bytes:
    if "body" in response:
        return json.dumps(response["body"]).encode()
    return str(response.get("body_text", "")).encode()


def recorded_response(name: str) -> PlatformResponse:
    """Returns the response of an exchange as the HTTP client delivers it."""
    response = exchange(name)["response"]
    return PlatformResponse(response["status"], response["headers"], _body(response))


class Recorded(httpx.AsyncBaseTransport):
    """Answers each call with the next exchange recorded for its method and path, and stores the requests."""

    def __init__(self, *names: str) -> None:
        self._remaining_exchanges = [exchange(name) for name in names]
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the recorded response. Raises LookupError for a call that was not recorded."""
        self.requests.append(request)
        for held in self._remaining_exchanges:
            if (held["request"]["method"], held["request"]["path"]) == (request.method, request.url.path):
                self._remaining_exchanges.remove(held)
                response = held["response"]
                raw = httpx.ByteStream(_body(response))
                return httpx.Response(response["status"], headers=response["headers"], stream=raw)
        if request.url.path.endswith("/wc/v3/variations"):  # this endpoint was not recorded of any shop
            return httpx.Response(400, stream=httpx.ByteStream(b'{"code": "not_recorded"}'))
        raise LookupError(f"{request.method} {request.url.path} is not recorded")
