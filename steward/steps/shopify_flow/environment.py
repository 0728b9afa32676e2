"""The values that a step of a flow sees, by path: objects of the store and earlier outputs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steward.model.json import JsonValue
from steward.steps.workflow.step_types import UnknownInTest


@dataclass(frozen=True, slots=True)
class FlowVariables:
    """Values by name. In test runs, `unknown` holds the paths that only a real change would fill."""

    values: Mapping[str, JsonValue]
    unknown: frozenset[str] = frozenset()

    def resolve(self, path: str) -> JsonValue:
        """Returns the value at a dotted path, or None if absent. Raises UnknownInTest."""
        self.require_known(path)
        return follow(self.values, path)

    def require_known(self, path: str) -> None:
        """Raises UnknownInTest if the path, a prefix of it or anything below it is unknown."""
        for unknown_path in self.unknown:
            if (
                path == unknown_path
                or path.startswith(f"{unknown_path}.")
                or unknown_path.startswith(f"{path}.")
            ):
                raise UnknownInTest(path)

    def with_name(self, name: str, value: JsonValue) -> "FlowVariables":
        """Returns a copy with one additional name."""
        return FlowVariables({**self.values, name: value}, self.unknown)


def follow(value: JsonValue, path: str) -> JsonValue:
    """Returns the value at a dotted path, or None.

    A member of a list is the list of its elements' members, with nested lists joined; `first`, `last` and
    `size` apply to the list itself.
    """
    for key in _keys(path):
        value = _member(value, key)
    return value


def _keys(path: str) -> Iterator[str]:
    return (part for part in path.split(".") if part)


def _member(value: JsonValue, key: str) -> JsonValue:
    if isinstance(value, Mapping):
        return len(value) if key == "size" and key not in value else value.get(key)
    if isinstance(value, list | tuple):
        return _member_of_list(value, key)
    if isinstance(value, str) and key == "size":
        return len(value)
    return None


def _member_of_list(items: Sequence[JsonValue], key: str) -> JsonValue:
    if key == "size":
        return len(items)
    if key in ("first", "last"):
        return items[0 if key == "first" else -1] if items else None
    return list(_members_of_each(items, key))


def _members_of_each(items: Iterable[JsonValue], key: str) -> Iterator[JsonValue]:
    for item in items:
        if isinstance(item, Mapping) and key in item:
            value = item[key]
        elif isinstance(item, list | tuple):
            value = _member(item, key)
        else:
            continue
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def elements(value: JsonValue) -> list[JsonValue]:
    """Returns the elements of a list, or none for any other value."""
    return list(value) if isinstance(value, list | tuple) else []
