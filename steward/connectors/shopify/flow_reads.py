"""Reads objects as flows see them: compiled queries, long lists read on, all of it as plain values.

What is asked is hydration.py's; nothing here makes a query of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from steward.connectors.base.queries import FlowObjectQuery, FlowObjectsQuery
from steward.connectors.shopify.answers import Row, gid, list_of, row_of, sub, text
from steward.connectors.shopify.hydration import (
    LIST_MOST,
    OBJECTS,
    Branch,
    Reads,
    Recipe,
    Tree,
    compiled,
    recipe_of,
    sort_of,
    variables_of,
)
from steward.connectors.shopify.paging import Asking
from steward.connectors.shopify.schema_table import Shape, schema_table
from steward.model.json import JsonValue
from steward.outbound.errors import Invalid, RemoteNotFound, ResponseTooLarge, UnusableResponse
from steward.outbound.response import Decoded

Plain = dict[str, JsonValue]

# What reading one object, or one fetch, may take in further calls for its long lists.
CALLS_MOST = 100
FETCH_MOST = 100


class FlowReads:
    """One reading: an object or a fetched list with everything its paths name."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask
        self._calls = 0

    async def one(self, ask: FlowObjectQuery) -> Plain:
        """The object. Raises CallError:

        RemoteNotFound when it is gone, ResponseTooLarge for more than calls may fetch.
        """
        recipe = recipe_of(ask.root, ask.paths, ask.patched)
        if recipe.reads is Reads.SHOP:
            found = await self._told(recipe, {})
            return await self._object(row_of(found.get("shop")), _Way.of(recipe))
        found = await self._told(recipe, {"id": gid(OBJECTS[ask.root], ask.id)})
        if found.get("node") is None:
            raise RemoteNotFound
        return await self._object(row_of(found["node"]), _Way.of(recipe))

    async def many(self, ask: FlowObjectsQuery) -> list[Plain]:
        """The first `most` objects in the order asked for. Raises CallError."""
        recipe, order = recipe_of(ask.root, ask.paths, ask.patched), sort_of(ask.root, ask.sort)
        if order is None:
            raise Invalid(["sort"], f"“{str(ask.sort)[:60]}” is no order {ask.root} can be sorted in.")
        given: Plain = {"query": ask.query.strip() or None, "sort": order[0], "reverse": order[1]}
        wanted, made, after = max(min(ask.limit, FETCH_MOST), 0), list[Plain](), None
        while len(made) < wanted:
            found = sub(await self._told(recipe, {**given, "after": after}), ask.root)
            rows = [row_of(each) for each in list_of(found, "nodes")][: wanted - len(made)]
            made += [await self._object(row, _Way.of(recipe)) for row in rows]
            following = _following(found, after)
            if following is None:
                break
            after = following
        return made

    async def _told(self, recipe: Recipe, variables: Mapping[str, JsonValue]) -> Row:
        return await self._ask.made(recipe, {**variables, **variables_of(recipe)})

    async def _object(self, row: Row, way: "_Way") -> Plain:
        """An object's values under the flow's names, its lists whole."""
        found: Plain = {}
        number = row.get("id")
        if isinstance(number, str):
            found["id"] = number
        for name, branch in way.tree.fields.items():
            value = row.get(name)
            if branch.tree is None or value is None:
                found[name] = _plain(value)
            elif branch.shape in (Shape.CONNECTION, Shape.FIRST):
                found[name] = await self._list(row, name, branch, way)
            elif branch.shape is Shape.OBJECTS:
                rows = [row_of(each) for each in list_of(row, name)]
                found[name] = [await self._object(each, way.within(name)) for each in rows]
            else:
                found[name] = await self._object(row_of(value), way.within(name))
        return found

    async def _list(self, row: Row, name: str, branch: Branch, way: "_Way") -> list[JsonValue]:
        """All objects of a list, at most 250; what did not come with the object is read on."""
        if branch.shape is Shape.FIRST:
            rows = [row_of(each) for each in list_of(row, name)]
            if LIST_MOST > len(rows) >= way.asked:
                # It may go on, and has no pages: it is asked for alone, where more of it fit.
                way = way.more(name)
                row = await self._more(way, row, None)
                rows = [row_of(each) for each in list_of(row, name)]
                if LIST_MOST > len(rows) >= way.asked:
                    raise ResponseTooLarge(f"the list {name} of this flow is too long to be read")
            return [await self._object(each, way.within(name)) for each in rows[:LIST_MOST]]
        owner, made, after = row, list[JsonValue](), None
        while True:
            found = sub(row, name)
            rows = [row_of(each) for each in list_of(found, "nodes")][: LIST_MOST - len(made)]
            made += [await self._object(each, way.within(name)) for each in rows]
            after = _following(found, after)
            if after is None or len(made) >= LIST_MOST:
                return made
            way = way.more(name) if row is owner else way
            row = await self._more(way, owner, after)

    async def _more(self, way: "_Way", row: Row, after: str | None) -> Row:
        self._calls += 1
        number = row.get("id")
        if self._calls > CALLS_MOST or not isinstance(number, str):
            raise ResponseTooLarge("the lists this flow reads are too long to be read one by one")
        given: Plain = {"id": number} if after is None else {"id": number, "after": after}
        found = await self._told(way.recipe, given)
        if found.get("node") is None:
            raise RemoteNotFound
        return row_of(found["node"])


@dataclass(frozen=True, slots=True)
class _Way:
    """Where in a recipe's tree an object stands, `depth` lists below its beginning."""

    recipe: Recipe
    tree: Tree
    depth: int = 0

    @classmethod
    def of(cls, recipe: Recipe) -> "_Way":
        """The beginning."""
        return cls(recipe, compiled(recipe).tree, 1 if recipe.reads is Reads.FETCH else 0)

    @property
    def asked(self) -> int:
        """How long the lists of an object here come with it."""
        lengths = compiled(self.recipe).lengths
        return lengths[min(self.depth, len(lengths) - 1)]

    def within(self, name: str) -> "_Way":
        """The objects of the field `name`."""
        branch = self.tree.fields[name]
        assert branch.tree is not None
        deeper = branch.shape in (Shape.CONNECTION, Shape.FIRST)
        return _Way(self.recipe, branch.tree, self.depth + deeper)

    def more(self, name: str) -> "_Way":
        """The same list asked for alone.

        Raises ResponseTooLarge for one whose owner is not found by its id.
        """
        if not schema_table().is_node(self.tree.type):
            raise ResponseTooLarge(f"the list {name} of this flow is too long to be read")
        wanted = _paths(self.tree.fields[name], f"{self.tree.type}.{name}")
        return _Way.of(Recipe(Reads.MORE, self.tree.type, tuple(sorted(wanted)), self.recipe.patched))


def _paths(branch: Branch, path: str) -> Sequence[str]:
    if branch.tree is None or not branch.tree.fields:
        return [path]
    return [each for name, one in branch.tree.fields.items() for each in _paths(one, f"{path}.{name}")]


def _following(found: Row, after: str | None) -> str | None:
    """Where the next page begins; None after the last.

    Raises UnusableResponse for pages that do not go on.
    """
    page = row_of(found.get("pageInfo"))
    if page.get("hasNextPage") is not True:
        return None
    following = text(page, "endCursor")
    if not following or following == after:
        raise UnusableResponse("its pages do not go on")
    return following


def _plain(value: Decoded) -> JsonValue:
    """A value as runs keep it: numbers as JSON has them."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
