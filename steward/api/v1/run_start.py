"""Starts a run for a person, with a payload and files."""

import unicodedata
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from steward.api.http.operation import ApiCall, Response, replayed
from steward.api.schema.fields import (
    FileContent,
    FileName,
    FromJson,
    IdempotencyKey,
    MimeTypeText,
    OpenObject,
    RequestBody,
    field_error,
)
from steward.api.v1.run_records import RunResponse, record
from steward.model.ids import AutomationId
from steward.model.run import Mode
from steward.runs import start
from steward.runs.start import RunNow
from steward.runs.storage.files import StoredRunFiles
from steward.runs.storage.payload import MAX_FILES, StartFile
from steward.steps.n8n.item_files import mime_type_of


class StartFileBody(RequestBody):
    """A file that a run starts with; without a MIME type, that of the end of its name."""

    data: FileContent
    file_name: FileName | None = None
    mime_type: MimeTypeText | None = None


def _each_named(value: Any) -> Any:
    """Refuses too many files before any is read, and names that are equal after normalization."""
    if type(value) is not dict:
        return value
    if len(value) > MAX_FILES:
        raise field_error(f"A run starts with at most {MAX_FILES} files. Send fewer.")
    names = {unicodedata.normalize("NFC", name) for name in value}
    if len(names) < len(value) or any(name != name.strip() for name in names):
        raise field_error("Give each file its own name, without spaces at its ends.")
    return value


class RunNowBody(RequestBody):
    """Run now."""

    idempotency_key: IdempotencyKey
    mode: Annotated[Mode, FromJson] = Mode.LIVE
    payload: OpenObject | None = None
    files: Annotated[dict[FileName, StartFileBody], BeforeValidator(_each_named)] | None = None


async def run_now(call: ApiCall) -> Response:
    """Handles `POST /v1/automations/{automationId}/runs`. Starts one run per idempotency key."""
    body: RunNowBody = call.body
    automation = AutomationId(call.ids["automation_id"])
    payload = None if body.payload is None else dict(body.payload)
    files = tuple(_start_file(name, file) for name, file in (body.files or {}).items())
    command = RunNow(automation, body.idempotency_key, body.mode, payload, files)
    context = call.context
    started = await start.start(
        context.engine,
        context.clock.now(),
        call.actor,
        command,
        templates=context.automation_rules.templates,
        max_waiting=context.rules.max_waiting_hand,
        weight=call.size,
        vault=context.vault,
        storage=partial(
            StoredRunFiles, context.engine, context.clock, context.vault, context.files, call.actor.org
        ),
    )
    response = RunResponse(record(started.run))
    return replayed(response) if started.replayed else response


def _start_file(name: str, body: StartFileBody) -> StartFile:
    mime_type = body.mime_type or mime_type_of(body.file_name)
    return StartFile(name, body.data, mime_type, body.file_name)
