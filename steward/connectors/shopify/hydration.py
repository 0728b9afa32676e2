"""Compiles the paths a flow uses to Admin queries that read them; pure. Reading them is flow_reads.py's.

The queries a reader sends are made here and nowhere else: a recipe of names goes in, never text (rule 3 of
connectors 3). A name that the schema does not have never reaches a query.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from steward.connectors.shopify.schema_table import LISTS, Field, SchemaTable, Shape, schema_table
from steward.model.plan import Patched
from steward.outbound.documents import Document

# Of each list at most so many are read (imports 8.2).
LIST_MOST = 250
POINTS_MOST = 1_000
PATHS_MOST = 1_000
DEEPEST = 12
# The objects flows are about, under the names they have there.
OBJECTS: Mapping[str, str] = {
    "order": "Order",
    "product": "Product",
    "customer": "Customer",
    "draftOrder": "DraftOrder",
    "productVariant": "ProductVariant",
    "inventoryItem": "InventoryItem",
    "inventoryLevel": "InventoryLevel",
    "collection": "Collection",
    "fulfillment": "Fulfillment",
    "fulfillmentOrder": "FulfillmentOrder",
    "refund": "Refund",
    "return": "Return",
    "location": "Location",
    "company": "Company",
    "shop": "Shop",
}
# What flows fetch lists of.
FETCHED: Mapping[str, str] = {"orders": "Order", "products": "Product", "customers": "Customer"}
_SORTED = {"orders": "OrderSortKeys", "products": "ProductSortKeys", "customers": "CustomerSortKeys"}
# How long lists may be in one query: the outermost, those within, those within these.
_LENGTHS = tuple(
    (most, min(most, 10), min(most, 3))
    for most in (250, 200, 150, 100, 75, 50, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3, 2, 1)
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_ALWAYS = ("namespace", "key", "type", "value")


class Reads(StrEnum):
    """What a recipe reads."""

    OBJECT = "object"
    SHOP = "shop"
    FETCH = "fetch"
    MORE = "more"  # one list of an object, on from where the query before it ended


@dataclass(frozen=True, slots=True)
class Recipe:
    """Names alone: `root` is an object's or a list's name in flows, of `more` the type of the owner."""

    reads: Reads
    root: str
    paths: tuple[str, ...]
    patched: tuple[Patched, ...] = ()


@dataclass(slots=True)
class Tree:
    """What is read of objects of one type: fields by the names they have in the flow."""

    type: str
    fields: "dict[str, Branch]" = field(default_factory=dict)


@dataclass(slots=True)
class Branch:
    """One field of a tree; `metafield` is the place of the patched one it reads, in the recipe's order."""

    shape: Shape
    tree: Tree | None
    metafield: int | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query with the highest cost it is asked for.

    `problems` are paths that cannot be read, with words; `lists` the paths of lists read up to 250;
    `types` the schema's scalar or enum of each path that is a value; `lengths` how long lists are that come
    with their object, by how many lists are around them.
    """

    query: str
    points: int
    problems: tuple[tuple[str, str], ...]
    lists: tuple[str, ...]
    types: Mapping[str, str]
    tree: Tree
    lengths: tuple[int, ...]


def recipe_of(root: str, paths: Iterable[str], patched: Iterable[Patched] = ()) -> Recipe:
    """The recipe of a root of a flow: an object, the shop, or a list that is fetched. Raises KeyError."""
    kept = tuple(sorted(set(paths)))
    if root in FETCHED:
        return Recipe(Reads.FETCH, root, kept, tuple(patched))
    OBJECTS[root]
    return Recipe(Reads.SHOP if root == "shop" else Reads.OBJECT, root, kept, tuple(patched))


def compile_read(root: str, paths: Iterable[str], patched: Iterable[Patched] = ()) -> Compiled:
    """What reading `paths` of `root` comes to; paths begin with the root. Never raises for a path.

    An unknown root gives a problem for each path and no query.
    """
    wanted = sorted(set(paths))
    if root not in OBJECTS and root not in FETCHED:
        words = f"“{root[:60]}” is nothing that can be read of a Shopify store."
        return Compiled("", 0, tuple((path, words) for path in wanted), (), {}, Tree(""), ())
    return compiled(recipe_of(root, wanted, patched))


@functools.lru_cache(maxsize=512)
def compiled(recipe: Recipe) -> Compiled:
    """The query of a recipe, and what is wrong with its paths; those are left out of it."""
    table, growing = schema_table(), _Growing(recipe)
    growing.grow(table)
    for lengths in _LENGTHS:
        points = _points(recipe, growing.tree, lengths)
        if points <= POINTS_MOST:
            break
    else:
        words = "Too much is read at once. Use fewer fields of objects within lists."
        growing.problems.append((recipe.root, words))
    return Compiled(
        _text(recipe, growing, lengths),
        points,
        tuple(growing.problems),
        tuple(growing.lists),
        growing.types,
        growing.tree,
        lengths,
    )


@functools.lru_cache(maxsize=512)
def document_of(recipe: Recipe) -> Document:
    """The document that reads a recipe. Raises ValueError for paths the schema does not have."""
    made = compiled(recipe)
    if made.problems:
        raise ValueError(f"{made.problems[0][0]} cannot be read: {made.problems[0][1]}")
    return Document(f"Flow{recipe.reads.capitalize()}", made.query, made.points)


def variables_of(recipe: Recipe) -> dict[str, str | None]:
    """The names of metafields, which travel as values."""
    found: dict[str, str | None] = {}
    for place, each in enumerate(recipe.patched):
        found |= {f"space{place}": each.namespace or None, f"key{place}": each.key}
    used = compiled(recipe).query
    return {name: value for name, value in found.items() if f"${name}:" in used}


def sort_of(root: str, text: str | None) -> tuple[str, bool] | None:
    """(key, whether downwards) of a flow's words for an order, such as `UPDATED_AT desc`; None for others."""
    words = re.split(r"[\s:,]+", (text or "").strip())
    if words == [""]:
        return "ID", False
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words[0]).upper()
    for ending, down in (("_DESC", True), ("_ASC", False)):
        if key.endswith(ending) and len(words) == 1:
            key, words = key.removesuffix(ending), ["", "desc" if down else "asc"]
    way = words[1].lower() if len(words) > 1 else "asc"
    known = schema_table().sorts(root)
    if key not in known or len(words) > 2 or way not in ("asc", "desc", "ascending", "descending"):
        return None
    return key, way.startswith("desc")


