"""Imports over HTTP: store, list, preview, run as automations, delete."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from steward.api.http.operation import ApiCall, EmptyResponse, Operation, Response, replayed
from steward.api.schema.body_rules import BY_EVENTS
from steward.api.schema.fields import (
    IdempotencyKey,
    NameText,
    OpenObject,
    PageQuery,
    Positive,
    QueryFlag,
    RequestBody,
    ZoneText,
    field_error,
)
from steward.api.schema.json_passthrough import (
    BindableStep,
    CallableStep,
    Finding,
    PlanWire,
    ProposedTrigger,
    ReachWire,
    ReadVariable,
    Variable,
    WorkflowReadiness,
)
from steward.api.schema.responses import (
    Count,
    Cursor,
    ImportSourceStr,
    Instant,
    Name,
    Platform,
    PositiveInt,
    Sha256,
    UlidStr,
    ViaStr,
)
from steward.api.v1 import automation_bodies, automation_records
from steward.api.v1.automation_bodies import (
    Accounts,
    Bindings,
    Calls,
    ScheduleJson,
    ScheduleTriggerBody,
    TriggerBody,
    Variables,
)
from steward.api.v1.automation_records import AutomationResponse
from steward.automations.from_plan import CreateWorkflowCommand
from steward.database.engine.base import Tx, ms
from steward.database.imports import records as imports
from steward.database.imports.records import Import
from steward.imports import storage
from steward.imports.preview import PreviewQuery, preview
from steward.imports.run_as import run_as
from steward.imports.storage import PreparedImport
from steward.model import plan_json
from steward.model.account import Scope
from steward.model.ids import IntegrationId, new_id
from steward.model.instants import wire_time
from steward.model.refusals import AllowanceSpent, KeyReused, NotConnected
from steward.steps.workflow.expressions.evaluate import Evaluator

_CONTENT_BYTES = 2 * 1024 * 1024
_CONTENT_VALUES = 200_000


class ImportRecord(msgspec.Struct):
    """An import; `plan` only on get."""

    id: UlidStr
    name: Name
    source: ImportSourceStr
    sha256: Sha256
    bytes: Count
    step_count: PositiveInt
    supported: bool
    issues: list[Finding]
    needs: list[Platform]
    variables: list[ReadVariable]
    trigger: ProposedTrigger | None
    reach: ReachWire
    created_at: Instant
    created_by: PositiveInt | None
    created_via: ViaStr | None
    api_client_id: str | None
    plan: PlanWire | UnsetType = UNSET


class ImportResponse(msgspec.Struct):
    """An import."""

    import_: ImportRecord = msgspec.field(name="import")


class ImportsResponse(msgspec.Struct):
    """A page of imports."""

    imports: list[ImportRecord]
    next_cursor: Cursor | None


class ImportPreviewResponse(msgspec.Struct):
    """A preview of how an import would run."""

    plan: PlanWire
    bindable: list[BindableStep]
    callable: list[CallableStep]
    variables: list[Variable]
    readiness: WorkflowReadiness
    issues: list[Finding]
    reach: ReachWire
    would_wait_for_approval: bool
    store_changes: list[str]
    sends: list[str]


def _content(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise field_error("Give the export's text, or the export as an object.")
    if isinstance(value, str) and "\x00" in value:
        raise field_error(
            "This is not an exported workflow: it contains characters that no text has. Choose the .json file"
            " of n8n or the .flow file of Shopify Flow."
        )
    return value


_SourceText = Literal["workflow_tool", "store_flow"]
Content = Annotated[
    Any, BeforeValidator(_content), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
]


class KeepBody(RequestBody):
    """An export to keep."""

    source: _SourceText
    name: NameText
    content: Content


class PreviewKeptBody(RequestBody):
    """The setup under which a stored import is previewed."""

    integration_id: Positive | None = None
    bindings: Bindings = Field(default={})
    accounts: Accounts = Field(default={})
    calls: Calls = Field(default={})
    variables: Variables = Field(default={})
    inputs: OpenObject = Field(default={})


class ImportPreviewBody(PreviewKeptBody):
    """The same of an export that is not kept."""

    source: _SourceText
    content: Content


class RunAsBody(RequestBody):
    """An automation of an import."""

    model_config = ConfigDict(json_schema_extra=BY_EVENTS)

    name: NameText
    schedule: ScheduleJson
    integration_id: Positive | None = None
    timezone: ZoneText = Field(default="")
    trigger: TriggerBody = ScheduleTriggerBody(kind="schedule")
    bindings: Bindings = Field(default={})
    accounts: Accounts = Field(default={})
    calls: Calls = Field(default={})
    variables: Variables = Field(default={})
    send_mode: Literal["ask", "send"] = "ask"
    idempotency_key: IdempotencyKey = Field(default="")


class ImportsQuery(PageQuery):
    """Query parameters: which imports to list."""

    source: _SourceText | None = None
    supported: QueryFlag | None = None


def record(stored_import: Import, *, with_plan: bool = False) -> ImportRecord:
    """Returns the API record of the import."""
    report: Mapping[str, Any] = stored_import.report
    return ImportRecord(
        id=stored_import.id,
        name=stored_import.name,
        source=stored_import.source,
        sha256=stored_import.sha256,
        bytes=stored_import.bytes,
        step_count=report["step_count"],
        supported=stored_import.supported,
        issues=list(report["issues"]),
        needs=list(report["needs"]),
        variables=list(report.get("variables", ())),  # those stored by earlier versions have none
        trigger=report["trigger"],
        reach=report["reach"],
        created_at=wire_time(stored_import.created_at),
        created_by=stored_import.maker.created_by,
        created_via=stored_import.maker.created_via,
        api_client_id=stored_import.maker.api_client_id,
        plan=storage.shown_plan(stored_import.plan)
        if with_plan and stored_import.plan is not None
        else UNSET,
    )


def _evaluator(call: ApiCall) -> Evaluator:
    """Returns an evaluator with its own sandbox process, which no other organization uses."""
    context = call.context
    return Evaluator(context.sandbox_pool, str(call.actor.org), f"import {new_id(context.clock.now())}")


async def prepare_keep(call: ApiCall) -> PreparedImport:
    """Reads the export before any transaction is open."""
    body: KeepBody = call.body
    return await storage.prepare(body.source, body.content, body.name, _evaluator(call))


async def keep(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /v1/automations/imports` with a new import, or the one of equal content."""
    body: KeepBody = call.body
    stored = await storage.store(
        tx,
        call.actor,
        body.source,
        body.name,
        call.prepared,
        call.context.vault,
        call.context.rules.imports_kept,
    )
    response = ImportResponse(record(stored.record, with_plan=True))
    return replayed(response) if stored.replayed else response


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/imports` with the imports, newest first."""
    query: ImportsQuery = call.query
    after = call.page_start()
    rows = await imports.listed(
        tx,
        call.actor.org,
        source=query.source,
        supported=query.supported,
        after=None if after is None else (int(str(after[0])), str(after[1])),
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = call.next_cursor((ms(page[-1].created_at), page[-1].id)) if more else None
    return ImportsResponse([record(row) for row in page], cursor)


async def get(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/imports/{importId}` with the import and its plan."""
    return ImportResponse(
        record(await imports.get(tx, call.actor.org, call.ids["import_id"]), with_plan=True)
    )


async def delete(tx: Tx, call: ApiCall) -> Response:
    """Handles `DELETE /v1/automations/imports/{importId}`."""
    await storage.delete(tx, call.actor, call.ids["import_id"])
    return EmptyResponse()


async def prepare_preview(call: ApiCall) -> PreparedImport:
    """Reads the export before any transaction is open."""
    body: ImportPreviewBody = call.body
    return await storage.prepare(body.source, body.content, None, _evaluator(call))


async def preview_sent(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /v1/automations/imports/preview` with the preview. Keeps nothing."""
    prepared: PreparedImport = call.prepared
    issues = [finding.wire() for finding in prepared.reading.report.findings]
    plan = plan_json.to_json(prepared.reading.plan)
    return _preview_response(await preview(tx, call.actor, plan, issues, _preview_query(call)))


