"""A service whose webhooks, Teams and Slack are answered here at the level of HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from steward.connections.vault import Vault
from steward.connectors import build
from steward.database.engine.base import Engine
from steward.notifications.channels import route_channels
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.service import BASE_URL, MASTERS, Cast, Service, make_service

ROUTES = "/app/notification-routes"
HOOK = "https://hooks.example/in/abc"
TEAMS_URL = "https://flow.logic.azure.com/workflows/w1?sig=s3cret-signature"
SLACK_HOOK = "https://hooks.slack.com/services/T1/B1/x1y2z3"
SLACK_TOKEN = "xoxb-1-2-abcdefghijkl"
OPTIONS = connector_options(read_s=5.0)
_AUTH = {"ok": True, "team": "Shop", "user": "steward", "team_id": "T1", "user_id": "U9"}


@dataclass
class Receivers:
    """Records requests and answers each with the next of `answers`, or accepts it when there is none."""

    seen: list[httpx.Request] = field(default_factory=list)
    responses: list[httpx.Response | Exception] = field(default_factory=list)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answers one request."""
        await request.aread()
        if request.url.path == "/api/auth.test":
            return _response(200, httpx.Response(200, json=_AUTH).content)
        self.seen.append(request)
        if self.responses:
            response = self.responses.pop(0)
            if isinstance(response, Exception):
                raise response
            return response
        if request.url.host == "slack.com":
            return _response(200, b'{"ok":true,"ts":"1"}')
        return _response(200, b"ok")

    def refuse(self, status: int, **headers: str) -> None:
        """Answers the next request with this status."""
        self.responses.append(_response(status, b"", **headers))


def _response(status: int, body: bytes, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, stream=httpx.ByteStream(body))


@asynccontextmanager
async def receiving(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[tuple[Service, Receivers]]:
    """Yields a service with its cast and the receivers that its notices reach."""
    receivers, register = Receivers(), SecretRegister()
    log = Log(lambda line: None, clock, register)
    connectors = build(OPTIONS)
    wire = HttpTransport(clock, register, log, transport=httpx.MockTransport(receivers))
    vault = Vault(MASTERS, connectors, Outbound(wire), register)
    channels = route_channels(engine, clock, vault, web_origin=BASE_URL)
    service = await make_service(engine, clock, cast=cast, vault=vault, channels=channels)
    try:
        yield service, receivers
    finally:
        await service.close()


async def connected(web: Caller, kind: str, **settings: str) -> int:
    """Connects an account and returns its integration id."""
    response = await web.post("/app/connections", {"kind": kind, "name": kind, "settings": settings})
    assert response.status == 201, response.body
    number: int = response.data["connection"]["integration_id"]
    return number


def webhook(**changes: Any) -> dict[str, Any]:
    """Returns the body of a new webhook route."""
    return {"name": "Ops", "channel": "webhook", "url": HOOK, "topics": ["run_failed"], **changes}


async def made(web: Caller, **changes: Any) -> dict[str, Any]:
    """Creates a webhook route and returns the answer with its secret."""
    response = await web.post(ROUTES, webhook(**changes))
    assert response.status == 201, response.body
    reply: dict[str, Any] = response.data
    return reply
