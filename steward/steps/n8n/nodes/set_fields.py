"""The node set: sets fields one by one or as JSON."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType

from steward.model.json import AnyJson, JsonValue
from steward.model.plan import PlanStep
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import literals
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    UnjoinedText,
    for_each_item,
    is_expression,
    paired_with,
)

_OLD_TYPES = ("boolean", "number", "string")
_KINDS = {
    "stringValue": "string",
    "numberValue": "number",
    "booleanValue": "boolean",
    "arrayValue": "array",
    "objectValue": "object",
}


class SetNode(StepType):
    """Sets fields; versions 1 and 2 fail as a whole, later ones item by item."""

    types = ("set",)
    knows_all_parameters = True
    versions = (1, 2, 3, 3.1, 3.2, 3.3, 3.4, 3.5)
    options = frozenset(("dotNotation", "ignoreConversionErrors", "includeBinary", "stripBinary"))
    choices = MappingProxyType(
        {
            "include": frozenset(("all", "none", "selected", "except")),
        }
    )
    parameters = frozenset(
        (
            "keepOnlySet",
            "values",
            "mode",
            "jsonOutput",
            "fields",
            "assignments",
            "include",
            "includeFields",
            "excludeFields",
            "includeOtherFields",
            "options",
            "duplicateItem",
            "duplicateCount",
        )
    )
    version_parameters = MappingProxyType(
        {
            **dict.fromkeys(("keepOnlySet", "values"), (1, 3)),
            **dict.fromkeys(("mode", "jsonOutput", "include"), (3, math.inf)),
            "fields": (3, 3.3),
            **dict.fromkeys(("assignments", "includeOtherFields"), (3.3, math.inf)),
        }
    )
    version_defaults = MappingProxyType({"mode": "manual", "include": "all"})
    unjoined_parameters = ("jsonOutput",)

    def reads_dates(self, version: float) -> bool:
        """Returns whether types are checked on dates themselves instead of their text."""
        return 3 <= version < 3.5

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns whether all, some or none of the item's fields stay."""
        version = step.origin.source_version if step.origin is not None else 1
        config = step.config
        include = config.get("include", "all")
        if version < 3:
            stays = not config.get("keepOnlySet", False)
        elif version < 3.3:
            stays = include != "none"
        else:
            stays = config.get("includeOtherFields", False) is not False
        if not stays:
            return FieldUse.REPLACES_ITEMS
        return FieldUse.EXTENDS_ITEMS if include in ("all", "except") or version < 3 else FieldUse.READS

    def keeps_files(self, call: StepCall) -> bool:
        """Returns whether files stay.

        Before version 3 they stay along with other fields, from 3.4 on too unless `stripBinary` is set; in
        between, `includeBinary` decides.
        """
        params = call.first
        if call.version < 3:
            return not params.flag("keepOnlySet")
        if call.version < 3.4:
            return params.flag("options.includeBinary")
        return params.flag("includeOtherFields") and not params.flag("options.stripBinary")

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields duplicated items, unknown types and unknown modes."""
        if node.get("duplicateItem"):
            message = "It repeats items while a workflow is tried in n8n; runs do not. Nothing to do."
            yield StepProblem("note", "parameter", message)
        yield from _type_problems(node.get("assignments.assignments", []), _CONVERT)
        yield from _type_problems(node.get("fields.values", []), _KINDS)
        if node.get("mode") == "raw" and not node.get("jsonOutput"):
            return
        if node.literal("mode", "manual") not in ("manual", "raw"):
            yield StepProblem("error", "parameter", "Its mode is not known. Choose manual mapping or JSON.")

    async def run(self, call: StepCall) -> NodeResult:
        """Sets the fields of each item."""
        if call.version < 3:
            return NodeResult([[_old(call, index, item) for index, item in enumerate(call.items)]])
        return for_each_item(call, lambda index, item: [_new(call, index, item)])


def _type_problems(rows: JsonValue, known_types: Container[str]) -> Iterable[StepProblem]:
    for row in rows if isinstance(rows, list) else ():
        kind = row.get("type") if isinstance(row, Mapping) else None
        if kind is not None and not is_expression(kind) and kind not in known_types:
            message = f"It sets a field of type “{str(kind)[:40]}”, which is not known. Choose another."
            yield StepProblem("error", "parameter", message)


def _old(call: StepCall, index: int, item: Item) -> Item:
    params = call.params(index)
    into: dict[str, JsonValue] = {} if params.flag("keepOnlySet") else js.deep_copy(item.json)
    put = _putter(params.flag("options.dotNotation", default=True))
    for kind in _OLD_TYPES:
        for row in params.rows(f"values.{kind}"):
            name = row.text("name")
            value = row.get("value", _empty(kind))
            put(into, name, value)
    return Item(js.to_json(into), paired_with(index))


def _empty(kind: str) -> object:
    return {"boolean": False, "number": 0, "string": ""}[kind]


def _new(call: StepCall, index: int, item: Item) -> Item:
    params = call.params(index)
    put = _putter(params.flag("options.dotNotation", default=True))
    into = _included(call, params, item)
    if params.get("mode", "manual") == "raw":
        into.update(_raw(params))
    elif call.version >= 3.3:
        for row in params.rows("assignments.assignments"):
            value = row.get("value", js.UNDEFINED)
            put(into, row.text("name"), _typed(row, value, row.text("type", "string"), params))
    else:
        for row in params.rows("fields.values"):
            field = row.text("type", "stringValue")
            value = row.get(field, _ABSENT.get(field, js.UNDEFINED))
            put(into, row.text("name"), _typed(row, value, _KINDS.get(field, "string"), params))
    return Item(js.to_json(into), paired_with(index))


def _putter(dots: bool) -> Callable[[dict[str, AnyJson], str, object], None]:
    if dots:
        return js.set_path

    def plain(into: dict[str, AnyJson], name: str, value: object) -> None:
        into[name] = value

    return plain


def _included(call: StepCall, params: Params, item: Item) -> dict[str, JsonValue]:
    """Returns the item's fields that stay."""
    include = params.text("include", "all")
    if call.version >= 3.3:
        if not params.flag("includeOtherFields"):
            return {}
    elif include == "none":
        return {}
    if include == "all":
        return dict(js.deep_copy(item.json))
    dots = params.flag("options.dotNotation", default=True)
    names = _names(params.get("includeFields" if include == "selected" else "excludeFields", ""))
    if include == "selected":
        return _selected(item, names, dots=dots)
    included: dict[str, JsonValue] = dict(js.deep_copy(item.json))
    for name in names:
        if dots:
            js.delete_path(included, name)
        else:
            included.pop(name, None)
    return included


