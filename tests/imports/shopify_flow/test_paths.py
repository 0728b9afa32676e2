"""Tests that every path a flow uses is collected, checked against the schema and read by one query.

See docs/design/imports-shopify-flow.md#reading-objects.
"""

from typing import Any

import pytest

from steward.imports.shopify_flow.liquid_paths import TooManyMeanings, paths_of
from steward.imports.shopify_flow.read import read_value
from steward.model.finding import FindingLevel
from steward.model.plan import Plan
from tests.imports.shopify_flow.flows import (
    FLOW,
    began,
    code,
    compared,
    condition,
    flow,
    foreach,
    http,
    joined,
    patched,
    task,
)

ROOTS = ("order", "product", "shop")


def fields_of(text: str) -> set[str]:
    """Returns the paths that a Liquid text reads."""
    return {".".join(path) for path in paths_of(text, ROOTS).paths}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{{ order.name }} {{- order['note'] -}} {{ shop . email }}", "order.name order.note shop.email"),
        ("{{ order.lineItems.first.title }}{{ order.tags | size }}", "order.lineItems.title order.tags"),
        (
            "{% for x in order.lineItems %}{{ x.sku }}{% endfor %}{{ x }}",
            "order.lineItems order.lineItems.sku",
        ),
        (
            "{% for order in order.lineItems %}{{ order.sku }}{% endfor %}{{ order.name }}",
            "order.lineItems order.lineItems.sku order.name",
        ),
        (
            "{% assign c = product.collections | first %}{{ c.handle | replace: '_', shop.name }}",
            "product.collections product.collections.handle shop.name",
        ),
        (
            "{% assign a = order.name | split: ',' %}{{ a.first }}"
            "{% capture b %}{{ order.note }}{% endcapture %}{{ b.x }}",
            "order.name order.note",
        ),
        (
            "{{ order.lineItems | where: 'sku', 'A' | map: 'title' | first }}",
            "order.lineItems order.lineItems.sku order.lineItems.title",
        ),
        (
            "{% for x in order.lineItems %}{% if p == x.sku %}{{ p.title }}{% endif %}"
            "{% assign p = x %}{% endfor %}",
            "order.lineItems order.lineItems.sku order.lineItems.title",
        ),
        ("{% assign all = all | append: order.name %}{{ all }}", "order.name"),
        ("{% raw %}{{ order.a }}{% endraw %}{% comment %}{{ order.b }}{% endcomment %}", ""),
        ("{% liquid\nassign c = order.customer\necho c.email %}", "order.customer order.customer.email"),
        ("{% if order.test == true and 'a' == order.note %}{% endif %}", "order.test order.note"),
        ("{% case order.name %}{% when shop.name, 'x' %}{% endcase %}", "order.name shop.name"),
        ("{{ order.note | default: order.name, allow_false: true }}", "order.note order.name"),
        ("no liquid order.name", ""),
        ("{{ order.name", "order.name"),
    ],
)
def test_the_paths_that_a_text_reads_are_found(text: str, paths: str) -> None:
    """Follows names that a text assigns back to the fields they hold.

    See docs/design/imports-shopify-flow.md#reading-objects and docs/design/imports-shopify-flow.md#liquid.
    """
    assert fields_of(text) == set(paths.split())


def test_assigned_names_are_resolved_up_to_a_limit() -> None:
    """Follows names to 64 paths and raises TooManyMeanings beyond that, so that reading stays quick.

    See docs/design/imports-n8n.md#safety.
    """
    template = "{% assign a = order.f0 %}"
    template += "".join(f"{{% assign a = a | default: order.f{number} %}}" for number in range(1, 32))
    assert len(fields_of(template + "{{ a.x }}")) == 64
    for text in (template + "{% assign a = order.more %}", template + "{{ a.x }}" * 300):
        with pytest.raises(TooManyMeanings):
            paths_of(text, ROOTS)
    assert [error.code for error in errors(flow(began(), http(2, body=template + "{{ a.x }}" * 300)))] == [
        "expression_feature"
    ]


