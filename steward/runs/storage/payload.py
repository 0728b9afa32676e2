"""Checks, seals and reads the payload and files of a run started by hand, and builds its start item.

See docs/design/api/runs.md#run-now.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.database.automations import plans
from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.model import plan_json
from steward.model.automation import Automation, AutomationKind
from steward.model.ids import OrgId, RunId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import CALL_PARTS, DataMode, PlanTrigger, StartField, StartFieldType
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, Run
from steward.steps.workflow import start_times
from steward.steps.workflow.items import BinaryReference, Item

MAX_BYTES: Final = 256 * 1024
MAX_FILES: Final = 20  # refused past it before they are read
MAX_FILES_BYTES: Final = 5 * 1024 * 1024
_FIELD: Final = "payload"
_FILES: Final = "files"
_LEFT_EMPTY: Final = frozenset(
    (StartFieldType.TEXT, StartFieldType.LONG_TEXT, StartFieldType.EMAIL, StartFieldType.DATE)
)


@dataclass(frozen=True, slots=True)
class StartFile:
    """A file that a run is started with; `name` is its name among the files of the start's item."""

    name: str
    content: bytes
    mime_type: str
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class StartValues:
    """The payload of a run, and its files by name."""

    payload: JsonObject
    files: Mapping[str, BinaryReference] = field(default_factory=dict)


async def check(
    tx: Tx, automation: Automation, payload: JsonObject | None, files: Sequence[StartFile] = ()
) -> None:
    """Raises ValidationFailed unless the automation can be started with the payload and the files."""
    if payload is None and not files:
        return
    errors = _size_errors(payload or {}, files) or await _start_errors(tx, automation, payload, files)
    if errors:
        raise ValidationFailed(errors=errors)


def _size_errors(payload: JsonObject, files: Sequence[StartFile]) -> dict[str, list[str]]:
    if len(_encoded(payload).encode("utf-8")) > MAX_BYTES:
        return {_FIELD: ["A payload has at most 256 KiB. Send less."]}
    if sum(len(file.content) for file in files) > MAX_FILES_BYTES:
        return {_FILES: ["The files of a start have at most 5 MiB together. Send smaller ones."]}
    return {}


async def _start_errors(
    tx: Tx, automation: Automation, payload: JsonObject | None, files: Sequence[StartFile]
) -> dict[str, list[str]]:
    """Returns, by field, what the start of the automation does not take."""
    stored = None
    if automation.kind is AutomationKind.WORKFLOW:
        stored = await plans.newest(tx, automation.org, automation.id)
    plan = None if stored is None else plan_json.from_json(stored.plan)
    if plan is None or plan.mode is not DataMode.ITEMS:
        message = "Only automations of workflows from n8n are started with a payload or files. Leave it out."
        return {_FIELD if payload is not None else _FILES: [message]}
    entry = plan.entry()
    return {} if entry is None else _form_errors(entry, payload or {}, [file.name for file in files])


def _form_errors(entry: PlanTrigger, payload: JsonObject, files: Sequence[str]) -> dict[str, list[str]]:
    """Returns, by field, what is wrong with the values and files of the form that starts the workflow."""
    errors: dict[str, list[str]] = {}
    for start_field in entry.fields:
        if not start_field.is_file:
            parent, message = _FIELD, _value_error(start_field, payload)
        else:
            is_missing = start_field.required and not _files_of(start_field, files)
            parent, message = _FILES, "The form requires this file. Give it." if is_missing else None
        if message is not None:
            errors[f"{parent}.{start_field.name}"] = [message]
    return errors


def _files_of(start_field: StartField, names: Sequence[str]) -> list[str]:
    """Returns the names of the files that belong to a field of a form: its own, and its own with a number."""
    own_name = start_field.name
    numbered = f"{own_name}_"
    return [
        name
        for name in names
        if name == own_name
        or (
            start_field.type is StartFieldType.FILES
            and name.startswith(numbered)
            and name.removeprefix(numbered).isdecimal()
        )
    ]


