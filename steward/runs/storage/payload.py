"""The payload that a run is started with by hand: checked, sealed, and made the item of the start.

See docs/design/api/runs.md#run-now.
"""

import json
from typing import Final

from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.database.automations import plans
from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.model import plan_json
from steward.model.automation import Automation, AutomationKind
from steward.model.ids import OrgId, RunId
from steward.model.instants import wire_time
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import CALL_PARTS, DataMode, PlanTrigger, StartField, StartFieldType
from steward.model.refusals import ValidationFailed
from steward.model.run import Run

MAX_BYTES: Final = 256 * 1024
_FIELD: Final = "payload"


async def check(tx: Tx, automation: Automation, payload: JsonObject) -> None:
    """Raises ValidationFailed unless the automation can be started with the payload."""
    if len(_encoded(payload).encode("utf-8")) > MAX_BYTES:
        raise ValidationFailed(errors={_FIELD: ["A payload has at most 256 KiB. Send less."]})
    stored = None
    if automation.kind is AutomationKind.WORKFLOW:
        stored = await plans.newest(tx, automation.org, automation.id)
    plan = None if stored is None else plan_json.from_json(stored.plan)
    if plan is None or plan.mode is not DataMode.ITEMS:
        words = "Only automations of workflows from n8n are started with a payload. Leave it out."
        raise ValidationFailed(errors={_FIELD: [words]})
    entry = plan.entry()
    errors = {} if entry is None else _form_errors(entry, payload)
    if errors:
        raise ValidationFailed(errors=errors)


def _form_errors(entry: PlanTrigger, payload: JsonObject) -> dict[str, list[str]]:
    """Returns, by field, what is wrong with the values of the form that starts the workflow."""
    errors: dict[str, list[str]] = {}
    for field in entry.fields:
        words = _value_error(field, payload.get(field.name))
        if words is not None:
            errors[f"{_FIELD}.{field.name}"] = [words]
    return errors


def _value_error(field: StartField, value: JsonValue) -> str | None:
    if value is None or value in ("", []):
        return "The form requires this field. Give a value." if field.required else None
    if field.type is StartFieldType.NUMBER and not (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        return "Give a number."
    if field.type is StartFieldType.CHOICE and value not in field.options:
        return "Give one of the options of the form."
    if field.type is StartFieldType.CHOICES and not (
        isinstance(value, list) and all(option in field.options for option in value)
    ):
        return "Give a list of options of the form."
    return None


async def store(tx: Tx, vault: Vault, org: OrgId, run: RunId, payload: JsonObject) -> None:
    """Stores the payload of a new run, sealed for it."""
    key_no, sealed = await vaults.seal_text(tx, vault, org, field=_field(run), text=_encoded(payload))
    await runs.set_payload(tx, org, run, key_no=key_no, sealed=sealed)


async def read(tx: Tx, vault: Vault, org: OrgId, run: RunId) -> JsonObject | None:
    """Returns the payload that a run was started with; None without one."""
    stored = await runs.payload(tx, org, run)
    if stored is None:
        return None
    key_no, sealed = stored
    text = await vaults.open_text(tx, vault, org, field=_field(run), key_no=key_no, sealed=sealed)
    payload: JsonObject = json.loads(text)
    return payload


def start_item(entry: PlanTrigger, run: Run, payload: JsonObject) -> JsonObject:
    """Returns the payload as the item that the workflow's trigger would output."""
    trigger = (entry.replaced or "").rpartition(".")[2]
    if trigger == "webhook":
        read_parts = {field.path[0] for field in entry.fields}
        parts = {name: payload[name] for name in CALL_PARTS if name in read_parts and name in payload}
        body = {name: value for name, value in payload.items() if name not in parts}
        return {"headers": {}, "params": {}, "query": {}, **parts, "body": body}
    if trigger == "formTrigger":
        return {"submittedAt": wire_time(run.queued_at), "formMode": "production", **payload}
    if trigger == "chatTrigger":
        return {"sessionId": run.id, "action": "sendMessage", **payload}
    return payload


def _encoded(payload: JsonObject) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _field(run: RunId) -> str:
    return f"payload:{run}"
