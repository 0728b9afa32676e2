"""Every GraphQL document against the platform's own schema, in every version.

See docs/design/connectors.md#tests.
"""

import pytest
from graphql import GraphQLError, parse, validate
from graphql.language import Visitor, visit
from graphql.utilities import TypeInfo, TypeInfoVisitor

from steward.connectors.shopify.connector import VERSIONS, Shopify
from steward.connectors.shopify.documents import READ_ONLY_MUTATIONS, READS
from steward.connectors.shopify.mutations import WRITES
from steward.connectors.shopify.sign_in import RIGHTS
from steward.connectors.shopify.topics import SUBSCRIBABLE_TOPICS, TOPIC_SOURCES, TOPICS, native_of
from steward.outbound.documents import Document, DocumentRegistry, operation_of
from tests.fakes.shopify import cost
from tests.fakes.shopify.schema import VERSIONS as SHIPPED
from tests.fakes.shopify.schema import schema_of, scopes_of
from tests.fakes.shopify.store import _header_of

ALL = (*READS, *WRITES)
# Version 2025-10, which the platform no longer supports, lacks keys for writes and an item's variants.
NOT_IN_2025_10 = {"SetStock", "Refund", "ItemProduct"}
# Largest lists of ids, and other values that decide the cost.
LARGEST = {
    "ProductsById": {"ids": ["x"] * 28},
    "VariantsById": {"ids": ["x"]},
    "OrdersById": {"ids": ["x"] * 8},
    "CustomersById": {"ids": ["x"] * 100},
    "Current": {"ids": ["x"] * 10},
    "CurrentFields": {"ids": ["x"] * 10},
    "CurrentPrices": {"ids": ["x"] * 250},
    "CurrentStock": {"ids": ["x"] * 250},
}


def wrong(version: str, document: Document) -> list[GraphQLError]:
    """Returns the errors that a version's schema finds in a document."""
    return list(validate(schema_of(version), parse(document.text)))


@pytest.mark.parametrize("version", SHIPPED)
def test_every_document_is_valid_in_every_version(version: str) -> None:
    """Validates each document in each version, but for three in the oldest.

    See docs/design/connectors.md#tests.
    """
    against = {
        document.name: [error.message for error in errors]
        for document in ALL
        if (errors := wrong(version, document))
    }
    assert set(against) == (NOT_IN_2025_10 if version == "2025-10" else set()), against


def test_the_versions_spoken_are_shipped_and_an_older_one_is_refused() -> None:
    """Ships a schema for each supported version and refuses an older one.

    See docs/design/connectors.md#shopify.
    """
    assert set(VERSIONS) == set(SHIPPED) - {"2025-10", "unstable"}
    with pytest.raises(ValueError, match="2026-01"):
        Shopify(version="2025-10", url=None, read_s=20.0)


@pytest.mark.parametrize("document", ALL, ids=lambda item: item.name)
def test_no_document_costs_more_than_it_says_and_none_more_than_one_query_may(document: Document) -> None:
    """Declares a cost for each document that is at least the computed one and within 1,000 points.

    See docs/design/connectors.md#shopify.
    """
    if document.max_cost == 0:  # runs as a bulk operation, which has no query cost
        assert document.name.startswith("Bulk")
        return
    requested = cost.requested(schema_of("2026-10"), parse(document.text), LARGEST.get(document.name, {}))
    assert requested <= document.max_cost <= cost.MAX_QUERY_COST


def test_every_topic_is_one_of_the_platforms_own() -> None:
    """Subscribes only to topics that the platform's schema lists.

    See docs/design/connectors.md#topics and docs/design/api/automations.md#trigger.
    """
    for version in ("2026-01", "2026-10"):
        known_items = set(schema_of(version).type_map["WebhookSubscriptionTopic"].values)
        assert set(SUBSCRIBABLE_TOPICS) <= known_items
    assert {native for spec in TOPICS.values() for native in spec.native} == set(TOPIC_SOURCES)
    assert all(native_of(_header_of(native)) == native for native in SUBSCRIBABLE_TOPICS)


