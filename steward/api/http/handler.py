"""The ASGI application of the API: authenticates, validates and runs the endpoint of each request."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from steward.accounts.rate_limits import CallCounters
from steward.accounts.sessions import cookie_name, touch
from steward.api.http import authentication, envelope, validation
from steward.api.http.authentication import AuthenticatedCaller, RouteMatch
from steward.api.http.body import ClientDisconnected, read_json
from steward.api.http.context import AppContext
from steward.api.http.operation import (
    Access,
    ApiCall,
    Operation,
    PreparedIsStale,
    RawOperation,
    RawRequest,
    Reply,
)
from steward.api.http.request import ApiRequest, Message, Receive
from steward.api.http.router import PathMatch, Routes, named
from steward.database.accounts import presence
from steward.database.engine.base import Tx, WeightedAct
from steward.model.account import Session
from steward.model.refusals import (
    Forbidden,
    MethodNotAllowed,
    NotFound,
    Refusal,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from steward.security.tokens import TokenClaims
from steward.telemetry.traces import Span, SpanId, SpanKind, current_trace, link_of, new_span

T = TypeVar("T")
Send = Callable[[Message], Awaitable[None]]
Pages = Callable[[RawRequest], Awaitable[Reply | None]]

PREFIX = "/v1/automations"
CHANGING = frozenset({"POST", "PATCH", "DELETE", "PUT"})
# How long a response waits until its session's idle time is extended; the next call tries again.
_TOUCH_SECONDS = 2.0


class RequestHandler:
    """The ASGI application of the API.

    Refuses a request in a fixed order (`docs/design/api/conventions.md`): routing, authentication, scope or
    role, CSRF, rate limits, body, path values, fields. `pages` serves the web app's pages and files.
    """

    def __init__(
        self,
        context: AppContext,
        operations: Sequence[Operation],
        raw_operations: Sequence[RawOperation],
        *,
        pages: Pages | None = None,
    ) -> None:
        self._context = context
        # By status and operation, for the operator's metrics.
        self.response_counts: Counter[tuple[int, str]] = Counter()
        self._routes = Routes(operations)
        self._raw_routes = Routes(raw_operations)
        self._pages = pages
        self._windows = CallCounters() if context.engine.dialect == "sqlite" else None
        self._cookie_name = cookie_name(context.rules.web_origin)
        self._web_origin = context.rules.web_origin.encode("ascii")
        self._is_same_origin = context.rules.web_origin == context.rules.base_url
        self._is_embedded = context.engine.dialect == "sqlite"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handles one request; every failure gets a response in the envelope."""
        if scope["type"] != "http":
            raise LookupError(f"cannot serve {scope['type']}")
        request = ApiRequest(scope, receive, self._context)
        span_id = new_span() if self._context.traces.is_on else None
        current_trace.set(None if span_id is None else span_id.trace)
        began_at = self._context.clock.now() if span_id is not None else None
        try:
            reply = await self._respond(request)
        except Refusal as refusal:
            reply = self._refused(request, refusal)
        except ClientDisconnected:
            return
        except TimeoutError:
            # The rest of a body that arrives too slowly is not read.
            request.large_body = None
            late = envelope.refuse(Unavailable(retry_after=1))
            reply = replace(late, headers=(*late.headers, (b"connection", b"close")))
        except MemoryError as error:
            self._context.log.error("out_of_memory", error, request=request.id, operation=request.operation)
            reply = envelope.refuse(Unavailable(retry_after=5))
        except Exception as error:  # a defect; the client gets 500 instead of a closed connection
            self._context.log.error("request_failed", error, request=request.id, operation=request.operation)
            reply = envelope.defect(request.id)
        await self._send(request, reply, send)
        if began_at is not None and span_id is not None and request.operation:
            self._trace(request, reply, began_at, span_id)

    def _trace(self, request: ApiRequest, reply: Reply, began_at: datetime, span_id: SpanId) -> None:
        """Adds the request's span. The caller's `traceparent` is only linked, so it cannot choose our ids."""
        traces = self._context.traces
        if not traces.is_sampled(span_id.trace):
            return
        caller = None if request.call is None else request.call.caller
        attributes: dict[str, str | int] = {
            "steward.operation": request.operation,
            "http.response.status_code": reply.status,
            "steward.caller": "none" if caller is None else str(caller.via),
        }
        link = link_of(request.headers.get(b"traceparent", b""))
        ended_at, is_error = self._context.clock.now(), reply.status >= 500
        traces.add(
            Span(
                "request",
                span_id,
                began_at,
                ended_at,
                attributes,
                None,
                link,
                SpanKind.SERVER,
                is_error=is_error,
            )
        )

    async def _send(self, request: ApiRequest, reply: Reply, send: Send) -> None:
        self.response_counts[reply.status, request.operation] += 1
        if request.large_body is not None:
            await request.large_body.discard_rest()
        if not (reply.headers or reply.has_own_headers or b"origin" in request.headers):
            head = envelope.head(len(reply.body), request.id)
            if request.write_whole is not None and request.write_whole(reply.status, head, reply.body):
                return
        headers = [
            *(envelope.FIXED_HEADERS if not reply.has_own_headers else ()),
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-request-id", request.id.encode("ascii")),
            *reply.headers,
        ]
        if not self._is_same_origin and request.headers.get(b"origin") == self._web_origin:
            headers += [
                (b"access-control-allow-origin", self._web_origin),
                (b"access-control-allow-credentials", b"true"),
                (b"access-control-expose-headers", b"X-Request-Id, Retry-After, Idempotent-Replayed"),
                (b"vary", b"Origin"),
            ]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    def _refused(self, request: ApiRequest, refusal: Refusal) -> Reply:
        data = refusal.data
        if data is not None and request.call is not None and request.call.operation.current is not None:
            data = request.call.operation.current(request.call, data)
        return envelope.refuse(refusal, data)

    async def _respond(self, request: ApiRequest) -> Reply:
        if request.is_overlong is not None:
            return envelope.too_large(request.is_overlong)
        if request.method == "OPTIONS" and b"access-control-request-method" in request.headers:
            return self._preflight(request)
        # No raw operation has a path of the API, where nearly all calls go.
        raw = None if request.path.startswith(PREFIX) else self._raw_routes.find(request.path)
        if raw is not None:
            return await self._respond_raw(request, raw)
        token = authentication.bearer(request.headers, several=request.has_several_authorizations)
        cookie = authentication.cookie(request.headers, self._cookie_name)
        match = self._match(request, cookie, by_token=token is not None)
        if match.operation is not None:
            request.operation = match.operation.name
        if token is None:
            return await self._respond_without_token(request, match, cookie)
        if cookie is not None:
            raise Unauthenticated(token_sent=True)
        claims = await authentication.verify(self._context, token)
        return await self._authenticate_and_run(request, match, claims=claims)

    async def _respond_raw(self, request: ApiRequest, path: PathMatch[RawOperation]) -> Reply:
        operation = path.methods.get(request.method)
        if operation is None:
            page = await self._pages(request.raw_request(())) if self._pages is not None else None
            if page is not None and page.status == 200 and request.method in ("GET", "HEAD"):
                return page
            raise MethodNotAllowed(sorted(path.methods))
        return await operation.function(request.raw_request(path.values), self._context)

    async def _respond_without_token(
        self, request: ApiRequest, match: RouteMatch, cookie: str | None
    ) -> Reply:
        operation = match.operation
        if not match.methods and not match.is_api:
            return await self._page(request)
        if operation is None and match.refusal is not None and _is_public(match):
            raise match.refusal
        if operation is not None and _is_anonymous(operation, cookie):
            return await self._run_anonymous(request, operation, match, cookie)
        if cookie is None:
            raise Unauthenticated
        return await self._authenticate_and_run(request, match, cookie=cookie)

    async def _run_anonymous(
        self, request: ApiRequest, operation: Operation, match: RouteMatch, cookie: str | None
    ) -> Reply:
        if operation.access is Access.PUBLIC and match.csrf_refusal is not None:
            raise match.csrf_refusal
        return await self._run(request, operation, match, AuthenticatedCaller(None, None), cookie)

    def _match(self, request: ApiRequest, cookie: str | None, *, by_token: bool) -> RouteMatch:
        """Finds the operation; refusals of routing and of the CSRF check are raised later, in their order."""
        path, method = request.path, request.method
        found_path = self._routes.find(path)
        is_api = path == PREFIX or path.startswith(PREFIX + "/")
        refusal: Refusal | None = None
        operation = None
        if found_path is None:
            refusal = NotFound()
        else:
            operation = found_path.methods.get(method)
            if operation is None:
                refusal = MethodNotAllowed(sorted(found_path.methods))
        csrf_refusal = None
        if method in CHANGING and not by_token:
            is_public = operation is not None and operation.access is Access.PUBLIC
            csrf_refusal = authentication.csrf_fault(
                request.headers, self._context.rules.web_origin, None if is_public else cookie or ""
            )
        if found_path is None:
            return RouteMatch(operation, {}, (), is_api, refusal, csrf_refusal)
        return RouteMatch(operation, found_path.methods, found_path.values, is_api, refusal, csrf_refusal)

    async def _page(self, request: ApiRequest) -> Reply:
        page = await self._pages(request.raw_request(())) if self._pages is not None else None
        if page is None:
            raise NotFound
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(["GET", "HEAD"])
        return page

    def _preflight(self, request: ApiRequest) -> Reply:
        """Responds to a CORS preflight: only the web app's own origin may call."""
        if request.headers.get(b"origin") != self._web_origin:
            return envelope.refuse(Forbidden("This page may not call the API."))
        headers: list[tuple[bytes, bytes]] = []
        if not self._is_same_origin:
            method = request.headers[b"access-control-request-method"]
            headers.append((b"access-control-allow-methods", method))
            allowed_headers = request.headers.get(b"access-control-request-headers")
            if allowed_headers is not None:
                headers.append((b"access-control-allow-headers", allowed_headers))
        return Reply(200, envelope.EMPTY_RESPONSE, tuple(headers))

    async def _authenticate_and_run(
        self,
        request: ApiRequest,
        match: RouteMatch,
        *,
        claims: TokenClaims | None = None,
        cookie: str | None = None,
    ) -> Reply:
        """Authenticates the caller, then runs the operation."""
        operation = match.operation
        try:
            caller, reply = await self._read_caller(request, match, claims=claims, cookie=cookie)
            if reply is None and operation is not None:
                reply = await self._run(request, operation, match, caller, cookie)
        except Unauthenticated:
            if operation is None or operation.access is not Access.OPTIONAL_SESSION or claims is not None:
                raise
            reply = await self._run(request, operation, match, AuthenticatedCaller(None, None), cookie)
        finally:
            if request.touched is not None:
                await self._touch(request.touched)
        return reply or envelope.refuse(match.refusal or NotFound())

    async def _read_caller(
        self, request: ApiRequest, match: RouteMatch, *, claims: TokenClaims | None, cookie: str | None
    ) -> tuple[AuthenticatedCaller, Reply | None]:
        """Authenticates the caller in a read transaction, which also serves a small read."""
        context, operation = self._context, match.operation

        async def act(tx: Tx) -> tuple[AuthenticatedCaller, Reply | None]:
            caller = await self._authenticate(tx, request, match, claims=claims, cookie=cookie)
            if operation is None or not operation.is_small_read:
                return caller, None
            return caller, await self._read_now(tx, request, operation, match, caller, cookie)

        reading = context.engine.read(context.clock.now(), act, small=True, sets_tenant=True)
        if self._is_embedded or operation is None:
            return await reading
        return await self._within(operation.seconds, reading)

    async def _authenticate(
        self,
        tx: Tx,
        request: ApiRequest,
        match: RouteMatch,
        *,
        claims: TokenClaims | None,
        cookie: str | None,
    ) -> AuthenticatedCaller:
        """Authenticates by token or session; stores the session whose idle time this call has to extend."""
        if claims is not None:
            return await authentication.admit_token(
                tx, self._context, self._windows, claims=claims, match=match
            )
        caller = await authentication.admit_session(
            tx, self._context, self._windows, cookie_value=cookie or "", match=match
        )
        request.touched = authentication.touched(caller, request.headers)
        if request.touched is not None and caller.now is not None:
            caller.session = replace(request.touched, seen_at=caller.now)
        return caller

    async def _read_now(
        self,
        tx: Tx,
        request: ApiRequest,
        operation: Operation,
        match: RouteMatch,
        caller: AuthenticatedCaller,
        cookie: str | None,
    ) -> Reply:
        """Handles a small read in the transaction that authenticated its caller."""
        try:
            call = self._validate(request, operation, match, caller, cookie)
        except ValidationFailed:
            await _require_records(tx, self._context, operation, match=match, caller=caller)
            raise
        assert operation.function is not None
        return envelope.accept(await operation.function(tx, call), operation.status)

    async def _touch(self, session: Session) -> None:
        async def act(tx: Tx) -> None:
            await touch(tx, session)

        org = () if session.org is None else session.org
        writing = self._context.engine.write(self._context.clock.now(), act, org=org)
        with suppress(Unavailable, TimeoutError):  # reads continue while writes fail or wait
            await self._within(_TOUCH_SECONDS, writing)

    def _validate(
        self,
        request: ApiRequest,
        operation: Operation,
        match: RouteMatch,
        caller: AuthenticatedCaller,
        cookie: str | None,
        *,
        value: Any = None,
    ) -> ApiCall:
        """Validates path values, query and body. Raises NotFound, ValidationFailed."""
        ids = named(operation.path, match.values)
        if ids is None:
            raise NotFound
        errors: validation.Errors = {}
        query = validation.query(operation.query, request.query_string, errors)
        body = None
        if operation.method in CHANGING:
            body = validation.body(operation.body, value, errors)
        if errors:
            raise ValidationFailed(errors=errors)
        request.call = ApiCall(
            operation=operation,
            context=self._context,
            path=request.path,
            ids=ids,
            query=query,
            body=body,
            client_of=lambda: request.client(cookie),
            caller=caller.actor,
            session=caller.session,
            size=request.size(operation.body_limit) if operation.writes else 0,
        )
        return request.call

    async def _run(
        self,
        request: ApiRequest,
        operation: Operation,
        match: RouteMatch,
        caller: AuthenticatedCaller,
        cookie: str | None,
    ) -> Reply:
        """Reads and validates the request, prepares it, and runs the endpoint in its own transaction."""
        value: Any = {}
        if operation.method in CHANGING:
            value = await read_json(
                request.receive, request.headers, limit=operation.body_limit, values=operation.body_values
            )
        if operation.attempt is not None:
            await operation.attempt(value, request.client(cookie), self._context)
        try:
            call = self._validate(request, operation, match, caller, cookie, value=value)
        except ValidationFailed:
            if caller.actor is not None and match.values:

                async def check_records(tx: Tx) -> None:
                    await _require_records(tx, self._context, operation, match=match, caller=caller)

                now, org = self._context.clock.now(), caller.actor.org
                await self._context.engine.read(now, check_records, org=org, small=True)
            raise
        if operation.prepare is None:
            return await self._within(operation.seconds, self._transact(operation, call))
        for _ in range(2):
            try:
                return await self._within(operation.seconds, self._transact(operation, call))
            except PreparedIsStale:
                continue
        raise Unavailable(retry_after=1)

    async def _transact(self, operation: Operation, call: ApiCall) -> Reply:
        context = self._context
        if operation.prepare is not None:
            call.prepared = await operation.prepare(call)

        async def act(tx: Tx) -> Reply:
            assert operation.function is not None
            return envelope.accept(await operation.function(tx, call), operation.status)

        now = context.clock.now()
        org = () if call.caller is None else call.caller.org
        if not operation.writes:
            return await context.engine.read(now, act, org=org, small=operation.small)
        if operation.committing is not None:
            reply = envelope.accept(await operation.committing(call), operation.status)
        else:
            reply = await context.engine.write(now, WeightedAct(act, call.size), org=org)
        for name in operation.wakes:
            context.wake(name)
        return reply

    async def _within(self, seconds: float, work: Awaitable[T]) -> T:
        """Awaits `work`. Raises TimeoutError after `seconds`; whether it had an effect is then unknown."""
        async with asyncio.timeout(seconds):
            return await work


async def _require_records(
    tx: Tx, context: AppContext, operation: Operation, *, match: RouteMatch, caller: AuthenticatedCaller
) -> None:
    """Raises NotFound if a record of the path is missing; called before the fields are checked."""
    if caller.actor is None:
        return
    for name, value in (named(operation.path, match.values) or {}).items():
        if name == "template_id":
            exists = value in context.automation_rules.templates
        else:
            exists = await presence.exists(tx, caller.actor.org, name, value)
        if not exists:
            raise NotFound


def _is_anonymous(operation: Operation, cookie: str | None) -> bool:
    """Returns whether the operation runs without authentication."""
    return operation.access is Access.PUBLIC or (
        cookie is None and operation.access is Access.OPTIONAL_SESSION
    )


def _is_public(match: RouteMatch) -> bool:
    public = (Access.PUBLIC, Access.OPTIONAL_SESSION)
    return any(operation.access in public for operation in match.methods.values())
