"""Inputs of templates: the shared definitions, the check against a schema, and the defaults filled in.

Leaves what only the world can say (whose a connection is, which channels a shop has) to templates/base.py.
"""

import copy
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import re2
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import FieldErrors

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The definitions of templates 4, by name; a schema carries those it uses.
DEFINITIONS: JsonObject = json.loads(
    r"""{
 "integration_id": {"type": "integer", "minimum": 1, "maximum": 9007199254740991},
 "limit": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 500},
 "tag": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^,\\s]([^,]*[^,\\s])?$"},
 "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": true, "maxItems": 50,
  "default": []},
 "money": {"type": "string", "pattern": "^[0-9]{1,9}(\\.[0-9]{1,4})?$"},
 "percent": {"type": "number", "exclusiveMinimum": 0, "maximum": 95},
 "days": {"type": "integer", "minimum": 1, "maximum": 730},
 "column": {"type": "string", "minLength": 1, "maxLength": 80},
 "number_format": {"enum": ["auto", "point", "comma"], "default": "auto"},
 "match": {"enum": ["sku", "barcode"], "default": "sku"},
 "sheet": {"type": "object", "additionalProperties": false, "required": ["integration_id"],
  "properties": {"integration_id": {"$ref": "#/$defs/integration_id"},
   "spreadsheet_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 128, "default": null},
   "tab": {"type": ["string", "null"], "minLength": 1, "maxLength": 100, "default": null}}},
 "sheet_place": {"type": "object", "additionalProperties": false,
  "properties": {
   "spreadsheet_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 128, "default": null},
   "tab": {"type": ["string", "null"], "minLength": 1, "maxLength": 100, "default": null}}},
 "teams": {"type": "object", "additionalProperties": false, "required": ["integration_id"],
  "properties": {"integration_id": {"$ref": "#/$defs/integration_id"},
   "channel": {"type": ["string", "null"], "minLength": 1, "maxLength": 200, "default": null}}},
 "file": {"type": "object", "additionalProperties": false, "required": ["integration_id", "path"],
  "properties": {"integration_id": {"$ref": "#/$defs/integration_id"},
   "path": {"type": "string", "minLength": 1, "maxLength": 1024},
   "delimiter": {"enum": [",", ";", "\t", "|"], "default": ","},
   "encoding": {"enum": ["utf-8", "windows-1252"], "default": "utf-8"}}},
 "names": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255},
  "uniqueItems": true, "maxItems": 50, "default": []},
 "products": {"type": "object", "additionalProperties": false,
  "properties": {"all": {"const": true}, "tags_any": {"$ref": "#/$defs/tags"},
   "tags_none": {"$ref": "#/$defs/tags"}, "vendors": {"$ref": "#/$defs/names"},
   "types": {"$ref": "#/$defs/names"}}}
}"""
)

# Definitions that name a connection, and of which kind (templates 1).
_ACCOUNTS = {"sheet": "spreadsheet", "teams": "teams", "file": "cloud_s3"}
# One that is named by its id alone is another store.
_STORE = "integration_id"


def inputs_schema(
    required: Sequence[str], properties: JsonObject, *, conditions: JsonObject | None = None
) -> JsonObject:
    """The schema of an inputs object, with the definitions it uses (templates 4)."""
    used: dict[str, JsonValue] = {}
    _gather([properties, conditions or {}], used)
    return {
        "$schema": DIALECT,
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
        **(conditions or {}),
        "$defs": {name: used[name] for name in DEFINITIONS if name in used},
    }


def shared(name: str, description: str, **more: JsonValue) -> JsonObject:
    """A property that is one of the shared definitions."""
    return {"$ref": f"#/$defs/{name}", **more, "description": description}


def _gather(value: JsonValue, used: dict[str, JsonValue]) -> None:
    if isinstance(value, Mapping):
        name = _defined(value)
        if name is not None and name not in used:
            used[name] = DEFINITIONS[name]
            _gather(DEFINITIONS[name], used)
        for item in value.values():
            _gather(item, used)
    elif isinstance(value, list | tuple):
        for item in value:
            _gather(item, used)


def _defined(schema: Mapping[str, JsonValue]) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix("#/$defs/") if isinstance(ref, str) else None


