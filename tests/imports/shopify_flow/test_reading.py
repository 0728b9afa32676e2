"""Tests reading flows: files, names, conditions, settings, limits and findings.

See docs/design/imports-shopify-flow.md#file and docs/design/imports-shopify-flow.md#execution.
"""

import json
import time
from typing import Any

import pytest

from steward.imports.content import Unreadable, content_of
from steward.imports.shopify_flow.conditions import (
    UNARY,
    WITH_VALUE,
    UnreadableCondition,
    paths_in,
    read_condition,
)
from steward.imports.shopify_flow.read import read, read_value
from steward.model.finding import FindingLevel
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
    listed,
    patched,
    task,
    text_of,
)

BOTH = "{{ order.name }}"


def findings_of(value: Any, level: FindingLevel | None = None) -> list[tuple[str | None, str]]:
    """Returns the step and code of each finding."""
    return [
        (finding.step, finding.code)
        for finding in read_value(value).findings
        if level is None or finding.level is level
    ]


def words_of(value: Any) -> str:
    """Returns the messages of all findings as one text."""
    return " ".join(finding.message for finding in read_value(value).findings)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_checksum_covers_the_bytes_without_a_final_line_break(ending: str) -> None:
    """Verifies the checksum over the file's bytes without a line break at the end.

    See docs/design/imports-shopify-flow.md#file.
    """
    text = text_of(flow(began(), http(2), name="Größe ✓"))
    assert [
        finding.code for finding in read(content_of(text + ending)).findings if finding.step is None
    ] == []


@pytest.mark.parametrize("change", ["bare", "other", "object", "blank"])
def test_a_flow_with_a_wrong_checksum_is_read_with_a_warning(change: str) -> None:
    """Reads the flow with a `checksum_mismatch` warning when the checksum is wrong or missing.

    See docs/design/imports-shopify-flow.md#file.
    """
    value = flow(began(), http(2))
    text = text_of(value)
    sent: Any = {
        "bare": text[65:],
        "other": text.replace("A flow", "B flow"),
        "object": value,
        "blank": text.replace(":", ": ", 1),
    }[change]
    read_flow = read(content_of(sent))
    assert [(finding.level, finding.code) for finding in read_flow.findings if finding.step is None] == [
        (FindingLevel.WARNING, "checksum_mismatch")
    ]
    assert [step.name for step in read_flow.plan.steps] == ["Send HTTP request"]


@pytest.mark.parametrize(
    "value",
    [None, 3, [], {}, {"root": []}, {"root": {"steps": {}}}, flow(), flow(http(2)), flow(began())],
)
def test_content_that_is_not_a_flow_is_refused(value: Any) -> None:
    """Raises Unreadable unless there are exactly one trigger and at least one step.

    See docs/design/imports-shopify-flow.md#file.
    """
    for item in (value, flow(began(), {**began(), "step_id": 2})):
        with pytest.raises(Unreadable) as refused:
            read_value(item)
        assert refused.value.message.endswith(".")


def test_steps_and_links_of_a_flow_are_limited() -> None:
    """Reads 1,000 steps and 10,000 links, and refuses one more of either.

    See docs/design/imports-n8n.md#safety.
    """
    steps = [began(), *(http(number) for number in range(2, 1001))]
    began_at = time.process_time()
    assert len(read_value(flow(*steps)).plan.steps) == 999
    assert time.process_time() - began_at < 20
    with pytest.raises(Unreadable, match="1001 steps"):
        read_value(flow(*steps, http(1001)))
    links = [(1, "output", 2)] * 10_000
    assert len(read_value(flow(began(), http(2), links=links)).plan.edges) == 1
    with pytest.raises(Unreadable, match="connections"):
        read_value(flow(began(), http(2), links=[*links, links[0]]))