def test_a_computed_field_name_makes_a_finding() -> None:
    """Reports a computed field name as an error, because its value would silently be empty.

    See docs/design/imports-n8n.md#rules.
    """
    assert paths_of("{{ order[shop.name] }}", ROOTS).unclear == ["order"]
    value = flow(began(), http(2, body="{{ order[shop.name] }}"))
    assert [error.code for error in errors(value)] == ["expression_feature"]


def errors(value: Any) -> list[Any]:
    """Returns the findings that keep a flow from running."""
    return [finding for finding in read_value(value).findings if finding.level is FindingLevel.ERROR]


def roots_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Returns the paths by the root or fetch that they are read from."""
    return {variable.root: variable.paths for variable in plan.variables}


def test_the_paths_of_all_steps_become_one_query_for_each_object() -> None:
    """Reads the paths of all steps with one query for each root object, with patched metafields.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    steps = [
        began(),
        condition(2, joined("AND", compared("order.customer.tier.value", "==", "gold"))),
        foreach(3, "order.lineItems"),
        http(4, body="{{ lineItemsForeachitem.title }} of {{ shop.name }}"),
        code(5, "query { order { lineItems { n: quantity product { id } } } }", "export default () => 1"),
        http(6, body="{{ runCode.anything }}"),
    ]
    links = [(1, "output", 2), (2, "true", 3), (3, "loop_body", 4), (3, "after", 5), (5, "output", 6)]
    tier = patched("Customer", "tier", "custom", "tier")
    read_flow = read_value(flow(*steps, links=links, patched_fields=[tier]))
    assert roots_of(read_flow.plan) == {
        "order": (
            "order.customer.tier.value",
            "order.lineItems",
            "order.lineItems.product.id",
            "order.lineItems.quantity",
            "order.lineItems.title",
        ),
        "shop": ("shop.name",),
    }
    order = read_flow.plan.variables[0]
    assert [(patch.type, patch.handle, patch.namespace, patch.key) for patch in order.patched] == [
        ("Customer", "tier", "custom", "tier")
    ]
    assert "tier: metafield(" in order.query
    output = [
        (finding.level, finding.code)
        for finding in read_flow.findings
        if "order.lineItems" in finding.message
    ]
    assert output == [(FindingLevel.WARNING, "parameter")]


AMOUNT = "order.totalPriceSet.shopMoney.amount"


@pytest.mark.parametrize(
    ("text", "error_count"),
    [
        (f"{{% if {AMOUNT} == 0 %}}x{{% endif %}}", 1),
        (f"{{% assign a = {AMOUNT} %}}{{% unless order.test or 19.99 != a %}}x{{% endunless %}}", 1),
        (f"{{% case {AMOUNT} %}}{{% when 0 %}}x{{% endcase %}}", 1),
        (f"{{% case {AMOUNT} %}}{{% when 'a', 5 %}}x{{% endcase %}}", 1),
        (f"{{% case {AMOUNT} %}}{{% when 'a' or 5 %}}x{{% endcase %}}", 1),
        (
            f"{{% case {AMOUNT} %}}{{% when 'a' %}}{{% case order.note %}}{{% when 'b' %}}{{% endcase %}}"
            "{% when 5 %}x{% endcase %}",
            1,
        ),
        (
            f"{{% case {AMOUNT} %}}{{% when 'a' %}}{{% case order.note %}}{{% when 5 %}}{{% endcase %}}"
            "{% endcase %}",
            0,
        ),
        (f"{{% case {AMOUNT} %}}{{% when 'a, 5' %}}x{{% endcase %}}", 0),
        ("{% if order['totalPriceSet'].shopMoney[\"amount\"] == 0 %}x{% endif %}", 1),
        (f"{{% if order.note == '{AMOUNT} == 6' and {AMOUNT} <= 6 %}}x{{% endif %}}", 0),
        (f"{{% if {AMOUNT} <= 0 or {AMOUNT} == '0.0' %}}x{{% endif %}}", 0),
        ("{% if order.lineItems.size == 1 %}x{% endif %}{% if order.id.size == 3 %}x{% endif %}", 0),
        ("{% for l in order.lineItems %}{% if l.quantity == 1 %}x{% endif %}{% endfor %}", 0),
    ],
)
def test_comparing_an_amount_with_a_number_for_equality_is_an_error(text: str, error_count: int) -> None:
    """Reports an error at import, where a run would fail.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    listed_errors = errors(flow(began(), http(2, body=text)))
    assert [error.code for error in listed_errors] == ["expression_feature"] * error_count
    assert all(f"“{AMOUNT}” with a number" in error.message for error in listed_errors)


def test_a_path_missing_from_the_schema_names_step_and_path() -> None:
    """Names the step and the path in a `parameter` error.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    listed_errors = errors(flow(began(), http(2, body="{{ order.colour }}{{ order.name }}")))
    assert [(item.step, item.code) for item in listed_errors] == [("Send HTTP request", "parameter")]
    assert "order.colour" in listed_errors[0].message


