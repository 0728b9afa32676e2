"""The login and its token: who holds it, until when, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from steward_client.calls import data_of
from steward_client.errors import NoResponse, StewardError

RENEWED_BEFORE_SECONDS = 60.0
LOGIN_PATH = "/v2/api/automations/login"


@dataclass(frozen=True)
class Credentials:
    """What a login sends; a `repr` does not show it."""

    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    username: str = field(repr=False)
    email: str = field(repr=False)
    organization: str

    def body(self) -> dict[str, str]:
        """Returns the body of the login."""
        return {
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "username": self.username,
            "email": self.email,
            "organization_name": self.organization,
        }


class Tokens:
    """The current token; a caller holds the lock while it renews it.

    Callers that waited for a login share its outcome, also a failure: a failed login is not tried again by
    itself.
    """

    def __init__(self) -> None:
        self._token: str | None = None
        self._ends_at = 0.0
        self._failure: StewardError | None = None
        self.logins = 0  # that have ended

    def current(self, now: float) -> str | None:
        """Returns the token, unless it ends within a minute."""
        return self._token if now < self._ends_at - RENEWED_BEFORE_SECONDS else None

    def after_waiting(self, logins_before: int, now: float) -> str | None:
        """Returns the token of another caller's login that has ended since. Raises its failure."""
        if self.logins != logins_before and self._failure is not None:
            raise self._failure
        return self.current(now)

    def drop(self, token: str) -> None:
        """Forgets a token that was not accepted."""
        if self._token == token:
            self._token = None
            self._ends_at = 0.0

    def take(self, outcome: httpx.Response | httpx.TransportError, now: float) -> str:
        """Notes the outcome of a login that began at `now` and returns its token. Raises StewardError."""
        self.logins += 1
        try:
            self._failure = None
            data = _login_data(outcome)
        except StewardError as failure:
            self._failure = failure
            raise
        token = str(data["access_token"])
        self._token, self._ends_at = token, now + float(data["expires_in"])
        return token


def _login_data(outcome: httpx.Response | httpx.TransportError) -> Any:
    if isinstance(outcome, httpx.TransportError):
        raise NoResponse(f"The login had no response: {type(outcome).__name__}.") from None
    return data_of(outcome)