class _ScopeCollector(Visitor):
    """Collects the scopes of every field and type that a document visits."""

    def __init__(self, info: TypeInfo) -> None:
        super().__init__()
        self._info = info
        self.needed_scopes: list[frozenset[str]] = []

    def enter_field(self, node: object, *_: object) -> None:
        """Adds the scopes of a field and of its type."""
        parent, field = self._info.get_parent_type(), self._info.get_field_def()
        kind = self._info.get_type()
        if parent is None or field is None:
            return
        scopes = scopes_of("2026-10")
        while hasattr(kind, "of_type"):
            kind = kind.of_type
        names = [(parent.name, node.name.value), (getattr(kind, "name", ""), None)]
        self.needed_scopes += [scopes[name] for name in names if name in scopes]


def test_the_rights_asked_for_are_those_the_schema_names() -> None:
    """Requests exactly the rights that the documents need by the schema.

    See docs/design/connectors.md#shopify.
    """
    needed: list[frozenset[str]] = []
    for document in ALL:
        info = TypeInfo(schema_of("2026-10"))
        visitor = _ScopeCollector(info)
        visit(parse(document.text), TypeInfoVisitor(info, visitor))
        needed += visitor.needed_scopes
    held = set(RIGHTS)
    assert [item for item in needed if not item & held] == []
    # The others are needed to read or tag what is written.
    by_tags = {"write_draft_orders"}
    unused = {scope for scope in held if not any(scope in entry for entry in needed)}
    assert unused <= by_tags | {"read_locations"}


def test_a_document_that_writes_is_none_that_reads() -> None:
    """Registers queries and the bulk query as reads, and every other mutation as a write.

    See docs/design/connectors.md#test-mode.
    """
    registered = DocumentRegistry("/x", ALL, read_only_mutations=READ_ONLY_MUTATIONS)
    assert {document.name for document in ALL if registered.only_reads(document)} == {
        each_document.name for each_document in READS
    }
    assert {item.operation_type for item in WRITES} == {"mutation"}
    assert {entry.name for entry in READS if entry.operation_type == "mutation"} == {"StartBulk"}


@pytest.mark.parametrize(
    "text",
    [
        "{ shop { name } }",
        "query A { a } mutation B { b }",
        "mutation A { bulkOperationRunQuery } mutation B { orderCancel }",
        "query A { ...F } fragment F on QueryRoot { shop { name } }",
        "fragment F on Shop { name }",
        "query A { a",
        "",
        "subscription A { a }  query B { b }",
    ],
)
def test_a_document_is_exactly_one_named_operation(text: str) -> None:
    """Raises ValueError for a text that is not exactly one named operation.

    See docs/design/connectors.md#test-mode.
    """
    with pytest.raises(ValueError, match="operation"):
        operation_of(text)


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ('query A { a(x: "mutation { b }") { c } } # mutation B { d }', ("query", "A", ("a",))),
        ('mutation A { """x""" b: orderCancel(id: "}") { c } }', ("mutation", "A", ("orderCancel",))),
        ("query A($x: In = {y: 1}) { a @include(if: true) { b } c }", ("query", "A", ("a", "c"))),
        ("fragment F on X { a { b } } mutation A { c { ...F } }", ("mutation", "A", ("c",))),
        (
            "mutation A { bulkOperationRunQuery { x } orderCancel { y } }",
            ("mutation", "A", ("bulkOperationRunQuery", "orderCancel")),
        ),
    ],
)
def test_the_operation_of_a_document_is_read_among_comments_and_strings(
    text: str, effect: tuple[str, str, tuple[str, ...]]
) -> None:
    """Finds the operation, its name and the root fields of a document, also among strings and comments.

    See docs/design/connectors.md#test-mode.
    """
    assert operation_of(text) == effect
