"""An HTTP API with accounts, and the OAuth 2 server that gives its tokens (RFC 6749)."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import httpx

from steward.fake_platforms.application import FakePlatforms

API, AUTH, ELSEWHERE = "api.partner.example", "auth.partner.example", "thief.example"
CLIENT_ID, CLIENT_SECRET = "client-7", "client secret+7"
KEY = "partner-key-3f9c1a"
REFRESH = "refresh-77ab"


@dataclass
class PartnerApi:
    """Answers for the three hosts; every request that came is in `seen`, the grants of tokens in `grants`."""

    seen: list[httpx.Request] = field(default_factory=list)
    grants: list[dict[str, str]] = field(default_factory=list)
    lifetime_s: object = 3600
    tokens: set[str] = field(default_factory=set)
    respond: Callable[[httpx.Request], httpx.Response | None] = lambda request: None

    def beside(self, world: FakePlatforms) -> None:
        """Lets the fake platforms answer for every other host."""
        platforms = world.transport()

        async def handle(request: httpx.Request) -> httpx.Response:
            if request.url.host not in (API, AUTH, ELSEWHERE):
                return await platforms.handle_async_request(request)
            await request.aread()
            return self.response(request)

        world.transport = lambda: httpx.MockTransport(handle)  # type: ignore[method-assign]

    def response(self, request: httpx.Request) -> httpx.Response:
        """The response to one request."""
        if request.url.host == AUTH:
            return self._token(request)
        self.seen.append(request)
        special = self.respond(request)
        if special is not None:
            return special
        if not self._is_signed_in(request):
            return _json(401, {"error": "who are you"})
        return _json(200, {"path": request.url.path, "method": request.method})

    def _is_signed_in(self, request: httpx.Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return (
            bearer in (KEY, *self.tokens)
            or request.headers.get("x-api-key") == KEY
            or request.url.params.get("api_key") == KEY
            or request.url.path.startswith(f"/bot{KEY}/")
            or request.headers.get("authorization") == _basic("ann", KEY)
        )

    def _token(self, request: httpx.Request) -> httpx.Response:
        """Sections 4.4 and 6 with the client in the body or in the header (2.3.1); errors as in 5.2."""
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        header = request.headers.get("authorization")
        is_client = header == _basic("client-7", "client+secret%2B7") if header else False
        is_client = is_client or (form.get("client_id"), form.get("client_secret")) == (
            CLIENT_ID,
            CLIENT_SECRET,
        )
        self.grants.append({**form, "by": "header" if header else "body"})
        if not is_client:
            return _json(401, {"error": "invalid_client"})
        if form.get("grant_type") == "refresh_token" and form.get("refresh_token") != REFRESH:
            return _json(400, {"error": "invalid_grant"})
        if form.get("grant_type") not in ("client_credentials", "refresh_token"):
            return _json(400, {"error": "unsupported_grant_type"})
        token = f"token-{len(self.grants)}"
        self.tokens.add(token)
        response: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if self.lifetime_s is not None:
            response["expires_in"] = self.lifetime_s
        return _json(200, response)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _json(status: int, value: object) -> httpx.Response:
    stream = httpx.ByteStream(json.dumps(value).encode())
    return httpx.Response(status, headers={"content-type": "application/json"}, stream=stream)
