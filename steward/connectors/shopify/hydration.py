"""Compiles the paths that a Shopify Flow workflow uses to Admin queries; pure.

Only this module compiles queries, and only from a recipe of names, never from text. A name that the schema
does not have never gets into a query. flow_reads.py sends the queries.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from steward.connectors.shopify.schema_table import LISTS, Field, FieldShape, SchemaTable, schema_table
from steward.model.plan import Patched
from steward.outbound.documents import Document

# The maximum number of objects read from one list.
MAX_LIST_LENGTH = 250
MAX_QUERY_COST = 1_000
_MAX_PATHS = 1_000
_MAX_DEPTH = 12
# The objects of Shopify Flow workflows, by their names in Flow.
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
# The lists that workflows fetch.
FETCHED: Mapping[str, str] = {"orders": "Order", "products": "Product", "customers": "Customer"}
_SORTED = {"orders": "OrderSortKeys", "products": "ProductSortKeys", "customers": "CustomerSortKeys"}
# The lengths of lists in one query, by nesting depth.
_LENGTHS = tuple(
    (length, min(length, 10), min(length, 3))
    for length in (250, 200, 150, 100, 75, 50, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3, 2, 1)
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_ALWAYS = ("namespace", "key", "type", "value")


class RecipeReads(StrEnum):
    """The kinds of reads that a recipe makes."""

    OBJECT = "object"
    SHOP = "shop"
    FETCH = "fetch"
    MORE = "more"  # continues one list of an object where the query before it ended


@dataclass(frozen=True, slots=True)
class Recipe:
    """The names that a read is compiled from.

    `root` is the name of an object or list in Flow; for MORE it is the type of the list's owner.
    """

    reads: RecipeReads
    root: str
    paths: tuple[str, ...]
    patched: tuple[Patched, ...] = ()


@dataclass(slots=True)
class FieldTree:
    """The fields to read of objects of one type, by their names in the workflow."""

    type: str
    fields: "dict[str, FieldBranch]" = field(default_factory=dict)


@dataclass(slots=True)
class FieldBranch:
    """A field of a tree; `metafield` is the index of the patched metafield it reads."""

    shape: FieldShape
    tree: FieldTree | None
    metafield: int | None = None


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A query with the highest cost that it can have.

    `problems` are unreadable paths with messages; `lists` the paths of lists read up to 250; `types` the
    schema's scalar or enum of each path that is a value; `lengths` the lengths of nested lists in one
    response, by nesting depth.
    """

    query: str
    cost: int
    problems: tuple[tuple[str, str], ...]
    lists: tuple[str, ...]
    types: Mapping[str, str]
    tree: FieldTree
    lengths: tuple[int, ...]


def recipe_of(root: str, paths: Iterable[str], patched: Iterable[Patched] = ()) -> Recipe:
    """Returns the recipe of a root: an object, the shop, or a fetched list. Raises KeyError."""
    sorted_paths = tuple(sorted(set(paths)))
    if root in FETCHED:
        return Recipe(RecipeReads.FETCH, root, sorted_paths, tuple(patched))
    OBJECTS[root]
    return Recipe(
        RecipeReads.SHOP if root == "shop" else RecipeReads.OBJECT, root, sorted_paths, tuple(patched)
    )


def compile_read(root: str, paths: Iterable[str], patched: Iterable[Patched] = ()) -> _Compiled:
    """Compiles a read of `paths`, which begin with `root`. Never raises for a path.

    An unknown root gives a problem for each path and no query.
    """
    sorted_paths = sorted(set(paths))
    if root not in OBJECTS and root not in FETCHED:
        message = f"“{root[:60]}” is nothing that can be read of a Shopify store."
        return _Compiled("", 0, tuple((path, message) for path in sorted_paths), (), {}, FieldTree(""), ())
    return compiled(recipe_of(root, sorted_paths, patched))


@functools.lru_cache(maxsize=512)
def compiled(recipe: Recipe) -> _Compiled:
    """Returns the query of a recipe, and the problems of paths that the query leaves out."""
    table, builder = schema_table(), _TreeBuilder(recipe)
    builder.grow(table)
    for lengths in _LENGTHS:
        cost = _cost(recipe, builder.tree, lengths)
        if cost <= MAX_QUERY_COST:
            break
    else:
        message = "Too much is read at once. Use fewer fields of objects within lists."
        builder.problems.append((recipe.root, message))
    return _Compiled(
        _query_text(recipe, builder, lengths),
        cost,
        tuple(builder.problems),
        tuple(builder.lists),
        builder.types,
        builder.tree,
        lengths,
    )


@functools.lru_cache(maxsize=512)
def compile_document(recipe: Recipe) -> Document:
    """Returns the document that reads a recipe. Raises ValueError for paths the schema does not have."""
    compiled_read = compiled(recipe)
    if compiled_read.problems:
        raise ValueError(f"{compiled_read.problems[0][0]} cannot be read: {compiled_read.problems[0][1]}")
    return Document(compiled_read.query, compiled_read.cost)


