"""The three clients a connector may be given, told apart by type: reads, granted writes, upkeep."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode, urljoin

import msgspec

from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonValue
from steward.outbound.address import origin_of
from steward.outbound.answer import Answer
from steward.outbound.errors import (
    CallError,
    NotSent,
    OutcomeUnknown,
    Refused,
    Unavailable,
    WrongAddress,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.link import AddressSecret, Link
from steward.outbound.wire import Ask, Failed, Line, Wire, throttled

_AGAIN = frozenset({429, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})
_WAITS = (1.0, 4.0)
_LONGEST_WAIT = 60.0
_REDIRECTS = 3
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Outbound:
    """Hands out clients; made once by app.py. `jitter` gives numbers from 0 up to 1."""

    def __init__(self, wire: Wire, *, jitter: Callable[[], float] = random.random) -> None:
        self._wire = wire
        self._jitter = jitter

    def reading(self, org: OrgId, integration_id: IntegrationId, link: Link) -> "ReadHttp":
        """A client that emits reads alone. Raises Refused on the connection's address."""
        return ReadHttp(self._wire, self._wire.line(org, integration_id, link), self._jitter)

    def writing(self, grant: WriteGrant, integration_id: IntegrationId, link: Link) -> "WriteHttp":
        """A client for the effects of `grant`. Raises Refused on the connection's address."""
        return WriteHttp(self._wire, self._wire.line(grant.org, integration_id, link), grant)

    def upkeep(self, org: OrgId, integration_id: IntegrationId | None, link: Link) -> "UpkeepHttp":
        """A client for checks and subscriptions; never given to a run. Raises Refused on the address."""
        return UpkeepHttp(self._wire, self._wire.line(org, integration_id, link), self._jitter)

    async def aclose(self) -> None:
        """Closes every socket."""
        await self._wire.aclose()


class ReadHttp:
    """GET and HEAD to one connection, repeated when that is safe (connectors 3, 5.5)."""

    def __init__(self, wire: Wire, line: Line, jitter: Callable[[], float]) -> None:
        self._wire = wire
        self._line = line
        self._jitter = jitter

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "read"
    ) -> Answer:
        """The answer whatever its status, but never a redirect or 429. Raises CallError.

        Up to 3 tries on connect failure, timeout, 429, 502, 503 and 504; a named wait over 60 s is not
        waited for.
        """
        return await self._read("GET", path, params, operation)

    async def head(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "read"
    ) -> Answer:
        """As `get`, without a body."""
        return await self._read("HEAD", path, params, operation)

    async def _read(self, method: str, path: str, params: Mapping[str, str] | None, operation: str) -> Answer:
        url = _url(self._line, path, params)
        for hop in range(_REDIRECTS + 1):
            answer = await self._tried(method, url, operation)
            if answer.status not in _MOVED:
                return answer
            target = answer.headers.get("location")
            if target is None or isinstance(self._line.link.proof, AddressSecret) or hop == _REDIRECTS:
                break
            url = self._followed(url, target)
        raise WrongAddress("The address leads elsewhere. Check the address of the account.")

    def _followed(self, url: str, target: str) -> str:
        """Only to the same scheme, host and port (connectors 5.3)."""
        try:
            following = urljoin(url, target)
            same = origin_of(following, self._wire.private) == self._line.origin
        except (Refused, ValueError):
            same = False
        if not same:
            raise WrongAddress("The address leads to another host. Check the address of the account.")
        return following

    async def _tried(self, method: str, url: str, operation: str) -> Answer:
        link = self._line.link
        for attempt in range(1, len(_WAITS) + 2):
            ask = Ask(method, url, operation, proof=link.proof, total_s=link.timeouts.read_s, tries=attempt)
            error: CallError | None = None
            answer: Answer | None = None
            named: float | None = None
            try:
                answer = await self._wire.send(self._line, ask)
            except Failed as failure:
                error = failure.cause
                if not isinstance(error, Unavailable):
                    raise error from None
            else:
                if answer.status not in _AGAIN:
                    return answer
                limit = throttled(answer, self._wire.clock)
                named = limit.wait_s if "retry-after" in answer.headers else None
                error = limit if answer.status == 429 else None
            if attempt > len(_WAITS) or (named is not None and named > _LONGEST_WAIT):
                break
            own = _WAITS[attempt - 1] * (0.7 + 0.6 * self._jitter())
            await self._wire.clock.sleep(own if named is None else named)
        if error is not None:
            raise error
        assert answer is not None
        return answer


