"""Calls of imported workflows to addresses without a connection: reads, and granted sends (imports 6.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urljoin, urlsplit, urlunsplit

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.address import origin_of
from steward.outbound.answer import Answer
from steward.outbound.errors import (
    CallError,
    NotSent,
    OutcomeUnknown,
    Refused,
    Throttled,
    Unavailable,
    WrongAddress,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.link import Link, PaceRule, Timeouts
from steward.outbound.wire import Ask, Failed, Line, StillWanted, Wire, throttled

# Stands for "no connection" where a kept connection's number does.
NO_CONNECTION = IntegrationId(0)
KIND = "web_request"
_PACE = PaceRule(at_once=4)
_TIMES = Timeouts()
_REDIRECTS = 3
_MOVED = frozenset({301, 302, 303, 307, 308})
_AGAIN = frozenset({429, 500, 502, 503, 504})
_WAITS = (1.0, 4.0)
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _line(wire: Wire, org: OrgId, url: str) -> Line:
    """The line to an address's host. Raises Refused for an address that may not be called."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise Refused("an address holds no name and password")
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    pace_key = f"web {org} {parts.netloc}"
    link = Link(KIND, base, None, _TIMES, _PACE, pace_key, public_only=True)
    return wire.line(org, NO_CONNECTION, link)


def _followed(url: str, target: str) -> str:
    """Where a redirect leads: only to the same scheme, host and port (connectors 5.3)."""
    try:
        following = urljoin(url, target)
        if origin_of(following, ()) == origin_of(url, ()):
            return following
    except (Refused, ValueError):
        pass
    raise WrongAddress("The address leads to another host. Write the address it leads to into the step.")


class WebReads:
    """Reads of one organisation's runs; nothing but GET, HEAD and questions in GraphQL."""

    def __init__(self, wire: Wire, org: OrgId, *, still_wanted: StillWanted | None = None) -> None:
        self._still_wanted = still_wanted
        self._wire = wire
        self._org = org

    async def read(self, method: str, url: str, headers: Mapping[str, str]) -> Answer:
        """The answer whatever its status; redirects of its own host are followed. Raises CallError."""
        if method not in ("GET", "HEAD"):
            raise Refused("a read is a GET or HEAD")
        for _ in range(_REDIRECTS + 1):
            answer = await self._tried(url, Ask(method, url, "read", headers=headers, total_s=_TIMES.read_s))
            target = answer.headers.get("location")
            if answer.status not in _MOVED or target is None:
                return answer
            url = _followed(url, target)
        raise WrongAddress("The address leads on and on. Check it.")

    async def question(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """A GraphQL query, which the caller has seen to change nothing. Raises CallError."""
        return await self._tried(
            url, Ask("POST", url, "query", content=body, headers=headers, total_s=_TIMES.read_s)
        )

    async def _tried(self, url: str, ask: Ask) -> Answer:
        line = _line(self._wire, self._org, url)
        error: CallError = Unavailable("The address did not answer.")
        for attempt in range(1, len(_WAITS) + 2):
            try:
                asked = replace(ask, tries=attempt, still_wanted=self._still_wanted)
                answer = await self._wire.send(line, asked)
            except Failed as failure:
                error = failure.cause
                if not isinstance(error, Unavailable):
                    raise error from None
            else:
                if answer.status not in _AGAIN or attempt > len(_WAITS):
                    return answer
                error = throttled(answer, self._wire.clock)
                if isinstance(error, Throttled) and error.wait_s > 60:
                    return answer
            if attempt <= len(_WAITS):
                await self._wire.clock.sleep(_WAITS[attempt - 1])
        raise error


class WebSends:
    """The one request of an effect whose intent is kept, sent at most once."""

    def __init__(self, wire: Wire, grant: WriteGrant) -> None:
        self._wire = wire
        self._grant = grant
        self._used: set[str] = set()

    async def send(
        self,
        method: str,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        effect_keys: Sequence[str],
        key: str,
    ) -> Answer:
        """The answer, also a refusing one; no redirect is followed. Raises NotSent, OutcomeUnknown."""
        try:
            self._grant.check(effect_keys, key, connection=NO_CONNECTION)
            now = self._wire.clock.now()
            self._grant.check_time(now)
            if self._used & set(effect_keys):
                raise Refused("an attempt is sent once")
            if method not in _WRITES:
                raise Refused("a send is a POST, PUT, PATCH or DELETE")
            line = _line(self._wire, self._grant.org, url)
        except Refused as refusal:
            raise NotSent(refusal) from None
        self._used |= set(effect_keys)
        ask = Ask(
            method,
            url,
            "http.send",
            content=body,
            headers={**headers, "idempotency-key": key},
            total_s=_TIMES.write_s,
            patience_s=max((self._grant.send_by - now).total_seconds(), 0.0),
            write=True,
            still_allowed=self._grant.check_time,
        )
        try:
            answer = await self._wire.send(line, ask)
        except Failed as failure:
            raise (NotSent if failure.not_sent else OutcomeUnknown)(failure.cause) from None
        if answer.status == 429:
            raise NotSent(throttled(answer, self._wire.clock))
        return answer
