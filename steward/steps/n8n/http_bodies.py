"""The request bodies of httpRequest: JSON, form, multipart, file and raw text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from steward.connectors.base.multipart import field_head, file_head, form_of_parts
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n import item_files
from steward.steps.workflow.items import BinaryReference, readable_size
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.responses import FORM, JSON, name_value_rows, parse_json_object
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    Params,
    StepCall,
    StepProblem,
    is_expression,
)

_PARTS = "multipart-form-data"
_CONTENT_TYPES: tuple[str, ...] = ("json", "form-urlencoded", _PARTS, "raw", "binaryData")
_FILE_AS_FIELDS = (
    "It sends a file as JSON or as a form. Choose the body content type RAW/Custom or Form-Data Multipart."
)
_FILE_SETTING_UNUSED = (
    "“Send Binary File” is on, but n8n does not show it beside the other settings. No file is sent. Check it."
)
_BODY_BESIDE_FILE = "It sends a file and also has a body, and n8n does not say which is sent. Empty the body."
_UNCLEAR_FILE_NAMES = (
    "Which files it sends is not clear. Give the name of one file, or the field of each before its name:"
    " image:data,invoice:other."
)
_FILE_FIELD = "file"  # the form field of a file that has no field name
_UNDOCUMENTED_FIELD = f"n8n does not document the field's name; it is sent as “{_FILE_FIELD}”. Check it."
_FIELD_BY_EXPRESSION = (
    "An expression names its files. If it gives a file without a field, n8n does not document the field's"
    f" name; it is sent as “{_FILE_FIELD}”. Check it."
)
_FILE_IN_READ = "It sends a file with a request that reads. Choose POST or another method."
_FILE_PARAMETER = "formBinaryData"
_PATH = (
    "A name in its body has a dot or bracket, which releases of n8n send as it is or as nested objects."
    " Write the body as JSON."
)
_JSON_AS_TEXT = (
    "Its JSON body is given as one text, which n8n offers only for forms. Choose “Using JSON” and give"
    " it there."
)
_BODY_UNSENT = (
    "It has a body in a setting that is not the chosen one, and sends none of it, here as in n8n. Check how"
    " its body is specified."
)
BODY_FILE_BYTES = 1536 * 1024  # a request has at most 2 MiB


@dataclass(frozen=True, slots=True)
class BodyFile:
    """A file in a request body. `name` is its form field, or empty if the file is the whole body."""

    name: str
    file: BinaryReference
    content: bytes

    @property
    def shown(self) -> str:
        """The file's description for people."""
        return f"File “{self.file.file_name or self.name or 'data'}” ({readable_size(self.file.size)})"


def body_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the bodies that cannot be sent."""
    if node.version < 3:
        if node.get("sendBinaryData"):
            yield from _older_file_problems(node)
        kind, content_types = node.literal("options.bodyContentType", "json"), _CONTENT_TYPES[:4]
    else:
        kind, content_types = node.literal("contentType", "json"), _CONTENT_TYPES
        has_file = kind == "binaryData" or (kind == _PARTS and len(_file_rows(node)) > 0)
        if has_file and str(node.get("method", "GET")).upper() in ("GET", "HEAD"):
            yield StepProblem("error", "binary", _FILE_IN_READ)
        if kind == "json" and node.version < 4 and _has_path(node):
            yield StepProblem("error", "parameter", _PATH)
        yield from _unsent_body_problems(node, kind)
    if kind not in content_types:
        message = f"The kind of its body, “{str(kind)[:60]}”, is not known. Choose another one."
        yield StepProblem("error", "parameter", message)


def _unsent_body_problems(node: NodeDefinition, kind: AnyJson) -> Iterable[StepProblem]:
    """Yields a problem if the body is in another parameter than the one that is sent."""
    how = node.literal("specifyBody", "keypair")
    if node.get("sendBody") is not True or kind == "binaryData":
        return
    if kind == "json" and how not in ("keypair", "json"):
        yield StepProblem("error", "parameter", _JSON_AS_TEXT)
        return
    has_body = {
        "body": bool(node.get("body")),
        "jsonBody": bool(node.get("jsonBody")),
        "fields": any(row.get("name") for row in _rows(node)),
    }
    if any(has_body.values()) and not has_body[_sent_setting(kind, how)]:
        yield StepProblem("warning", "parameter", _BODY_UNSENT)


def _sent_setting(kind: AnyJson, how: AnyJson) -> str:
    if kind == "raw" or (kind == "form-urlencoded" and how == "string"):
        return "body"
    return "jsonBody" if kind == "json" and how == "json" else "fields"


def _sends_older_file(node: NodeDefinition) -> bool:
    """Returns whether a step of version 1 or 2 sends a file.

    n8n ignores the setting in GET and HEAD requests, and if the parameters are not JSON.
    """
    reads = str(node.get("requestMethod", "GET")).upper() in ("GET", "HEAD")
    return bool(node.get("sendBinaryData") and node.get("jsonParameters")) and not reads


def _older_file_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the file settings of versions 1 and 2 that are ignored, unsupported or undocumented."""
    if not _sends_older_file(node):
        yield StepProblem("warning", "binary", _FILE_SETTING_UNUSED)
        return
    content_type = str(node.literal("options.bodyContentType", "json"))
    names = str(node.get("binaryPropertyName", "data"))
    if content_type not in ("raw", _PARTS):
        yield StepProblem("error", "binary", _FILE_AS_FIELDS)
    elif is_expression(names):
        if content_type == _PARTS:
            yield StepProblem("warning", "binary", _FIELD_BY_EXPRESSION)
    elif _older_files(names, content_type) is None:
        yield StepProblem("error", "binary", _UNCLEAR_FILE_NAMES)
    elif content_type == _PARTS and ":" not in names:
        yield StepProblem("warning", "binary", _UNDOCUMENTED_FIELD)
    if str(node.get("bodyParametersJson") or "").strip("={} \r\n\t"):
        yield StepProblem("error", "binary", _BODY_BESIDE_FILE)


