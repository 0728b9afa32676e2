"""The cast: owner, approver, member, and the stranger of another organization; and how they call."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from steward.model.account import Person, Role
from steward.model.ids import OrgId

PASSWORD = "correct sparrow lantern"


@dataclass(frozen=True)
class Member:
    """One of the cast, with the organization they belong to."""

    person: Person
    org: OrgId
    organization_name: str
    role: Role


@dataclass(frozen=True)
class ApiResponse:
    """A response of the API: status, body and headers."""

    status: int
    body: Any
    headers: httpx.Headers

    @property
    def code(self) -> str | None:
        """The refusal's code."""
        outcome: str | None = self.body.get("code")
        return outcome

    @property
    def data(self) -> Any:
        """What was asked for."""
        return self.body["data"]

    @property
    def errors(self) -> dict[str, list[str]]:
        """The faults by field of a 422."""
        listed_errors: dict[str, list[str]] = self.body["errors"]
        return listed_errors


@dataclass
class Caller:
    """Calls the service in process with the headers of one token, one session, or nobody."""

    client: httpx.AsyncClient
    headers: dict[str, str] = field(default_factory=dict)
    csrf: str | None = None

    async def get(self, path: str, **params: object) -> ApiResponse:
        """GET with these query parameters."""
        return await self.call("GET", path, params=params)

    async def post(self, path: str, body: object = None, **headers: str) -> ApiResponse:
        """POST of a JSON body."""
        return await self.call("POST", path, body={} if body is None else body, headers=headers)

    async def patch(self, path: str, body: object) -> ApiResponse:
        """PATCH of a JSON body."""
        return await self.call("PATCH", path, body=body)

    async def delete(self, path: str) -> ApiResponse:
        """DELETE."""
        return await self.call("DELETE", path)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content: bytes | None = None,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        """Any call; `content` goes out as it is, `body` as JSON."""
        sent = {"Accept": "application/json", **self.headers}
        if body is not None:
            content = json.dumps(body).encode("utf-8")
            sent["Content-Type"] = "application/json"
        if self.csrf is not None and method in ("POST", "PATCH", "DELETE"):
            sent["X-CSRF-Token"] = self.csrf
        query = f"?{urlencode(params)}" if params else ""
        response = await self.client.request(
            method, path + query, content=content, headers={**sent, **(headers or {})}
        )
        return ApiResponse(response.status_code, response.json(), response.headers)


def altered(text: str, position: int) -> str:
    """Returns `text` with another letter at `position`, whatever letter is there."""
    letters = list(text)
    letters[position] = "B" if letters[position] == "A" else "A"
    return "".join(letters)


def basic(client_id: str, secret: str) -> str:
    """The value of an HTTP Basic header."""
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode("ascii")
