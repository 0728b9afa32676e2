"""Reads objects as Shopify Flow sees them: compiled queries, complete lists, plain values.

hydration.py compiles the queries; this module builds none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from steward.connectors.base.queries import FlowObjectQuery, FlowObjectsQuery
from steward.connectors.shopify.hydration import (
    MAX_LIST_LENGTH,
    OBJECTS,
    FieldBranch,
    FieldTree,
    Recipe,
    RecipeReads,
    compiled,
    recipe_of,
    sort_order,
    variables_of,
)
from steward.connectors.shopify.paging import StoreQueries
from steward.connectors.shopify.responses import Row, gid, list_of, row_of, sub, text
from steward.connectors.shopify.schema_table import FieldShape, schema_table
from steward.model.json import JsonValue
from steward.outbound.errors import Invalid, RemoteNotFound, ResponseTooLarge, UnusableResponse
from steward.outbound.response import Decoded

FlowObject = dict[str, JsonValue]

# The maximum number of further calls for the long lists of one object or one fetch.
MAX_CALLS = 100
_MAX_FETCHED = 100


class FlowReads:
    """Reads an object, or fetches a list, with everything that its paths name."""

    def __init__(self, queries: StoreQueries) -> None:
        self._queries = queries
        self._calls = 0

    async def read_one(self, query: FlowObjectQuery) -> FlowObject:
        """Returns the object.

        Raises CallError: RemoteNotFound when it is gone, ResponseTooLarge when it needs too many calls.
        """
        recipe = recipe_of(query.root, query.paths, query.patched)
        if recipe.reads is RecipeReads.SHOP:
            data = await self._execute(recipe, {})
            return await self._object(row_of(data.get("shop")), _TreePosition.of(recipe))
        data = await self._execute(recipe, {"id": gid(OBJECTS[query.root], query.id)})
        if data.get("node") is None:
            raise RemoteNotFound
        return await self._object(row_of(data["node"]), _TreePosition.of(recipe))

    async def read_many(self, query: FlowObjectsQuery) -> list[FlowObject]:
        """Returns the first `limit` objects in the requested order. Raises CallError."""
        recipe, order = recipe_of(query.root, query.paths, query.patched), sort_order(query.root, query.sort)
        if order is None:
            raise Invalid(["sort"], f"“{str(query.sort)[:60]}” is not a sort order of {query.root}.")
        variables: dict[str, JsonValue] = {
            "query": query.query.strip() or None,
            "sort": order[0],
            "reverse": order[1],
        }
        limit, objects, after = max(min(query.limit, _MAX_FETCHED), 0), list[FlowObject](), None
        while len(objects) < limit:
            connection = sub(await self._execute(recipe, {**variables, "after": after}), query.root)
            rows = [row_of(node) for node in list_of(connection, "nodes")][: limit - len(objects)]
            objects += [await self._object(row, _TreePosition.of(recipe)) for row in rows]
            next_cursor = _next_cursor(connection, after)
            if next_cursor is None:
                break
            after = next_cursor
        return objects

    async def _execute(self, recipe: Recipe, variables: Mapping[str, JsonValue]) -> Row:
        return await self._queries.execute_compiled(recipe, {**variables, **variables_of(recipe)})

    async def _object(self, row: Row, position: "_TreePosition") -> FlowObject:
        """Returns an object's values under Shopify Flow's names, with complete lists."""
        values: FlowObject = {}
        object_id = row.get("id")
        if isinstance(object_id, str):
            values["id"] = object_id
        for name, branch in position.tree.fields.items():
            value = row.get(name)
            if branch.tree is None or value is None:
                values[name] = _plain_value(value)
            elif branch.shape is FieldShape.CONNECTION:
                values[name] = await self._connection(row, name, position)
            elif branch.shape is FieldShape.FIRST:
                values[name] = await self._unpaged_list(row, name, position)
            elif branch.shape is FieldShape.OBJECTS:
                rows = [row_of(child) for child in list_of(row, name)]
                values[name] = [await self._object(child, position.within(name)) for child in rows]
            else:
                values[name] = await self._object(row_of(value), position.within(name))
        return values

    async def _unpaged_list(self, row: Row, name: str, position: "_TreePosition") -> list[JsonValue]:
        """Returns the objects of a list without pages; reads the list separately when it may be longer."""
        rows = [row_of(node) for node in list_of(row, name)]
        if MAX_LIST_LENGTH > len(rows) >= position.page_length:
            # Read separately, more objects fit in one response.
            position = position.more(name)
            row = await self._more(position, row, None)
            rows = [row_of(child) for child in list_of(row, name)]
            if MAX_LIST_LENGTH > len(rows) >= position.page_length:
                raise ResponseTooLarge(f"the list {name} of this flow is too long to be read")
        return [await self._object(child, position.within(name)) for child in rows[:MAX_LIST_LENGTH]]

    async def _connection(self, row: Row, name: str, position: "_TreePosition") -> list[JsonValue]:
        """Returns all objects of a connection, at most 250; fetches the pages after the first."""
        owner, objects, after = row, list[JsonValue](), None
        while True:
            connection = sub(row, name)
            rows = [row_of(child) for child in list_of(connection, "nodes")][: MAX_LIST_LENGTH - len(objects)]
            objects += [await self._object(child, position.within(name)) for child in rows]
            after = _next_cursor(connection, after)
            if after is None or len(objects) >= MAX_LIST_LENGTH:
                return objects
            position = position.more(name) if row is owner else position
            row = await self._more(position, owner, after)

    async def _more(self, position: "_TreePosition", row: Row, after: str | None) -> Row:
        self._calls += 1
        object_id = row.get("id")
        if self._calls > MAX_CALLS or not isinstance(object_id, str):
            raise ResponseTooLarge("the lists this flow reads are too long to be read one by one")
        variables: dict[str, JsonValue] = (
            {"id": object_id} if after is None else {"id": object_id, "after": after}
        )
        data = await self._execute(position.recipe, variables)
        if data.get("node") is None:
            raise RemoteNotFound
        return row_of(data["node"])


@dataclass(frozen=True, slots=True)
class _TreePosition:
    """The position of an object in a recipe's tree, `depth` lists below its root."""

    recipe: Recipe
    tree: FieldTree
    depth: int = 0

    @classmethod
    def of(cls, recipe: Recipe) -> "_TreePosition":
        """Returns the root of a recipe."""
        return cls(recipe, compiled(recipe).tree, 1 if recipe.reads is RecipeReads.FETCH else 0)

    @property
    def page_length(self) -> int:
        """The length of an object's lists at this position in one response."""
        lengths = compiled(self.recipe).lengths
        return lengths[min(self.depth, len(lengths) - 1)]

    def within(self, name: str) -> "_TreePosition":
        """Returns the position of the objects of the field `name`."""
        branch = self.tree.fields[name]
        assert branch.tree is not None
        deeper = branch.shape in (FieldShape.CONNECTION, FieldShape.FIRST)
        return _TreePosition(self.recipe, branch.tree, self.depth + deeper)

    def more(self, name: str) -> "_TreePosition":
        """Returns the same list, read separately. Raises ResponseTooLarge if no id reads its owner."""
        if not schema_table().is_node(self.tree.type):
            raise ResponseTooLarge(f"the list {name} of this flow is too long to be read")
        paths = _paths(self.tree.fields[name], f"{self.tree.type}.{name}")
        return _TreePosition.of(
            Recipe(RecipeReads.MORE, self.tree.type, tuple(sorted(paths)), self.recipe.patched)
        )


def _paths(branch: FieldBranch, path: str) -> Sequence[str]:
    if branch.tree is None or not branch.tree.fields:
        return [path]
    return [
        leaf_path
        for name, child in branch.tree.fields.items()
        for leaf_path in _paths(child, f"{path}.{name}")
    ]


def _next_cursor(connection: Row, after: str | None) -> str | None:
    """Returns the cursor of the next page; None after the last one.

    Raises UnusableResponse for a cursor that does not advance.
    """
    page = row_of(connection.get("pageInfo"))
    if page.get("hasNextPage") is not True:
        return None
    cursor = text(page, "endCursor")
    if not cursor or cursor == after:
        raise UnusableResponse("a page names no next page")
    return cursor


def _plain_value(value: Decoded) -> JsonValue:
    """Returns a value as runs store it, with numbers as in JSON."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)
    if isinstance(value, dict):
        return {name: _plain_value(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain_value(element) for element in value]
    return value
