"""Shorthands for the operations of table-defined nodes: get, list, send and delete."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypedDict, Unpack, cast

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.option_tables import OptionTable, Shape
from steward.steps.n8n.service_fields import CallFields, FieldSource, ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation, ToItems
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_NextPage: TypeAlias = Callable[[AnyJson, Mapping[str, AnyJson]], Mapping[str, AnyJson] | None]
_NodeCheck: TypeAlias = Callable[[NodeDefinition], Iterable[StepProblem]]
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
_COLLECTIONS = frozenset(
    ("additionalFields", "additionalParameters", "filters", "options", "otherProperties", "updateFields")
)


@dataclass(frozen=True, slots=True)
class CallForm:
    """The fields of a request body or query, taken from a node's parameters and option collections.

    `names` lists the parameters as in an OptionTable; `shapes` converts those that the API writes
    differently. `fixed` is part of every call. `within` is the field that the API nests all others in.
    """

    names: str = ""
    tables: tuple[OptionTable, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    fixed: JsonObject = field(default_factory=dict)
    within: str = ""

    @property
    def parameters(self) -> set[str]:
        """The node parameters that the form reads."""
        named = {name.partition(":")[0] for name in self.names.split()}
        return named | set(self.shapes) | {table.path.partition(".")[0] for table in self.tables}

    def __call__(self, fields: ServiceFields) -> dict[str, JsonValue]:
        """Returns the fields that are set; an empty text counts as unset."""
        values: dict[str, JsonValue] = {}
        for name in self.names.split():
            parameter, _, renamed = name.partition(":")
            values[renamed or parameter] = fields.value(parameter)
        for parameter, shape in self.shapes.items():
            value = fields.value(parameter)
            if not js.is_missing(value) and value != "":
                values |= shape(value)
        values = {name: value for name, value in values.items() if not js.is_missing(value) and value != ""}
        for table in self.tables:
            values |= table.read(fields)
        values |= self.fixed
        return {self.within: values} if self.within else values

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown options, including those of collections that the operation does not read."""
        for table in self.tables:
            yield from table.check(node)
        read = {table.path for table in self.tables}
        for path in sorted(_COLLECTIONS & node.parameters.keys() - read):
            yield from OptionTable(path).check(node)


@dataclass(frozen=True, slots=True)
class _OperationCheck:
    """Checks the options of an operation, and that a list has a limit if n8n's default is unknown."""

    form: CallForm
    is_list: bool = False
    more: _NodeCheck | None = None

    def __call__(self, node: NodeDefinition) -> Iterable[StepProblem]:
        yield from self.form.check(node)
        if self.is_list and node.get("limit") is None and not node.get("returnAll"):
            message = (
                "It does not say how many it reads. Let it return all in n8n, or set another limit there."
            )
            yield StepProblem("error", "parameter", message)
        if self.more is not None:
            yield from self.more(node)


def _needed(path: str, names: str) -> dict[str, str]:
    chosen = [*_PLACEHOLDER.findall(path), *names.split()]
    return {name: f"the {re.sub('(?<=[a-z])(?=[A-Z])', ' ', name).lower()}" for name in chosen}


class _CallSettings(TypedDict, total=False):
    """The settings of a ServiceOperation that a form passes on unchanged."""

    recipient: FieldSource
    text: FieldSource
    is_form: bool
    query: Callable[[ServiceFields], Mapping[str, str]] | None
    to_items: ToItems | None
    is_query: bool
    returns_all: bool
    choose_path: Callable[[ServiceFields], str] | None


class _FormSettings(_CallSettings, total=False):
    """The settings of a shorthand.

    `needed` names required parameters beside those of the path, `check` yields further problems, and `makes`
    computes the fields of the call if they are more than parameters.
    """

    needed: str
    check: _NodeCheck | None
    makes: CallFields | None