@pytest.mark.parametrize(
    ("body", "code_"),
    [
        ("{{ product.id }}", "parameter"),
        ("{{ lineItemsForeachitem.title }}", "expression_feature"),
        ("{{ secrets.key }}", "credential"),
        ("{{ getOrderData1.name }}", "parameter"),
    ],
)
def test_unknown_names_are_errors(body: str, code_: str) -> None:
    """Reports unknown objects, variables out of scope and secrets as errors of the step that reads them.

    See docs/design/imports-n8n.md#rules and docs/design/imports-shopify-flow.md#environment.
    """
    steps = [began(), foreach(2, "order.lineItems"), http(3, body="x"), http(4, body=body)]
    links = [(1, "output", 2), (2, "loop_body", 3), (2, "after", 4)]
    assert [(error.step, error.code) for error in errors(flow(*steps, links=links))] == [
        ("Send HTTP request 2", code_)
    ]


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("runCode.n", True),
        ("runCode.rows.size", True),
        ("runCode.rows.first.sku", True),
        ("runCode", True),
        ("runCode.m", False),
        ("runCode.n.m", False),
        ("runCode.rows.title", False),
    ],
)
def test_a_field_missing_from_an_output_type_is_an_error(path: str, is_there: bool) -> None:
    """Reports a field that the output's types do not name, because it would silently be empty.

    See docs/design/imports-n8n.md#rules and docs/design/imports-shopify-flow.md#tasks.
    """
    types = "type Output { n: Int, rows: [Row!]! } type Row { sku: String }"
    script = code(2, "{ order { name } }", "export default () => ({})", types)
    listed_errors = errors(flow(began(), script, http(3, body=f"{{{{ {path} }}}}")))
    assert [(item.step, item.code) for item in listed_errors] == (
        [] if is_there else [("Send HTTP request", "expression_feature")]
    )


def test_fetched_objects_have_the_fields_later_steps_read() -> None:
    """Fetches the fields that later steps read.

    A limit over 100 or under 1, or an unknown order, is an error.
    See docs/design/imports-shopify-flow.md#reading-objects and docs/design/imports-shopify-flow.md#tasks.
    """
    steps = [
        began(
            FLOW + "scheduled_time",
            recurrence=["DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY"],
        ),
        task(2, FLOW + "fetch::orders", query="tag:'{{ shop.name }}'", sort="CREATED_AT desc", maximum="50"),
        foreach(3, "getOrderData"),
        http(4, body="{{ getOrderDataForeachitem.customer.email }}"),
        task(5, FLOW + "count", listpath="getOrderData"),
        http(6, body="{{ count }}"),
    ]
    links = [(1, "output", 2), (2, "output", 3), (3, "loop_body", 4), (3, "after", 5), (5, "output", 6)]
    read_flow = read_value(flow(*steps, links=links))
    assert roots_of(read_flow.plan) == {
        "shop": ("shop.name",),
        "getOrderData": ("getOrderData", "getOrderData.customer.email"),
    }
    fetch = read_flow.plan.step("Get order data")
    assert (fetch.config["object"], fetch.config["maximum"], fetch.config["sort"]) == (
        "orders",
        50,
        "CREATED_AT desc",
    )
    assert (read_flow.plan.timezone, errors(flow(*steps, links=links))) == ("Europe/Berlin", [])
    for limit, sort, refused in (
        ("100", "", False),
        ("101", "", True),
        ("0", "", True),
        ("1", "HAIR", True),
        ("1", "UPDATED_AT", False),
    ):
        for names in (("maximum", "sort"), ("max", "sort_key")):
            settings = dict(zip(names, (limit, sort), strict=True))
            steps[1] = task(2, FLOW + "fetch::orders", query="", **settings)
            assert bool(errors(flow(*steps, links=links))) is refused, (limit, sort)
    steps[1] = task(2, FLOW + "fetch::orders", query="", max="7", sort_key="CREATED_AT")
    fetch = read_value(flow(*steps, links=links)).plan.step("Get order data")
    assert (fetch.config["maximum"], fetch.config["sort"]) == (7, "CREATED_AT")


