"""Receives the fake shop's webhooks in place of Steward."""

from collections.abc import Callable

import httpx


class Receiver:
    """Records requests in their order and answers with `status`; `act` may raise or do more."""

    def __init__(self) -> None:
        self.arrived: list[httpx.Request] = []
        self.status = 200
        self.act: Callable[[httpx.Request], None] | None = None

    def transport(self) -> httpx.MockTransport:
        """Returns a transport that leads an httpx client here."""
        return httpx.MockTransport(self._take)

    def _take(self, request: httpx.Request) -> httpx.Response:
        self.arrived.append(request)
        if self.act is not None:
            self.act(request)
        return httpx.Response(self.status)

    @property
    def pings(self) -> list[httpx.Request]:
        """Returns the requests that only name the webhook."""
        return [request for request in self.arrived if "x-wc-webhook-topic" not in request.headers]

    @property
    def deliveries(self) -> list[httpx.Request]:
        """Returns the requests that carry an object."""
        return [request for request in self.arrived if "x-wc-webhook-topic" in request.headers]

    def topics(self) -> list[str]:
        """Returns the topics of the deliveries, in order."""
        return [delivery.headers["x-wc-webhook-topic"] for delivery in self.deliveries]
