"""Reads the parameters of nodes that call services."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import quote

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, Params

_LEFT_OUT: Final = str.maketrans("", "", "\t\r\n")
# A parameter, optionally followed by a colon and the connection setting to use if it is empty.
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]*)(?::([a-z_]+))?\}")


@dataclass(frozen=True, slots=True)
class ServiceFields:
    """The parameters of a step for one item, with the version of its node."""

    params: Params
    version: float
    account: Mapping[str, str]  # the connection's settings, such as a sender id
    item: Mapping[str, AnyJson] = field(default_factory=dict)

    def value(self, path: str) -> AnyJson:
        """Returns the value at a dotted path, unwrapped from a resource locator, or None."""
        value = _located(self.params.get(path))
        return None if value is js.UNDEFINED else value

    def text(self, path: str, default: str = "") -> str:
        """Returns a value as text, in JavaScript's formatting."""
        value = self.value(path)
        return default if js.is_missing(value) else js.text(value)

    def mode(self, path: str) -> str:
        """Returns the mode of a resource locator (list, id, name, url), or "" for a plain value."""
        value = self.params.get(path)
        return str(value.get("mode", "")) if isinstance(value, Mapping) else ""

    def flag(self, path: str, default: bool = False) -> bool:
        """Returns a value as a boolean."""
        value = self.value(path)
        return default if js.is_missing(value) else js.truthy(value)

    def options(self, path: str, *names: str) -> dict[str, AnyJson]:
        """Returns the members of a collection that are set, limited to `names` if given."""
        collection = self.value(path)
        members = collection if isinstance(collection, Mapping) else {}
        chosen = names or tuple(members)
        values = {name: _located(members.get(name)) for name in chosen}
        return {name: value for name, value in values.items() if not js.is_missing(value)}

    def rows(self, path: str) -> list["ServiceFields"]:
        """Returns a list of objects."""
        return [ServiceFields(row, self.version, self.account) for row in self.params.rows(path)]

    def json(self, path: str, label: str) -> AnyJson:
        """Returns a value, parsed if it is JSON text, or None if it is empty. Raises ItemFailed."""
        value = self.value(path)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        parsed = js.parse_json(value)
        if parsed is js.UNDEFINED:
            raise ItemFailed(f"The JSON of “{label}” cannot be read.")
        return parsed


def fields_of_node(node: NodeDefinition) -> ServiceFields:
    """Returns the file's raw parameters, in which expressions are plain text."""
    return ServiceFields(Params(node.parameters), node.version, {})


def _located(value: JsonValue) -> AnyJson:
    """Returns the value inside a resource locator, or any other value unchanged."""
    return value.get("value") if isinstance(value, Mapping) and value.get("__rl") is True else value


# The dotted name of a parameter, or a function that computes a value from the parameters.
FieldSource: TypeAlias = str | Callable[[ServiceFields], AnyJson]
# The fields of a body or query by name, or a function that computes all of them.
CallFields: TypeAlias = Mapping[str, FieldSource] | Callable[[ServiceFields], Mapping[str, AnyJson]]


def read_source(fields: ServiceFields, source: FieldSource) -> AnyJson:
    """Returns the value of one field of a call, or None if it is not set."""
    return fields.value(source) if isinstance(source, str) else source(fields)


def read_call_fields(fields: ServiceFields, sources: CallFields) -> JsonObject:
    """Returns the fields of a body or query that are set, as plain JSON."""
    values = (
        sources(fields)
        if callable(sources)
        else {name: read_source(fields, source) for name, source in sources.items()}
    )
    return {name: js.to_json(value) for name, value in values.items() if not js.is_missing(value)}


def path_segment(text: str, words: str) -> str:
    """Returns a text quoted as one path segment. Raises ItemFailed if it is empty, `.` or `..`.

    Tabs and line breaks are removed, as URL parsers do.
    """
    text = text.translate(_LEFT_OUT)
    if not text:
        raise ItemFailed(f"This step does not say which {words}. Fill it in.")
    if text in (".", ".."):
        raise ItemFailed(f"“{text}” is not a valid {words}. Correct it.")
    return quote(text, safe="")


def filled_path(fields: ServiceFields, path: str) -> str:
    """Fills the parameters into a path, quoted. Raises ItemFailed if one is empty."""

    def value_of(match: re.Match[str]) -> str:
        text = (fields.text(match[1]) if match[1] else "") or fields.account.get(match[2] or "", "")
        return path_segment(text, _words(match[1] or match[2]))

    return _PLACEHOLDER.sub(value_of, path)


def _words(name: str) -> str:
    """Returns the name of a parameter as words: channelId becomes “channel id”."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