def test_reading_outputs_from_before_a_wait_or_of_later_steps_is_an_error() -> None:
    """Reports a value from before a wait or of a later step as an error; the store's data is read again.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    count = task(2, FLOW + "count", listpath="order.lineItems")
    script = code(3, "{ order { name } }", "export default () => ({ n: 1 })")
    wait = task(4, FLOW + "wait", "WAIT", duration="P1D")
    output = http(5, body="{{ count }} {{ runCode.n }} {{ order.name }}")
    listed_errors = errors(flow(began(), count, script, wait, output))
    assert [(item.step, item.code) for item in listed_errors] == [("Send HTTP request", "expression_feature")]
    assert "wait" in listed_errors[0].message
    late = flow(began(), http(5, body="{{ count }}"), {**count, "step_id": 6})
    assert [(error.step, error.code) for error in errors(late)] == [
        ("Send HTTP request", "expression_feature")
    ]
    assert errors(flow(began(), count, http(5, body="{{ count }}"), wait)) == []


def warned(value: Any, words: str) -> list[str | None]:
    """Returns the steps of the warnings that contain these words."""
    return [
        finding.step
        for finding in read_value(value).findings
        if finding.level is FindingLevel.WARNING and words in finding.message
    ]


def test_a_wait_that_delays_more_than_in_shopify_flow_makes_a_finding() -> None:
    """Warns where a wait delays branches or elements that Shopify Flow would run on their own.

    See docs/design/imports-n8n.md#rules.
    """
    wait, steps = task(2, FLOW + "wait", "WAIT", duration="P1D"), [http(3), http(4)]
    assert warned(flow(began(), wait, *steps), "wait") == []
    fork = flow(began(), wait, *steps, links=[(1, "output", 2), (2, "output", 3), (1, "output", 4)])
    assert warned(fork, "parallel branches") == ["Wait"]
    ways = [(5, "true", 2), (5, "false", 4), (2, "output", 3), (1, "output", 5)]
    chosen = flow(began(), condition(5, "(order.name == 'x')"), wait, *steps, links=ways)
    assert warned(chosen, "wait") == []
    ways = [(1, "output", 5), (5, "loop_body", 2), (2, "output", 3), (5, "after", 4)]
    assert warned(flow(began(), foreach(5, "order.lineItems"), wait, *steps, links=ways), "wait") == ["Wait"]


def test_a_variable_known_only_by_file_order_makes_a_finding() -> None:
    """Warns when the order of steps in the file decides which step a variable belongs to.

    See docs/design/imports-shopify-flow.md#file.
    """
    counts = [task(number, FLOW + "count", listpath="order.lineItems") for number in (2, 3)]
    assert warned(flow(began(), *counts, http(4, body="{{ count }}")), "order of the file") == []
    output = warned(flow(began(), *counts, http(4, body="{{ count }} {{ count1 }}")), "order of the file")
    assert output == ["Count 2"]