def _operation(
    method: str, path: str, form: CallForm | None, is_open: bool, settings: _FormSettings
) -> ServiceOperation:
    form = form or CallForm()
    needed = _needed(path, settings.pop("needed", ""))
    check = _OperationCheck(form, is_open, settings.pop("check", None))
    fields = settings.pop("makes", None) or form
    return ServiceOperation(method, path, fields, needed=needed, check=check, **cast(_CallSettings, settings))


def get(
    path: str, form: CallForm | None = None, items: str = "", **settings: Unpack[_FormSettings]
) -> ServiceOperation:
    """Returns an operation that reads one object."""
    return replace(_operation("GET", path, form, False, settings), items=items)


def get_all(
    path: str,
    items: str,
    next_page: _NextPage,
    form: CallForm | None = None,
    *,
    limit: int | None = None,
    **settings: Unpack[_FormSettings],
) -> ServiceOperation:
    """Returns an operation that reads a list. `limit` is n8n's default, or None if undocumented."""
    is_open = limit is None and not settings.get("returns_all")
    operation = _operation("GET", path, form, is_open, settings)
    return replace(operation, items=items, next_page=next_page, limit=limit or 0)


def send(
    method: str, path: str, form: CallForm | None = None, **settings: Unpack[_FormSettings]
) -> ServiceOperation:
    """Returns an operation that sends. The last parameter in the path is its recipient."""
    placeholders = _PLACEHOLDER.findall(path)
    settings.setdefault("recipient", placeholders[-1] if placeholders else "")
    return _operation(method, path, form, False, settings)


def parameters_of(operations: Mapping[str, ServiceOperation], more: str = "") -> frozenset[str]:
    """Returns the parameters that the operations of a node read."""
    names = {"resource", "operation", "authentication", "returnAll", "limit", *_COLLECTIONS, *more.split()}
    for operation in operations.values():
        names |= set(_PLACEHOLDER.findall(operation.path)) | set(operation.needed)
        if isinstance(operation.check, _OperationCheck):
            names |= operation.check.form.parameters
    return frozenset(name.partition(".")[0] for name in names)


def success(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the item that n8n outputs for an operation whose response is empty."""
    return [{"success": True}]


def elements(*path: str) -> ToItems:
    """Returns a reader of the list at `path` in a response; any other value there counts as one object."""

    def to_items(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
        value = js.get_path(response, ".".join(path)) if path else response
        rows = value if isinstance(value, list) else [value]
        return [row for row in rows if isinstance(row, Mapping)]

    return to_items


def graphql_data(response: AnyJson, path: str) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the objects at a path in a GraphQL response's data. Raises ItemFailed if it was refused."""
    errors = js.get_path(response, "errors")
    first = errors[0] if isinstance(errors, list) and errors else response
    words = js.get_path(first, "message") if first is not response else js.get_path(response, "error_message")
    if not js.is_missing(words):
        raise ItemFailed(f"The service refused this: {js.text(words)[:300]}")
    value = js.get_path(response, f"data.{path}")
    rows = value if isinstance(value, list) else [value]
    return [row for row in rows if isinstance(row, Mapping)]


def one_page(response: AnyJson, query: Mapping[str, AnyJson]) -> None:
    """Ends a list after its first page."""
    return


def numbered_pages(items: str, size: int, name: str = "page", first: int = 1) -> _NextPage:
    """Returns a pager that counts pages and stops at the first page that is not full."""

    def next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
        page = js.get_path(response, items) if items else response
        if not isinstance(page, list) or len(page) < size:
            return None
        return {**query, name: str(int(str(query.get(name) or first)) + 1)}

    return next_page


def offset_pages(items: str, size: int, name: str = "offset") -> _NextPage:
    """Returns a pager that counts the objects read and stops at the first page that is not full."""

    def next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
        page = js.get_path(response, items) if items else response
        if not isinstance(page, list) or len(page) < size:
            return None
        return {**query, name: str(int(str(query.get(name) or 0)) + size)}

    return next_page


def token_pages(token: str, name: str) -> _NextPage:
    """Returns a pager that follows the token at `token` in each response until there is none."""

    def next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
        value = js.get_path(response, token)
        return {**query, name: js.text(value)} if js.truthy(value) else None

    return next_page
