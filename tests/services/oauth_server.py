"""An OAuth 2 server by RFC 6749, 7636 and 9700: codes with PKCE, and refresh tokens that may rotate."""

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.services.fakes import FakeService, SeenRequest, ServiceResponse

CLIENT_ID, CLIENT_SECRET = "app-1", "app secret 1"


@dataclass
class OAuthServer:
    """Fakes the server at one host; with `rotates` a refresh token is valid once and a reuse ends them all.

    Without `gives_refresh` its access tokens do not expire. Each refresh sets `exchanged`.
    """

    host: str
    rotates: bool = False
    has_basic_auth: bool = False
    lifetime_s: int = 3600
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refresh_tokens: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)
    access_tokens: set[str] = field(default_factory=set)
    number: int = 0
    gives_refresh: bool = True
    rejects: bool = False  # whether the API behind it rejects its tokens
    exchanged: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def authorize_url(self) -> str:
        """Returns the address at which people sign in."""
        return f"https://{self.host}/authorize"

    @property
    def token_url(self) -> str:
        """Returns the address at which codes and refresh tokens are exchanged."""
        return f"https://{self.host}/token"

    def service(self) -> FakeService:
        """Returns the server as a service beside the fake platforms."""
        return FakeService(self.host, self.respond)

    def consent(self, address: str) -> dict[str, str]:
        """Signs a person in at an authorization request; returns the query of the redirect back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(self.authorize_url)
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT_ID)
        assert query["code_challenge_method"] == "S256"
        code = self._next("code")
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def respond(self, request: SeenRequest) -> ServiceResponse:
        """Answers a token request."""
        form = dict(request.body)
        if not self._knows_client(form, request.headers):
            return 401, {"error": "invalid_client"}
        match form.get("grant_type"):
            case "authorization_code":
                return self._by_code(form)
            case "refresh_token":
                return self._by_refresh(form["refresh_token"])
        return 400, {"error": "unsupported_grant_type"}

    def _knows_client(self, form: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        if not self.has_basic_auth:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET.replace(' ', '+')}".encode()).decode()
        return headers.get("authorization") == f"Basic {pair}" and "client_secret" not in form

    def _by_code(self, form: Mapping[str, str]) -> ServiceResponse:
        query = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            query is None
            or challenge != query["code_challenge"]
            or form["redirect_uri"] != query["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        return self._tokens(self._new_refresh() if self.gives_refresh else None)

    def _by_refresh(self, token: str) -> ServiceResponse:
        self.exchanged.set()
        if token in self.spent:  # a second use: the sender may have stolen it
            self.refresh_tokens.clear()
        if token not in self.refresh_tokens:
            return 400, {"error": "invalid_grant"}
        if not self.rotates:
            return self._tokens(None)
        self.refresh_tokens.remove(token)
        self.spent.add(token)
        return self._tokens(self._new_refresh())

    def _new_refresh(self) -> str:
        token = self._next("refresh")
        self.refresh_tokens.add(token)
        return token

    def _tokens(self, refresh: str | None) -> ServiceResponse:
        access = self._next("access")
        self.access_tokens.add(access)
        response: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.gives_refresh:
            response["expires_in"] = self.lifetime_s
        return 200, response | ({"refresh_token": refresh} if refresh else {})

    def _next(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-token-{self.number:04}"