def test_steps_and_variables_are_named_as_in_shopify_flow() -> None:
    """Names steps by their own name, and variables by the step's type or name, as Shopify Flow does.

    See docs/design/imports-shopify-flow.md#names-of-steps.
    """
    steps = [
        began(),
        code(2, "{ order { name } }", "export default function main() { return {} }"),
        code("3b", "{ order { name } }", "export default function main() { return {} }"),
        {**http(4), "name": "Run code", "note": "Twice\na day"},
        task(5, FLOW + "count", listpath="order.lineItems"),
    ]
    plan = read_value(flow(*steps)).plan
    assert [(step.name, step.origin.alias if step.origin else None) for step in plan.steps] == [
        ("Run code", "runCode"),
        ("Run code 2", "runCode1"),
        ("Run code 3", "sendHttpRequest"),
        ("Count", "count"),
    ]
    assert plan.steps[2].title == "Send HTTP request: Twice a day"
    steps = [{**steps[1], "name": "My own code"}, steps[2], http(4, body="{{ myOwnCode.a }} {{ runCode.b }}")]
    read_flow = read_value(flow(began(), *steps))
    assert [step.origin.alias for step in read_flow.plan.steps if step.origin] == [
        "myOwnCode",
        "runCode",
        "sendHttpRequest",
    ]
    assert [finding.code for finding in read_flow.findings if finding.level is FindingLevel.ERROR] == []
    assert plan.triggers[0].name == "Order created"


def test_unknown_ports_are_errors() -> None:
    """Reads the ports of conditions and loops; an unknown port or step is a `parameter` error.

    See docs/design/imports-shopify-flow.md#file and docs/design/imports-n8n.md#plan.
    """
    steps = [began(), condition(2, "(order.test == true)"), foreach(3, "order.lineItems"), http(4), http(5)]
    links = [(1, "output", 2), (2, "true", 3), (3, "loop_body", 4), (3, "after", 5), (2, "false", 5)]
    edges = {
        (edge.source, edge.port, edge.target) for edge in read_value(flow(*steps, links=links)).plan.edges
    }
    assert edges == {
        ("Order created", "out:0", "Check if condition is met"),
        ("Check if condition is met", "true", "For each loop"),
        ("For each loop", "loop_body", "Send HTTP request"),
        ("For each loop", "after", "Send HTTP request 2"),
        ("Check if condition is met", "false", "Send HTTP request 2"),
    }
    wrong = [*links, (2, "maybe", 4), (9, "output", 4), (4, "output", 9), (4, "output", 1)]
    output = findings_of(flow(*steps, links=wrong))
    assert ("Check if condition is met", "parameter") in output
    assert output.count((None, "parameter")) == 3
    value = flow(*steps, links=links)
    value["root"]["links"][0]["to_port_id"] = "second"
    assert ("Check if condition is met", "parameter") in findings_of(value, FindingLevel.ERROR)


def test_unreachable_steps_stay_and_are_marked() -> None:
    """Keeps a step that no trigger reaches, marked as not reachable. See docs/design/imports-n8n.md#plan."""
    plan = read_value(flow(began(), http(2), task(3, "app::x::y"), links=[(1, "output", 2)])).plan
    assert [step.origin.reachable for step in plan.steps if step.origin] == [True, False]


def test_a_cycle_is_an_error() -> None:
    """Reports a circle as an error, since no flow of Shopify has one.

    See docs/design/imports-shopify-flow.md#file.
    """
    steps = [began(), http(2), http(3)]
    links = [(1, "output", 2), (2, "output", 3), (3, "output", 2)]
    assert ("Send HTTP request", "parameter") in findings_of(flow(*steps, links=links), FindingLevel.ERROR)


def test_unknown_tasks_settings_and_versions_are_errors() -> None:
    """Reports unknown tasks, settings and versions as errors of their steps.

    See docs/design/imports-n8n.md#rules and docs/design/imports-shopify-flow.md#tasks.
    """
    value = flow(
        began(),
        task(2, "vendor::thing::do_it"),
        task(3, FLOW + "send_sms_message", text="x"),
        {**http(4), "task_version": "0.9"},
        http(5, retries="7"),
        {**task(6, "x"), "config_field_values": None},
        {**http(7), "task_id": None},
        task(8, "shopify::admin::add_order_tag"),
        __metadata=1,
    )
    errors = {step: code_ for step, code_ in findings_of(value, FindingLevel.ERROR)}
    assert errors == {
        "Do it": "node_type",
        "Send sms message": "credential",
        "Send HTTP request": "node_version",
        "Send HTTP request 2": "parameter",
        "X": "parameter",
        "Step": "parameter",
        "Add order tag": "node_type",
    }
    assert (None, "node_version") in findings_of({**flow(began(), http(2)), "__metadata": {"version": 0.2}})


