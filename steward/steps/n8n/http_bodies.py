"""The bodies of httpRequest: JSON, forms, forms of parts without files, and raw text."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from steward.steps.workflow.answers import FORM, JSON, name_value_rows, parse_json_object
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, Params, StepProblem

_PARTS = "multipart-form-data"
_CONTENT_TYPES: tuple[str, ...] = ("json", "form-urlencoded", _PARTS, "raw", "binaryData")
_FILE = "It sends a file, which is not supported. Remove it."


def body_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the bodies that cannot be sent."""
    if node.version < 3:
        if node.get("sendBinaryData"):
            yield StepProblem("error", "binary", _FILE)
        kind, known = node.literal("options.bodyContentType", "json"), _CONTENT_TYPES[:4]
    else:
        kind, known = node.literal("contentType", "json"), _CONTENT_TYPES
        if kind == "binaryData" or (kind == _PARTS and _has_files(node)):
            yield StepProblem("error", "binary", _FILE)
    if kind not in known:
        words = f"The kind of its body, “{str(kind)[:60]}”, is not known. Choose another one."
        yield StepProblem("error", "parameter", words)


def _has_files(node: NodeDefinition) -> bool:
    rows = node.get("bodyParameters.parameters", [])
    return any(
        isinstance(row, Mapping) and row.get("parameterType", "formData") != "formData"
        for row in (rows if isinstance(rows, list) else ())
    )


def body_of(params: Params, version: float) -> tuple[bytes, str | None]:
    """Returns the body and its content type. Raises ItemFailed."""
    if version < 3:
        return _older_body(params)
    if not params.flag("sendBody"):
        return b"", None
    kind = params.text("contentType", "json")
    if kind == "raw":
        return js.text(params.get("body", "")).encode(), params.text("rawContentType", "text/plain")
    if kind == "form-urlencoded" and params.text("specifyBody", "keypair") == "string":
        return js.text(params.get("body", "")).encode(), FORM
    if kind == "json" and params.text("specifyBody", "keypair") == "json":
        given_json = params.get("jsonBody", "")
        value = js.parse_json(given_json) if isinstance(given_json, str) else given_json
        if value is js.UNDEFINED:
            raise ItemFailed("The JSON body of this step cannot be read.")
        return js.json_text(value).encode(), JSON
    return _of_fields(name_value_rows(params, "bodyParameters.parameters"), kind)


def _older_body(params: Params) -> tuple[bytes, str]:
    kind = params.text("options.bodyContentType", "json")
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


def _of_fields(fields: Mapping[str, Any], kind: str) -> tuple[bytes, str]:
    if kind == "form-urlencoded":
        return urlencode({name: js.text(value) for name, value in fields.items()}).encode(), FORM
    if kind == _PARTS:
        return _parts(fields)
    return js.json_text(fields).encode(), JSON


def _parts(fields: Mapping[str, Any]) -> tuple[bytes, str]:
    """Returns a form of parts (RFC 7578); its boundary follows from its content, so that it is repeatable."""
    texts = {name: _part_text(value).encode() for name, value in fields.items()}
    whole = b"\0".join(part for name, text in texts.items() for part in (name.encode(), text))
    boundary = f"steward-{hashlib.sha256(whole).hexdigest()[:32]}"
    lines: list[bytes] = []
    for name, text in texts.items():
        quoted = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{quoted}"\r\n\r\n'
        lines += [head.encode(), text, b"\r\n"]
    return b"".join([*lines, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _part_text(value: Any) -> str:
    return js.json_text(value) if js.is_object(value) or js.is_list(value) else js.text(value)
