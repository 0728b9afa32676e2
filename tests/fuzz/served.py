"""The populated service on a loop of its own, so that examples made one by one can call it."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from threading import Thread
from typing import Any, TypeVar

import httpx

from steward.accounts import people
from steward.api import openapi
from steward.api.http.operation import Operation
from steward.api.operations import OPERATIONS
from steward.database.engine.base import Dialect, Engine, Tx
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import SqliteEngine
from steward.model.account import TOKEN_SCOPES, Role
from tests.authz.two_organizations import TwoOrganizations, make_two
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.service import BASE_URL

T = TypeVar("T")
# The document describes what is under /v1; the web app's own operations are described as if they were.
V1 = "/v1"


def described() -> dict[str, Any]:
    """Every operation as OpenAPI, those of the web app under a prefix that `actual` takes off.

    Who may call is left out: tests/authz asks that.
    """
    rows = [row if row.path.startswith("/v1/") else replace(row, path=V1 + row.path) for row in OPERATIONS]
    document = openapi.document(rows, BASE_URL, version="0", under=("/v1/",))
    for path in document["paths"].values():
        for operation in path.values():
            del operation["security"]
    return document


def row_of(method: str, path: str) -> Operation:
    """The row of a described operation."""
    real = actual(path)
    return next(row for row in OPERATIONS if (row.method, row.path) == (method.upper(), real))


def actual(path: str) -> str:
    """The path as served."""
    return path.removeprefix(V1) if path.startswith(f"{V1}/app") else path


class ServedService:
    """A populated service that is called from outside its loop."""

    def __init__(self, database_url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="served", daemon=True)
        self._thread.start()
        self.clock = FakeClock()
        self._engine = self.wait(self._open(database_url))
        self.two: TwoOrganizations = self.wait(make_two(self._engine, self.clock))
        self._callers: dict[str, Caller] = {}

    @property
    def dialect(self) -> Dialect:
        """The engine behind the service."""
        return self._engine.dialect

    async def _open(self, database_url: str) -> Engine:
        if is_sqlite(database_url):
            return SqliteEngine(sqlite_path(database_url), clock=self.clock)
        return await PostgresEngine.open(database_url, size=2, clock=self.clock, test=True)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine gives."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call(self, row: Operation, url: str, sent: Mapping[str, Any]) -> httpx.Response:
        """Makes the owner's call by token where allowed, else as the web app; signs in again when needed."""
        return self.wait(self._call(row, url, sent))

    async def _call(self, row: Operation, url: str, sent: Mapping[str, Any]) -> httpx.Response:
        service = self.two.service
        kind = "token" if row.scope in TOKEN_SCOPES else "web"
        if kind not in self._callers:
            fresh_caller = service.token("owner") if kind == "token" else service.web("owner")
            self._callers[kind] = await fresh_caller
        caller = self._callers[kind]
        headers = {**sent.get("headers", {}), **caller.headers}
        if caller.csrf is not None:
            headers["X-CSRF-Token"] = caller.csrf
        calling = caller.client.request(row.method, url, **{**sent, "headers": headers})
        response = await self.clock.through(calling)  # what waits for its turn at an account has it
        if "set-cookie" in response.headers:
            del self._callers[kind]
        if response.status_code == 403:
            await self._restore()
        return response

    async def _restore(self) -> None:
        """The owner is one again: owners may make others owners, and then be made less by themselves."""
        owner = self.two.service.members["owner"]

        async def act(tx: Tx) -> None:
            await people.add_to_organization(tx, owner.person, owner.org, Role.OWNER)

        await self.two.service.write(act)

    def close(self) -> None:
        """Ends the service and its loop."""
        self.wait(self.two.service.close())
        self.wait(self._engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