def variables_of(recipe: Recipe) -> dict[str, str | None]:
    """Returns the names of metafields, which are sent as variables."""
    variables: dict[str, str | None] = {}
    for index, metafield in enumerate(recipe.patched):
        variables |= {f"space{index}": metafield.namespace or None, f"key{index}": metafield.key}
    used = compiled(recipe).query
    return {name: value for name, value in variables.items() if f"${name}:" in used}


def sort_order(root: str, text: str | None) -> tuple[str, bool] | None:
    """Returns (key, whether descending) of a sort order such as `UPDATED_AT desc`; None for others."""
    words = re.split(r"[\s:,]+", (text or "").strip())
    if words == [""]:
        return "ID", False
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words[0]).upper()
    for ending in ("_DESC", "_ASC"):
        if key.endswith(ending) and len(words) == 1:
            key, words = key.removesuffix(ending), ["", ending.removeprefix("_")]
    direction = words[1].lower() if len(words) > 1 else "asc"
    sort_keys = schema_table().sorts(root)
    if key not in sort_keys or len(words) > 2 or direction not in ("asc", "desc", "ascending", "descending"):
        return None
    return key, direction.startswith("desc")


class _TreeBuilder:
    """Builds the tree of a recipe, path by path."""

    def __init__(self, recipe: Recipe) -> None:
        kind = OBJECTS.get(recipe.root) or FETCHED.get(recipe.root) or recipe.root
        self.recipe, self.tree = recipe, FieldTree(kind)
        self.problems: list[tuple[str, str]] = []
        self.lists: list[str] = []
        self.types: dict[str, str] = {}

    def grow(self, table: SchemaTable) -> None:
        """Adds every path of the recipe."""
        if len(self.recipe.paths) > _MAX_PATHS:
            self.problems.append((self.recipe.root, f"More than {_MAX_PATHS} fields are used."))
            return
        metafields = {
            (metafield.type, metafield.handle): index for index, metafield in enumerate(self.recipe.patched)
        }
        for path in self.recipe.paths:
            root, *names = path.split(".")
            if root != self.recipe.root:
                self.problems.append((path, f"It is not a field of {self.recipe.root}."))
            elif len(names) > _MAX_DEPTH:
                self.problems.append((path, f"It goes through more than {_MAX_DEPTH} objects."))
            else:
                self._path(table, path, names, metafields)

    def _path(
        self, table: SchemaTable, path: str, names: Sequence[str], metafields: Mapping[tuple[str, str], int]
    ) -> None:
        subtree, walked = self.tree, [self.recipe.root]
        in_list, leaf_type = self.recipe.reads is RecipeReads.FETCH, None
        for index, name in enumerate(names):
            if in_list and name in ("first", "last"):
                in_list = False
                continue
            if index + 1 == len(names) and _is_size(name, in_list, leaf_type):
                return
            if leaf_type is not None:
                self.problems.append((path, f"“{'.'.join(walked)}” is a plain value; nothing is below it."))
                return
            schema_field = _field(table, subtree.type, name, metafields)
            if schema_field is None:
                self.problems.append((path, _unknown(subtree.type, name)))
                return
            walked.append(name)
            branch = self._branch(subtree, name, schema_field, metafields.get((subtree.type, name)))
            in_list = schema_field.shape in LISTS
            self._note_list(schema_field.shape, ".".join(walked))
            if branch.tree is None:
                leaf_type = schema_field.type
            else:
                subtree = branch.tree
        if leaf_type is not None:
            self.types[path] = leaf_type

    def _note_list(self, shape: FieldShape, path: str) -> None:
        if shape in LISTS and shape is not FieldShape.LEAVES and path not in self.lists:
            self.lists.append(path)

    def _branch(
        self, subtree: FieldTree, name: str, schema_field: Field, metafield: int | None
    ) -> FieldBranch:
        branch = subtree.fields.get(name)
        if branch is None:
            plain = schema_field.shape in (FieldShape.LEAF, FieldShape.LEAVES)
            branch = FieldBranch(
                schema_field.shape, None if plain else FieldTree(schema_field.type), metafield
            )
            subtree.fields[name] = branch
            if schema_field.shape is FieldShape.METAFIELD and branch.tree is not None:
                branch.tree.fields |= {
                    field_name: FieldBranch(FieldShape.LEAF, None) for field_name in _ALWAYS
                }
        return branch


def _is_size(name: str, in_list: bool, leaf_type: str | None) -> bool:
    """Returns whether a name is the length of a list or of a text, which has no field in the schema."""
    return name == "size" and (in_list or leaf_type is not None)


def _unknown(kind: str, name: str) -> str:
    if kind == "Metafield":
        return "A metafield by its namespace and key is read once it is added as a field in the tool."
    return f"Shopify's objects of the kind {kind} have no “{name[:60]}” that can be read."