def _selected(item: Item, names: Sequence[str], *, dots: bool) -> dict[str, JsonValue]:
    selected: dict[str, JsonValue] = {}
    for name in names:
        value = js.get_path(item.json, name) if dots else item.json.get(name, js.UNDEFINED)
        if value is not js.UNDEFINED:
            _putter(dots)(selected, name.rpartition(".")[2] if dots else name, js.deep_copy(value))
    return selected


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [js.text(element) for element in value] if isinstance(value, list) else []


# Defaults of versions 3 to 3.2 for missing values, and of the JSON of an unedited step.
_ABSENT = {
    "stringValue": "",
    "numberValue": "",
    "booleanValue": "true",
    "arrayValue": "",
    "objectValue": "{}",
}
_EXAMPLE = {"my_field_1": "value", "my_field_2": 1}


def _raw(params: Params) -> Mapping[str, AnyJson]:
    value = params.get("jsonOutput", _EXAMPLE)
    if isinstance(value, UnjoinedText):
        value = value.parts[0] if value.typed else "".join(_in_json(part) for part in value.parts)
    if isinstance(value, str):
        value = js.parse_json(value)
        if value is js.UNDEFINED:
            raise ItemFailed("The JSON of this step cannot be read. Check its commas and quotes.")
    if not isinstance(value, Mapping):
        raise ItemFailed("The JSON of this step is not an object.")
    return dict(value)


def _in_json(part: JsonValue) -> str:
    return js.json_text(part) if js.is_object(part) or js.is_list(part) else js.text(part)


def _typed(row: Params, value: object, kind: str, params: Params) -> object:
    """Converts the value to the field's type. Raises ItemFailed."""
    if js.is_missing(value):
        return None
    if params.flag("options.ignoreConversionErrors"):
        try:
            return converted(value, kind, row.text("name"))
        except ItemFailed:
            return value
    return converted(value, kind, row.text("name"))


def converted(value: AnyJson, kind: str, name: str) -> AnyJson:
    """Converts to a string, number, boolean, array or object. Raises ItemFailed."""
    result = _CONVERT.get(kind, lambda unconverted: unconverted)(value)
    if result is js.UNDEFINED:
        raise ItemFailed(f"“{name}” expects {_ARTICLE.get(kind, kind)}, but the value is {_preview(value)}.")
    return result


def _preview(value: object) -> str:
    return js.json_text(value)[:80]


def _string(value: JsonValue) -> JsonValue:
    return value if isinstance(value, str) else js.json_text(value) if _is_deep(value) else js.text(value)


def _is_deep(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple | js.JsDate)


def _number(value: JsonValue) -> AnyJson:
    """Converts to a number as JavaScript does: blank text and an empty list are 0."""
    number = js.number(value) if not js.is_object(value) else math.nan
    return js.UNDEFINED if math.isnan(number) else number


def _boolean(value: JsonValue) -> AnyJson:
    """Accepts true and false in any case, and the numbers 1 and 0, but not blank text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    number = math.nan if isinstance(value, str) and not value.strip() else _number(value)
    return number == 1 if js.is_number(number) and number in (0, 1) else js.UNDEFINED


def _array(value: JsonValue) -> AnyJson:
    parsed = literals.list_in(value) if isinstance(value, str) else value
    return parsed if js.is_list(parsed) else js.UNDEFINED


def _object(value: JsonValue) -> AnyJson:
    if isinstance(value, str):
        return literals.object_in(value)
    return value if isinstance(value, Mapping | js.JsDate) else js.UNDEFINED


_CONVERT: dict[str, Callable[[AnyJson], AnyJson]] = {
    "string": _string,
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}
_ARTICLE = {"string": "a text", "number": "a number", "boolean": "true or false"}
_ARTICLE |= {"array": "a list", "object": "an object"}
