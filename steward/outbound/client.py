"""The three clients a connector may be given, told apart by type: reads, granted writes, upkeep."""

import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonValue
from steward.outbound.address import origin_of
from steward.outbound.answer import ANSWER_BYTES, Answer, Decoded
from steward.outbound.documents import Document
from steward.outbound.errors import (
    AnsweredByOther,
    BadCertificate,
    Broken,
    CallError,
    NotSent,
    OutcomeUnknown,
    Refused,
    Throttled,
    TimedOut,
    Unavailable,
    WrongAddress,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.link import AddressSecret, Exchanged, Link
from steward.outbound.points import is_throttled, told_by, wait_of
from steward.outbound.turns import Urgency
from steward.outbound.web import WebReads, WebSends
from steward.outbound.wire import Ask, Failed, Line, StillWanted, Wire, throttled
from steward.telemetry.redact import Secret

_AGAIN = frozenset({429, 500, 502, 503, 504})
# A proxy in front gave up waiting for the account: 504, and 524 of a CDN.
_GATEWAY_TIMEOUTS = frozenset({504, 524})
_MOVED = frozenset({301, 302, 303, 307, 308})
_WAITS = (1.0, 4.0)
_LONGEST_WAIT = 60.0
_REDIRECTS = 3
# A large result may take as long as a run's other reads together.
RESULT_S = 600.0
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Outbound:
    """Hands out clients; made once by app.py. `jitter` gives numbers from 0 up to 1."""

    def __init__(self, wire: Wire, *, jitter: Callable[[], float] = random.random) -> None:
        self._wire = wire
        self._jitter = jitter

    def reading(
        self,
        org: OrgId,
        integration_id: IntegrationId,
        link: Link,
        *,
        urgency: Urgency = Urgency.READ,
        still_wanted: StillWanted | None = None,
    ) -> "ReadHttp":
        """A client that emits reads alone; it takes turns with the other clients of the same urgency.

        `still_wanted` is awaited before each request and may raise to end the reading. Raises Refused on the
        connection's address.
        """
        line = self._wire.line(org, integration_id, link)
        return ReadHttp(self._wire, line, self._jitter, urgency=urgency, still_wanted=still_wanted)

    def writing(self, grant: WriteGrant, integration_id: IntegrationId, link: Link) -> "WriteHttp":
        """A client for the effects of `grant`. Raises Refused on the connection's address."""
        return WriteHttp(self._wire, self._wire.line(grant.org, integration_id, link), grant)

    def upkeep(self, org: OrgId, integration_id: IntegrationId | None, link: Link) -> "UpkeepHttp":
        """A client for checks and subscriptions; never given to a run. Raises Refused on the address."""
        return UpkeepHttp(self._wire, self._wire.line(org, integration_id, link), self._jitter)

    def web_reads(self, org: OrgId, *, still_wanted: StillWanted | None = None) -> WebReads:
        """Reads of addresses that no connection stands for; `still_wanted` as in `reading`."""
        return WebReads(self._wire, org, still_wanted=still_wanted)

    def web_sends(self, grant: WriteGrant) -> WebSends:
        """Sends to such addresses, for the effects of `grant`."""
        return WebSends(self._wire, grant)

    async def aclose(self) -> None:
        """Closes every socket."""
        await self._wire.aclose()


class ReadHttp:
    """GET and HEAD to one connection, repeated when that is safe (connectors 3, 5.5)."""

    def __init__(
        self,
        wire: Wire,
        line: Line,
        jitter: Callable[[], float],
        *,
        urgency: Urgency,
        still_wanted: StillWanted | None = None,
    ) -> None:
        self._still_wanted = still_wanted
        self._wire = wire
        self._line = line
        self._jitter = jitter
        self._urgency = urgency

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        operation: str = "read",
        headers: Mapping[str, str] | None = None,
        most_bytes: int = ANSWER_BYTES,
        total_s: float | None = None,
        retry_timeouts: bool = True,
    ) -> Answer:
        """The answer whatever its status, but never a redirect or 429. Raises CallError.

        Up to 3 tries on connect failure, timeout, 429, 500, 502, 503 and 504; a named wait over 60 s is not
        waited for. `most_bytes` and `total_s` are for files, which may be larger and take longer. Without
        `retry_timeouts` the first timeout, the account's or a proxy's, raises TimedOut: the caller then
        asks for less.
        """
        ask = Ask(
            "GET", _url(self._line, path, params), operation, headers=headers, most_bytes=most_bytes,
            total_s=total_s or self._line.link.timeouts.read_s, proof=self._line.link.proof,
            retry_timeouts=retry_timeouts,
        )  # fmt: skip
        return await self._read(ask)

    async def head(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "read"
    ) -> Answer:
        """As `get`, without a body."""
        link, url = self._line.link, _url(self._line, path, params)
        return await self._read(Ask("HEAD", url, operation, proof=link.proof, total_s=link.timeouts.read_s))

    async def ask(self, name: str, variables: Mapping[str, JsonValue]) -> Answer:
        """The answer to the document of that name, whatever its status, but never one that was throttled.

        Nothing that can change a store is sent: raises Refused for such a document, KeyError for an unknown
        name. Repeated as `get`; with a new token once when an exchanged one is not taken. Raises CallError.
        """
        documents = self._line.link.documents
        if documents is None:
            raise Refused("this account is not asked by documents")
        document = documents.all[name]
        if not documents.only_reads(document):
            raise Refused("a read changes nothing")
        return await self._told(document, variables)

    async def ask_made(self, recipe: object, variables: Mapping[str, JsonValue]) -> Answer:
        """As `ask`, with the query the platform's own compiler makes of a recipe; never with a text.

        Raises Refused for a recipe that makes none, CallError.
        """
        documents = self._line.link.documents
        if documents is None:
            raise Refused("this account is not asked by documents")
        try:
            document = documents.made_of(recipe)
        except ValueError as error:
            raise Refused("only fields that are there are asked for", str(error)) from None
        return await self._told(document, variables)

    async def _told(self, document: Document, variables: Mapping[str, JsonValue]) -> Answer:
        ask = _asked(self._line, document, variables)
        answer = await self._tried(ask)
        if answer.status == 401 and isinstance(self._line.link.proof, Exchanged):
            return await self._tried(ask)
        return answer

    async def lines(self, url: str, *, operation: str = "result") -> AsyncIterator[bytes]:
        """The lines of a large result that the platform left at an address of its own, as they come.

        Fetched without any secret, from hosts of the link's list alone. Raises CallError.
        """
        host, link = urlsplit(url).hostname or "", self._line.link
        if host != link.host and not any(
            host == each or host.endswith("." + each) for each in link.result_hosts
        ):
            raise Refused("a result is fetched from the platform's own hosts")
        bare = self._wire.line(self._line.org, self._line.integration_id, replace(link, base=url, proof=None))
        ask = Ask("GET", url, operation, total_s=RESULT_S)
        try:
            async for line in self._wire.lines(bare, ask):
                yield line
        except Failed as failure:
            raise failure.cause from None

    async def pause(self, seconds: float) -> None:
        """Waits before asking again how far the platform is."""
        await self._wire.clock.sleep(seconds)

    async def _read(self, ask: Ask) -> Answer:
        for hop in range(_REDIRECTS + 1):
            answer = await self._tried(ask)
            if answer.status not in _MOVED:
                return answer
            target = answer.headers.get("location")
            if target is None or isinstance(self._line.link.proof, AddressSecret) or hop == _REDIRECTS:
                break
            ask = replace(ask, url=self._followed(ask.url, target))
        raise AnsweredByOther("The address leads elsewhere. Check the address of the account.")

    def _followed(self, url: str, target: str) -> str:
        """Only to the same scheme, host and port (connectors 5.3)."""
        try:
            following = urljoin(url, target)
            same = origin_of(following, self._wire.private) == self._line.origin
        except (Refused, ValueError):
            same = False
        if not same:
            raise AnsweredByOther("The address leads to another host. Check the address of the account.")
        return following

    async def _tried(self, asked: Ask) -> Answer:
        for attempt in range(1, len(_WAITS) + 2):
            error: CallError | None = None
            answer: Answer | None = None
            named: float | None = None
            try:
                ask = replace(
                    asked,
                    tries=attempt,
                    urgency=self._urgency,
                    share=id(self),
                    still_wanted=self._still_wanted,
                )
                answer = await self._wire.send(self._line, ask)
            except Failed as failure:
                error = failure.cause
                ends = isinstance(error, TimedOut) and not asked.retry_timeouts
                if ends or isinstance(error, BadCertificate) or not isinstance(error, Unavailable):
                    raise error from None
            else:
                if answer.status in _GATEWAY_TIMEOUTS and not asked.retry_timeouts:
                    raise TimedOut
                error = self._throttled(asked, answer)
                if error is None and answer.status not in _AGAIN:
                    return answer
                named = self._named(asked, answer, error)
            if attempt > len(_WAITS) or (named is not None and named > _LONGEST_WAIT):
                break
            own = _WAITS[attempt - 1] * (0.7 + 0.6 * self._jitter())
            await self._wire.clock.sleep(own if named is None else named)
        if error is not None:
            raise error
        assert answer is not None
        return answer

    def _named(self, asked: Ask, answer: Answer, error: CallError | None) -> float | None:
        """The wait the platform names, by header or by points; null when it names none."""
        if "retry-after" in answer.headers:
            return throttled(answer, self._wire.clock).wait_s
        return error.wait_s if asked.points and isinstance(error, Throttled) else None

    def _throttled(self, asked: Ask, answer: Answer) -> Throttled | None:
        """A pause the platform asks for, by status or, of documents, in the body (connectors 4)."""
        if asked.points and answer.status in (200, 429):
            body = _body(answer)
            if is_throttled(body):
                return Throttled(wait_of(told_by(body), jitter=self._jitter()))
        return throttled(answer, self._wire.clock) if answer.status == 429 else None


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
        points: float = 0.0,
    ) -> Answer:
        """The answer of the platform, also a refusing one. Never repeated; no redirect is followed.

        `points`: what the call costs at most, where calls are counted so.

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
            ask = replace(self._ask(method, path, body, params, key, operation), points=points)
        except Refused as refusal:
            raise NotSent(refusal) from None
        self._used |= set(effect_keys)
        try:
            answer = await self._wire.send(self._line, ask)
        except Failed as failure:
            raise (NotSent if failure.not_sent else OutcomeUnknown)(failure.cause) from None
        if answer.status == 429:
            raise NotSent(throttled(answer, self._wire.clock))
        if points and is_throttled(told := _body(answer)):
            raise NotSent(Throttled(wait_of(told_by(told), jitter=0.5)))
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
        self._reads = ReadHttp(wire, line, jitter, urgency=Urgency.UPKEEP)
        bare = replace(line, link=replace(line.link, proof=None))
        self._bare = ReadHttp(wire, bare, jitter, urgency=Urgency.UPKEEP)

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "check"
    ) -> Answer:
        """As ReadHttp.get."""
        return await self._reads.get(path, params, operation=operation)

    async def ask(self, name: str, variables: Mapping[str, JsonValue]) -> Answer:
        """As ReadHttp.ask; a document that changes something of ours at the platform is sent once."""
        documents = self._line.link.documents
        if documents is None or documents.only_reads(documents.all[name]):
            return await self._reads.ask(name, variables)
        ask = _asked(self._line, documents.all[name], variables)
        keyed = {**(ask.headers or {}), "idempotency-key": str(uuid.uuid4())}
        return await self._once(replace(ask, headers=keyed))

    async def get_bare(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "check"
    ) -> Answer:
        """As `get`, without the connection's secret."""
        return await self._bare.get(path, params, operation=operation)

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
        return await self._once(ask)

    async def _once(self, ask: Ask) -> Answer:
        try:
            answer = await self._wire.send(self._line, replace(ask, urgency=Urgency.UPKEEP))
        except Failed as failure:
            raise failure.cause from None
        if answer.status == 429:
            raise throttled(answer, self._wire.clock)
        if ask.points and is_throttled(told := _body(answer)):
            raise Throttled(wait_of(told_by(told), jitter=0.5))
        if answer.status in _MOVED:
            raise WrongAddress
        return answer

    async def post_form(self, form: Mapping[str, str], *, secret: tuple[str, Secret]) -> Answer:
        """A form to the connection's own address, sent once; `secret` is its one field that is one.

        Raises CallError.
        """
        name, value = secret
        self._wire.register.add(value.reveal())
        content = urlencode({**form, name: value.reveal()}).encode("ascii")
        kind = {"content-type": "application/x-www-form-urlencoded"}
        link = self._line.link
        ask = Ask("POST", link.base, "sign-in", content=content, headers=kind, total_s=link.timeouts.read_s)
        try:
            return await self._wire.send(self._line, replace(ask, urgency=Urgency.UPKEEP))
        except Failed as failure:
            raise failure.cause from None


def _asked(line: Line, document: Document, variables: Mapping[str, JsonValue]) -> Ask:
    """The request that sends a document with its values."""
    link = line.link
    assert link.documents is not None
    return Ask(
        "POST",
        _url(line, link.documents.path, None),
        document.name,
        content=msgspec.json.encode({"query": document.text, "variables": variables}),
        headers={"content-type": "application/json"},
        proof=link.proof,
        total_s=link.timeouts.read_s,
        points=document.points,
    )


def _body(answer: Answer) -> Decoded:
    try:
        return answer.json()
    except Broken:
        return None


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
