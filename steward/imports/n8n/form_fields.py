"""The fields of a form trigger."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from steward.model.json import JsonObject
from steward.model.plan import StartField, StartFieldType
from steward.steps.workflow.javascript import values as js

_MAX_FIELDS: Final = 100
_MAX_NAME: Final = 500
_MAX_DEFAULT: Final = 10_000  # characters
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


def form_fields(parameters: JsonObject) -> tuple[StartField, ...]:
    """Returns the form fields that a start can fill; leaves out HTML elements."""
    return tuple(field for field, _ in _read_fields(parameters))


def default_problems(parameters: JsonObject) -> list[str]:
    """Returns a message for each field whose hidden or default value a start cannot pass on."""
    problems: list[str] = []
    for field, row in _read_fields(parameters):
        value = _raw_default(row)
        if field.is_file or value in (None, "") or field.default is not None:
            continue
        message = (
            f"The value that n8n puts into the field “{field.label[:60]}” {_reason(value)} and was left out."
        )
        problems.append(f"{message} Give it when you start a run.")
    return problems


def _reason(value: Any) -> str:
    """Returns why a default cannot be passed on."""
    if isinstance(value, str) and value.startswith("="):
        return "is computed"
    if isinstance(value, str) and len(value) > _MAX_DEFAULT:
        return f"has more than {_MAX_DEFAULT:,} characters"
    return "is not one that the field can have"


def _read_fields(parameters: JsonObject) -> list[tuple[StartField, Mapping[str, Any]]]:
    """Returns the form fields that a start can fill, each with its row of the form."""
    fields: dict[str, tuple[StartField, Mapping[str, Any]]] = {}
    for row in _rows(parameters):
        field = _field(row)
        if field is not None and len(fields) < _MAX_FIELDS:
            fields.setdefault(field.name, (field, row))
    return list(fields.values())


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
    default = _default(_raw_default(row), field_type, options)
    is_required = row.get("requiredField") is True
    return StartField((name,), label_text[:_MAX_NAME], field_type, is_required, options, default)


def _raw_default(row: Mapping[str, Any]) -> Any:
    """Returns the value of a hidden field, or the default of any other field."""
    return row.get("fieldValue" if row.get("fieldType") == "hiddenField" else "defaultValue")


def _default(value: Any, field_type: StartFieldType, options: Sequence[str]) -> str | float | None:
    """Returns the value as the field passes it on; None if it is empty, computed or of another type."""
    text = js.text(value) if js.is_number(value) else value
    if not isinstance(text, str) or not text or text.startswith("=") or len(text) > _MAX_DEFAULT:
        return None
    if field_type is StartFieldType.NUMBER:
        return _number(text)
    if field_type is StartFieldType.CHOICE:
        return text if text in options else None
    return None if field_type in (StartFieldType.CHOICES, StartFieldType.JSON) else text


def _number(text: str) -> float | None:
    number = js.number(text) if text.strip() else math.nan
    return js.plain_number(number) if math.isfinite(number) else None


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
