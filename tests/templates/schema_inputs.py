"""Makes inputs from a template's schema: the fewest that it accepts, in every variant, and the fullest."""

from collections.abc import Iterator, Mapping
from typing import Any

from steward.templates.base import Template

_TEXTS = {
    r"^[^,\s]([^,]*[^,\s])?$": "clearance",
    r"^[0-9]{1,9}(\.[0-9]{1,4})?$": "12.50",
    r"^[A-Z]{2}$": "DE",
    r"^[A-Z]{3}$": "EUR",
    r"^(?!0+(\.0+)?$)[0-9]{1,6}(\.[0-9]{1,8})?$": "1",
}


class Inputs:
    """Makes inputs of one template. `known` holds values that a schema cannot give, by the field's name."""

    def __init__(self, template: Template, known: Mapping[str, Any]) -> None:
        self.template = template
        self.schema: Any = template.facts.inputs_schema
        self.known = known

    def fewest(self) -> Iterator[dict[str, Any]]:
        """Yields the required inputs alone, once for each value of an enum and each way to meet a rule."""
        open_ = [{}]
        seen: list[dict[str, Any]] = []
        while open_:
            inputs = open_.pop()
            errors = self.template.check_inputs(inputs).errors
            if not errors:
                yield inputs
                continue
            assert inputs not in seen, (self.template.template_id, inputs, errors)
            seen.append(inputs)
            # Other errors may come from missing required inputs, so those are filled in first.
            always = [f"inputs.{name}" for name in self.schema["required"] if name not in inputs]
            path = next(iter([*always, *errors]))
            words = errors[path][0]
            if path == "inputs":  # the message “Give at least one of a, b.”
                names = words.removesuffix(".").rpartition("one of ")[2].split(", ")
                open_ += [{**inputs, name: self.value(name)} for name in names]
                continue
            name = path.split(".")[1]
            chosen = self._rule(self.schema["properties"][name]).get("enum")
            values = chosen if chosen is not None else [self.value(name)]
            open_ += [{**inputs, name: value} for value in values]

    def fullest(self) -> Iterator[dict[str, Any]]:
        """Yields each of the fewest inputs with every optional input that fits."""
        for fewest in self.fewest():
            inputs = dict(fewest)
            for name in self.schema["properties"]:
                more = inputs if name in inputs else {**inputs, name: self.value(name)}
                inputs = inputs if self.template.check_inputs(more).errors else more
            yield inputs

    def value(self, name: str) -> Any:
        """Returns a value of an input that its schema allows, with all its fields."""
        return self.known.get(name) or self._value(self.schema["properties"][name], name)

    def _value(self, rule: Any, name: str) -> Any:
        rule = self._rule(rule)
        if name in self.known:
            return self.known[name]
        if "anyOf" in rule:
            return self._value(rule["anyOf"][0], name)
        if "enum" in rule or "const" in rule:
            return rule.get("const", rule.get("enum", [None])[0])
        kinds = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        if kinds[0] == "array":
            return [self._value(rule["items"], f"{name}[]")]
        if kinds[0] == "object":
            return {
                key: self._value(item, f"{name}.{key}") for key, item in rule.get("properties", {}).items()
            }
        if kinds[0] == "string":
            return _TEXTS[rule["pattern"]] if "pattern" in rule else "Name"
        return True if kinds[0] == "boolean" else rule.get("minimum", 10)

    def _rule(self, rule: Any) -> Any:
        name = rule.get("$ref")
        return rule if name is None else {**self._rule(self.schema["$defs"][name.rpartition("/")[2]]), **rule}