def _field(
    table: SchemaTable, kind: str, name: str, metafields: Mapping[tuple[str, str], int]
) -> Field | None:
    if (kind, name) in metafields:
        schema_field = table.field(kind, "metafield")
        return schema_field if schema_field is not None and _NAME.fullmatch(name) else None
    schema_field = table.field(kind, name)
    return None if schema_field is None or schema_field.shape is FieldShape.METAFIELD else schema_field


def _cost(recipe: Recipe, tree: FieldTree, lengths: tuple[int, ...]) -> int:
    """Returns the highest query cost: 1 for an object, 2 for a connection plus its length times its nodes."""
    if recipe.reads is RecipeReads.FETCH:
        return 2 + _list_length(lengths, 0) * (1 + _selection_cost(tree, lengths, 1))
    return 1 + _selection_cost(tree, lengths, 0)


def _selection_cost(tree: FieldTree, lengths: tuple[int, ...], depth: int) -> int:
    total = 0
    for branch in tree.fields.values():
        if branch.tree is None:
            continue
        if branch.shape is FieldShape.CONNECTION:
            total += 2 + _list_length(lengths, depth) * (1 + _selection_cost(branch.tree, lengths, depth + 1))
        elif branch.shape is FieldShape.FIRST:
            total += _list_length(lengths, depth) * (1 + _selection_cost(branch.tree, lengths, depth + 1))
        else:
            total += 1 + _selection_cost(branch.tree, lengths, depth)
    return total


def _list_length(lengths: tuple[int, ...], depth: int) -> int:
    return lengths[min(depth, len(lengths) - 1)]


def _query_text(recipe: Recipe, builder: _TreeBuilder, lengths: tuple[int, ...]) -> str:
    is_list = recipe.reads is RecipeReads.FETCH
    selection = _selection(builder.tree, lengths, 1 if is_list else 0, recipe.reads is RecipeReads.MORE)
    declarations = [
        f"${kind}{index}: String{mark}"
        for index in _metafield_indexes(builder.tree)
        for kind, mark in _METAFIELD_VARIABLES
    ]
    if recipe.reads is RecipeReads.SHOP:
        head = f"({', '.join(declarations)})" if declarations else ""
        return f"query FlowShop{head} {{ shop {{ {selection} }} }}"
    if is_list:
        sort = f"$sort: {_SORTED[recipe.root]}"
        head = ", ".join(("$query: String", "$after: String", sort, "$reverse: Boolean", *declarations))
        arguments = f"first: {lengths[0]}, after: $after, query: $query, sortKey: $sort, reverse: $reverse"
        page = "pageInfo { hasNextPage endCursor }"
        return (
            f"query FlowFetch({head}) {{ {recipe.root}({arguments}) {{ {page} nodes {{ {selection} }} }} }}"
        )
    name, after = "FlowObject", []
    if recipe.reads is RecipeReads.MORE:
        name, after = "FlowMore", ["$after: String"] if "after: $after" in selection else []
    head = ", ".join(("$id: ID!", *after, *declarations))
    return f"query {name}({head}) {{ node(id: $id) {{ id ... on {builder.tree.type} {{ {selection} }} }} }}"


_METAFIELD_VARIABLES = (("space", ""), ("key", "!"))


def _metafield_indexes(tree: FieldTree) -> list[int]:
    indexes: set[int] = set()
    for branch in tree.fields.values():
        indexes |= {branch.metafield} if branch.metafield is not None else set()
        indexes |= set(_metafield_indexes(branch.tree)) if branch.tree is not None else set()
    return sorted(indexes)


def _selection(tree: FieldTree, lengths: tuple[int, ...], depth: int, goes_on: bool = False) -> str:
    """Returns the fields of one object, with its id first, which further reads of its lists need."""
    parts = ["id"] if _has_id(tree) else []
    for name, branch in sorted(tree.fields.items()):
        if branch.tree is None:
            parts += [name] if name != "id" else []
        elif branch.shape is FieldShape.METAFIELD:
            named = f"namespace: $space{branch.metafield}, key: $key{branch.metafield}"
            parts.append(f"{name}: metafield({named}) {{ {_selection(branch.tree, lengths, depth)} }}")
        elif branch.shape in (FieldShape.CONNECTION, FieldShape.FIRST):
            inner, first = (
                _selection(branch.tree, lengths, depth + 1),
                f"first: {_list_length(lengths, depth)}",
            )
            if branch.shape is FieldShape.FIRST:
                parts.append(f"{name}({first}) {{ {inner} }}")
            else:
                first += ", after: $after" if goes_on else ""
                page = "pageInfo { hasNextPage endCursor }"
                parts.append(f"{name}({first}) {{ {page} nodes {{ {inner} }} }}")
        else:
            parts.append(f"{name} {{ {_selection(branch.tree, lengths, depth)} }}")
    return " ".join(parts) or "__typename"


def _has_id(tree: FieldTree) -> bool:
    id_field = schema_table().field(tree.type, "id")
    return id_field is not None and id_field.shape is FieldShape.LEAF
