"""A base for nodes that call the API of a connected service; a node is a table of operations.

See docs/design/messages.md.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.queries import PATH, PathQuery
from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.write_response import WriteResponse, parse_storable_json
from steward.outbound.response import PlatformResponse
from steward.steps.base import AccountAccess
from steward.steps.n8n.service_fields import (
    CallFields,
    FieldSource,
    ServiceFields,
    filled_path,
    read_call_fields,
    read_source,
)
from steward.steps.workflow.external_calls import ItemProposals, account_of, read_all, read_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    SentItem,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
    paired_with,
)

MAX_PAGES = 100
_LIMIT = 100  # n8n's default limit of a list

# Returns the objects in a response that n8n outputs.
ToItems = Callable[[AnyJson, ServiceFields], Sequence[Mapping[str, AnyJson]]]


@dataclass(frozen=True, slots=True)
class ServiceOperation:
    """An operation of a node: the call that it makes and the items that its response becomes.

    `fields` are the body of a send or the query of a GET; `{name}` in `path` is a parameter. An approval
    shows `recipient` and `text`. `needed` maps required parameters to their descriptions. `items` is the
    dotted path of the output; a list becomes an item per element. `to_items` computes the items from the
    response instead. `next_page` returns the query of a list's next page. `query` is the query of a send.
    `is_query` marks a POST that only reads. `returns_all` and `limit` are n8n's defaults for a list.
    `choose_path` replaces `path`; `check` yields the problems of a node.
    """

    method: str
    path: str
    fields: CallFields = field(default_factory=dict)
    items: str = ""
    recipient: FieldSource = ""
    text: FieldSource = ""
    needed: Mapping[str, str] = field(default_factory=dict)
    is_form: bool = False
    query: Callable[[ServiceFields], Mapping[str, str]] | None = None
    to_items: ToItems | None = None
    next_page: Callable[[AnyJson, Mapping[str, AnyJson]], Mapping[str, AnyJson] | None] | None = None
    is_query: bool = False
    returns_all: bool = False
    limit: int = _LIMIT
    choose_path: Callable[[ServiceFields], str] | None = None
    check: Callable[[NodeDefinition], Iterable[StepProblem]] | None = None

    @property
    def reads(self) -> bool:
        """Whether the operation only reads."""
        return self.method == "GET" or self.is_query

    def call(self, fields: ServiceFields) -> SendCall:
        """Builds the call from the parameters of an item. Raises ItemFailed."""
        for path, words in self.needed.items():
            if js.is_missing(fields.value(path)) or fields.text(path) == "":
                raise ItemFailed(f"This step does not say {words}. Fill it in.")
        call_fields = read_call_fields(fields, self.fields)
        path = filled_path(fields, self.choose_path(fields) if self.choose_path else self.path)
        if self.method == "GET":
            return SendCall(
                self.method, path, query={name: js.text(value) for name, value in call_fields.items()}
            )
        return SendCall(
            self.method,
            path,
            call_fields,
            self.query(fields) if self.query is not None else {},
            is_form=self.is_form,
            recipient=_shown(fields, self.recipient),
            text=_shown(fields, self.text),
        )

    def items_of(self, response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
        """Returns the items that a response becomes."""
        if self.to_items is not None:
            return [dict(item) for item in self.to_items(response, fields)]
        chosen = js.get_path(response, self.items) if self.items else response
        elements = chosen if isinstance(chosen, list) else [chosen]
        return [dict(element) if isinstance(element, Mapping) else {} for element in elements]


class ServicePort:
    """The connection that a step's calls go through; paths may refer to its plain `settings`."""

    def __init__(self, account: AccountAccess, connector: str) -> None:
        settings = account.connection.facts.get("settings")
        plain = settings if isinstance(settings, Mapping) else {}
        self.settings: Mapping[str, str] = {name: str(value) for name, value in plain.items()}
        self.integration_id = account.connection.integration_id
        self._account = account
        self._connector = connector

    @property
    def operation(self) -> AnyWriteOperation:
        """The write operation that sends calls."""
        return self._account.changes[f"{self._connector}.call"]

    def command(self, call: SendCall) -> object:
        """Returns a call as a command of the operation. Raises ItemFailed."""
        return call

    async def read(self, path: str, query: Mapping[str, str]) -> PlatformResponse:
        """Returns the response to a GET. Raises CallError, ItemFailed."""
        return await self._answer(PathQuery(path, tuple(query.items())))

    async def query(self, path: str, body: JsonObject) -> PlatformResponse:
        """Returns the response to a POST that only reads. Raises CallError, ItemFailed."""
        return await self._answer(PathQuery(path, body=body))

    async def _answer(self, query: PathQuery) -> PlatformResponse:
        [response] = await read_all(self._account.reader.read(PATH, query))
        return response


