"""The node googleDocs: creates, reads and extends documents, through a bound account."""

import re
from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_NAMES = "authentication resource operation driveId folderId title documentURL simple actionsUi updateFields"
_FILES = "www.googleapis.com/drive/v3/files"
_DOCUMENTS = "docs.googleapis.com/v1/documents"
_ADDRESS = re.compile(r"https://docs\.google\.com/document/d/([A-Za-z0-9_-]+)")
_DOCUMENT = {"documentURL": "which document it means"}
# By action on a text: its supported settings.
_ACTIONS = {
    "insert": frozenset(
        ("object", "action", "text", "insertSegment", "segmentId", "locationChoice", "index")
    ),
    "replaceAll": frozenset(["object", "action", "text", "replaceText", "matchCase"]),
}


def _document(fields: ServiceFields) -> str:
    """Returns the id of the document, which may come from its URL. Raises ItemFailed."""
    text = fields.text("documentURL").strip()
    match = _ADDRESS.match(text)
    return path_segment(match[1] if match else text, "document")


def _new_document(fields: ServiceFields) -> JsonObject:
    folder = fields.text("folderId", "root")
    parent = fields.text("driveId") if folder == "default" else folder
    is_own = parent in ("", "default", "myDrive", "root")
    return {
        "name": fields.text("title"),
        "mimeType": "application/vnd.google-apps.document",
        "parents": ["root" if is_own else parent],
    }


def _changes(fields: ServiceFields) -> JsonObject:
    return {"requests": [_change(row) for row in fields.rows("actionsUi.actionFields")]}


def _change(row: ServiceFields) -> dict[str, AnyJson]:
    text = row.text("text")
    if row.text("action") == "replaceAll":
        match = {"text": text, "matchCase": row.flag("matchCase")}
        return {"replaceAllText": {"replaceText": row.text("replaceText"), "containsText": match}}
    segment = {} if row.text("insertSegment", "body") == "body" else {"segmentId": row.text("segmentId")}
    if row.text("locationChoice", "endOfSegmentLocation") == "location":
        position = {**segment, "index": int(float(row.text("index", "0")))}
        return {"insertText": {"location": position, "text": text}}
    return {"insertText": {"endOfSegmentLocation": segment, "text": text}}


def _unknown_changes(node: NodeDefinition) -> Iterable[StepProblem]:
    rows = node.get("actionsUi.actionFields", [])
    for row in rows if isinstance(rows, list) else ():
        kinds = _ACTIONS.get(str(row.get("action")), frozenset()) if isinstance(row, Mapping) else frozenset()
        if not kinds or row.get("object", "text") != "text" or not kinds.issuperset(row):
            message = "It changes a document otherwise than by putting in or replacing texts."
            yield StepProblem("error", "parameter", f"{message} Remove that change, or the step.")
    if node.get("updateFields"):
        message = "Its setting “Write Control” does not run here. Remove the setting or the step."
        yield StepProblem("error", "parameter", message)


def _read(response: JsonValue, fields: ServiceFields) -> list[dict[str, AnyJson]]:
    """Returns the document in Google's form, or only its id and text."""
    document = response if isinstance(response, Mapping) else {}
    if not fields.flag("simple", True):
        return [dict(document)]
    body = document.get("body")
    blocks = body.get("content") if isinstance(body, Mapping) else None
    texts = "".join(map(_text, blocks)) if isinstance(blocks, list) else ""
    return [{"documentId": document.get("documentId"), "content": texts}]


def _text(block: AnyJson) -> str:
    """Returns the text of a paragraph, or an empty text for other blocks."""
    paragraph = block.get("paragraph") if isinstance(block, Mapping) else None
    elements = paragraph.get("elements") if isinstance(paragraph, Mapping) else None
    runs = [element.get("textRun") for element in elements or () if isinstance(element, Mapping)]
    return "".join(str(run.get("content", "")) for run in runs if isinstance(run, Mapping))


def _updated(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the response, or the result of the first change with the document's id."""
    result = dict(response) if isinstance(response, Mapping) else {}
    if not fields.flag("simple", True):
        return [result]
    replies = result.get("replies")
    first = replies[0] if isinstance(replies, list) and replies and isinstance(replies[0], Mapping) else {}
    inner: JsonValue = next(iter(first.values()), {})
    return [{**(inner if isinstance(inner, Mapping) else {}), "documentId": result.get("documentId")}]


_DEFAULTS = {"document": "create"}
_OPERATIONS = {
    "document.create": ServiceOperation(
        "POST", f"{_FILES}?supportsAllDrives=true", _new_document, recipient="folderId", text="title",
        needed={"title": "the name of the document"},
    ),
    "document.get": ServiceOperation(
        "GET", "", choose_path=lambda fields: f"{_DOCUMENTS}/{_document(fields)}", to_items=_read,
        needed=_DOCUMENT,
    ),
    "document.update": ServiceOperation(
        "POST", "", _changes, recipient="documentURL", to_items=_updated, needed=_DOCUMENT,
        choose_path=lambda fields: f"{_DOCUMENTS}/{_document(fields)}:batchUpdate",
        text=lambda fields: "\n".join(row.text("text") for row in fields.rows("actionsUi.actionFields")),
        check=_unknown_changes,
    ),
}  # fmt: skip


class GoogleDocsNode(HttpServiceNode):
    """Creates, reads and extends documents; tables, pictures and styles are not supported."""

    types = ("googleDocs",)
    versions = (1, 2)
    service = "Google Docs"
    address = "https://"  # on another host: Google Drive creates documents
    credential_types = ("googleDocsOAuth2Api",)
    parameters = frozenset(_NAMES.split())
    default_resource = "document"
    default_operations = _DEFAULTS
    response_parameters = ("simple",)
    operations = _OPERATIONS