@dataclass(frozen=True, slots=True)
class CheckedInputs:
    """Inputs with defaults filled in, and what is wrong with them by dotted path; empty when nothing is."""

    inputs: JsonObject
    errors: FieldErrors


def check(schema: JsonObject, inputs: JsonValue) -> CheckedInputs:
    """Checks `inputs` and fills in the defaults of what is not required (templates 1, "Inputs").

    All faults are named at once (contract 1.4 step 9); with faults, `inputs` is as it came. A default that
    the schema refuses beside the other inputs stays out, so the answered inputs always pass this check.
    """
    errors: dict[str, list[str]] = {}
    for path, words in _all_faults(schema, inputs):
        if words not in errors.setdefault(path, []):
            errors[path].append(words)
    if errors or not isinstance(inputs, Mapping):
        return CheckedInputs(inputs if isinstance(inputs, Mapping) else {}, dict(sorted(errors.items())))
    filled = _filled(schema, inputs, schema)
    if not isinstance(filled, Mapping):
        return CheckedInputs({}, {})
    refused = {path.split(".")[1] for path, _ in _all_faults(schema, filled) if "." in path}
    return CheckedInputs({name: filled[name] for name in filled if name in inputs or name not in refused}, {})


def named_accounts(schema: JsonObject, inputs: JsonObject) -> Iterator[tuple[str, int, str]]:
    """(path, id, kind) of every connection that checked inputs name, in the order of the schema."""
    properties = schema["properties"]
    for name, rule in properties.items() if isinstance(properties, Mapping) else ():
        shape = _defined(rule) if isinstance(rule, Mapping) else None
        kind = _ACCOUNTS.get(shape or "")
        given = inputs.get(name)
        if shape == _STORE and isinstance(given, int):
            yield name, given, "store"
        elif kind is not None and isinstance(given, Mapping):
            number = given["integration_id"]
            if isinstance(number, int):
                yield f"{name}.integration_id", number, kind


# --- defaults


def _filled(rule: JsonObject, value: JsonValue, root: JsonObject) -> JsonValue:
    """`value` with the defaults its rule gives, and whole numbers as such (contract 1.2: 6.0 is 6)."""
    rule = _resolved(rule, root)
    if rule.get("type") == "integer" and isinstance(value, float):
        return int(value)
    properties = rule.get("properties")
    if not isinstance(value, Mapping) or not isinstance(properties, Mapping):
        return value
    filled = dict(value)
    for name, each in properties.items():
        if not isinstance(each, Mapping):
            continue
        each = _resolved(each, root)
        if name not in filled and "default" in each:
            # What is required is there: the check has passed.
            filled[name] = copy.deepcopy(each["default"])
        if name in filled:
            filled[name] = _filled(each, filled[name], root)
    return filled


def _resolved(rule: JsonObject, root: JsonObject) -> JsonObject:
    name = _defined(rule)
    if name is None:
        return rule
    definitions = root["$defs"]
    target = definitions[name] if isinstance(definitions, Mapping) else {}
    return {**(target if isinstance(target, Mapping) else {}), **rule, "$ref": None}


# --- faults in plain words


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """`pattern` in linear time, `$` being the end of the text (templates 6)."""
    if isinstance(value, str) and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match")


def _matches(pattern: str, value: str) -> bool:
    """Whether the pattern is in the text; `^(?!A)B`, which RE2 has no form for, is `^B` and not `^A`."""
    if pattern.startswith("^(?!"):
        end = _closing(pattern, 1)
        if _expression(f"^{pattern[4:end]}").search(value) is not None:
            return False
        pattern = f"^{pattern[end + 1 :]}"
    return _expression(pattern).search(value) is not None


def _closing(pattern: str, start: int) -> int:
    """Where the bracket that opens at `start` closes; for our own patterns, whose signs are plain."""
    depth = 0
    for at in range(start, len(pattern)):
        depth += {"(": 1, ")": -1}.get(pattern[at], 0) if pattern[at - 1] != "\\" else 0
        if depth == 0:
            return at
    raise ValueError(f"the bracket at {start} of {pattern} does not close")


@functools.cache
def _expression(pattern: str) -> Any:
    # RE2 knows only the blanks of ASCII; a schema's \s, here always inside brackets, means every blank.
    return re2.compile(pattern.replace(r"\s", r"\s\x0b\x{feff}\p{Z}"))


