"""Labels fields of steps as n8n does."""

import re
from collections.abc import Mapping
from typing import Any

_LABELS = {
    "url": "The URL",
    "endpoint": "The endpoint",
    "jsCode": "Its code",
    "functionCode": "Its code",
    "pythonCode": "Its code",
    "jsonBody": "The JSON body",
    "body": "The body",
    "jsonHeaders": "The JSON of its headers",
    "headerParametersJson": "The JSON of its headers",
    "jsonQuery": "The JSON of its query parameters",
    "queryParametersJson": "The JSON of its query parameters",
    "bodyParametersJson": "The JSON body",
    "jsonOutput": "The JSON output",
    "workflowJson": "The workflow inside it",
}
_ROWS = {
    "headerParameters": "The header",
    "headerParametersUi": "The header",
    "queryParameters": "The query parameter",
    "queryParametersUi": "The query parameter",
    "bodyParameters": "The body field",
    "bodyParametersUi": "The body field",
    "assignments": "The field",
    "fields": "The field",
    "values": "The field",
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# names whose spelling does not follow from the parameter or type
_SPELLINGS = {"Aws": "AWS", "Dhl": "DHL", "ICal": "iCal", "Jwt": "JWT", "Share Point": "SharePoint"}
_SPELLED = re.compile(rf"\b(?:{'|'.join(_SPELLINGS)})\b")


def label_of(parameters: Mapping[str, Any], path: str) -> str:
    """Returns the label of the field at a path of a node, such as “The field “Api Key””."""
    first, _, inner_path = path.partition(".")
    if first != "parameters":
        return "A part of the step"
    parts = inner_path.split(".")
    if parts[0] in _LABELS:
        return _LABELS[parts[0]]
    name = _name_of_row(parameters, parts)
    if name:
        return f"{_ROWS.get(parts[0], 'The field')} “{name[:60]}”"
    last = next((part for part in reversed(parts) if not part.isdigit() and part != "value"), parts[0])
    return f"The field “{words_of(last)[:60]}”"


def words_of(name: str) -> str:
    """Returns the label for a parameter or type name: `sendQuery` becomes “Send Query”."""
    words = _HUMP.sub(" ", name.rpartition(".")[2])
    return _SPELLED.sub(lambda match: _SPELLINGS[match[0]], words[:1].upper() + words[1:])


def _name_of_row(parameters: Mapping[str, Any], parts: list[str]) -> str | None:
    """Returns the name in the list row that the path leads into."""
    value: Any = parameters
    name = None
    for part in parts:
        if isinstance(value, Mapping):
            row_name = value.get("name", value.get("key"))
            name = row_name if isinstance(row_name, str) and value is not parameters else name
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            break
    return name
