"""Converts properties of Notion pages: from steps to Notion, and from Notion to n8n's simplified form."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem, is_expression

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_UUID = re.compile(r"[0-9a-f]{32}")


def snake_case(name: str) -> str:
    """Returns a name in snake case."""
    return "_".join(word.lower() for word in _WORD_START.split(name) if word)


def notion_id(text: str) -> str:
    """Returns the id of a page, block or database, which may come from its URL."""
    plain = text.strip().partition("?")[0].replace("-", "")
    ids = re.findall(_UUID, plain.rpartition("/")[2].lower())
    return ids[-1] if ids and text.startswith("http") else text.strip()


def rich_text(text: str) -> list[dict[str, JsonValue]]:
    """Returns plain text in Notion's form."""
    return [{"text": {"content": text}}]


def _formatted(fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the pieces of formatted text. Raises ItemFailed for a mention or an equation."""
    rich_texts: list[dict[str, JsonValue]] = []
    for row in fields.rows("text.text"):
        if row.text("textType", "text") != "text":
            raise ItemFailed("A mention or an equation within a text is not supported. Write it as text.")
        text: dict[str, JsonValue] = {"content": row.text("text")}
        if row.flag("isLink"):
            text["link"] = {"url": row.text("textLink")}
        rich_text: dict[str, JsonValue] = {"type": "text", "text": text}
        marks = row.options("annotationUi")
        rich_texts.append(rich_text | ({"annotations": marks} if marks else {}))
    return rich_texts


def text_pieces(fields: ServiceFields, plain: str) -> Sequence[JsonObject]:
    """Returns the plain or formatted text of a step. Raises ItemFailed."""
    return _formatted(fields) if fields.flag("richText") else rich_text(fields.text(plain))


def _names(value: JsonValue) -> list[str]:
    listed = value if isinstance(value, list) else str(value or "").split(",")
    return [str(name).strip() for name in listed if str(name).strip()]


def _day(text: str, *, with_time: bool) -> str | None:
    """Returns an ISO text, cut to its day unless `with_time`, or None for an empty text."""
    text = text.strip()
    return (text if with_time else text[:10]) or None


def _date(row: ServiceFields) -> JsonObject:
    with_time = row.flag("includeTime", True)
    is_range = row.flag("range")
    date = {
        "start": _day(row.text("dateStart" if is_range else "date"), with_time=with_time),
        "end": _day(row.text("dateEnd"), with_time=with_time) if is_range else None,
    }
    zone = row.text("timezone", "default")
    # The zone applies only to times without an offset.
    if zone != "default" and with_time and not re.search(r"(?:Z|[+-]\d\d:?\d\d)$", date["start"] or ""):
        date["time_zone"] = zone
    return date


def _chosen(row: ServiceFields, name: str) -> dict[str, str]:
    key = "id" if row.version < 2 else "name"
    return {key: row.text(name)}


def _identities(row: ServiceFields, name: str) -> Sequence[JsonObject]:
    return [{"id": identity} for identity in _names(row.value(name))]


def _choices(row: ServiceFields) -> Sequence[JsonObject]:
    key = "id" if row.version < 2 else "name"
    return [{key: name} for name in _names(row.value("multiSelectValue"))]


def _external_files(row: ServiceFields) -> Sequence[JsonObject]:
    return [
        {
            "name": url.text("name") or url.text("url"),
            "type": "external",
            "external": {"url": url.text("url")},
        }
        for url in row.rows("fileUrls.fileUrl")
    ]


# By property kind: builds the value in Notion's form.
_PROPERTY_VALUES: Mapping[str, Callable[[ServiceFields], AnyJson]] = {
    "title": lambda row: rich_text(row.text("title")),
    "rich_text": lambda row: text_pieces(row, "textContent"),
    "number": lambda row: row.value("numberValue"),
    "checkbox": lambda row: row.flag("checkboxValue"),
    "select": lambda row: _chosen(row, "selectValue"),
    "status": lambda row: _chosen(row, "statusValue"),
    "multi_select": _choices,
    "people": lambda row: _identities(row, "peopleValue"),
    "relation": lambda row: _identities(row, "relationValue"),
    "date": _date,
    "url": lambda row: row.text("urlValue") or None,
    "email": lambda row: row.text("emailValue") or None,
    "phone_number": lambda row: row.text("phoneValue") or None,
    "files": _external_files,
}


def _property_value(row: ServiceFields, kind: str) -> JsonObject:
    """Returns a property in Notion's form. Raises ItemFailed for an unknown kind."""
    if kind not in _PROPERTY_VALUES:
        raise ItemFailed(f"A property of the kind “{kind[:40]}” cannot be written. Remove it from the step.")
    return {kind: _PROPERTY_VALUES[kind](row)}


def properties_of(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the properties that a step writes; the step names them by `name|kind`. Raises ItemFailed."""
    properties: dict[str, JsonValue] = {}
    for row in fields.rows("propertiesUi.propertyValues"):
        name, _, kind = row.text("key").rpartition("|")
        if not name:
            raise ItemFailed(f"The property “{kind[:60]}” has no kind. Choose it again in n8n.")
        if not (kind == "url" and row.flag("ignoreIfEmpty") and not row.text("urlValue")):
            properties[name] = _property_value(row, kind)
    return properties


def property_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the properties of a step that cannot be written."""
    for row in fields_of_node(node).rows("propertiesUi.propertyValues"):
        key = row.text("key")
        if is_expression(key):
            continue
        name, _, kind = key.rpartition("|")
        if not name or kind not in _PROPERTY_VALUES:
            message = f"Properties of this kind cannot be written here: “{(name or kind)[:60]}”."
            yield StepProblem("error", "parameter", f"{message} Choose the property again in n8n.")
        else:
            yield from text_problems(row)


def text_problems(row: ServiceFields) -> Iterable[StepProblem]:
    """Yields the parts of a formatted text that cannot be written."""
    kinds = (
        [piece.text("textType", "text") for piece in row.rows("text.text")] if row.flag("richText") else []
    )
    if any(kind != "text" and not is_expression(kind) for kind in kinds):
        message = "A mention or an equation within a text is not supported. Write it as text."
        yield StepProblem("error", "parameter", message)


def _plain(rich_texts: JsonValue) -> str:
    texts = rich_texts if isinstance(rich_texts, Sequence) and not isinstance(rich_texts, str) else ()
    return "".join(
        str(rich_text.get("plain_text", "")) for rich_text in texts if isinstance(rich_text, Mapping)
    )


def _inner(value: JsonValue, name: str) -> JsonValue:
    return value.get(name) if isinstance(value, Mapping) else None


def _file_address(file: JsonValue) -> JsonValue:
    return _inner(_inner(file, str(_inner(file, "type"))), "url")


def _name(value: JsonValue) -> JsonValue:
    return _inner(value, "name")


def _members(value: AnyJson, name: str) -> list[AnyJson]:
    return [_inner(member, name) for member in value or ()]


def _people(value: JsonValue) -> JsonValue:
    people = value if isinstance(value, list) else [value]
    names = [_inner(_inner(person, "person"), "email") or _name(person) for person in people]
    return names if isinstance(value, list) else names[0]


def _typed_value(value: JsonValue) -> JsonValue:
    return _inner(value, str(_inner(value, "type")))


def _rollup(value: JsonValue) -> JsonValue:
    rolled = _typed_value(value)
    if isinstance(rolled, list):
        return [simple_value(member) for member in rolled if isinstance(member, Mapping)]
    return rolled


def _unique_id(value: JsonValue) -> JsonValue:
    prefix, number = _inner(value, "prefix"), _inner(value, "number")
    return f"{prefix}-{number}" if prefix else number


# By property kind: n8n's simplification of the value; other values stay unchanged.
_SIMPLE_VALUES: Mapping[str, Callable[[AnyJson], AnyJson]] = {
    "title": _plain,
    "rich_text": _plain,
    "select": _name,
    "status": _name,
    "multi_select": lambda value: _members(value, "name"),
    "people": _people,
    "created_by": _people,
    "last_edited_by": _people,
    "relation": lambda value: _members(value, "id"),
    "files": lambda value: [_file_address(member) for member in value or ()],
    "formula": _typed_value,
    "rollup": _rollup,
    "unique_id": _unique_id,
}


def simple_value(property_: JsonObject) -> JsonValue:
    """Returns the value of a property in n8n's simplified form."""
    kind = str(property_.get("type"))
    value = property_.get(kind)
    return _SIMPLE_VALUES[kind](value) if kind in _SIMPLE_VALUES else value


def simple_page(page: JsonObject, version: float) -> JsonObject:
    """Returns a page with a field for each of its properties."""
    properties = page.get("properties")
    properties_by_name = properties if isinstance(properties, Mapping) else {}
    titles = [
        entry
        for entry in properties_by_name.values()
        if isinstance(entry, Mapping) and entry.get("type") == "title"
    ]
    title = _plain(titles[0].get("title")) if titles else ""
    values = {
        f"property_{snake_case(str(name))}" if version >= 2 else snake_case(str(name)): simple_value(entry)
        for name, entry in properties_by_name.items()
        if isinstance(entry, Mapping)
    }
    if version < 2:
        return {"id": page.get("id"), **values}
    return {"id": page.get("id"), "name": title, "url": page.get("url"), **values}
