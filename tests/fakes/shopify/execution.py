"""Runs a document over the rows of a store: scopes, keys, connections; by the schema of a version."""

import functools
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    execute_sync,
    get_named_type,
    is_list_type,
    parse,
    validate,
    value_from_ast_untyped,
)
from graphql.pyutils import is_awaitable

from tests.fakes.shopify.goods import Goods, Row
from tests.fakes.shopify.mutations import KEYED, MUTATIONS, Write, refusal
from tests.fakes.shopify.objects import FIELDS, SEARCHED
from tests.fakes.shopify.schema import schema_of, scopes_of
from tests.fakes.shopify.search import matching

KEY_KEPT = timedelta(hours=24)
_KINDS = {
    "products": "Product",
    "productVariants": "ProductVariant",
    "orders": "Order",
    "customers": "Customer",
    "locations": "Location",
    "publications": "Publication",
    "urlRedirects": "UrlRedirect",
    "webhookSubscriptions": "WebhookSubscription",
}
_COUNTS = {
    "productsCount": "products",
    "productVariantsCount": "productVariants",
    "ordersCount": "orders",
    "customersCount": "customers",
}
_SINGLE_OBJECTS = ("product", "order", "customer", "draftOrder", "inventoryItem", "node")


@dataclass
class IdempotencyKeys:
    """What was answered under a key, for 24 h. See docs/design/connectors.md#tests."""

    responses: dict[tuple[str, str], tuple[str, datetime, Row]] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    repeated: int = 0


@dataclass
class RunningDocument:
    """One document under way."""

    goods: Goods
    version: str
    scopes: frozenset[str]
    shop: Row
    keys: IdempotencyKeys
    write: Write
    bulk: Any = None


@functools.lru_cache(maxsize=500)
def checked(version: str, text: str) -> tuple[DocumentNode, tuple[str, ...]]:
    """A document and what the schema says against it."""
    try:
        document = parse(text)
    except GraphQLError as error:
        return DocumentNode(definitions=()), (error.message,)
    return document, tuple(error.message for error in validate(schema_of(version), document))


def operation_of(document: DocumentNode) -> OperationDefinitionNode:
    """The one operation."""
    [operation] = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    return operation


def roots_of(document: DocumentNode) -> list[str]:
    """The names of its root fields."""
    return [
        selection.name.value
        for selection in operation_of(document).selection_set.selections
        if isinstance(selection, FieldNode)
    ]


def run(
    running: RunningDocument, document: DocumentNode, variables: dict[str, Any]
) -> tuple[Row | None, list[GraphQLError]]:
    """(data, errors) of a document that is valid."""
    schema: GraphQLSchema = schema_of(running.version)
    result = execute_sync(
        schema,
        document,
        context_value=running,
        variable_values=variables,
        field_resolver=_resolve,
        type_resolver=lambda value, *_: value["__typename"],
    )
    assert not is_awaitable(result)
    # An exception in one of our resolvers is a defect of the fake, never an error that the platform returns.
    for error in result.errors or ():
        if error.original_error is not None and not isinstance(error.original_error, GraphQLError):
            raise error.original_error
    return result.data, list(result.errors or ())


def _resolve(source: Any, info: Any, **arguments: Any) -> Any:
    running: RunningDocument = info.context
    kind, name = info.parent_type.name, info.field_name
    _allow(running, kind, name)
    if kind == "QueryRoot":
        value = _query(running, name, arguments)
    elif kind == "Mutation":
        value = _mutate(running, info, name, arguments)
    else:
        read_field = FIELDS.get((kind, name))
        value = read_field(running.goods, source, arguments) if read_field is not None else source[name]
    named = get_named_type(info.return_type)
    if value is not None:
        _allow(running, value.get("__typename", named.name) if isinstance(value, dict) else named.name, None)
    if named.name.endswith("Connection") and isinstance(value, list):
        return _connection(value, arguments)
    inner = info.return_type.of_type if hasattr(info.return_type, "of_type") else info.return_type
    if isinstance(value, list) and is_list_type(inner) and arguments.get("first") is not None:
        return value[: arguments["first"]]
    return value


def _allow(running: RunningDocument, kind: str, name: str | None) -> None:
    needed = scopes_of(running.version).get((kind, name))
    if needed is None or needed & running.scopes:
        return
    words = f"Access denied for {name or kind} field. Required access: `{sorted(needed)[0]}` access scope."
    raise GraphQLError(words, extensions={"code": "ACCESS_DENIED"})


def _connection(rows: list[Any], arguments: dict[str, Any]) -> Row:
    after = arguments.get("after")
    start = int(after) if after is not None else 0
    size = arguments.get("first")
    page = rows[start:] if size is None else rows[start : start + size]
    more = start + len(page) < len(rows)
    info = {"hasNextPage": more, "endCursor": str(start + len(page)) if page else None}
    edges = [{"node": row, "cursor": str(start + index + 1)} for index, row in enumerate(page)]
    return {"nodes": page, "edges": edges, "pageInfo": info}