_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


# By the identity of the schema, which is kept beside it: a template has one for good, and to compare or hash
# its text took longer than most checks.
_validators: dict[int, tuple[JsonObject, Any]] = {}
_MOST_VALIDATORS = 64


def _validator(schema: JsonObject) -> Any:
    known = _validators.get(id(schema))
    if known is None:
        if len(_validators) >= _MOST_VALIDATORS:
            _validators.clear()
        known = _validators[id(schema)] = schema, _Validator(schema)
    return known[1]


def _all_faults(schema: JsonObject, inputs: JsonValue) -> Iterator[tuple[str, str]]:
    for fault in _validator(schema).iter_errors(inputs):
        yield from _faults(fault)


def _faults(fault: ValidationError) -> Iterator[tuple[str, str]]:
    """(dotted path, words) of one fault of the validator; a missing or extra field is named itself."""
    path = ".".join(["inputs", *(str(part) for part in fault.absolute_path)])
    rule: Any = fault.validator_value
    schema: Any = fault.schema
    value: Any = fault.instance
    if fault.validator == "required":
        for name in rule:
            if name not in value:
                yield f"{path}.{name}", "This is needed."
    elif fault.validator == "additionalProperties":
        for name in value:
            if name not in schema.get("properties", {}):
                yield f"{path}.{name}", "There is no such input."
    elif fault.validator == "anyOf" and fault.context:
        if all(each.validator == "required" and not each.path for each in fault.context):
            names = [str(name) for each in rule for name in each.get("required", ())]
            yield path, f"Give at least one of {', '.join(names)}."
            return
        inner = [each for each in fault.context if each.validator != "type" or each.path]
        for each in inner:
            yield from _faults(each)
        if not inner:
            yield path, "This is not of a kind that fits here."
    elif fault.validator == "not" and (named := _excluded(rule) & set(value)):
        for name in sorted(named):
            yield f"{path}.{name}", "This does not go with the other inputs. Leave it out."
    else:
        yield path, _words(str(fault.validator), rule)


def _excluded(rule: Any) -> set[str]:
    """The fields that a `not` forbids."""
    rules = [rule, *rule.get("anyOf", ())] if isinstance(rule, Mapping) else []
    return {str(name) for each in rules for name in each.get("required", ())}


_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _words(validator: str, rule: Any) -> str:
    if validator == "type":
        kinds = [rule] if isinstance(rule, str) else rule
        return f"This must be {' or '.join(_KINDS[kind] for kind in kinds)}."
    if validator in ("enum", "const"):
        allowed = rule if validator == "enum" else [rule]
        return f"This must be one of {', '.join(json.dumps(each) for each in allowed)}."
    if validator == "pattern":
        return _PATTERN_WORDS.get(rule, "This is not written as it must be.")
    template = _TEMPLATES.get(validator, "This does not fit the other inputs.")
    return template.format(n=rule, s="" if rule == 1 else "s")


_TEMPLATES = {
    "minimum": "This must be {n} or more.",
    "maximum": "This must be {n} or less.",
    "exclusiveMinimum": "This must be more than {n}.",
    "exclusiveMaximum": "This must be less than {n}.",
    "minLength": "This must have at least {n} character{s}.",
    "maxLength": "This must have at most {n} character{s}.",
    "minItems": "This list is too short: at least {n}.",
    "maxItems": "This takes at most {n} entries.",
    "uniqueItems": "No entry may stand here twice.",
    "maxProperties": "This takes at most {n} entries.",
}

_PATTERN_WORDS = {
    r"^[^,\s]([^,]*[^,\s])?$": "A tag has no comma and neither begins nor ends with a blank.",
    r"^[0-9]{1,9}(\.[0-9]{1,4})?$": 'An amount is written in digits with a point, such as "12.50".',
    r"^[A-Z]{2}$": 'A country is two capital letters, such as "DE".',
    r"^(?!0+(\.0+)?$)[0-9]{1,6}(\.[0-9]{1,8})?$": 'A rate above 0 in digits with a point, such as "0.92".',
    r"^[A-Z]{3}$": 'A currency is three capital letters, such as "EUR".',
}
