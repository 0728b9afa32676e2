"""The nodes renameKeys and removeDuplicates."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from steward.model.json import AnyJson, JsonValue
from steward.model.plan import OnError
from steward.steps.n8n import conditions
from steward.steps.n8n.nodes.lists import field_at, names_of
from steward.steps.n8n.seen_items import (
    COMPARES,
    FORGETS,
    clear_history,
    compare_with_history,
    history_problems,
)
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    error_result,
    for_each_item,
    paired_with,
)


class RenameKeysNode(StepType):
    """The node renameKeys: renames fields by name, then replaces the first match of each pattern."""

    types = ("renameKeys",)
    knows_all_parameters = True
    parameters = frozenset(("keys", "additionalOptions"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields patterns that google-re2 does not support."""
        rows = node.get("additionalOptions.regexReplacement.replacements", [])
        for row in rows if isinstance(rows, list) else ():
            pattern = row.get("searchRegex", "") if isinstance(row, Mapping) else ""
            if isinstance(pattern, str) and conditions.compiled(pattern) is None:
                message = (
                    "It renames by a pattern with look-around or back-references. Write a plainer pattern."
                )
                yield StepProblem("error", "parameter", message)

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Renames the fields of each item."""
        return for_each_item(call, lambda index, item: [_renamed(call.params(index), index, item)])


def _renamed(params: Params, index: int, item: Item) -> Item:
    json: dict[str, JsonValue] = js.deep_copy(item.json)
    for row in params.rows("keys.key"):
        old, new = row.text("currentKey"), row.text("newKey")
        value = js.get_path(json, old)
        if not old or not new or old == new or value is js.UNDEFINED:
            continue
        js.set_path(json, new, value)
        js.delete_path(json, old)
    for row in params.rows("additionalOptions.regexReplacement.replacements"):
        pattern = row.text("searchRegex")
        if row.flag("options.caseInsensitive"):
            pattern = f"/{pattern}/i"
        program = conditions.compiled(pattern)
        if program is None:
            raise ItemFailed(f"The pattern {pattern[:80]} cannot be read.")
        into = row.text("replaceRegex").replace("\\", "\\\\")
        depth = js.number(row.get("options.depth", -1))
        json = _by_pattern(json, program, _template(into), int(depth))
    return Item(json, paired_with(index))


def _template(text: str) -> str:
    """Converts JavaScript's `$1` to the syntax of google-re2."""
    out, index = "", 0
    while index < len(text):
        if text[index] == "$" and index + 1 < len(text) and text[index + 1].isdigit():
            out += f"\\{text[index + 1]}"
            index += 2
        elif text.startswith("$&", index):
            out += "\\0"
            index += 2
        else:
            out += text[index]
            index += 1
    return out


def _by_pattern(
    json: Mapping[str, AnyJson], program: conditions.Pattern, into: str, depth: int
) -> dict[str, JsonValue]:
    renamed: dict[str, JsonValue] = {}
    moved: dict[str, JsonValue] = {}
    for name, value in json.items():
        if depth != 0 and isinstance(value, Mapping):
            value = _by_pattern(value, program, into, depth - 1)
        elif depth not in (0, 1) and isinstance(value, list):  # a list counts as a nesting level
            value = [
                _by_pattern(element, program, into, depth - 2) if isinstance(element, Mapping) else element
                for element in value
            ]
        other = program.sub(into, name, count=1)
        (renamed if other == name else moved)[other] = value
    return renamed | moved


_WITHIN = "removeDuplicateInputItems"


class RemoveDuplicatesNode(StepType):
    """The node removeDuplicates: fails if a compared field is missing or has mixed types.

    Version 2 can also compare with earlier runs; items seen before go to a second output.
    """

    types = ("removeDuplicates",)
    versions = (1, 1.1, 2)
    options = frozenset(("disableDotNotation", "removeOtherFields", "historySize", "scope"))
    choices = MappingProxyType(
        {
            "compare": frozenset(("allFields", "allFieldsExcept", "selectedFields")),
            "options.scope": frozenset(("node", "workflow")),
        }
    )
    parameters = frozenset(
        (
            "operation",
            "compare",
            "fieldsToCompare",
            "fieldsToExclude",
            "options",
            "logic",
            "dedupeValue",
            "incrementalDedupeValue",
            "dateDedupeValue",
            "mode",
        )
    )

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns one output, plus a second one when comparing with earlier runs."""
        return ("out:0", "out:1") if node.get("operation") == COMPARES else ("out:0",)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown operations and the problems of comparing with earlier runs."""
        operation = node.get("operation", _WITHIN)
        if operation in (COMPARES, FORGETS):
            yield from history_problems(node)
        elif operation != _WITHIN:
            yield StepProblem("error", "parameter", "Its operation is not known. Choose another one.")

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Removes the duplicates."""
        operation = call.first.text("operation", _WITHIN)
        try:
            if operation == COMPARES:
                return await compare_with_history(call)
            if operation == FORGETS:
                return await clear_history(call)
            return NodeResult([without_duplicates(call.first, call.items)])
        except ItemFailed as failure:
            if call.version < 2 or call.on_error is OnError.STOP:
                raise
            if operation == COMPARES and call.on_error is OnError.ERROR_OUTPUT:
                return NodeResult([[], *error_result(call, failure.message).outputs])
            return error_result(call, failure.message)


def without_duplicates(params: Params, items: Items) -> Items:
    """Returns the first of each set of equal items. Raises ItemFailed."""
    dots = not params.flag("options.disableDotNotation")
    names = _compared(params, items)
    for name in names:
        _check_types(name, items, dots=dots)
    seen_keys: set[str] = set()
    out: Items = []
    for index, item in enumerate(items):
        values = [field_at(item.json, name, dots=dots) for name in names]
        key = "\x00".join(js.strict_key(value) for value in values)
        if key in seen_keys:
            continue
        seen_keys.add(key)
        json = item.json
        if params.flag("options.removeOtherFields"):
            json = {}
            for name, value in zip(names, values, strict=True):
                js.set_path(json, name, value) if dots else json.update({name: value})
        out.append(Item(json, paired_with(index)))
    return out


def _compared(params: Params, items: Items) -> list[str]:
    compare = params.text("compare", "allFields")
    if compare == "selectedFields":
        return _listed(params, "fieldsToCompare")
    names = list(dict.fromkeys(name for item in items for name in item.json))
    if compare == "allFieldsExcept":
        unwanted = set(_listed(params, "fieldsToExclude"))
        return [name for name in names if name not in unwanted]
    return names


def _listed(params: Params, name: str) -> list[str]:
    """Returns field names from text, or from the objects of older versions."""
    value = params.get(name, "")
    if isinstance(value, Mapping):
        names = [row.text("fieldName") for row in params.rows(f"{name}.fields")]
    else:
        names = names_of(value)
    if not names:
        raise ItemFailed("Name the fields to compare.")
    return names


def _check_types(name: str, items: Items, *, dots: bool) -> None:
    kinds = set()
    for item in items:
        value = field_at(item.json, name, dots=dots)
        if value is js.UNDEFINED:
            raise ItemFailed(f"The field “{name}” is missing from some items.")
        kinds.add(_type_name(value))
    if len(kinds) > 1:
        raise ItemFailed(f"The field “{name}” is not always of the same type.")


def _type_name(value: JsonValue) -> str:
    """Returns JavaScript's `typeof`, which is the same for null, lists and objects."""
    if js.is_number(value):
        return "number"
    return type(value).__name__ if isinstance(value, str | bool) else "object"
