"""What a document costs before it runs, and the bucket it is paid from.

The rule is the documented one for large lists: an object is a point, a connection two and its page size
times what a node costs, a mutation ten; one query at most 1,000. Real answers may count lower.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLList,
    GraphQLNonNull,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
    is_composite_type,
    is_object_type,
    value_from_ast_untyped,
)

MAX_QUERY_COST = 1_000
MUTATION = 10


@dataclass
class Bucket:
    """Points of one app in one store; by itself as large as the dearest plan's, so that tests wait for none.

    The plainest plan has a maximum of 2,000 and 100 a second.
    """

    now: Callable[[], datetime]
    maximum: float = 40_000.0
    rate: float = 2_000.0

    def __post_init__(self) -> None:
        self._points, self._measured_at = self.maximum, self.now()

    @property
    def available(self) -> float:
        """Points there are now."""
        passed = (self.now() - self._measured_at).total_seconds()
        return min(self._points + max(passed, 0.0) * self.rate, self.maximum)

    def take(self, points: float) -> None:
        """Spends points."""
        self._points, self._measured_at = self.available - points, self.now()

    def as_extension(self, requested: float, actual: float | None) -> dict[str, Any]:
        """The cost as a response's extensions show it."""
        return {
            "requestedQueryCost": requested,
            "actualQueryCost": actual,
            "throttleStatus": {
                "maximumAvailable": self.maximum,
                "currentlyAvailable": int(self.available),
                "restoreRate": self.rate,
            },
        }


def requested(schema: GraphQLSchema, document: DocumentNode, variables: dict[str, Any]) -> int:
    """The cost of a document with its values."""
    fragments = {
        node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
    }
    [operation] = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    reckoning = _CostCounter(schema, fragments, variables)
    root = schema.get_root_type(operation.operation)
    base = MUTATION if operation.operation.value == "mutation" else 0
    return base + reckoning.selection(root, operation.selection_set)


class _CostCounter:
    def __init__(
        self, schema: GraphQLSchema, fragments: dict[str, FragmentDefinitionNode], variables: dict[str, Any]
    ) -> None:
        self._schema, self._fragments, self._variables = schema, fragments, variables

    def selection(self, parent: Any, node: SelectionSetNode | None) -> int:
        """What one object of `parent` costs below itself; of alternatives the dearest."""
        total, alternatives = 0, [0]
        for child in node.selections if node is not None else ():
            if isinstance(child, FieldNode):
                total += self._field(parent, child)
            elif isinstance(child, FragmentSpreadNode):
                fragment = self._fragments[child.name.value]
                total += self.selection(
                    self._schema.get_type(fragment.type_condition.name.value), fragment.selection_set
                )
            elif isinstance(child, InlineFragmentNode):
                narrowed = (
                    self._schema.get_type(child.type_condition.name.value) if child.type_condition else parent
                )
                alternatives.append(self.selection(narrowed, child.selection_set))
        return total + max(alternatives)

    def _field(self, parent: Any, node: FieldNode) -> int:
        if node.name.value.startswith("__"):
            return 0
        kind = parent.fields[node.name.value].type
        named = get_named_type(kind)
        if not is_composite_type(named):
            return 0
        arguments = {argument.name.value: self._value(argument.value) for argument in node.arguments or ()}
        if named.name.endswith("Connection") and is_object_type(named):
            size = arguments.get("first") or arguments.get("last") or 0
            return 2 + size * self._node(named, node.selection_set)
        object_cost = 1 + self.selection(named, node.selection_set)
        if named.name == "PageInfo":
            return 0
        inner = kind.of_type if isinstance(kind, GraphQLNonNull) else kind
        if isinstance(inner, GraphQLList):
            return object_cost * (arguments.get("first") or len(arguments.get("ids") or ()) or 1)
        return object_cost

    def _node(self, connection: Any, node: SelectionSetNode | None) -> int:
        """What one node of a connection costs."""
        total = 0
        for child in node.selections if node is not None else ():
            if isinstance(child, FieldNode) and child.name.value in ("nodes", "edges"):
                named = get_named_type(connection.fields[child.name.value].type)
                total += 1 + self.selection(named, child.selection_set)
        return total

    def _value(self, node: Any) -> Any:
        return value_from_ast_untyped(node, self._variables)
