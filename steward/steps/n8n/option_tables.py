"""The options of a node's operation and the fields that they become in its call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

# Converts an option's value to the fields of a call.
Shape = Callable[[AnyJson], Mapping[str, AnyJson]]


@dataclass(frozen=True, slots=True)
class OptionTable:
    """A collection of options; `names` is `a b`, or `a:b` if the API calls the option `b`.

    `shapes` converts options that the API writes differently. An option in neither of them is an error of the
    import, even if another operation has it.
    """

    path: str
    names: str = ""
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, str]:
        """The API's name of each option."""
        pairs = (name.partition(":") for name in self.names.split())
        return {name: renamed or name for name, _, renamed in pairs}

    def read(self, fields: ServiceFields) -> dict[str, JsonValue]:
        """Returns the call's fields for the options that are set."""
        values: dict[str, JsonValue] = {}
        names = self.known
        for name, value in fields.options(self.path).items():
            if name in self.shapes:
                values |= self.shapes[name](value)
            elif name in names:
                values[names[name]] = value
        return values

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields the options that are unknown."""
        collection = node.get(self.path)
        names = self.known
        for name in collection if isinstance(collection, Mapping) else ():
            if name not in names and name not in self.shapes:
                message = f"Its option “{str(name)[:80]}” is not known here. Remove it."
                yield StepProblem("error", "parameter", message)


def joined(name: str) -> Shape:
    """Returns a shape that joins a list with commas."""
    return lambda value: {name: ",".join(map(str, value)) if isinstance(value, list) else value}


def rows_of(value: JsonValue, name: str) -> Sequence[JsonObject]:
    """Returns the rows in a collection of the form `{name: [{...}]}` or `{name: {...}}`."""
    inner = value.get(name) if isinstance(value, Mapping) else None
    rows = inner if isinstance(inner, list) else [inner]
    return [row for row in rows if isinstance(row, Mapping)]


def named_values(collection: str, name: str, value: str = "value") -> Shape:
    """Returns a shape that turns rows of names and values into fields."""
    return lambda rows: {str(row.get(name, "")): row.get(value) for row in rows_of(rows, collection)}
