"""Puts fake stores beside other fake platforms: one transport, told apart by host."""

import httpx

from tests.fakes.shopify.store import ShopifyFake


class StoreTransport(httpx.AsyncBaseTransport):
    """Requests to a store's domain go to the store, all others where they went before."""

    def __init__(self, default: httpx.AsyncBaseTransport, *stores: ShopifyFake) -> None:
        self._default = default
        self._stores = {store.domain: store.transport() for store in stores}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serves the request."""
        transport = self._stores.get(request.url.host, self._default)
        return await transport.handle_async_request(request)


def beside(default: httpx.AsyncBaseTransport, *stores: ShopifyFake) -> StoreTransport:
    """A transport that leads to the stores and, for all else, to `default`."""
    return StoreTransport(default, *stores)