class _Growing:
    """The tree of a recipe, path by path."""

    def __init__(self, recipe: Recipe) -> None:
        kind = OBJECTS.get(recipe.root) or FETCHED.get(recipe.root) or recipe.root
        self.recipe, self.tree = recipe, Tree(kind)
        self.problems: list[tuple[str, str]] = []
        self.lists: list[str] = []
        self.types: dict[str, str] = {}

    def grow(self, table: SchemaTable) -> None:
        """Takes in every path of the recipe."""
        if len(self.recipe.paths) > PATHS_MOST:
            self.problems.append((self.recipe.root, f"More than {PATHS_MOST} fields are used."))
            return
        own = {(each.type, each.handle): place for place, each in enumerate(self.recipe.patched)}
        for path in self.recipe.paths:
            root, *names = path.split(".")
            if root != self.recipe.root:
                self.problems.append((path, f"It is no field of {self.recipe.root}."))
            elif len(names) > DEEPEST:
                self.problems.append((path, f"It goes through more than {DEEPEST} objects."))
            else:
                self._path(table, path, names, own)

    def _path(
        self, table: SchemaTable, path: str, names: Sequence[str], own: Mapping[tuple[str, str], int]
    ) -> None:
        here, came = self.tree, [self.recipe.root]
        listed, leaf = self.recipe.reads is Reads.FETCH, None
        for place, name in enumerate(names):
            if listed and name in ("first", "last"):
                listed = False
                continue
            if name == "size" and (listed or leaf is not None):
                leaf = None if leaf is None else "Int"
                if place + 1 == len(names):
                    return
            if leaf is not None:
                self.problems.append((path, f"“{'.'.join(came)}” is a plain value; nothing is below it."))
                return
            found = _field(table, here.type, name, own)
            if found is None:
                self.problems.append((path, _unknown(here.type, name)))
                return
            came.append(name)
            branch = self._branch(here, name, found, own.get((here.type, name)))
            listed = found.shape in LISTS
            if listed and found.shape is not Shape.LEAVES and ".".join(came) not in self.lists:
                self.lists.append(".".join(came))
            if branch.tree is None:
                leaf = found.type
            else:
                here = branch.tree
        if leaf is not None:
            self.types[path] = leaf

    def _branch(self, here: Tree, name: str, found: Field, metafield: int | None) -> Branch:
        branch = here.fields.get(name)
        if branch is None:
            plain = found.shape in (Shape.LEAF, Shape.LEAVES)
            branch = Branch(found.shape, None if plain else Tree(found.type), metafield)
            here.fields[name] = branch
            if found.shape is Shape.METAFIELD and branch.tree is not None:
                branch.tree.fields |= {each: Branch(Shape.LEAF, None) for each in _ALWAYS}
        return branch


