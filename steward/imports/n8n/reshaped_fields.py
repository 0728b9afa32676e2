"""The output fields that hold a missing value after a step has reshaped its items.

See docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from steward.model.json import JsonObject, JsonValue
from steward.steps.n8n.nodes.lists import names_of
from steward.steps.n8n.nodes.summarize import SUMMARY_NAMES
from steward.steps.workflow.step_types import NodeDefinition

Missing: TypeAlias = frozenset[tuple[str, ...]]  # paths of fields; the empty path is the whole item
WHOLE: Final[Missing] = frozenset(((),))
SCRIPTS: Final = frozenset(("code", "function", "functionItem"))
ANYWHERE: Final = "*"  # first element of a path to a field at any depth


def overlap(keys: tuple[str, ...], missing: Missing) -> bool:
    """Returns whether a path of keys leads to a missing field, into one, or to an object with one."""
    return any(_meets(keys, path) for path in missing)


def _meets(keys: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if path[:1] == (ANYWHERE,):
        return not keys or path[1] in keys
    return keys[: len(path)] == path[: len(keys)]


def words_in(text: str, missing: Missing) -> bool:
    """Returns whether code contains the name of a missing field."""
    return any(path and re.search(rf"(?<![\w$]){re.escape(path[-1])}(?![\w$])", text) for path in missing)


def reshaped(source_type: str, parameters: JsonObject, arriving: Missing) -> Missing | None:
    """Returns the missing fields of a step's output, or None if the step keeps its items' shape."""
    node = NodeDefinition("", 1, parameters, ())
    if source_type in ("aggregate", "itemLists") and not _keeps_lists(node, source_type):
        return _aggregated(node, arriving)
    reshape = _RESHAPES.get(source_type)
    return None if reshape is None else arriving | reshape(node, arriving)


def _keeps_lists(node: NodeDefinition, source_type: str) -> bool:
    return source_type == "itemLists" and node.get("operation") not in ("concatenateItems", "aggregateItems")


def _aggregated(node: NodeDefinition, arriving: Missing) -> Missing:
    """Returns the missing fields of the single item that an aggregate step outputs."""
    if node.get("aggregate") == "aggregateAllItemData":
        name = str(node.get("destinationFieldName") or "data")
        return frozenset((name, *path) for path in arriving if path)
    fields: set[tuple[str, ...]] = set()
    for row in _rows(node.get("fieldsToAggregate.fieldToAggregate")):
        keys = tuple(str(row.get("fieldToAggregate", "")).split("."))
        if overlap(keys, arriving - WHOLE):
            fields.add((str(row.get("outputFieldName") or keys[-1]),))
    return frozenset(fields)


def _anywhere(node: NodeDefinition, arriving: Missing) -> Missing:
    return frozenset((ANYWHERE, path[-1]) for path in arriving if path)


def _renamed(node: NodeDefinition, arriving: Missing) -> Missing:
    if node.get("additionalOptions.regexReplacement.replacements"):
        return WHOLE if arriving else arriving
    return _moved(
        arriving, ((row.get("currentKey"), row.get("newKey")) for row in _rows(node.get("keys.key")))
    )


def _split(node: NodeDefinition, arriving: Missing) -> Missing:
    fields = names_of(node.get("fieldToSplitOut", ""))
    renamed = names_of(node.get("options.destinationFieldName", "")) or fields
    return _moved(arriving, [*zip(fields, renamed, strict=False), *((field, "") for field in fields)])


def _moved(arriving: Missing, renames: Iterable[tuple[JsonValue, JsonValue]]) -> Missing:
    """Returns the missing fields below each old name, moved to the new name."""
    moved: set[tuple[str, ...]] = set()
    for old, new in renames:
        before = tuple(str(old).split("."))
        after = tuple(str(new).split(".")) if new else ()
        moved |= {(*after, *path[len(before) :]) for path in arriving if path and _is_below(path, before)}
    return frozenset(moved - WHOLE)


def _is_below(path: tuple[str, ...], before: tuple[str, ...]) -> bool:
    return path[: len(before)] == before


def _summarized(node: NodeDefinition, arriving: Missing) -> Missing:
    fields = [str(row.get("field", "")) for row in _rows(node.get("fieldsToSummarize.values"))]
    return frozenset(
        (f"{prefix}_{field.replace('.', '_')}",)
        for field in fields
        if overlap(tuple(field.split(".")), arriving - WHOLE)
        for prefix in SUMMARY_NAMES
    )


def _suffixed(node: NodeDefinition, arriving: Missing) -> Missing:
    return frozenset((f"{path[0]}_{number}", *path[1:]) for path in arriving if path for number in (1, 2))


def _listed(node: NodeDefinition, arriving: Missing) -> Missing:
    if node.get("operation", "splitOutItems") == "splitOutItems":
        return _split(node, arriving)
    return _summarized(node, arriving)


_RESHAPES: dict[str, Callable[[NodeDefinition, Missing], Missing]] = {
    **dict.fromkeys((*SCRIPTS, "compareDatasets", "executeWorkflow"), _anywhere),
    "itemLists": _listed,
    "merge": _suffixed,
    "renameKeys": _renamed,
    "splitOut": _split,
    "summarize": _summarized,
}


def _rows(value: JsonValue) -> list[JsonObject]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
