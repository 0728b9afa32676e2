"""The ASGI application of the API: authenticates, validates and runs the endpoint of each request."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from steward.accounts.allowances import Windows
from steward.accounts.sessions import cookie_name, touch
from steward.api.http import authentication as callers
from steward.api.http import envelope as answers
from steward.api.http import validation as shapes
from steward.api.http.authentication import Asked, AuthenticatedCaller
from steward.api.http.body import ClientDisconnected, read_json
from steward.api.http.operation import (
    Access,
    ApiCall,
    AppContext,
    Operation,
    PreparedIsStale,
    RawOperation,
    RawRequest,
    Reply,
)
from steward.api.http.request import ApiRequest, Message, Receive
from steward.api.http.router import Found, Routes, named
from steward.database.accounts import presence
from steward.database.engine.base import Tx, Weighed
from steward.model.refusals import (
    Forbidden,
    MethodNotAllowed,
    NotFound,
    Refusal,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from steward.model.sessions import Session
from steward.security.tokens import TokenClaims

T = TypeVar("T")
Send = Callable[[Message], Awaitable[None]]
Pages = Callable[[RawRequest], Awaitable[Reply | None]]

PREFIX = "/v1/automations"
CHANGING = frozenset({"POST", "PATCH", "DELETE", "PUT"})


class RequestHandler:
    """The ASGI application of the API; `pages` answers what is neither an operation nor a refusal."""

    def __init__(
        self,
        context: AppContext,
        operations: Sequence[Operation],
        raw_operations: Sequence[RawOperation],
        *,
        pages: Pages | None = None,
    ) -> None:
        self._context = context
        self.answered: Counter[int] = Counter()  # by status, for the operator's metrics
        self._routes = Routes(operations)
        self._raw_routes = Routes(raw_operations)
        self._pages = pages
        self._windows = Windows() if context.engine.dialect == "sqlite" else None
        self._cookie_name = cookie_name(context.rules.web_origin)
        self._web_origin = context.rules.web_origin.encode("ascii")
        self._is_shared = context.rules.web_origin == context.rules.base_url
        self._is_near = context.engine.dialect == "sqlite"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request; anything that goes wrong still gets the envelope."""
        if scope["type"] != "http":
            raise LookupError(f"nothing here speaks {scope['type']}")
        request = ApiRequest(scope, receive, self._context)
        try:
            reply = await self._answer(request)
        except Refusal as refusal:
            reply = self._refused(request, refusal)
        except ClientDisconnected:
            return
        except TimeoutError:
            # What is left of a body that comes too slowly is not waited for.
            late = answers.refuse(Unavailable(retry_after=1))
            reply = replace(late, headers=(*late.headers, (b"connection", b"close")))
        except MemoryError as error:
            self._context.log.error("out_of_memory", error, request=request.id, path=request.shown_path)
            reply = answers.refuse(Unavailable(retry_after=5))
        except Exception as error:
            self._context.log.error(
                "request_failed", error, request=request.id, method=request.method, path=request.shown_path
            )
            reply = answers.defect(request.id)
        await self._send(request, reply, send)

    async def _send(self, request: ApiRequest, reply: Reply, send: Send) -> None:
        self.answered[reply.status] += 1
        if not (reply.headers or reply.has_own_headers or b"origin" in request.headers):
            head = answers.head(len(reply.body), request.id)
            if request.write_whole is not None and request.write_whole(reply.status, head, reply.body):
                return
        headers = [
            *(answers.FIXED_HEADERS if not reply.has_own_headers else ()),
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-request-id", request.id.encode("ascii")),
            *reply.headers,
        ]
        if not self._is_shared and request.headers.get(b"origin") == self._web_origin:
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
        return answers.refuse(refusal, data)

    async def _answer(self, request: ApiRequest) -> Reply:
        if request.is_overlong is not None:
            return answers.too_large(request.is_overlong)
        if request.method == "OPTIONS" and b"access-control-request-method" in request.headers:
            return self._preflight(request)
        path = request.path
        # Nothing raw lies where nearly all calls go.
        raw = None if path.startswith(PREFIX) else self._raw_routes.find(path)
        if raw is not None:
            operation = raw.methods.get(request.method)
            if operation is None:
                raise MethodNotAllowed(sorted(raw.methods))
            return await operation.function(request.raw_request(raw.values), self._context)
        token = callers.bearer(request.headers, several=request.has_several_authorizations)
        cookie = callers.cookie(request.headers, self._cookie_name)
        asked, found = self._asked(request, cookie, by_token=token is not None)
        if token is not None:
            if cookie is not None:
                raise Unauthenticated(token_sent=True)
            claims = await callers.verify(self._context, token)
            return await self._admit_and_run(request, asked, found, claims=claims)
        if found is None and not asked.inside:
            return await self._page(request)
        if found is not None and asked.operation is None and _is_public(found):
            raise MethodNotAllowed(sorted(found.methods))
        if asked.operation is not None and asked.operation.access is Access.PUBLIC:
            if asked.csrf is not None:
                raise asked.csrf
            return await self._run(request, asked.operation, found, AuthenticatedCaller(None, None), cookie)
        if cookie is None:
            if asked.operation is not None and asked.operation.access is Access.OPTIONAL_SESSION:
                return await self._run(
                    request, asked.operation, found, AuthenticatedCaller(None, None), cookie
                )
            raise Unauthenticated
        return await self._admit_and_run(request, asked, found, cookie=cookie)

    def _asked(
        self, request: ApiRequest, cookie: str | None, *, by_token: bool
    ) -> tuple[Asked, Found[Operation] | None]:
        path, method = request.path, request.method
        found = self._routes.find(path)
        operation = found.methods.get(method) if found else None
        route: Refusal | None = None
        if found is None:
            route = NotFound()
        elif operation is None:
            route = MethodNotAllowed(sorted(found.methods))
        csrf = None
        if method in CHANGING and not by_token:
            is_open = operation is not None and operation.access is Access.PUBLIC
            csrf = callers.csrf_fault(
                request.headers, self._context.rules.web_origin, None if is_open else cookie or ""
            )
        inside = path == PREFIX or path.startswith(PREFIX + "/")
        return Asked(operation, inside, route, csrf), found

    async def _page(self, request: ApiRequest) -> Reply:
        page = await self._pages(request.raw_request(())) if self._pages is not None else None
        if page is None:
            raise NotFound
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(["GET", "HEAD"])
        return page

    def _preflight(self, request: ApiRequest) -> Reply:
        """Allowed from the web app's own origin only."""
        if request.headers.get(b"origin") != self._web_origin:
            return answers.refuse(Forbidden("This page may not call the API."))
        headers: list[tuple[bytes, bytes]] = []
        if not self._is_shared:
            wanted = request.headers.get(b"access-control-request-headers")
            headers.append(
                (b"access-control-allow-methods", request.headers[b"access-control-request-method"])
            )
            if wanted is not None:
                headers.append((b"access-control-allow-headers", wanted))
        return Reply(200, answers.NOTHING, tuple(headers))

    async def _admit_and_run(
        self,
        request: ApiRequest,
        asked: Asked,
        found: Found[Operation] | None,
        *,
        claims: TokenClaims | None = None,
        cookie: str | None = None,
    ) -> Reply:
        """Looks the caller up; a small read without a body is answered in the same transaction."""
        context, operation = self._context, asked.operation
        at_once = operation is not None and operation.small and not operation.writes and not operation.prepare
        admitted: list[AuthenticatedCaller] = []

        async def act(tx: Tx) -> Reply | None:
            admitted.clear()
            if claims is not None:
                caller = await callers.admit_token(tx, context, self._windows, claims=claims, asked=asked)
            else:
                caller = await callers.admit_session(
                    tx, context, self._windows, cookie_value=cookie or "", asked=asked
                )
            admitted.append(caller)
            request.touched = callers.touched(caller, request.headers)
            if request.touched is not None and caller.now is not None:
                caller.session = replace(request.touched, seen_at=caller.now)
            if not at_once or operation is None:
                return None
            try:
                call = self._checked(request, operation, found, caller, cookie)
            except ValidationFailed:
                await _must_be_there(tx, context, operation, found=found, caller=caller)
                raise
            assert operation.function is not None
            return answers.accept(await operation.function(tx, call), operation.status)

        try:
            looked = context.engine.read(context.clock.now(), act, small=True, sets_tenant=True)
            if self._is_near or operation is None:
                reply = await looked
            else:
                reply = await self._bounded(looked, operation.seconds)
            if reply is None and operation is not None:
                reply = await self._run(request, operation, found, admitted[0], cookie)
        except Unauthenticated:
            if operation is None or operation.access is not Access.OPTIONAL_SESSION or claims is not None:
                raise
            reply = await self._run(request, operation, found, AuthenticatedCaller(None, None), cookie)
        finally:
            if request.touched is not None:
                await self._touch(request.touched)
        return reply or answers.refuse(asked.route or NotFound())

    async def _touch(self, session: Session) -> None:
        async def act(tx: Tx) -> None:
            await touch(tx, session)

        now = self._context.clock.now()
        with suppress(Unavailable):  # reads go on while nothing can be written
            await self._context.engine.write(now, act, org=() if session.org is None else session.org)

    def _checked(
        self,
        request: ApiRequest,
        operation: Operation,
        found: Found[Operation] | None,
        caller: AuthenticatedCaller,
        cookie: str | None,
        *,
        value: Any = None,
    ) -> ApiCall:
        """The call with its path, query and body checked."""
        ids = named(operation.path, found.values if found else ())
        if ids is None:
            raise NotFound
        errors: shapes.Errors = {}
        query = shapes.query(operation.query, request.query_string, errors)
        body = None
        if operation.method in CHANGING:
            body = shapes.body(operation.body, value, errors)
        if errors:
            raise ValidationFailed(errors=errors)
        request.call = ApiCall(
            operation=operation,
            context=self._context,
            path=request.path,
            ids=ids,
            query=query,
            body=body,
            arrival=lambda: request.client(cookie),
            caller=caller.actor,
            session=caller.session,
            size=request.size(operation.body_limit) if operation.writes else 0,
        )
        return request.call

    async def _run(
        self,
        request: ApiRequest,
        operation: Operation,
        found: Found[Operation] | None,
        caller: AuthenticatedCaller,
        cookie: str | None,
    ) -> Reply:
        """RequestBody, path and shape, what it prepares, then the endpoint in its own transaction."""
        value: Any = {}
        if operation.method in CHANGING:
            value = await read_json(
                request.receive, request.headers, limit=operation.body_limit, values=operation.body_values
            )
        if operation.attempt is not None:
            await operation.attempt(value, request.client(cookie), self._context)
        try:
            call = self._checked(request, operation, found, caller, cookie, value=value)
        except ValidationFailed:
            if caller.actor is not None and found is not None and found.values:

                async def look(tx: Tx) -> None:
                    await _must_be_there(tx, self._context, operation, found=found, caller=caller)

                now, org = self._context.clock.now(), caller.actor.org
                await self._context.engine.read(now, look, org=org, small=True)
            raise
        if operation.prepare is None:
            return await self._bounded(self._transact(operation, call), operation.seconds)
        for _ in range(2):
            try:
                return await self._bounded(self._transact(operation, call), operation.seconds)
            except PreparedIsStale:
                continue
        raise Unavailable(retry_after=1)

    async def _transact(self, operation: Operation, call: ApiCall) -> Reply:
        context = self._context
        if operation.prepare is not None:
            call.prepared = await operation.prepare(call)

        async def act(tx: Tx) -> Reply:
            assert operation.function is not None
            return answers.accept(await operation.function(tx, call), operation.status)

        now = context.clock.now()
        org = () if call.caller is None else call.caller.org
        if not operation.writes:
            return await context.engine.read(now, act, org=org, small=operation.small)
        if operation.batched is not None:
            reply = answers.accept(await operation.batched(call), operation.status)
        else:
            reply = await context.engine.write(now, Weighed(act, call.size), org=org)
        for name in operation.wakes:
            context.wake(name)
        return reply

    async def _bounded(self, work: Awaitable[T], seconds: float) -> T:
        """`work` within its time; cut off, nothing is known of it: 503."""
        async with asyncio.timeout(seconds):
            return await work


async def _must_be_there(
    tx: Tx,
    context: AppContext,
    operation: Operation,
    *,
    found: Found[Operation] | None,
    caller: AuthenticatedCaller,
) -> None:
    """Raises NotFound for a record of the path that is not there: told before the shape."""
    ids = named(operation.path, found.values if found else ())
    for name, value in (ids or {}).items():
        if caller.actor is None:
            continue
        is_template = name == "template_id"
        if is_template and value not in context.templates:
            raise NotFound
        if not is_template and not await presence.has(tx, caller.actor.org, name, value):
            raise NotFound


def _is_public(found: Found[Operation]) -> bool:
    return any(
        operation.access in (Access.PUBLIC, Access.OPTIONAL_SESSION) for operation in found.methods.values()
    )
