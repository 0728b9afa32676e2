"""The table of operations: one row an endpoint; the gate, OpenAPI and the scope tests all read it."""

from steward.api.app import session as app_session
from steward.api.http.operation import Access, EmptyAnswer, Operation, RawOperation
from steward.api.operations_automations import AUTOMATIONS
from steward.api.operations_calendar import CALENDAR
from steward.api.operations_imports import IMPORTS
from steward.api.operations_people import PEOPLE
from steward.api.operations_work import WORK
from steward.api.v1 import login, status, store_events
from steward.model.account import Scope
from steward.model.refusals import InvalidCredentials, NotFound, RateLimited, Unavailable

READ, WRITE, APPROVE = Scope.READ, Scope.WRITE, Scope.APPROVE

STATUS = [
    Operation(
        method="GET",
        path="/v1/automations/status",
        scope=READ,
        function=status.get,
        answer=status.StatusAnswer,
        summary="Status",
        small=True,
    ),
]

SESSION = [
    Operation(
        method="POST",
        path="/app/session",
        access=Access.PUBLIC,
        attempt=app_session.count_sign_in,
        prepare=app_session.verify,
        function=app_session.post,
        body=app_session.SignInBody,
        body_limit=16 * 1024,
        body_values=1_000,
        answer=app_session.SessionAnswer,
        summary="Sign in",
        refusals=(InvalidCredentials, RateLimited, Unavailable),
        writes=True,
    ),
    Operation(
        method="GET",
        path="/app/session",
        access=Access.SESSION,
        function=app_session.get,
        answer=app_session.SessionAnswer,
        summary="Get the session",
        small=True,
    ),
    Operation(
        method="DELETE",
        path="/app/session",
        access=Access.OPTIONAL_SESSION,
        function=app_session.delete,
        answer=EmptyAnswer,
        summary="Sign out",
        writes=True,
    ),
    Operation(
        method="POST",
        path="/app/session/organization",
        access=Access.SESSION,
        function=app_session.choose_organization,
        body=app_session.ChooseBody,
        answer=app_session.SessionAnswer,
        summary="Choose an organisation",
        refusals=(NotFound,),
        writes=True,
    ),
]

OPERATIONS: list[Operation] = [*STATUS, *AUTOMATIONS, *CALENDAR, *WORK, *IMPORTS, *SESSION, *PEOPLE]

RAW_OPERATIONS: list[RawOperation] = [
    RawOperation("POST", "/v2/api/automations/login", login.post, "Log in"),
    RawOperation("POST", "/v1/store-events/{endpoint_key}", store_events.post, "Take a store's event"),
    RawOperation("GET", "/.well-known/jwks.json", status.jwks, "Public keys of tokens"),
    RawOperation("GET", "/healthz", status.healthz, "Whether the process answers"),
    RawOperation("GET", "/readyz", status.readyz, "Whether the service is ready"),
]