SPELLINGS = [
    ("(order.totalPrice > 500)", joined("AND", compared("order.totalPrice", ">", "500", "Decimal"))),
    (
        "(a.b == 'x' && c.d nil? && e.f in? ['p', \"q\"])",
        joined(
            "AND",
            joined("AND", compared("a.b", "==", "x"), compared("c.d", "nil?")),
            compared("e.f", "in?", ["p", "q"]),
        ),
    ),
    (
        "((a.b include? 'it\\'s') || (a.b not_start_with? 'z'))",
        joined("OR", compared("a.b", "include?", "it's"), compared("a.b", "not_start_with?", "z")),
    ),
    (
        "(order.lineItems none? |li| (li.product.tags any? |t| (t == 'presale')))",
        listed(
            "NONE",
            "order.lineItems",
            "li",
            listed("ANY", "li.product.tags", "t", compared("t", "==", "presale")),
        ),
    ),
]


def _without_types(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _without_types(item) for name, item in tree.items() if name != "type"}
    return [_without_types(entry) for entry in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize(("text", "tree"), SPELLINGS)
def test_both_spellings_of_a_condition_are_one_tree(text: str, tree: Any) -> None:
    """Reads the text and the JSON spelling of a condition as the same tree.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    item, other = read_condition(text), read_condition(json.dumps(tree))
    assert _without_types(item) == _without_types(other)


@pytest.mark.parametrize("operator", [*WITH_VALUE, *UNARY])
def test_every_operator_is_read_in_both_spellings(operator: str) -> None:
    """Reads each operator of the list in both spellings, without an error.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    value = "" if operator in UNARY else " 'x'"
    tree = read_condition(f"(order.note {operator}{value})")
    assert tree["operator"] == operator
    assert _without_types(tree) == _without_types(
        read_condition(json.dumps(compared("order.note", operator, "x")))
    )
    assert (
        findings_of(flow(began(), condition(2, f"(order.note {operator}{value})")), FindingLevel.ERROR) == []
    )


def test_a_condition_keeps_types_and_resolves_items_to_their_lists() -> None:
    """Keeps the types of values and resolves a list item's fields to paths of the list.

    See docs/design/imports-shopify-flow.md#conditions and
    docs/design/imports-shopify-flow.md#reading-objects.
    """
    tree = read_condition(json.dumps(SPELLINGS[0][1]))
    assert tree == {"path": "order.totalPrice", "operator": ">", "value": "500", "type": "Decimal"}
    assert set(paths_in(read_condition(SPELLINGS[3][0]))) == {
        "order.lineItems",
        "order.lineItems.product.tags",
    }
    comparison = compared("li.quantity", ">", "1", "Int")
    comparison["lhs"]["full_environment_path"] = "order.lineItems.quantity"
    inner = read_condition(json.dumps(listed("ALL", "order.lineItems", "li", comparison)))["holds"]
    assert inner == {"path": "li.quantity", "operator": ">", "value": "1", "type": "Int"}
    assert read_condition("(a.b == c.d)") == {
        "path": "a.b",
        "operator": "==",
        "type": None,
        "value_path": "c.d",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "(a ~ b)",
        "(a == 'x' && b == 'y' || c == 'z')",
        "(a matches? 'x')",
        "(a == 'x'",
        "(a ==)",
        "(a any? x)",
        "(== 'x')",
        "(" * 200 + "a nil?" + ")" * 200,
        json.dumps(joined("XOR", compared("a", "==", "x"))),
        json.dumps(compared("a", "matches?", "x")),
        json.dumps(compared("a b", "==", "x")),
        json.dumps(listed("SOME", "a.b", "x", compared("x", "nil?"))),
        json.dumps(joined("AND", None)),
        json.dumps({"operation_type": "Guess", "lhs": {}}),
    ],
)
def test_an_unreadable_condition_is_an_error(text: str) -> None:
    """Reports a condition that cannot be read as a `parameter` error of its step.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    with pytest.raises(UnreadableCondition):
        read_condition(text)
    findings = [
        finding
        for finding in read_value(flow(began(), condition(2, text))).findings
        if finding.level is FindingLevel.ERROR
    ]
    assert [(finding.step, finding.code) for finding in findings] == [
        ("Check if condition is met", "parameter")
    ]


def test_the_number_and_depth_of_conditions_are_limited() -> None:
    """Reads 1,000 conditions as one flat list and refuses 1,001.

    In JSON it reads 100 nested conditions, and refuses more. See docs/design/imports-n8n.md#safety.
    """
    parts = read_condition(" && ".join(["(order.name == 'x')"] * 1000))["and"]
    assert isinstance(parts, list)
    assert len(parts) == 1000
    with pytest.raises(UnreadableCondition):
        read_condition(" && ".join(["(order.name == 'x')"] * 1001))
    tree = compared("order.name", "==", "x")
    for _ in range(99):
        tree = joined("AND", tree, compared("order.name", "==", "x"))
    parts = read_condition(json.dumps(tree))["and"]
    assert isinstance(parts, list)
    assert len(parts) == 100
    with pytest.raises(UnreadableCondition):
        read_condition(json.dumps(joined("AND", joined("AND", tree, tree), tree)))


def test_settings_are_unwrapped_and_kept_as_templates() -> None:
    """Unwraps settings, and stores texts with Liquid as templates.

    See docs/design/imports-shopify-flow.md#file.
    """
    fields = {"headers": [["X-Note", BOTH]], "body": '{"a": "{{ order.name }}"}'}
    task_fields = {"url": {"value": "https://a.example/{{ order.name }}", "default_value": ""}}
    [step] = read_value(flow(began(), http(2, **fields, **task_fields))).plan.steps
    liquid = {"expr": BOTH, "lang": "liquid", "chunks": [{"liquid": BOTH}]}
    assert step.config["headers"] == [["X-Note", liquid]]
    assert step.config["body"]["expr"] == fields["body"]  # type: ignore[call-overload, index]
    assert step.config["url"]["expr"] == "https://a.example/{{ order.name }}"  # type: ignore[call-overload, index]
    assert step.config["method"] == "POST"


@pytest.mark.parametrize(
    "file_id",
    [
        "order.id",
        {"value": "{{ order.id }}", "default_value": ""},
        {"value": "{{ order.id }}", "default_value": "product.id"},
        {"value": "", "default_value": "order.id"},
    ],
)
def test_an_id_is_one_text_however_the_file_spells_it(file_id: Any) -> None:
    """Reads an id that is wrapped, is only a default, or is a bare path as in older files.

    See docs/design/imports-shopify-flow.md#file.
    """
    tags = task(2, "shopify::admin::add_order_tags", order_id=file_id, tags=["A", "{{ order.name }}"])
    [step] = read_value(flow(began(), tags)).plan.steps
    assert step.config["order_id"]["expr"] == "{{ order.id }}"  # type: ignore[call-overload, index]
    assert step.config["tags"][0] == "A"  # type: ignore[index]


def test_a_value_beside_the_object_is_read_from_the_object() -> None:
    """Reads `orderRiskLevel`, which Shopify Flow provides beside the order, from the order.

    See docs/design/imports-shopify-flow.md#environment.
    """
    tree = joined("AND", compared("orderRiskLevel", "!=", "High"))
    steps = [
        began("order_risk_analyzed"),
        condition(2, tree),
        http(3, body="{{ orderRiskLevel }} {{ order.name }}"),
    ]
    read_flow = read_value(flow(*steps, links=[(1, "output", 2), (2, "true", 3)]))
    assert [finding for finding in read_flow.findings if finding.level is FindingLevel.ERROR] == []
    assert read_flow.plan.variables[0].paths == ("order.name", "order.riskLevel")
    assert read_flow.plan.steps[0].config["condition"]["path"] == "order.riskLevel"  # type: ignore[call-overload, index]
    assert findings_of(flow(began(), condition(2, tree)), FindingLevel.ERROR) == [
        ("Check if condition is met", "parameter")
    ]


@pytest.mark.parametrize(
    ("of", "is_readable"), [("Customer", True), ("CUSTOMER", True), ("DRAFT_ORDER", False), ("Order", False)]
)
def test_a_metafield_is_a_field_only_of_its_type(of: str, is_readable: bool) -> None:
    """Reads a metafield only on its own type, however the file spells the type and arguments.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    added = {**patched(of, "tier", "custom", "tier"), "arguments": {"key": "tier", "namespace": "custom"}}
    value = flow(began(), http(2, body="{{ order.customer.tier.value }}"), patched_fields=[added])
    assert (findings_of(value, FindingLevel.ERROR) == []) is is_readable


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"duration": "P90D"}, {"seconds": 7_776_000}),
        ({"duration": "PT1H30M"}, {"seconds": 5400}),
        ({"duration": "3 days"}, {"seconds": 259_200}),
        ({"duration": "2", "unit": "HOURS"}, {"seconds": 7200}),
        ({"duration": {"value": 5, "unit": "minutes"}}, {"seconds": 300}),
        ({"until": "2026-12-01T08:00:00Z"}, {"until": "2026-12-01T08:00:00Z"}),
        ({"duration": "P90DT1S"}, None),
        ({"duration": "soon"}, None),
        ({"duration": "5"}, None),
        ({}, None),
        ({"duration": "P1D", "until": "2026-12-01"}, None),
        ({"duration": "P1D", "mode": "x"}, None),
    ],
)
def test_waits_are_seconds_or_a_time_of_at_most_ninety_days(fields: Any, config: Any) -> None:
    """Turns durations into seconds; a wait of more than 90 days or in an unknown form is an error.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    read_flow = read_value(flow(began(), task(2, FLOW + "wait", "WAIT", **fields)))
    errors = [finding.code for finding in read_flow.findings if finding.level is FindingLevel.ERROR]
    if config is None:
        assert errors == ["parameter"]
    else:
        assert (errors, read_flow.plan.steps[0].config) == ([], config)


def test_the_length_of_texts_is_limited() -> None:
    """Accepts texts of 512 KiB and templates of 64 KiB, and reports one character more as an error.

    See docs/design/imports-n8n.md#safety.
    """
    limit, liquid = 512 * 1024, 64 * 1024
    assert findings_of(flow(began(), http(2, body="x" * limit)), FindingLevel.ERROR) == []
    assert findings_of(flow(began(), http(2, body="x" * (limit + 1))), FindingLevel.ERROR) == [
        ("Send HTTP request", "parameter")
    ]
    timestamp = BOTH + "x" * (liquid - len(BOTH))
    assert findings_of(flow(began(), http(2, body=timestamp)), FindingLevel.ERROR) == []
    assert findings_of(flow(began(), http(2, body=timestamp + "x")), FindingLevel.ERROR) == [
        ("Send HTTP request", "parameter")
    ]


def test_ids_of_one_store_are_pointed_out() -> None:
    """Warns about ids of Shopify objects in conditions and texts. See docs/design/api/imports.md#findings."""
    value = flow(
        began(),
        condition(2, "(order.customer.id == 'gid://shopify/Customer/1234567')"),
        http(3, body="at gid://shopify/Location/42 and gid://shopify/Location/43"),
        links=[(1, "output", 2), (2, "true", 3)],
    )
    read_flow = read_value(value)
    steps = [finding.step for finding in read_flow.findings if finding.code == "store_specific_value"]
    assert steps.count("Send HTTP request") == 2
    assert "Check if condition is met" in steps
    assert all(
        finding.level is FindingLevel.WARNING
        for finding in read_flow.findings
        if finding.code == "store_specific_value"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": [["Authorization", "Token s3cr3t-value"]]},
        {"headers": [["X-Api-Key", "s3cr3t-value"], ["Accept", "a/b"]]},
        {"url": "https://user:s3cr3t-value@hooks.example/"},
        {"url": "https://hooks.example/?api_key=s3cr3t-value&x={{ order.name }}"},
        {"body": '{"password": "s3cr3t-value", "n": "{{ order.name }}"}'},
        {"body": "shpat_0123456789abcdef0123456789abcdef s3cr3t-value".replace(" s3cr3t-value", "")},
        {"access_token": "s3cr3t-value"},
        {"url": "https://hooks.example/{{ order.id }}?n={{ order.name }}&token=s3cr3t-value&a=1"},
        {"body": "a=1&client_secret=s3cr3t-value&b={{ order.name }}"},
        {"headers": {"Authorization": "Basic s3cr3t-value"}},
        {"body": "{{ order.id | hmac_sha256: 's3cr3t-value' }}"},
        {"headers": [["X-Sign", '{{ order.id | hmac_sha1: "s3cr3t-value" }}']]},
    ],
)
def test_no_key_survives_and_each_place_is_named(fields: Any) -> None:
    """Removes secrets from the file, the plan and the findings, and reports the step of each.

    See docs/design/imports-n8n.md#safety and docs/design/security.md#imported-workflows.
    """
    read_flow = read_value(flow(began(), http(2, **fields)))
    stored = json.dumps(read_flow.cleaned) + repr(read_flow.plan) + repr(read_flow.findings)
    assert "s3cr3t" not in stored
    assert "shpat_0" not in stored
    assert ("Send HTTP request", "secret_removed") in [
        (finding.step, finding.code) for finding in read_flow.findings
    ]


