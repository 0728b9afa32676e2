"""Calls that workflow steps make to the API of a connected service, sent at most once."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.send_once import LABEL_CHARACTERS, SendOnceOperation, text_fields
from steward.model.change import FieldChange, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue

_FILE_TEXT = 1024
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}\s*")


@dataclass(frozen=True, slots=True)
class CallFile:
    """A file sent with a call; `shown` is how an approval names it.

    With a `field`, the call is a multipart form in which the file has that name.
    """

    mime_type: str
    content: bytes
    shown: str
    field: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class SendCall:
    """Command of one call as a step prepared it: `path` is relative to the service's address.

    `recipient` and `text` are what people read of a message; the rest of the body is shown as JSON.
    `is_form`: the body is sent as a form with text values.
    """

    method: str
    path: str
    body: JsonObject = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    is_form: bool = False
    recipient: str = ""
    text: str = ""
    message: str | None = None
    file: CallFile | None = None


@dataclass(frozen=True, slots=True)
class SendCallOperation(SendOnceOperation):
    """Makes one call per command, at most once, because it cannot be read back.

    `subject` is the kind of object that an approval shows.
    """

    name: str
    subject: str = "message"

    def plan(self, commands: Sequence[SendCall], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one call per command."""
        return PlannedChanges(tuple(self._proposal(command, integration_id) for command in commands), ())

    def _proposal(self, command: SendCall, integration_id: IntegrationId) -> Proposal:
        arguments: JsonObject = {
            "method": command.method,
            "path": command.path,
            "query": dict(command.query),
            "body": command.body,
            "form": command.is_form,
        }
        if command.file is not None:
            content = base64.b64encode(command.file.content).decode()
            file: dict[str, JsonValue] = {"mime_type": command.file.mime_type, "content": content}
            if command.file.field:
                file |= {"field": command.file.field, "name": command.file.name}
            arguments = {**arguments, "file": file}
        target = command.recipient or command.path
        part = Part(self.name, integration_id, target[:LABEL_CHARACTERS], arguments, None, None)
        label = (command.text.strip().partition("\n")[0] or target)[:LABEL_CHARACTERS]
        ref = ObjectRef(self.subject, None, label)
        return Proposal(ref, self.action, tuple(_fields(command)), (part,), integration_id, command.message)


def _fields(command: SendCall) -> list[FieldChange]:
    """Returns the fields that the approver sees: recipient, text, the call, and the rest of its body."""
    rows = [
        ("recipient", "To", command.recipient),
        ("text", "Text", command.text),
        ("file", "File", command.file.shown if command.file is not None else ""),
        ("request", "Request", f"{command.method} {command.path}"),
    ]
    words = {command.recipient, command.text} - {""}
    other_fields = {name: value for name, value in command.body.items() if not _is_among(value, words)}
    if other_fields:
        rows.append(("body", "Body", json.dumps(_without_files(other_fields), ensure_ascii=False, indent=1)))
    return text_fields(rows)


def _without_files(value: JsonValue) -> JsonValue:
    """Returns a body for people to read, with the size of each Base64 file in place of the file."""
    if isinstance(value, Mapping):
        return {name: _without_files(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_files(member) for member in value]
    if isinstance(value, str) and len(value) > _FILE_TEXT and _BASE64.fullmatch(value):
        return f"({len(value) * 3 // 4 // 1024} KiB)"
    return value


def _is_among(value: JsonValue, words: set[str]) -> bool:
    return isinstance(value, str) and value in words