def _older_files(names: str, content_type: str) -> list[tuple[str, str]] | None:
    """Parses `data` or `a:data,b:other` into form fields and file names; returns None if it is malformed.

    The form field is empty if the file is the whole body.
    """
    if content_type != _PARTS:
        return [("", names.strip())] if names.strip() else None
    pairs = [[half.strip() for half in part.split(":")] for part in names.split(",")]
    if len(pairs) == 1 and len(pairs[0]) == 1:
        pairs = [[_FILE_FIELD, *pairs[0]]]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        return None
    return [(field, name) for field, name in pairs]


def sent_file_names(node: NodeDefinition) -> Sequence[str]:
    """Returns the names of the items' files that a request sends."""
    if node.version < 3:
        return _older_sent_names(node)
    kind = node.get("contentType", "json")
    if not node.get("sendBody"):
        return ()
    if kind == "binaryData":
        return (node.file_name("inputDataFieldName"),)
    rows = _file_rows(node) if kind == _PARTS else ()
    return [str(row.get("inputDataFieldName") or "data") for row in rows]


def _older_sent_names(node: NodeDefinition) -> Sequence[str]:
    if not _sends_older_file(node):
        return ()
    names = str(node.get("binaryPropertyName", "data"))
    if is_expression(names):
        return (names,)
    content_type = str(node.literal("options.bodyContentType", "json"))
    return [name for _, name in _older_files(names, content_type) or ()]


def _file_rows(node: NodeDefinition) -> Sequence[JsonObject]:
    return [row for row in _rows(node) if row.get("parameterType") == _FILE_PARAMETER]


def _rows(node: NodeDefinition) -> Sequence[JsonObject]:
    rows = node.get("bodyParameters.parameters", [])
    return [row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, Mapping)]


def _has_path(node: NodeDefinition) -> bool:
    """Returns whether the JSON body has a name that is a path; n8n releases differ in how they send it."""
    names = [str(row.get("name", "")) for row in _rows(node) if node.get("sendBody")]
    by_pairs = node.literal("specifyBody", "keypair") == "keypair"
    return by_pairs and any(not is_expression(name) and _is_path(name) for name in names)


def _is_path(name: str) -> bool:
    return re.search(r"[.\[]", name) is not None


async def body_files(call: StepCall, index: int) -> tuple[BodyFile, ...]:
    """Returns the files in the request body of an item. Raises ItemFailed."""
    names = _names_of_files(call.params(index), call.version)
    files = [(name, item_files.file_of(call.items[index], field or "data")) for name, field in names]
    if sum(file.size for _, file in files) > BODY_FILE_BYTES:
        raise ItemFailed("The files of this request are larger than 1.5 MiB together. Send smaller ones.")
    return tuple([BodyFile(name, file, await item_files.content_of(call, file)) for name, file in files])