def test_a_url_that_contains_a_secret_is_removed() -> None:
    """Removes an address that contains a secret and reports a `credential` error.

    See docs/design/imports-n8n.md#http-steps and docs/design/imports-n8n.md#safety.
    """
    address = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
    read_flow = read_value(flow(began(), http(2, url=address)))
    assert "abcdefghijkl" not in json.dumps(read_flow.cleaned) + repr(read_flow.plan)
    assert [finding.code for finding in read_flow.findings if finding.level is FindingLevel.ERROR] == [
        "credential"
    ]


def test_a_signature_without_its_key_is_an_error() -> None:
    """Reports a `credential` error, because nothing may be sent with a signature that lacks its key.

    See docs/design/imports-n8n.md#rules and docs/design/imports-n8n.md#safety.
    """
    read_flow = read_value(flow(began(), http(2, body="{{ order.id | hmac_sha256: 'a key' }}")))
    assert [finding.code for finding in read_flow.findings if finding.level is FindingLevel.ERROR] == [
        "credential"
    ]


def test_liquid_headers_and_metafield_keys_stay() -> None:
    """Keeps headers with Liquid and keys of metafields unchanged. See docs/design/imports-n8n.md#safety."""
    fields = {"headers": [["Authorization", "Bearer {{ runCode.token }}"]], "body": '{"key": "tier"}'}
    steps = [
        began(),
        code(2, "{ order { name } }", "export default function main() { return {} }"),
        http(3, **fields),
    ]
    read_flow = read_value(flow(*steps))
    assert [finding for finding in read_flow.findings if finding.code == "secret_removed"] == []
    assert read_flow.cleaned["root"]["steps"] == steps


def test_an_internal_mail_is_sent_by_the_account_bound_to_it() -> None:
    """Reads an internal mail as a send that needs a connection, with warnings that say so.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    mail = task(2, FLOW + "send_email", address="a@b.example", subject=BOTH, message="x")
    read_flow = read_value(flow(began(), mail))
    [step] = read_flow.plan.steps
    assert step.origin is not None
    assert (step.kind, step.operation, step.origin.needs) == ("send", "mail.send", "teams")
    assert [(finding.level, finding.code) for finding in read_flow.findings if finding.step == step.name] == [
        (FindingLevel.WARNING, "parameter"),
        (FindingLevel.WARNING, "credential"),
    ]
    assert findings_of(flow(began(), task(2, FLOW + "send_email", address="a@b.example")), FindingLevel.ERROR)