def _value_error(start_field: StartField, payload: JsonObject) -> str | None:
    value = payload.get(start_field.name)
    if value is None or value in ("", []):
        has_default = start_field.name not in payload and start_field.default is not None
        is_missing = start_field.required and not has_default
        return "The form requires this field. Give a value." if is_missing else None
    if start_field.type is StartFieldType.NUMBER and not (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        return "Give a number."
    if start_field.type is StartFieldType.CHOICE and value not in start_field.options:
        return "Give one of the options of the form."
    if start_field.type is StartFieldType.CHOICES and not (
        isinstance(value, list) and all(option in start_field.options for option in value)
    ):
        return "Give a list of options of the form."
    return None


async def store(tx: Tx, vault: Vault, org: OrgId, run: RunId, values: StartValues) -> None:
    """Seals and stores the payload and files of a new run."""
    encoded: JsonValue = values.payload
    if values.files:
        files = {
            name: [file.sha256, file.size, file.mime_type, file.file_name]
            for name, file in values.files.items()
        }
        encoded = [values.payload, files]
    key_no, sealed = await vaults.seal_text(tx, vault, org, field=_field(run), text=_encoded(encoded))
    await runs.set_payload(tx, org, run, key_no=key_no, sealed=sealed)


async def read(tx: Tx, vault: Vault, org: OrgId, run: RunId) -> StartValues | None:
    """Returns the payload and files of a run; None if it has neither."""
    stored = await runs.payload(tx, org, run)
    if stored is None:
        return None
    key_no, sealed = stored
    text = await vaults.open_text(tx, vault, org, field=_field(run), key_no=key_no, sealed=sealed)
    stored_values = json.loads(text)
    if not isinstance(stored_values, list):
        return StartValues(stored_values)
    payload, files = stored_values
    return StartValues(payload, {name: BinaryReference(*file) for name, file in files.items()})


async def start_item(tx: Tx, vault: Vault, run: Run, entry: PlanTrigger, zone: str) -> Item | None:
    """Returns the item that the workflow's trigger passes on; None if the run started without anything.

    `zone` is the automation's time zone.
    """
    values = await read(tx, vault, run.org, run.id)
    if values is None:
        return None
    return Item(_start_fields(entry, run, values, zone), ((0, 0),), binary=values.files)


def _start_fields(entry: PlanTrigger, run: Run, values: StartValues, zone: str) -> JsonObject:
    payload = values.payload
    trigger = (entry.replaced or "").rpartition(".")[2]
    if trigger == "webhook":
        return _call_fields(entry, run, payload)
    if trigger == "formTrigger":
        return _submitted_fields(entry, run, values, zone)
    if trigger == "chatTrigger":
        return {"sessionId": run.id, "action": "sendMessage", **payload}
    return payload


def _submitted_fields(entry: PlanTrigger, run: Run, values: StartValues, zone: str) -> JsonObject:
    """Returns the output of a form: its fields in order, then when and how it was submitted.

    A field that the payload leaves out has its default; a text field without one is an empty text.
    """
    defaults: JsonObject = {
        start_field.name: "" if start_field.default is None else start_field.default
        for start_field in entry.fields
        if start_field.type in _LEFT_EMPTY or start_field.default is not None
    }
    field_values = {**defaults, **values.payload, **_file_values(entry, values.files)}
    names = [start_field.label if start_field.is_file else start_field.name for start_field in entry.fields]
    item = {name: field_values[name] for name in names if name in field_values} | field_values
    submitted_at = start_times.local_iso(run.queued_at, "UTC" if entry.submitted_in_utc else zone)
    item.setdefault("submittedAt", submitted_at)
    item.setdefault("formMode", execution_mode(run))
    return item


def execution_mode(run: Run) -> str:
    """Returns how n8n's triggers name the mode of a run."""
    return "test" if run.mode is Mode.TEST else "production"


def _call_fields(entry: PlanTrigger, run: Run, payload: JsonObject) -> JsonObject:
    """Returns the output of a webhook: the payload as body, and the parts of a call that steps read."""
    read_parts = {start_field.path[0] for start_field in entry.fields if not start_field.is_file}
    parts = {name: payload[name] for name in CALL_PARTS if name in read_parts and name in payload}
    body = {name: value for name, value in payload.items() if name not in parts}
    call = {"headers": {}, "params": {}, "query": {}, "body": body}
    return {**call, **parts, "executionMode": execution_mode(run)}


def _file_values(entry: PlanTrigger, files: Mapping[str, BinaryReference]) -> JsonObject:
    """Returns the name, type and size of each file of a form, by the labels of their fields."""
    values: dict[str, JsonValue] = {}
    for start_field in entry.fields:
        if not start_field.is_file:
            continue
        descriptions: list[JsonValue] = [
            {"filename": file.file_name or name, "mimetype": file.mime_type, "size": file.size}
            for name, file in ((name, files[name]) for name in _files_of(start_field, list(files)))
        ]
        if descriptions:
            values[start_field.label] = (
                descriptions if start_field.type is StartFieldType.FILES else descriptions[0]
            )
    return values


def _encoded(values: JsonValue) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _field(run: RunId) -> str:
    return f"payload:{run}"