def _names_of_files(params: Params, version: float) -> Sequence[tuple[str, str]]:
    """Returns the form field and file name of each file in the body. Raises ItemFailed.

    The form field is empty if the file is the whole body.
    """
    if version < 3:
        if not (params.flag("sendBinaryData") and params.flag("jsonParameters")):
            return ()
        content_type = params.text("options.bodyContentType", "json")
        files = _older_files(params.text("binaryPropertyName", "data"), content_type)
        if files is None:
            raise ItemFailed(_UNCLEAR_FILE_NAMES)
        return files
    kind = params.text("contentType", "json")
    if not params.flag("sendBody") or kind not in ("binaryData", _PARTS):
        return ()
    if kind == "binaryData":
        return [("", params.text("inputDataFieldName"))]
    return [
        (row.text("name"), row.text("inputDataFieldName"))
        for row in params.rows("bodyParameters.parameters")
        if row.text("parameterType") == _FILE_PARAMETER
    ]


def body_of(params: Params, version: float, files: Sequence[BodyFile] = ()) -> tuple[bytes, str | None]:
    """Returns the body and its content type. Raises ItemFailed."""
    if version < 3:
        return _older_body(params, files)
    if not params.flag("sendBody"):
        return b"", None
    kind = params.text("contentType", "json")
    if kind == "binaryData":
        if not files:
            raise ItemFailed(_FILE_IN_READ)
        return files[0].content, files[0].file.mime_type
    if kind == "raw":
        return js.text(params.get("body", "")).encode(), params.text("rawContentType", "text/plain")
    if kind == "form-urlencoded" and params.text("specifyBody", "keypair") == "string":
        return js.text(params.get("body", "")).encode(), FORM
    if kind == "json" and params.text("specifyBody", "keypair") == "json":
        return _json_body(params.get("jsonBody", "")), JSON
    rows = name_value_rows(params, "bodyParameters.parameters")
    fields = {name: value for name, value in rows.items() if not _is_file(name, files)}
    return _of_fields(_nested(fields, version) if kind == "json" else fields, kind, files)


def _nested(fields: JsonObject, version: float) -> JsonObject:
    """Returns the fields of a JSON body nested by their paths: `customer.city` becomes a member of
    `customer`.

    Raises ItemFailed for a path in version 3, whose releases differ, and for an index that is too large.
    """
    if version < 4 and any(map(_is_path, fields)):
        raise ItemFailed(_PATH)
    body: dict[str, JsonValue] = {}
    for path, value in fields.items():
        try:
            js.set_path(body, path, js.deep_copy(value))
        except OverflowError as error:
            raise ItemFailed(str(error)) from error
    return body


def _json_body(written: JsonValue) -> bytes:
    value = js.parse_json(written) if isinstance(written, str) else written
    if value is js.UNDEFINED:
        raise ItemFailed("The JSON body of this step cannot be read.")
    return js.json_text(value).encode()


def _is_file(name: str, files: Sequence[BodyFile]) -> bool:
    return any(file.name == name for file in files)


def _older_body(params: Params, files: Sequence[BodyFile]) -> tuple[bytes, str]:
    kind = params.text("options.bodyContentType", "json")
    if files and kind == _PARTS:
        return _parts({}, files)
    if files:
        return files[0].content, params.text("options.bodyContentCustomMimeType") or files[0].file.mime_type
    is_text = params.flag("jsonParameters")
    if kind == "raw":
        content = js.text(params.get("bodyParametersJson" if is_text else "body", ""))
        return content.encode(), params.text("options.bodyContentCustomMimeType") or "text/plain"
    fields = (
        parse_json_object(params.get("bodyParametersJson", ""), "body")
        if is_text
        else name_value_rows(params, "bodyParametersUi.parameter")
    )
    return _of_fields(fields, kind)


def _of_fields(fields: JsonObject, kind: str, files: Sequence[BodyFile] = ()) -> tuple[bytes, str]:
    if kind == "form-urlencoded":
        return urlencode({name: js.text(value) for name, value in fields.items()}).encode(), FORM
    if kind == _PARTS:
        return _parts(fields, files)
    return js.json_text(fields).encode(), JSON


def _parts(fields: JsonObject, files: Sequence[BodyFile]) -> tuple[bytes, str]:
    parts = [(field_head(name), _part_text(value).encode()) for name, value in fields.items()]
    for file in files:
        head = file_head(file.name, file.file.file_name or file.name, file.file.mime_type)
        parts.append((head, file.content))
    return form_of_parts(parts)


def _part_text(value: JsonValue) -> str:
    return js.json_text(value) if js.is_object(value) or js.is_list(value) else js.text(value)