def _query(running: RunningDocument, name: str, arguments: dict[str, Any]) -> Any:
    goods = running.goods
    if name in _KINDS:
        return matching_rows(goods, name, arguments)
    if name in _COUNTS:
        count = len(matching_rows(goods, _COUNTS[name], arguments))
        limit = arguments.get("limit")
        exact = limit is None or count <= limit
        return {"count": count if exact else limit, "precision": "EXACT" if exact else "AT_LEAST"}
    if name in _SINGLE_OBJECTS:
        return goods.rows.get(arguments["id"])
    if name == "nodes":
        return [goods.rows.get(object_id) for object_id in arguments["ids"]]
    if name == "shop":
        return running.shop
    if name == "currentAppInstallation":
        return {"accessScopes": [{"handle": scope} for scope in sorted(running.scopes)]}
    raise KeyError(f"the fake answers no {name}")


def matching_rows(goods: Goods, name: str, arguments: dict[str, Any]) -> list[Row]:
    """The rows of a root connection, searched and sorted."""
    rows = goods.of(_KINDS[name])
    if name == "locations" and not arguments.get("includeInactive"):
        rows = [row for row in rows if row["isActive"]]
    searched = {column: functools.partial(value, goods) for column, value in SEARCHED.get(name, {}).items()}
    test = matching(arguments.get("query"), searched)
    rows = [row for row in rows if test(row)]
    sorts = {"UPDATED_AT": "updatedAt", "CREATED_AT": "createdAt", "TITLE": "title"}
    if arguments.get("sortKey") in sorts:
        rows.sort(key=lambda row: row[sorts[arguments["sortKey"]]])
    return list(reversed(rows)) if arguments.get("reverse") else rows


def _mutate(running: RunningDocument, info: Any, name: str, arguments: dict[str, Any]) -> Any:
    if running.bulk is not None and name == "bulkOperationRunQuery":
        return running.bulk(arguments["query"])
    if name.startswith("webhookSubscription"):
        return _subscription(running, name, arguments)
    key = _key(info)
    if name in KEYED and key is None:
        words = f"The @idempotent directive is required for this mutation: {name}"
        raise GraphQLError(words, extensions={"code": "BAD_REQUEST"})
    if key is None:
        return MUTATIONS[name](running.write, arguments)
    return _keyed(running, name, key, arguments)


def _key(info: Any) -> str | None:
    for directive in info.field_nodes[0].directives or ():
        if directive.name.value == "idempotent":
            values = {
                argument.name.value: value_from_ast_untyped(argument.value, _values(info))
                for argument in directive.arguments or ()
            }
            return str(values["key"])
    return None


def _values(info: Any) -> dict[str, Any]:
    coerced: dict[str, Any] = getattr(info.variable_values, "coerced", info.variable_values)
    return coerced


def _keyed(running: RunningDocument, name: str, key: str, arguments: dict[str, Any]) -> Any:
    keys, goods = running.keys, running.goods
    parameters = json.dumps(arguments, sort_keys=True, default=str)
    empty = {"inventoryAdjustmentGroup": None, "refund": None, "order": None}
    held = keys.responses.get((name, key))
    if key in keys.under_way:
        words = "A request with this key is under way."
        return {**empty, "userErrors": [refusal(None, words, "IDEMPOTENCY_CONCURRENT_REQUEST")]}
    if key in keys.broken:
        words = "The previous attempt failed."
        return {**empty, "userErrors": [refusal(None, words, "IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED")]}
    if held is not None and goods.now() - held[1] < KEY_KEPT:
        if held[0] != parameters:
            words = "The same key was used with other parameters."
            return {**empty, "userErrors": [refusal(None, words, "IDEMPOTENCY_KEY_PARAMETER_MISMATCH")]}
        keys.repeated += 1
        return held[2]
    payload = MUTATIONS[name](running.write, arguments)
    keys.responses[name, key] = (parameters, goods.now(), payload)
    return payload


def _subscription(running: RunningDocument, name: str, arguments: dict[str, Any]) -> Row:
    goods, number = running.goods, arguments.get("id")
    if name == "webhookSubscriptionDelete":
        gone = goods.rows.take(str(number))
        errors = [] if gone else [refusal(["id"], "Webhook subscription does not exist")]
        return {"deletedWebhookSubscriptionId": number if gone else None, "userErrors": errors}
    subscription = arguments["webhookSubscription"]
    if name == "webhookSubscriptionUpdate":
        row = goods.rows.get(str(number))
        if row is None:
            words = "Webhook subscription does not exist"
            return {"webhookSubscription": None, "userErrors": [refusal(["id"], words)]}
        row.update(subscription)
        return {"webhookSubscription": row, "userErrors": []}
    same_address = [
        row
        for row in goods.of("WebhookSubscription")
        if (row["topic"], row["uri"]) == (arguments["topic"], subscription["uri"])
    ]
    if same_address:
        words = "Address for this topic has already been taken"
        return {"webhookSubscription": None, "userErrors": [refusal(["webhookSubscription", "uri"], words)]}
    fields = {"format": "JSON", "includeFields": [], **subscription}
    return {
        "webhookSubscription": goods.make("WebhookSubscription", topic=arguments["topic"], **fields),
        "userErrors": [],
    }