def _unknown(kind: str, name: str) -> str:
    if kind == "Metafield":
        return "A metafield by its namespace and key is read once it is added as a field in the tool."
    return f"Shopify's objects of the kind {kind} have no “{name[:60]}” that can be read."


def _field(table: SchemaTable, kind: str, name: str, own: Mapping[tuple[str, str], int]) -> Field | None:
    if (kind, name) in own:
        found = table.field(kind, "metafield")
        return found if found is not None and _NAME.fullmatch(name) else None
    found = table.field(kind, name)
    return None if found is None or found.shape is Shape.METAFIELD else found


def _points(recipe: Recipe, tree: Tree, lengths: tuple[int, ...]) -> int:
    """What a query costs at most: an object is a point, a connection two and its length times its nodes."""
    if recipe.reads is Reads.FETCH:
        return 2 + _first(lengths, 0) * (1 + _within(tree, lengths, 1))
    return 1 + _within(tree, lengths, 0)


def _within(tree: Tree, lengths: tuple[int, ...], depth: int) -> int:
    total = 0
    for each in tree.fields.values():
        if each.tree is None:
            continue
        if each.shape is Shape.CONNECTION:
            total += 2 + _first(lengths, depth) * (1 + _within(each.tree, lengths, depth + 1))
        elif each.shape is Shape.FIRST:
            total += _first(lengths, depth) * (1 + _within(each.tree, lengths, depth + 1))
        else:
            total += 1 + _within(each.tree, lengths, depth)
    return total


def _first(lengths: tuple[int, ...], depth: int) -> int:
    return lengths[min(depth, len(lengths) - 1)]


def _text(recipe: Recipe, growing: _Growing, lengths: tuple[int, ...]) -> str:
    is_list = recipe.reads is Reads.FETCH
    within = _selection(growing.tree, lengths, 1 if is_list else 0, recipe.reads is Reads.MORE)
    given = [f"${kind}{place}: String{mark}" for place in _used(growing.tree) for kind, mark in _NAMED]
    if recipe.reads is Reads.SHOP:
        head = f"({', '.join(given)})" if given else ""
        return f"query FlowShop{head} {{ shop {{ {within} }} }}"
    if is_list:
        sort = f"$sort: {_SORTED[recipe.root]}"
        head = ", ".join(("$query: String", "$after: String", sort, "$reverse: Boolean", *given))
        asked = f"first: {lengths[0]}, after: $after, query: $query, sortKey: $sort, reverse: $reverse"
        page = "pageInfo { hasNextPage endCursor }"
        return f"query FlowFetch({head}) {{ {recipe.root}({asked}) {{ {page} nodes {{ {within} }} }} }}"
    name, after = "FlowObject", []
    if recipe.reads is Reads.MORE:
        name, after = "FlowMore", ["$after: String"] if "after: $after" in within else []
    head = ", ".join(("$id: ID!", *after, *given))
    return f"query {name}({head}) {{ node(id: $id) {{ id ... on {growing.tree.type} {{ {within} }} }} }}"


_NAMED = (("space", ""), ("key", "!"))


def _used(tree: Tree) -> list[int]:
    found: set[int] = set()
    for each in tree.fields.values():
        found |= {each.metafield} if each.metafield is not None else set()
        found |= set(_used(each.tree)) if each.tree is not None else set()
    return sorted(found)


def _selection(tree: Tree, lengths: tuple[int, ...], depth: int, goes_on: bool = False) -> str:
    """The fields of one object, its id first: further reads of its lists need it."""
    parts = ["id"] if _has_id(tree) else []
    for name, each in sorted(tree.fields.items()):
        if each.tree is None:
            parts += [name] if name != "id" else []
        elif each.shape is Shape.METAFIELD:
            named = f"namespace: $space{each.metafield}, key: $key{each.metafield}"
            parts.append(f"{name}: metafield({named}) {{ {_selection(each.tree, lengths, depth)} }}")
        elif each.shape in (Shape.CONNECTION, Shape.FIRST):
            inner, first = _selection(each.tree, lengths, depth + 1), f"first: {_first(lengths, depth)}"
            if each.shape is Shape.FIRST:
                parts.append(f"{name}({first}) {{ {inner} }}")
            else:
                first += ", after: $after" if goes_on else ""
                page = "pageInfo { hasNextPage endCursor }"
                parts.append(f"{name}({first}) {{ {page} nodes {{ {inner} }} }}")
        else:
            parts.append(f"{name} {{ {_selection(each.tree, lengths, depth)} }}")
    return " ".join(parts) or "__typename"


def _has_id(tree: Tree) -> bool:
    found = schema_table().field(tree.type, "id")
    return found is not None and found.shape is Shape.LEAF
