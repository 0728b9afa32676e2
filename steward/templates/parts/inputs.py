"""Inputs of templates: the shared definitions, the check against a schema, and the defaults."""

import copy
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import re2
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.refusals import FieldErrors

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The shared definitions by name; a schema contains those that it uses.
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

# Definitions that name a connection, and its kind.
_ACCOUNTS = {"sheet": "spreadsheet", "teams": "teams", "file": "cloud_s3"}
# A connection that is named only by its id is another store.
_STORE = "integration_id"


# For reports: the inputs must name a sheet, a channel or both.
SHEET_OR_TEAMS: JsonObject = {"anyOf": [{"required": ["sheet"]}, {"required": ["teams"]}]}
LIMIT: JsonObject = {"$ref": "#/$defs/limit"}


def inputs_schema(
    required: Sequence[str], properties: JsonObject, *, conditions: JsonObject | None = None
) -> JsonObject:
    """Returns the schema of an inputs object, with the definitions that it uses."""
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
    """Returns a property that is one of the shared definitions."""
    return {"$ref": f"#/$defs/{name}", **more, "description": description}


def integer(description: str, minimum: int, maximum: int, *, default: int) -> JsonObject:
    """Returns a property that is a whole number."""
    bounds = {"minimum": minimum, "maximum": maximum, "default": default}
    return {"type": "integer", **bounds, "description": description}


def flag(description: str, *, default: bool = False) -> JsonObject:
    """Returns a property that is true or false."""
    return {"type": "boolean", "default": default, "description": description}


def choice(description: str, *options: str, default: str) -> JsonObject:
    """Returns a property that is one of several words."""
    return {"enum": list(options), "default": default, "description": description}


def array(description: str, items: JsonObject, **more: JsonValue) -> JsonObject:
    """Returns a property that is a list without repeated entries."""
    return {"type": "array", "items": items, "uniqueItems": True, **more, "description": description}


def _gather(value: JsonValue, used: dict[str, JsonValue]) -> None:
    if isinstance(value, Mapping):
        name = _definition_name(value)
        if name is not None and name not in used:
            used[name] = DEFINITIONS[name]
            _gather(DEFINITIONS[name], used)
        for member in value.values():
            _gather(member, used)
    elif isinstance(value, list | tuple):
        for member in value:
            _gather(member, used)


def _definition_name(schema: Mapping[str, JsonValue]) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix("#/$defs/") if isinstance(ref, str) else None


@dataclass(frozen=True, slots=True)
class CheckedInputs:
    """Inputs with their defaults, and their faults by dotted path."""

    inputs: JsonObject
    errors: FieldErrors


def check(schema: JsonObject, inputs: JsonValue) -> CheckedInputs:
    """Checks `inputs` and fills in the defaults of optional fields.

    Reports all faults at once; with faults, `inputs` is returned as sent. A default that the schema rejects
    in combination with the other inputs is left out, so the returned inputs always pass this check.
    """
    errors = _words_by_path(schema, inputs)
    if not isinstance(inputs, Mapping):
        return CheckedInputs({}, errors)
    if errors:
        return CheckedInputs(inputs, errors)
    filled = _with_defaults(schema, inputs, schema)
    assert isinstance(filled, Mapping)
    refused = {path.split(".")[1] for path, _ in _all_faults(schema, filled) if "." in path}
    return CheckedInputs({name: filled[name] for name in filled if name in inputs or name not in refused}, {})


def _words_by_path(schema: JsonObject, inputs: JsonValue) -> FieldErrors:
    errors: dict[str, list[str]] = {}
    for path, words in _all_faults(schema, inputs):
        if words not in errors.setdefault(path, []):
            errors[path].append(words)
    return dict(sorted(errors.items()))


def named_accounts(schema: JsonObject, inputs: JsonObject) -> Iterator[tuple[str, int, str]]:
    """Yields (path, id, kind) of every connection that checked inputs name, in the order of the schema."""
    properties = schema["properties"]
    for name, rule in properties.items() if isinstance(properties, Mapping) else ():
        definition = _definition_name(rule) if isinstance(rule, Mapping) else None
        kind = _ACCOUNTS.get(definition or "")
        value = inputs.get(name)
        if definition == _STORE and isinstance(value, int):
            yield name, value, "store"
        elif kind is not None and isinstance(value, Mapping):
            integration_id = value["integration_id"]
            if isinstance(integration_id, int):
                yield f"{name}.integration_id", integration_id, kind


# --- defaults


def _with_defaults(rule: JsonObject, value: JsonValue, root: JsonObject) -> JsonValue:
    """Returns `value` with the defaults of its rule, and whole numbers as integers (6.0 is 6)."""
    rule = _resolved(rule, root)
    if rule.get("type") == "integer" and isinstance(value, float):
        return int(value)
    properties = rule.get("properties")
    if not isinstance(value, Mapping) or not isinstance(properties, Mapping):
        return value
    filled = dict(value)
    for name, schema in properties.items():
        if not isinstance(schema, Mapping):
            continue
        member = _resolved(schema, root)
        if name not in filled and "default" in member:
            # Required fields are present: the check has passed.
            filled[name] = copy.deepcopy(member["default"])
        if name in filled:
            filled[name] = _with_defaults(member, filled[name], root)
    return filled


def _resolved(rule: JsonObject, root: JsonObject) -> JsonObject:
    name = _definition_name(rule)
    if name is None:
        return rule
    definitions = root["$defs"]
    target = definitions[name] if isinstance(definitions, Mapping) else {}
    return {**(target if isinstance(target, Mapping) else {}), **rule, "$ref": None}


