"""Lists how each operation takes ids: one row for each route. A route without its row fails the tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.api.http.operation import Operation
from tests.authz.two_organizations import PREFIX, OrganizationIds

Body = dict[str, Any]


@dataclass(frozen=True)
class RequestShape:
    """Describes a valid body of an operation, and where it takes ids beside the path.

    `bodies` makes a body from the caller's ids and one id of the given name, for every place of a body
    that takes an id. `filters` are query parameters that take an id, with its name. `needed` is the
    query that a list requires.
    """

    body: Callable[[OrganizationIds], Body] = lambda ids: {}
    bodies: Mapping[str, tuple[str, Callable[[OrganizationIds, Any], Body]]] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)
    needed: Callable[[OrganizationIds], Mapping[str, Any]] = lambda ids: {}


def _create(ids: OrganizationIds, **changes: Any) -> Body:
    return {
        "template_id": "hide-out-of-stock-products",
        "name": "one more",
        "inputs": {},
        "schedule": {"cadence": "manual"},
        "integration_id": ids.integration_id,
        **changes,
    }


def _alert(ids: OrganizationIds, teams: int) -> Body:
    inputs = {"threshold": 5, "teams": {"integration_id": teams}}
    return _create(ids, template_id="low-stock-alert", inputs=inputs)


def _prices(ids: OrganizationIds, sheet: int) -> Body:
    prices_tab = {"integration_id": sheet, "tab": "Prices"}
    inputs = {"sheet": prices_tab, "sku_column": "SKU", "price_column": "Price"}
    return _create(ids, template_id="price-update-from-spreadsheet", inputs=inputs)


def _report(ids: OrganizationIds, store: int) -> Body:
    read = [{"integration_id": store, "kind": "woocommerce"}]
    return _create(ids, template_id="stores-report", integration_id=None, connections=read)


def _route(ids: OrganizationIds) -> Body:
    chosen = {"channel": "teams", "integration_id": ids.teams_id}
    return {"name": "one more", "topics": ["run_failed"], **chosen}


def _slot(ids: OrganizationIds, **more: Any) -> Body:
    return {"slot_at": ids.slot_at, "occurrence_version": 0, "automation_version": 2, **more}


def _period(ids: OrganizationIds, **scope: Any) -> Body:
    when = {"kind": "weekly", "days": [7]}
    scope = scope or {"kind": "automation", "automation_id": ids.automation_id}
    return {"name": "Sundays", "stops": "changes", "when": when, "scope": scope}


def _holidays(scope: Body) -> Body:
    return {"country": "DE", "days": ["2026-12-25"], "stops": "changes", "scope": scope}


_PERIOD = RequestShape(
    body=_period,
    bodies={
        "scope": (
            "automation_id",
            lambda ids, it: _period(ids, kind="automation", automation_id=it),
        ),
        "scope.integration_id": (
            "integration_id",
            lambda ids, it: _period(ids, kind="store", integration_id=it),
        ),
    },
)
_PREVIEW: Body = {"schedule": {"cadence": "daily", "run_at": "08:00"}}
_OCCURRENCES = f"{PREFIX}/{{automation_id}}/occurrences"
_AUTOMATION_PATH = f"{PREFIX}/{{automation_id}}"
_APPROVAL = f"{PREFIX}/approvals/{{approval_id}}"
_IMPORT = f"{PREFIX}/imports/{{import_id}}"
_EXPORT: Body = {
    "source": "workflow_tool",
    "content": {
        "nodes": [
            {"name": "By hand", "type": "n8n-nodes-base.manualTrigger", "typeVersion": 1, "parameters": {}},
            {"name": "Nothing", "type": "n8n-nodes-base.noOp", "typeVersion": 1, "parameters": {}},
        ],
        "connections": {"By hand": {"main": [[{"node": "Nothing", "type": "main", "index": 0}]]}},
    },
}
_RUN_AS: Body = {"name": "of an import", "schedule": {"cadence": "manual"}}
_CONNECTION = "/app/connections/{integration_id}"
_PERSON = "/app/people/{user_id}"
_ROUTES = "/app/notification-routes"
_ROUTE = f"{_ROUTES}/{{route_id}}"
_PLAIN = RequestShape()
_BOTH = {"automation_id": "automation_id", "integration_id": "integration_id"}
# Refused before any id is checked, because the automation runs on a store.
NOT_LOOKED_AT = {(f"PATCH {PREFIX}/{{automation_id}}", "connections")}
_STATE = RequestShape(body=lambda ids: {"version": 1})

SPELLED: dict[str, RequestShape] = {
    f"GET {PREFIX}/status": _PLAIN,
    f"GET {PREFIX}": RequestShape(filters={"integration_id": "integration_id"}),
    f"POST {PREFIX}": RequestShape(
        body=_create,
        bodies={
            "integration_id": ("integration_id", lambda ids, it: _create(ids, integration_id=it)),
            "inputs.teams": ("teams_id", _alert),
            "inputs.sheet": ("sheet_id", _prices),
            "connections": ("integration_id", _report),
        },
    ),
    "POST /app/automations/sample": RequestShape(
        body=_create,
        bodies={
            "integration_id": ("integration_id", lambda ids, it: _create(ids, integration_id=it)),
            "inputs.teams": ("teams_id", _alert),
            "inputs.sheet": ("sheet_id", _prices),
            "connections": ("integration_id", _report),
        },
    ),
    f"GET {_AUTOMATION_PATH}": _PLAIN,
    f"PATCH {_AUTOMATION_PATH}": RequestShape(
        body=lambda ids: {"version": 2, "name": "another"},
        bodies={
            "integration_id": ("integration_id", lambda ids, it: {"version": 2, "integration_id": it}),
            "connections": (
                "teams_id",
                lambda ids, it: {"version": 2, "connections": [{"integration_id": it, "kind": "teams"}]},
            ),
        },
    ),
    f"POST {_AUTOMATION_PATH}/pause": _STATE,
    f"POST {_AUTOMATION_PATH}/resume": _STATE,
    f"POST {_AUTOMATION_PATH}/archive": _STATE,
    f"POST {_AUTOMATION_PATH}/restore": _STATE,
    "GET /app/automations/{automation_id}/history": _PLAIN,
    "GET /app/automations/{automation_id}/plan": _PLAIN,
    "GET /app/overview": _PLAIN,
    "GET /app/automations/strips": RequestShape(
        needed=lambda ids: {"automation_ids": ids.automation_id},
    ),
    f"GET {PREFIX}/occurrences": RequestShape(filters=_BOTH),
    f"POST {_OCCURRENCES}/move": RequestShape(
        body=lambda ids: _slot(ids, run_at="2026-05-02T12:00:00Z", scope="this")
    ),
    f"POST {_OCCURRENCES}/skip": RequestShape(body=_slot),
    f"POST {_OCCURRENCES}/unskip": RequestShape(body=_slot),
    f"POST {PREFIX}/schedule/preview": RequestShape(
        body=lambda ids: _PREVIEW,
        bodies={
            "integration_id": ("integration_id", lambda ids, it: {**_PREVIEW, "integration_id": it}),
            "automation_id": ("automation_id", lambda ids, it: {**_PREVIEW, "automation_id": it}),
        },
    ),
    "GET /app/audit": RequestShape(filters={"object_id": "period_id"}),
    "GET /app/audit/export": _PLAIN,
    "GET /app/credentials": _PLAIN,
    "GET /app/closed-periods": _PLAIN,
    "POST /app/closed-periods": _PERIOD,
    "POST /app/closed-periods/preview": _PERIOD,
    "PATCH /app/closed-periods/{period_id}": RequestShape(body=lambda ids: {"version": 1, "name": "Sunday"}),
    "POST /app/closed-periods/{period_id}/end": RequestShape(body=lambda ids: {"version": 1}),
    "POST /app/closed-periods/{period_id}/holiday": RequestShape(
        body=lambda ids: {"version": 1, "take_over": True}
    ),
    "GET /app/holidays": RequestShape(needed=lambda ids: {"country": "DE", "year": 2026}),
    "GET /app/holidays/countries": _PLAIN,
    "POST /app/holidays/accept": RequestShape(
        body=lambda ids: _holidays({"kind": "organization"}),
        bodies={
            "scope.integration_id": (
                "integration_id",
                lambda ids, it: _holidays({"kind": "store", "integration_id": it}),
            ),
            "scope": (
                "automation_id",
                lambda ids, it: _holidays({"kind": "automation", "automation_id": it}),
            ),
        },
    ),
    "GET /app/closings": RequestShape(
        needed=lambda ids: {"from": "2026-05-01T00:00:00Z", "to": "2026-05-08T00:00:00Z"}
    ),
    "POST /app/freeze": RequestShape(
        body=lambda ids: {"scope": {"kind": "store", "integration_id": ids.integration_id}},
        bodies={
            "scope": (
                "integration_id",
                lambda ids, it: {"scope": {"kind": "store", "integration_id": it}},
            )
        },
    ),
    f"POST {_AUTOMATION_PATH}/runs": RequestShape(
        body=lambda ids: {"idempotency_key": "matrix", "mode": "test"}
    ),
    f"GET {PREFIX}/runs": RequestShape(filters={"automation_id": "automation_id"}),
    f"GET {PREFIX}/runs/{{run_id}}": _PLAIN,
    f"GET {PREFIX}/runs/{{run_id}}/changes": _PLAIN,
    f"POST {PREFIX}/runs/{{run_id}}/cancel": _PLAIN,
    f"POST {PREFIX}/runs/{{run_id}}/undo": RequestShape(body=lambda ids: {"idempotency_key": "undo-matrix"}),
    f"GET {PREFIX}/approvals": RequestShape(filters=_BOTH),
    f"GET {_APPROVAL}": _PLAIN,
    f"POST {_APPROVAL}/approve": RequestShape(
        body=lambda ids: {"version": 1},
        bodies={"except": ("change_id", lambda ids, it: {"version": 1, "except": [it]})},
    ),
    f"POST {_APPROVAL}/reject": RequestShape(body=lambda ids: {"version": 1}),
    f"GET {PREFIX}/templates": _PLAIN,
    f"GET {PREFIX}/templates/{{template_id}}": _PLAIN,
    f"GET {PREFIX}/stores": _PLAIN,
    f"GET {PREFIX}/connections": _PLAIN,
    f"GET {PREFIX}/destinations": RequestShape(
        filters={"integration_id": "sheet_id"},
        needed=lambda ids: {"integration_id": ids.sheet_id, "parent": "sheet-prices"},
    ),
    f"POST {PREFIX}/imports": RequestShape(body=lambda ids: {"name": "more", **_EXPORT}),
    f"GET {PREFIX}/imports": _PLAIN,
    f"POST {PREFIX}/imports/preview": RequestShape(
        body=lambda ids: dict(_EXPORT),
        bodies={"integration_id": ("integration_id", lambda ids, it: {**_EXPORT, "integration_id": it})},
    ),
    f"GET {_IMPORT}": _PLAIN,
    f"DELETE {_IMPORT}": _PLAIN,
    f"POST {_IMPORT}/preview": RequestShape(
        bodies={"integration_id": ("integration_id", lambda ids, it: {"integration_id": it})}
    ),
    f"POST {_IMPORT}/automations": RequestShape(
        body=lambda ids: {**_RUN_AS, "integration_id": ids.integration_id},
        bodies={"integration_id": ("integration_id", lambda ids, it: {**_RUN_AS, "integration_id": it})},
    ),
    "GET /app/connections/kinds": _PLAIN,
    "GET /app/connections": _PLAIN,
    "POST /app/connections": RequestShape(body=lambda ids: {"kind": "teams", "name": "more", "settings": {}}),
    "POST /app/connections/sign-in": RequestShape(
        body=lambda ids: {"kind": "spreadsheet", "name": "more"},
        bodies={
            "integration_id": (
                "sheet_id",
                lambda ids, it: {"kind": "spreadsheet", "name": "more", "integration_id": it},
            )
        },
    ),
    "GET /app/connections/sign-in/callback": _PLAIN,
    "POST /app/connections/woocommerce/authorize": RequestShape(
        body=lambda ids: {"url": "https://shop.example", "name": "more"},
        bodies={
            "integration_id": (
                "integration_id",
                lambda ids, it: {"url": "https://shop.example", "name": "more", "integration_id": it},
            )
        },
    ),
    f"POST {_CONNECTION}/check": _PLAIN,
    f"PATCH {_CONNECTION}": RequestShape(body=lambda ids: {"name": "Another"}),
    f"POST {_CONNECTION}/reconnect": RequestShape(body=lambda ids: {"settings": {}}),
    f"POST {_CONNECTION}/disconnect": _PLAIN,
    "POST /app/session": RequestShape(body=lambda ids: {"email": "nobody@example.com", "password": "wrong"}),
    "GET /app/session": _PLAIN,
    "DELETE /app/session": _PLAIN,
    "POST /app/session/organization": RequestShape(
        body=lambda ids: {"organization_id": ids.organization_id},
        bodies={"organization_id": ("organization_id", lambda ids, it: {"organization_id": it})},
    ),
    "GET /app/people": _PLAIN,
    "POST /app/people": RequestShape(body=lambda ids: {"email": "more@example.com", "role": "member"}),
    f"PATCH {_PERSON}": RequestShape(body=lambda ids: {"role": "approver"}),
    f"POST {_PERSON}/invite-again": _PLAIN,
    f"POST {_PERSON}/mail-again": _PLAIN,
    f"POST {_PERSON}/deactivate": _PLAIN,
    f"POST {_PERSON}/activate": _PLAIN,
    "POST /app/password": RequestShape(
        body=lambda ids: {"current_password": "wrong", "new_password": "plum orbit canvas nine"}
    ),
    "POST /app/password/forgot": RequestShape(body=lambda ids: {"email": "nobody@example.com"}),
    "POST /app/password/reset": RequestShape(
        body=lambda ids: {"token": "none", "new_password": "plum orbit canvas nine"}
    ),
    "POST /app/invitations/accept": RequestShape(body=lambda ids: {"token": "none", "password": "wrong"}),
    f"GET {_ROUTES}": _PLAIN,
    f"POST {_ROUTES}": RequestShape(
        body=_route,
        bodies={
            "integration_id": ("teams_id", lambda ids, it: {**_route(ids), "integration_id": it}),
            "automation_ids": ("automation_id", lambda ids, it: {**_route(ids), "automation_ids": [it]}),
            "integration_ids": ("integration_id", lambda ids, it: {**_route(ids), "integration_ids": [it]}),
        },
    ),
    f"PATCH {_ROUTE}": RequestShape(
        body=lambda ids: {"name": "another"},
        bodies={
            "integration_id": ("teams_id", lambda ids, it: {"integration_id": it}),
            "automation_ids": ("automation_id", lambda ids, it: {"automation_ids": [it]}),
            "integration_ids": ("integration_id", lambda ids, it: {"integration_ids": [it]}),
        },
    ),
    f"POST {_ROUTE}/test": _PLAIN,
    f"POST {_ROUTE}/try-again": _PLAIN,
    f"POST {_ROUTE}/rotate-secret": _PLAIN,
    f"GET {_ROUTE}/deliveries": _PLAIN,
    f"POST {_ROUTE}/deliveries/{{message_id}}/again": _PLAIN,
    f"DELETE {_ROUTE}": _PLAIN,
    "GET /app/organization": _PLAIN,
    "PATCH /app/organization": RequestShape(body=lambda ids: {"send_without_approval": True}),
    "GET /app/options": _PLAIN,
    "GET /app/inbox": _PLAIN,
    "POST /app/inbox/read": RequestShape(body=lambda ids: {"ids": [ids.run_id]}),
    "GET /app/notification-preferences": _PLAIN,
    "PATCH /app/notification-preferences": RequestShape(
        body=lambda ids: {"wake_for_expiry": False},
        bodies={"muted": ("automation_id", lambda ids, it: {"muted": [it]})},
    ),
    "POST /app/notification-preferences/test": _PLAIN,
    "GET /app/approvals/{approval_id}/notices": _PLAIN,
    "GET /app/approvals/decided": RequestShape(filters=_BOTH),
    "GET /app/runs": RequestShape(filters=_BOTH),
    "GET /app/search": RequestShape(needed=lambda ids: {"q": ids.run_id}),
    "GET /app/runs/{run_id}/decisions": _PLAIN,
    "GET /app/runs/{run_id}/partly-made": _PLAIN,
    "GET /app/automations/{automation_id}/alerts": _PLAIN,
    "PATCH /app/automations/{automation_id}/alerts": RequestShape(body=lambda ids: {"quiet_after": 3}),
}


def named(row: Operation) -> str:
    """Returns the operation as the table names it."""
    return f"{row.method} {row.path}"


def spelled(row: Operation) -> RequestShape:
    """Returns how the operation takes ids."""
    return SPELLED[named(row)]


def at(row: Operation, ids: OrganizationIds) -> str:
    """Returns the path with the ids of one organization."""
    path = row.path
    for name in parameters(row):
        path = path.replace(f"{{{name}}}", str(ids.one(name)))
    return path


def parameters(row: Operation) -> list[str]:
    """Returns the names of the path's parameters."""
    return [part[1:-1] for part in row.path.split("/") if part.startswith("{")]


def is_list(row: Operation) -> bool:
    """Returns whether the operation answers pages."""
    return row.query is not None and "cursor" in row.query.model_fields
