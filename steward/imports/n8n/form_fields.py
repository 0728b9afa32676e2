"""The fields of a form trigger."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from steward.model.json import JsonObject
from steward.model.plan import StartField, StartFieldType

_MAX_FIELDS: Final = 100
_MAX_NAME: Final = 500
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9_]")
_TYPES = MappingProxyType(
    {
        "text": StartFieldType.TEXT,
        "hiddenField": StartFieldType.TEXT,
        "password": StartFieldType.TEXT,
        "textarea": StartFieldType.LONG_TEXT,
        "number": StartFieldType.NUMBER,
        "email": StartFieldType.EMAIL,
        "date": StartFieldType.DATE,
        "dropdown": StartFieldType.CHOICE,
        "radio": StartFieldType.CHOICE,
        "checkbox": StartFieldType.CHOICES,
        "file": StartFieldType.FILES,
    }
)
# Types whose value is one text.
_WITH_DEFAULT: Final = frozenset(
    (
        *(StartFieldType.TEXT, StartFieldType.LONG_TEXT, StartFieldType.EMAIL),
        *(StartFieldType.DATE, StartFieldType.CHOICE),
    )
)


def form_fields(parameters: JsonObject) -> tuple[StartField, ...]:
    """Returns the form fields that a start can fill; leaves out HTML elements."""
    fields: dict[str, StartField] = {}
    for row in _rows(parameters):
        field = _field(row)
        if field is not None and len(fields) < _MAX_FIELDS:
            fields.setdefault(field.name, field)
    return tuple(fields.values())


def _rows(parameters: JsonObject) -> Iterator[Mapping[str, Any]]:
    listed = parameters.get("formFields")
    values = listed.get("values") if isinstance(listed, Mapping) else None
    yield from (row for row in values if isinstance(row, Mapping)) if isinstance(values, list) else ()


def _field(row: Mapping[str, Any]) -> StartField | None:
    field_type = _TYPES.get(str(row.get("fieldType", "text")))
    label = row.get("fieldLabel")
    name = row.get("fieldName") or label
    if field_type is None or not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        return None
    if field_type is StartFieldType.FILES:
        return _file_field(row, name)
    options = _options(row)
    if field_type is StartFieldType.CHOICE and row.get("multiselect") is True:
        field_type = StartFieldType.CHOICES
    if field_type in (StartFieldType.CHOICE, StartFieldType.CHOICES) and not options:
        field_type = StartFieldType.JSON if field_type is StartFieldType.CHOICES else StartFieldType.TEXT
    label_text = label if isinstance(label, str) and label else name
    default = _default(row) if field_type in _WITH_DEFAULT else ""
    is_required = row.get("requiredField") is True
    return StartField((name,), label_text[:_MAX_NAME], field_type, is_required, options, default)


def _default(row: Mapping[str, Any]) -> str:
    """Returns the value of a hidden field, or the one that a field shows at first, unless it is computed."""
    value = row.get("fieldValue" if row.get("fieldType") == "hiddenField" else "defaultValue")
    if not isinstance(value, str) or value.startswith("=") or len(value) > _MAX_NAME:
        return ""
    return value


def _file_field(row: Mapping[str, Any], name: str) -> StartField:
    """Returns the field for a file, under n8n's name for that file of the item."""
    is_single = row.get("multipleFiles") is False
    field_type = StartFieldType.FILE if is_single else StartFieldType.FILES
    return StartField((_NO_WORD.sub("_", name),), name, field_type, row.get("requiredField") is True)


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    listed = row.get("fieldOptions")
    values = listed.get("values") if isinstance(listed, Mapping) else None
    rows = values if isinstance(values, list) else []
    options = (value.get("option") for value in rows if isinstance(value, Mapping))
    texts = [text for text in options if isinstance(text, str) and text]
    # n8n computes a text that begins with "=" for each visitor, so any value may be valid.
    return () if any(text.startswith("=") for text in texts) else tuple(dict.fromkeys(texts))
