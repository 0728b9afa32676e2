"""The two clients: `Steward`, and `AsyncSteward` with the same names to be awaited."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import httpx

from steward_client import operations as o
from steward_client.calls import Call, Id, Outcome, Tries
from steward_client.errors import WaitTimeout
from steward_client.records import VERSION, RunRecord, StepRecord
from steward_client.tokens import LOGIN_PATH, Credentials, Tokens

FINAL = frozenset({"succeeded", "failed", "refused", "cancelled", "expired"})
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0
_FIXED: dict[str, Any] = {"timeout": 15.0, "follow_redirects": False}
_VARIABLES = {
    "base_url": "STEWARD_CLIENT_URL",
    "client_id": "STEWARD_CLIENT_ID",
    "client_secret": "STEWARD_CLIENT_SECRET",
    "username": "STEWARD_CLIENT_USERNAME",
    "email": "STEWARD_CLIENT_EMAIL",
    "organization": "STEWARD_CLIENT_ORGANIZATION",
}


def settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Reads the arguments of a client from the environment. Raises ValueError naming what is missing."""
    missing = [variable for variable in _VARIABLES.values() if not environment.get(variable)]
    if missing:
        raise ValueError(f"Set {', '.join(missing)} in the environment.")
    values: dict[str, Any] = {name: environment[variable] for name, variable in _VARIABLES.items()}
    auth_url = environment.get("STEWARD_CLIENT_AUTH_URL")
    return values | ({"auth_url": auth_url} if auth_url else {})


class _Session:
    """What both clients share: addresses, credentials, the token and the requests."""

    def __init__(self, base_url: str, auth_url: str | None, credentials: Credentials) -> None:
        self._base_url = base_url.rstrip("/")
        self._auth_url = (auth_url or base_url).rstrip("/")
        self._credentials = credentials
        self.tokens = Tokens()

    def login(self) -> dict[str, Any]:
        return self._request("POST", self._auth_url + LOGIN_PATH) | {"json": self._credentials.body()}

    def request(self, call: Call, token: str) -> dict[str, Any]:
        request = self._request(call.operation.method, self._base_url + call.path)
        request["headers"]["Authorization"] = f"Bearer {token}"
        request["params"] = call.query
        return request if call.body is None else request | {"json": call.body}

    def _request(self, method: str, url: str) -> dict[str, Any]:
        headers = {"Accept": "application/json", "User-Agent": f"steward-client/{VERSION}"}
        return {"method": method, "url": url, "headers": headers, **_FIXED}

    def __repr__(self) -> str:
        return f"({self._base_url!r}, organization={self._credentials.organization!r})"


class _Waiting:
    """Follows one run: which steps are new, how long until the next look, and when it is over."""

    def __init__(self, timeout: float, now: float, *, through_approval: bool) -> None:
        self._timeout, self._ends_at = timeout, now + timeout
        self._statuses = FINAL if through_approval else FINAL | {"waiting_approval"}
        self._pause = _FIRST_PAUSE
        self.last_seq = 0

    def new_steps(self, run: RunRecord) -> Iterator[StepRecord]:
        for step in run.steps or ():
            if step.seq > self.last_seq:
                self.last_seq = step.seq
                yield step

    def pause(self, run: RunRecord, now: float) -> float | None:
        """Returns the seconds until the next look; None when the run is over. Raises WaitTimeout."""
        if run.more_steps:
            return 0.0
        if run.status in self._statuses:
            return None
        if now >= self._ends_at:
            error = WaitTimeout(f"The run is {run.status} after {self._timeout:g} seconds.")
            error.run = run
            raise error
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, self._pause * 1.5)
        return min(pause, self._ends_at - now)


class _SyncTransport:
    def __init__(
        self, session: _Session, http: httpx.Client, clock: Callable[[], float], sleep: Callable[[float], Any]
    ) -> None:
        self.session, self.http, self.clock, self.sleep = session, http, clock, sleep
        self._lock = threading.Lock()

    def call(self, call: Call) -> Any:
        tries = Tries(call, self.clock())
        while True:
            token = self._token()
            outcome = self._send(self.session.request(call, token))
            if tries.needs_token(outcome):
                self.session.tokens.drop(token)
                continue
            seconds = tries.wait(outcome, self.clock())
            if seconds is None:
                return tries.result(outcome)
            self.sleep(seconds)

    def _token(self) -> str:
        tokens = self.session.tokens
        token, logins = tokens.current(self.clock()), tokens.logins
        if token is not None:
            return token
        with self._lock:
            token, now = tokens.after_waiting(logins, self.clock()), self.clock()
            return token or tokens.take(self._send(self.session.login()), now)

    def _send(self, request: dict[str, Any]) -> Outcome:
        try:
            return self.http.request(**request)
        except httpx.TransportError as error:
            return error