class ServiceNode(StepType):
    """A node whose operations call one service; a subclass is a table of them.

    `connector` is the kind of connection, `service` its name in sentences. `operations` are keyed by
    `resource.operation`. `default_resource` and `default_operations` are n8n's defaults. `collections` holds
    the known names in collections of options; `shown_for` maps some of them to the operations for which n8n
    shows them, since all other operations ignore their values. `response_parameters` are the parameters that
    affect how a response becomes items. `file_parameters` identifies the operation that adds a fetched file
    to its item, `sends_files` the operations that send the item's file if `binaryData` is set.
    """

    connector: ClassVar[str]
    service: ClassVar[str]
    operations: ClassVar[Mapping[str, ServiceOperation]]
    default_resource: ClassVar[str]
    default_operations: ClassVar[Mapping[str, str]] = {}
    collections: ClassVar[Mapping[str, frozenset[str]]] = {}
    shown_for: ClassVar[Mapping[str, Collection[str]]] = {}
    response_parameters: ClassVar[tuple[str, ...]] = ()
    file_parameters: ClassVar[JsonObject] = {}
    sends_files: ClassVar[Collection[str]] = ()
    field_use = FieldUse.REPLACES_ITEMS

    def operation(self, node: NodeDefinition) -> str:
        """Returns the connector's operation, a call or a read."""
        return f"{self.connector}.read" if self.kind_of(node) is StepKind.READ else f"{self.connector}.call"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or send, depending on the operation."""
        operation = self.operations.get(self.operation_key(node))
        return StepKind.READ if operation is not None and operation.reads else StepKind.SEND

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns the kind of connection."""
        return self.connector

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns EXTENDS_ITEMS if it adds a fetched file, else the node's field use."""
        parameters = self.file_parameters.items()
        fetches_file = all(step.config.get(name) == value for name, value in parameters)
        return FieldUse.EXTENDS_ITEMS if parameters and fetches_file else self.field_use

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that its call sends."""
        sends_file = self.operation_key(node) in self.sends_files and node.get("binaryData")
        return (node.file_name("binaryPropertyName"),) if sends_file else ()

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`, with n8n's defaults for what the file omits."""
        resource = str(node.get("resource", self.default_resource))
        operation = node.get("operation", self.default_operations.get(resource, ""))
        return f"{resource}.{operation}"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations and options, and missing parameters."""
        key = self.operation_key(node)
        operation = self.operations.get(key)
        if operation is None:
            yield StepProblem("error", "parameter", self._refusal(key), is_operation=True)
            return
        yield from self._unknown_options(node)
        for path, description in operation.needed.items():
            if _is_empty(node.get(path)):
                message = (
                    f"It does not say {description}, so it would fail. Fill it in in n8n and import it again."
                )
                yield StepProblem("warning", "parameter", message)
        if operation.check is not None:
            yield from operation.check(node)

    def _refusal(self, key: str) -> str:
        resource, _, name = key.partition(".")
        if is_expression(name) or is_expression(resource):
            return f"An expression chooses what it does in {self.service}. Choose a fixed operation."
        if name in ("sendAndWait", "sendAndWaitForResponse"):
            return (
                f"It waits for an answer in {self.service}, which nobody can give here."
                " Send a message instead, and let a step wait for approval."
            )
        message = f"“{_in_words(name)}” ({_in_words(resource)}) of {self.service} is not supported."
        return f"{message} Remove the step, or call the service by an HTTP Request step."

    def _unknown_options(self, node: NodeDefinition) -> Iterable[StepProblem]:
        key = self.operation_key(node)
        for path, names in self.collections.items():
            is_shown = path not in self.shown_for or key in self.shown_for[path]
            collection = node.get(path) if is_shown else None
            for name in collection if isinstance(collection, Mapping) else ():
                if name not in names:
                    message = f"Its option “{str(name)[:80]}” is not known here. Remove it."
                    yield StepProblem("error", "parameter", message)

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the items that the service's recorded response becomes. Raises ItemFailed."""
        settings = sent.settings
        operation = self.operations[str(settings["operation"])]
        parameters = settings["parameters"]
        params = Params(parameters if isinstance(parameters, Mapping) else {})
        fields = ServiceFields(params, float(str(settings["version"])), {})
        decoded = parsed_response(response.text)
        return [Item(item) for item in operation.items_of(decoded, fields)]

    async def run(self, call: StepCall) -> NodeResult:
        """Makes one call or read for each item."""
        port = self.port(call)
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        key = self.operation_key(node)
        operation = self.operations[key]
        if operation.reads:
            return await _read(call, port, operation)
        return await self._send(call, port, key)

    def port(self, call: StepCall) -> ServicePort:
        """Returns the connection for the step's calls. Raises WorkflowStepFailed."""
        return ServicePort(account_of(call), self.connector)

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item; a subclass may read its content first. Raises ItemFailed."""
        return self.operations[key].call(fields)

    async def _send(self, call: StepCall, port: ServicePort, key: str) -> NodeResult:
        item_proposals, write = ItemProposals(call), port.operation
        for index in range(len(call.items)):
            try:
                fields = _fields(call, port, index)
                command = port.command(await self.prepared(call, index, port, fields, key))
                response_parameters = {
                    name: js.to_json(fields.value(name)) for name in self.response_parameters
                }
            except ItemFailed as failure:
                item_proposals.fail_item(index, failure.message)
                continue
            planned = write.plan([command], integration_id=port.integration_id)
            settings: JsonObject = {
                "operation": key,
                "version": call.version,
                "parameters": response_parameters,
            }
            item_proposals.add_plan(index, planned, Item({}, paired_with(index)), write, settings)
        return item_proposals.result()


async def _read(call: StepCall, port: ServicePort, operation: ServiceOperation) -> NodeResult:
    async def read(index: int) -> list[dict[str, JsonValue]]:
        fields = _fields(call, port, index)
        prepared = operation.call(fields)
        page_fields: Mapping[str, AnyJson] = prepared.body if operation.is_query else prepared.query
        limit = _limit(fields, operation)
        request = port.query if operation.is_query else port.read
        items: list[dict[str, AnyJson]] = []
        for _ in range(MAX_PAGES):
            response = await request(prepared.path, page_fields)
            decoded = parsed_response(response.body.decode("utf-8", "replace"))
            items += operation.items_of(decoded, fields)
            if operation.next_page is None:
                return items if js.is_missing(fields.value("limit")) else items[:limit]
            if limit is not None and len(items) >= limit:
                return items[:limit]
            following = operation.next_page(decoded, page_fields)
            if following is None:
                return items
            page_fields = following
        raise ItemFailed(f"The list has more than {MAX_PAGES} pages. Limit it.")

    return await read_each_item(call, read)


def _limit(fields: ServiceFields, operation: ServiceOperation) -> int | None:
    """Returns the maximum number of objects that a step reads, or None for all. Raises ItemFailed."""
    if fields.flag("returnAll", operation.returns_all):
        return None
    limit = js.number(fields.value("limit") or operation.limit)
    if not 1 <= limit < math.inf:  # also true for NaN
        raise ItemFailed("“limit” of this step is not a number from 1 on.")
    return int(limit)


def parsed_response(text: str) -> AnyJson:
    """Parses a JSON response; an empty one becomes an empty object. Raises ItemFailed."""
    if not text.strip():
        return {}
    try:
        return parse_storable_json(text)
    except (ValueError, RecursionError):
        raise ItemFailed("The response of the service cannot be used: it is not JSON.") from None


def _fields(call: StepCall, port: ServicePort, index: int) -> ServiceFields:
    return ServiceFields(call.params(index), call.version, port.settings, call.items[index].json)


def _shown(fields: ServiceFields, source: FieldSource) -> str:
    value = read_source(fields, source) if source else ""
    return "" if js.is_missing(value) else js.text(value)


def _is_empty(value: JsonValue) -> bool:
    if isinstance(value, Mapping) and value.get("__rl") is True:
        value = value.get("value")
    return value in (None, "", "=")


def _in_words(name: str) -> str:
    return (
        "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)[:80].strip()
        or "nothing"
    )