class WriteHttp:
    """The one request of a batch, sent at most once, for effects whose intent is kept (connectors 3)."""

    def __init__(self, wire: Wire, line: Line, grant: WriteGrant) -> None:
        self._wire = wire
        self._line = line
        self._grant = grant
        self._used: set[str] = set()

    async def send(
        self,
        method: str,
        path: str,
        body: JsonValue,
        *,
        params: Mapping[str, str] | None = None,
        effect_keys: Sequence[str],
        key: str,
        operation: str = "write",
    ) -> Answer:
        """The answer of the platform, also a refusing one. Never repeated; no redirect is followed.

        Raises NotSent when not one byte left or the platform did nothing (429), OutcomeUnknown otherwise.
        """
        if self._line.integration_id is None:
            raise NotSent(Refused("a write goes to a kept connection"))
        try:
            self._grant.check(effect_keys, key, connection=self._line.integration_id)
            if self._used & set(effect_keys):
                raise Refused("an attempt is sent once")
            if method not in _WRITES:
                raise Refused("a write is a POST, PUT, PATCH or DELETE")
            ask = self._ask(method, path, body, params, key, operation)
        except Refused as refusal:
            raise NotSent(refusal) from None
        self._used |= set(effect_keys)
        try:
            answer = await self._wire.send(self._line, ask)
        except Failed as failure:
            raise (NotSent if failure.not_sent else OutcomeUnknown)(failure.cause) from None
        if answer.status == 429:
            raise NotSent(throttled(answer, self._wire.clock))
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: JsonValue,
        params: Mapping[str, str] | None,
        key: str,
        operation: str,
    ) -> Ask:
        now = self._wire.clock.now()
        self._grant.check_time(now)
        return Ask(
            method,
            _url(self._line, path, params),
            operation,
            content=msgspec.json.encode(body),
            headers={"content-type": "application/json", "idempotency-key": key},
            proof=self._line.link.proof,
            total_s=self._line.link.timeouts.write_s,
            patience_s=max((self._grant.send_by - now).total_seconds(), 0.0),
            write=True,
            still_allowed=self._grant.check_time,
        )


class UpkeepHttp:
    """Checks, sign-in and subscriptions: reads as ReadHttp, and calls that are sent once."""

    def __init__(self, wire: Wire, line: Line, jitter: Callable[[], float]) -> None:
        self._wire = wire
        self._line = line
        self._reads = ReadHttp(wire, line, jitter)
        self._bare = ReadHttp(wire, replace(line, link=replace(line.link, proof=None)), jitter)

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "check"
    ) -> Answer:
        """As ReadHttp.get."""
        return await self._reads.get(path, params, operation=operation)

    async def get_bare(self, path: str, *, operation: str = "check") -> Answer:
        """As `get`, without the connection's secret."""
        return await self._bare.get(path, operation=operation)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonValue,
        *,
        params: Mapping[str, str] | None = None,
        key: str | None = None,
        operation: str = "check",
    ) -> Answer:
        """One call, never repeated; `key` goes as `Idempotency-Key`. Raises CallError."""
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        link = self._line.link
        ask = Ask(
            method,
            _url(self._line, path, params),
            operation,
            content=b"" if body is None else msgspec.json.encode(body),
            headers=headers,
            proof=link.proof,
            total_s=link.timeouts.read_s,
        )
        try:
            answer = await self._wire.send(self._line, ask)
        except Failed as failure:
            raise failure.cause from None
        if answer.status == 429:
            raise throttled(answer, self._wire.clock)
        if answer.status in _MOVED:
            raise WrongAddress
        return answer


def _url(line: Line, path: str, params: Mapping[str, str] | None) -> str:
    """The address of a call. With an address that is the secret itself there is no path to choose.

    Raises Refused for a path that would leave the connection's own.
    """
    proof = line.link.proof
    if isinstance(proof, AddressSecret):
        if path or params:
            raise Refused("the address of the connection is called as it is")
        return proof.url.reveal()
    if not path.startswith("/") or any(mark in path for mark in ("?", "#", "\\", "//")):
        raise Refused("a path is relative to the connection's address")
    if any(segment in (".", "..") for segment in path.split("/")):
        raise Refused("a path stays under the connection's address")
    query = f"?{urlencode(params)}" if params else ""
    return f"{line.link.base.rstrip('/')}{path}{query}"