# --- faults in plain words


def _pattern(_: JsonValue, pattern: str, value: JsonValue, __: JsonValue) -> Iterator[ValidationError]:
    """Checks `pattern` in linear time, where `$` is the end of the text."""
    if isinstance(value, str) and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match")


def _matches(pattern: str, value: str) -> bool:
    """Returns whether a pattern matches; splits `^(?!A)B`, which RE2 cannot read, into `^B` and not `^A`."""
    if pattern.startswith("^(?!"):
        end = _closing(pattern, 1)
        if _expression(f"^{pattern[4:end]}").search(value) is not None:
            return False
        pattern = f"^{pattern[end + 1 :]}"
    return _expression(pattern).search(value) is not None


def _closing(pattern: str, start: int) -> int:
    """Returns where the bracket that opens at `start` closes; only for our own patterns."""
    depth = 0
    for index in range(start, len(pattern)):
        depth += {"(": 1, ")": -1}.get(pattern[index], 0) if pattern[index - 1] != "\\" else 0
        if depth == 0:
            return index
    raise ValueError(f"the bracket at {start} of {pattern} does not close")


@functools.cache
def _expression(pattern: str) -> AnyJson:
    # RE2 only knows ASCII blanks; a schema's \s, here always inside brackets, means every blank.
    return re2.compile(pattern.replace(r"\s", r"\s\x0b\x{feff}\p{Z}"))


_Validator: type[Validator] = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


# By the schema's identity, together with the schema, so that the identity is not reused: a template's schema
# lives permanently, and comparing or hashing its text took longer than most checks.
_validators: dict[int, tuple[JsonObject, Validator]] = {}
_MAX_VALIDATORS = 64


def _validator(schema: JsonObject) -> Validator:
    cached = _validators.get(id(schema))
    if cached is None:
        if len(_validators) >= _MAX_VALIDATORS:
            _validators.clear()
        cached = _validators[id(schema)] = schema, _Validator(schema)
    return cached[1]


def _all_faults(schema: JsonObject, inputs: JsonValue) -> Iterator[tuple[str, str]]:
    for fault in _validator(schema).iter_errors(inputs):
        yield from _faults(fault)


def _faults(fault: ValidationError) -> Iterator[tuple[str, str]]:
    """Yields (dotted path, message) of one fault; the path of a missing or extra field includes its name."""
    path = ".".join(["inputs", *(str(part) for part in fault.absolute_path)])
    rule: AnyJson = fault.validator_value
    fields = _faulty_fields(fault)
    if fields is not None:
        words = _FIELD_WORDS[str(fault.validator)]
        yield from ((f"{path}.{name}", words) for name in fields)
    elif fault.validator == "anyOf" and fault.context:
        yield from _alternative_faults(path, rule, fault.context)
    else:
        yield path, _words(str(fault.validator), rule)


_FIELD_WORDS = {
    "required": "This is needed.",
    "additionalProperties": "There is no such input.",
    "not": "This does not go with the other inputs. Leave it out.",
}


def _faulty_fields(fault: ValidationError) -> list[str] | None:
    """Returns the fields that a fault of an object concerns; None for a fault of the value itself."""
    rule: AnyJson = fault.validator_value
    value: AnyJson = fault.instance
    if fault.validator == "required":
        return [name for name in rule if name not in value]
    if fault.validator == "additionalProperties":
        schema: AnyJson = fault.schema
        return [name for name in value if name not in schema.get("properties", {})]
    if fault.validator == "not":
        return sorted(_excluded(rule) & set(value)) or None
    return None


def _alternative_faults(
    path: str, rule: AnyJson, faults: Sequence[ValidationError]
) -> Iterator[tuple[str, str]]:
    """Yields why none of several alternatives matches."""
    if all(fault.validator == "required" and not fault.path for fault in faults):
        yield path, f"Give at least one of {', '.join(_required_names(rule))}."
        return
    inner = [fault for fault in faults if fault.validator != "type" or fault.path]
    for fault in inner:
        yield from _faults(fault)
    if not inner:
        yield path, "This is not of a kind that fits here."


def _required_names(rules: Iterable[AnyJson]) -> Iterator[str]:
    for rule in rules:
        yield from map(str, rule.get("required", ()))


def _excluded(rule: AnyJson) -> set[str]:
    """Returns the fields that a `not` forbids."""
    rules = [rule, *rule.get("anyOf", ())] if isinstance(rule, Mapping) else []
    return set(_required_names(rules))


_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _words(validator: str, rule: AnyJson) -> str:
    if validator == "type":
        kinds = [rule] if isinstance(rule, str) else rule
        return f"This must be {' or '.join(_KINDS[kind] for kind in kinds)}."
    if validator in ("enum", "const"):
        allowed_values = rule if validator == "enum" else [rule]
        return f"This must be one of {', '.join(json.dumps(option) for option in allowed_values)}."
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
    "uniqueItems": "An entry may appear only once.",
    "maxProperties": "This takes at most {n} entries.",
}

_PATTERN_WORDS = {
    r"^[^,\s]([^,]*[^,\s])?$": "A tag has no comma, and no space at its start or end.",
    r"^[0-9]{1,9}(\.[0-9]{1,4})?$": 'An amount is written in digits with a point, such as "12.50".',
    r"^[A-Z]{2}$": 'A country is two capital letters, such as "DE".',
    r"^(?!0+(\.0+)?$)[0-9]{1,6}(\.[0-9]{1,8})?$": 'A rate above 0 in digits with a point, such as "0.92".',
    r"^[A-Z]{3}$": 'A currency is three capital letters, such as "EUR".',
}