async def preview_kept(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/imports/{importId}/preview`."""
    stored_import = await imports.get(tx, call.actor.org, call.ids["import_id"])
    report: Mapping[str, Any] = stored_import.report
    return _preview_response(
        await preview(tx, call.actor, stored_import.plan or {}, report["issues"], _preview_query(call))
    )


def _preview_query(call: ApiCall) -> PreviewQuery:
    body: PreviewKeptBody = call.body
    integration = None if body.integration_id is None else IntegrationId(body.integration_id)
    return PreviewQuery(
        integration,
        body.bindings,
        body.accounts,
        call.context.automation_rules.topics_of,
        body.calls,
        body.variables,
        call.ids.get("import_id"),
    )


def _preview_response(preview_wire: Mapping[str, Any]) -> ImportPreviewResponse:
    return ImportPreviewResponse(**preview_wire)


async def run_as_automation(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/imports/{importId}/automations`."""
    body: RunAsBody = call.body
    command = CreateWorkflowCommand(
        import_id=call.ids["import_id"],
        name=body.name,
        schedule=body.schedule.sent,
        integration_id=None if body.integration_id is None else IntegrationId(body.integration_id),
        timezone=body.timezone if "timezone" in body.model_fields_set else None,
        trigger=automation_bodies.requested_trigger(body.trigger),
        bindings=body.bindings,
        accounts=body.accounts,
        calls=body.calls,
        variables=body.variables,
        send_mode=body.send_mode,
        idempotency_key=body.idempotency_key or None,
    )
    created = await run_as(tx, call.actor, command, rules=call.context.automation_rules)
    automation = await automation_records.record_with_readiness(tx, created.automation, is_new=True)
    response = AutomationResponse(automation)
    return replayed(response) if created.replayed else response


OPERATIONS = (
    Operation(
        name="imports.keep",
        method="POST",
        path="/v1/automations/imports",
        scope=Scope.WRITE,
        prepare=prepare_keep,
        function=keep,
        body=KeepBody,
        body_limit=_CONTENT_BYTES,
        body_values=_CONTENT_VALUES,
        response=ImportResponse,
        summary="Keep import",
        status=201,
        refusals=(AllowanceSpent,),
        writes=True,
        repeats=True,
    ),
    Operation(
        name="imports.list",
        method="GET",
        path="/v1/automations/imports",
        scope=Scope.READ,
        function=find,
        query=ImportsQuery,
        response=ImportsResponse,
        summary="List imports",
    ),
    Operation(
        name="imports.preview_content",
        method="POST",
        path="/v1/automations/imports/preview",
        scope=Scope.READ,
        prepare=prepare_preview,
        function=preview_sent,
        body=ImportPreviewBody,
        body_limit=_CONTENT_BYTES,
        body_values=_CONTENT_VALUES,
        response=ImportPreviewResponse,
        summary="See how an export would run",
    ),
    Operation(
        name="imports.get",
        method="GET",
        path="/v1/automations/imports/{import_id}",
        scope=Scope.READ,
        function=get,
        response=ImportResponse,
        summary="Get import",
    ),
    Operation(
        name="imports.delete",
        method="DELETE",
        path="/v1/automations/imports/{import_id}",
        scope=Scope.WRITE,
        function=delete,
        response=EmptyResponse,
        summary="Delete import",
        writes=True,
    ),
    Operation(
        name="imports.preview",
        method="POST",
        path="/v1/automations/imports/{import_id}/preview",
        scope=Scope.READ,
        function=preview_kept,
        body=PreviewKeptBody,
        response=ImportPreviewResponse,
        summary="See how an import would run",
    ),
    Operation(
        name="imports.run_as_automation",
        method="POST",
        path="/v1/automations/imports/{import_id}/automations",
        scope=Scope.WRITE,
        function=run_as_automation,
        body=RunAsBody,
        response=AutomationResponse,
        summary="Run import as automation",
        status=201,
        refusals=(KeyReused, NotConnected),
        writes=True,
        wakes=("due",),
    ),
)
