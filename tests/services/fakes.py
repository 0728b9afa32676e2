"""Fakes of services at the level of HTTP, in the shapes that the services document."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx

from steward.fake_platforms.application import FakePlatforms


@dataclass(frozen=True)
class SeenRequest:
    """Is one request as received; `body` is decoded JSON, form fields or the text of a multipart body.

    A query name that repeats has its values joined by commas.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


# Status and body; a body of None is empty.
ServiceResponse = tuple[int, Any]


@dataclass
class FakeService:
    """Fakes a service at one host.

    It gives `answers` first and then what `respond` returns; `seen` has the requests.
    """

    host: str
    respond: Callable[[SeenRequest], ServiceResponse]
    seen: list[SeenRequest] = field(default_factory=list)
    responses: list[ServiceResponse | Exception] = field(default_factory=list)

    def sent(self) -> list[SeenRequest]:
        """Returns the requests received that were not reads."""
        return [request for request in self.seen if request.method != "GET"]

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answers one request from `answers` or by `respond`, and records it."""
        content, kind = await request.aread(), request.headers.get("content-type", "")
        body: Any = None
        if "urlencoded" in kind:
            body = dict(parse_qsl(content.decode(), keep_blank_values=True))
        elif kind.startswith("multipart/"):
            body = content.decode()
        elif content:
            body = json.loads(content)
        params = request.url.params
        query = {name: ",".join(params.get_list(name)) for name in params}
        seen = SeenRequest(request.method, request.url.path, query, dict(request.headers), body)
        self.seen.append(seen)
        response = self.responses.pop(0) if self.responses else self.respond(seen)
        if isinstance(response, Exception):
            raise response
        status, decoded = response
        text = decoded if isinstance(decoded, str) else "" if decoded is None else json.dumps(decoded)
        headers = {"content-type": "application/json"}
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(text.encode()))


def beside(*services: FakeService) -> Callable[[FakePlatforms], None]:
    """Returns a function that puts services beside the fake platforms, which answer for every other host."""
    by_host = {service.host: service for service in services}

    def put(world: FakePlatforms) -> None:
        platforms = world.transport()

        async def respond(request: httpx.Request) -> httpx.Response:
            service = by_host.get(request.url.host)
            if service is None:
                return await platforms.handle_async_request(request)
            return await service.handle(request)

        world.transport = lambda: httpx.MockTransport(respond)  # type: ignore[method-assign]

    return put