class _AwaitedTransport:
    def __init__(
        self,
        session: _Session,
        http: httpx.AsyncClient,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[Any]],
    ) -> None:
        self.session, self.http, self.clock, self.sleep = session, http, clock, sleep
        self._lock = asyncio.Lock()

    async def call(self, call: Call) -> Any:
        tries = Tries(call, self.clock())
        while True:
            token = await self._token()
            outcome = await self._send(self.session.request(call, token))
            if tries.needs_token(outcome):
                self.session.tokens.drop(token)
                continue
            seconds = tries.wait(outcome, self.clock())
            if seconds is None:
                return tries.result(outcome)
            await self.sleep(seconds)

    async def _token(self) -> str:
        tokens = self.session.tokens
        token, logins = tokens.current(self.clock()), tokens.logins
        if token is not None:
            return token
        async with self._lock:
            token, now = tokens.after_waiting(logins, self.clock()), self.clock()
            return token or tokens.take(await self._send(self.session.login()), now)

    async def _send(self, request: dict[str, Any]) -> Outcome:
        try:
            return await self.http.request(**request)
        except httpx.TransportError as error:
            return error


AnyClient = TypeVar("AnyClient", bound="_Client[Any]")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


class _Client(Generic[Http]):
    """What both clients share: their arguments, and reading them from the environment."""

    def __init__(
        self,
        base_url: str,
        *,
        client_id: str,
        client_secret: str,
        username: str,
        email: str,
        organization: str,
        auth_url: str | None = None,
        http: Http | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        credentials = Credentials(client_id, client_secret, username, email, organization)
        self._session = _Session(base_url, auth_url, credentials)
        self._owns_http = http is None
        self._connect(http, clock, sleep)

    def _connect(
        self, http: Http | None, clock: Callable[[], float], sleep: Callable[[float], Any] | None
    ) -> None:
        """Makes the transport and the groups of operations that call through it."""
        raise NotImplementedError

    @classmethod
    def from_env(cls: type[AnyClient], **more: Any) -> AnyClient:
        """Makes a client from `STEWARD_CLIENT_URL`, `STEWARD_CLIENT_ID` and the other variables."""
        return cls(**settings(os.environ), **more)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._session!r}"


class Steward(_Client[httpx.Client], o.Operations):
    """A client of one organization, acting as one person; it logs in at the first call.

    A given `http` client is used as it is, and is not closed. `auth_url` is the address of the login where
    it is another one. `clock` counts seconds and `sleep` waits; both are there for tests.
    """

    def _connect(
        self, http: httpx.Client | None, clock: Callable[[], float], sleep: Callable[[float], Any] | None
    ) -> None:
        self._transport = _SyncTransport(self._session, http or httpx.Client(), clock, sleep or time.sleep)
        o.Operations.__init__(self, self._transport)

    def wait_for(
        self,
        run: Id,
        *,
        timeout: float = 600.0,
        on_step: Callable[[StepRecord], Any] | None = None,
        through_approval: bool = False,
    ) -> RunRecord:
        """Waits until a run has ended or waits for approval, and returns it; `on_step` gets every step once.

        With `through_approval` a run that waits for approval is waited for. Raises WaitTimeout after
        `timeout` seconds.
        """
        clock = self._transport.clock
        waiting = _Waiting(timeout, clock(), through_approval=through_approval)
        while True:
            current = self.runs.get(run, after_seq=waiting.last_seq)
            for step in waiting.new_steps(current):
                if on_step is not None:
                    on_step(step)
            pause = waiting.pause(current, clock())
            if pause is None:
                return current
            self._transport.sleep(pause)

    def close(self) -> None:
        """Closes the connections that this client has opened."""
        if self._owns_http:
            self._transport.http.close()

    def __enter__(self) -> Steward:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncSteward(_Client[httpx.AsyncClient], o.AsyncOperations):
    """The same for programs on asyncio: names and arguments are those of `Steward`."""

    def _connect(
        self, http: httpx.AsyncClient | None, clock: Callable[[], float], sleep: Callable[[float], Any] | None
    ) -> None:
        transport = _AwaitedTransport(
            self._session, http or httpx.AsyncClient(), clock, sleep or asyncio.sleep
        )
        self._transport = transport
        o.AsyncOperations.__init__(self, transport)

    async def wait_for(
        self,
        run: Id,
        *,
        timeout: float = 600.0,
        on_step: Callable[[StepRecord], Any] | None = None,
        through_approval: bool = False,
    ) -> RunRecord:
        """Waits for a run, as `Steward.wait_for` does."""
        clock = self._transport.clock
        waiting = _Waiting(timeout, clock(), through_approval=through_approval)
        while True:
            current = await self.runs.get(run, after_seq=waiting.last_seq)
            for step in waiting.new_steps(current):
                if on_step is not None:
                    on_step(step)
            pause = waiting.pause(current, clock())
            if pause is None:
                return current
            await self._transport.sleep(pause)

    async def close(self) -> None:
        """Closes the connections that this client has opened."""
        if self._owns_http:
            await self._transport.http.aclose()

    async def __aenter__(self) -> AsyncSteward:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
