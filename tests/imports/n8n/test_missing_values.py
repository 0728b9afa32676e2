"""Tests steps that read removed secrets, unavailable responses, or outputs of steps that never run.

See docs/design/imports-verdict.md#missing-values.
"""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.missing_values import MAX_FOLLOWED
from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from tests.imports.exports import BEGIN, chain, code, node, tell_step
from tests.imports.n8n.test_verdicts import connected, errors, passing, verdict
from tests.service import Service

SECRET = "sk-live-abcdefghijklmnop1234567890"


def keys(**values: Any) -> dict[str, Any]:
    """Returns a set step that fills these fields."""
    rows = [{"id": name, "name": name, "value": value, "type": "string"} for name, value in values.items()]
    return node("Keys", "set", 3.4, {"assignments": {"assignments": rows}, "includeOtherFields": True})


def asking(name: str, **parameters: Any) -> dict[str, Any]:
    """Returns a step that reads an address."""
    return node(name, "httpRequest", 4.2, {"url": "https://a.example", "options": {}, **parameters})


def header(value: str) -> dict[str, Any]:
    """Returns the parameters of a request with this header."""
    return {"sendHeaders": True, "headerParameters": {"parameters": [{"name": "X-Api-Key", "value": value}]}}


def json_body(text: str) -> dict[str, Any]:
    """Returns the parameters of a POST with this JSON body."""
    return {"method": "POST", "sendBody": True, "specifyBody": "json", "jsonBody": text}


def about_secrets(record: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Returns the step and level of each finding on a removed secret."""
    return [
        (issue["step"], issue["level"]) for issue in record["issues"] if issue["code"] == "secret_removed"
    ]


def setting(**values: Any) -> dict[str, Any]:
    """Returns another set step."""
    return {**keys(**values), "name": "More"}


COMPARED = {
    "leftValue": "={{ $json.apiKey }}",
    "rightValue": "a",
    "operator": {"type": "string", "operation": "equals"},
}
READERS: dict[str, list[dict[str, Any]]] = {
    "in the path behind data": [asking("Ask", url="=https://a.example/{{ $json.n }}/{{ $json.apiKey }}")],
    "in the host": [asking("Ask", url="=https://{{ $json.apiKey }}.a.example/orders")],
    "compared in a header": [asking("Ask", **header("={{ $json.apiKey === 'a' ? 'b' : 'c' }}"))],
    "beside data in a header": [asking("Ask", **header("={{ $json.shop }}:{{ $json.apiKey }}"))],
    "measured on its way": [
        setting(size="={{ $json.apiKey.length }}"),
        asking("Ask", **header("={{ $json.size }}")),
    ],
    "changed on its way by a set step": [
        setting(low="={{ $json.apiKey.toLowerCase() }}"),
        asking("Ask", **header("={{ $json.low }}")),
    ],
    "compared by a condition": [
        node("If", "if", 2, {"conditions": {"conditions": [COMPARED]}}),
        asking("Ask"),
    ],
    "in a message": [
        {
            **tell_step(),
            "parameters": {**tell_step()["parameters"], "message": "={{ $json.apiKey }}"},
            "name": "Ask",
        }
    ],
    "in the rows of a table": [
        node(
            "Ask",
            "airtable",
            2,
            {"operation": "create", "columns": {"mappingMode": "autoMapInputData", "value": {}}},
        )
    ],
    "in a file": [node("Ask", "convertToFile", 1.1, {"operation": "csv", "options": {}})],
    "changed on its way": [asking("Ask", **header("={{ $json.apiKey.toUpperCase() }}"))],
    "changed in a body": [asking("Ask", **json_body('={"k": "{{ $json.apiKey.slice(1) }}"}'))],
    "in base64 in a body": [asking("Ask", **json_body('={"k": "{{ btoa($json.apiKey) }}"}'))],
    "gathered and compared": [
        node("Gather", "aggregate", 1, {"aggregate": "aggregateAllItemData", "options": {}}),
        asking("Ask", **header("={{ $json.data[0].apiKey == 'a' }}")),
    ],
    "beside another sign-in": [
        asking(
            "Ask",
            authentication="genericCredentialType",
            genericAuthType="oAuth2Api",
            **header("={{ $json.apiKey }}"),
        )
    ],
    "in the settings of the step": [
        asking("Ask", **header("={{ $('Keys').params.assignments.assignments[0].value }}"))
    ],
    "by a workflow that it calls": [node("Ask", "executeWorkflow", 1.1, {"workflowId": "7"})],
    "as XML": [node("Ask", "xml", 1, {"mode": "jsonToxml", "options": {}})],
    "by a script": [code("Ask", "return [{json: {k: $input.first().json.apiKey}}]")],
    "by a script that goes through all fields": [
        code("Ask", "for (const k in item.json) { item.json[k] = item.json[k].trim() } return item;")
    ],
    "by a script that chooses the field": [
        code("Ask", "return [{json: {k: items[0].json[items[0].json.n]}}]")
    ],
    "by a script that writes out the item": [
        code("Ask", "return [{json: {t: JSON.stringify(items[0].json)}}]")
    ],
    "by a script that writes out the item by another name": [
        code("Ask", "const d = $input.first().json; return [{json: {t: JSON.stringify(d, null, 2)}}]")
    ],
    "by a script that writes out the item within an object": [
        code("Ask", "return [{json: {t: JSON.stringify({all: $json})}}]")
    ],
    "by a script that writes out a list of items": [
        code(
            "Ask",
            "const l = []; for (const i of items) l.push(i.json); return [{json: {t: JSON.stringify(l)}}]",
        )
    ],
    "by a script that writes out items by a key": [
        code(
            "Ask",
            "const t = {}; for (const i of items) { const k = i.json.shop; t[k] = i; }\n"
            "return [{json: {t: JSON.stringify(t)}}]",
        )
    ],
    "by a script that writes out lists of items by a key": [
        code(
            "Ask",
            "const t = {all: {}}; items.forEach((item) => { (t.all[item.json.shop] ??= []); "
            "t.all[item.json.shop].push(item.json); }); return [{json: {t: JSON.stringify(t.all)}}]",
        )
    ],
    "by a script that writes out a map of items": [
        code(
            "Ask",
            "const m = new Map(); items.forEach((item) => m.set(item.json.shop, item.json));\n"
            "const o = Object.assign(m, items[0]); return [{json: {t: JSON.stringify([...m])}}]",
        )
    ],
}
READERS |= {
    f"by a script that {name}": [code("Ask", text)]
    for name, text in {
        "writes out what it reduces over several lines": (
            "const d = items.reduce(\n  (all, item) => {\n    all[item.json.shop] = item.json;\n"
            "    return all;\n  },\n  {},\n);\nreturn [{json: {t: JSON.stringify(d)}}];"
        ),
        "calls its own function with the item": (
            "function flat(o) { return Object.entries(o).join(); }\n"
            "return items.map((i) => ({json: {t: flat(i.json)}}));"
        ),
        "calls a function by another": (
            "const f = (x) => g(1, x); const g = (n, y) => JSON.stringify(y); return f(item);"
        ),
        "gives its function to a list of items": (
            "const row = (i) => ({json: {t: JSON.stringify(i)}}); return $input.all().map(row);"
        ),
        "goes along a list of items": (
            "return items.filter((x) => x.json.shop)\n  .map((x) => x.json)\n"
            "  .map((row) => ({json: {t: Object.values(row).join()}}));"
        ),
        "writes out an item of the step by its name": (
            "return [{json: {t: JSON.stringify($('Keys').first().json)}}]"
        ),
    }.items()
}
GROUPING = [
    "(t[item.json.shop] ||= []).push(item.json)",
    "(t[item.json.shop] ??= []).push(item.json)",
    "(t[item.json.shop])?.push(item.json)",
    "t[item.json.shop] ??= item.json",
    "t[item.json.shop] ||= item.json",
    "t[item.json['shop']] = item.json",
    "t[item.json.tags[0]] = item.json",
    "t.get(item.json.shop).push(item.json)",
    "t.get(item.json.shop.trim()).push(item.json)",
    "t.splice(0, 0, item.json)",
    "t.a.b.c[item.json.shop] = item.json",
    "Object.assign(t[item.json.shop], item.json)",
]
READERS |= {
    f"by a script that writes out what it groups: {text}": [
        code("Ask", f"items.forEach((item) => {{ {text}; }}); return [{{json: {{t: JSON.stringify(t)}}}}]")
    ]
    for text in GROUPING
}


# A verdict is read above the database. `test_a_removed_secret_that_no_step_reads_is_a_note` and those after
# it store verdicts on both engines (docs/decisions/0316-each-engine-takes-a-part-of-what-tests-repeat.md).
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@ON_SQLITE
@pytest.mark.parametrize("steps", READERS.values(), ids=READERS.keys())
async def test_a_removed_secret_that_a_later_step_reads_is_an_error(
    service: Service, steps: list[dict[str, Any]]
) -> None:
    """Reports an error at the step that held the secret and names the field and the step that reads it."""
    record = await verdict(service, chain(keys(apiKey=SECRET, shop="one"), *steps))
    assert record["supported"] is False
    assert about_secrets(record) == [("Keys", "error")]
    [issue] = [issue for issue in record["issues"] if issue["code"] == "secret_removed"]
    assert "The field “apiKey”" in issue["message"]
    assert "“Ask” needs it" in issue["message"] or "“If” needs it" in issue["message"]


BEARER = [{"name": "auth", "value": "=Bearer {{ $json.apiKey }}"}]
IN_QUERY = {
    "sendQuery": True,
    "queryParameters": {"parameters": [{"name": "k", "value": "={{ $json.apiKey }}"}]},
}
AUTHORIZATION = [{"name": "Authorization", "value": "=Bearer {{ $('Keys').item.json.apiKey }}"}]
BASIC = [{"name": "Authorization", "value": "=Basic {{ btoa('ann:' + $json.apiKey) }}"}]
HEADER = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
REPLACED: dict[str, tuple[list[dict[str, Any]], str, str | None]] = {
    "in a header": ([asking("Ask", **header("={{ $json.apiKey }}"))], "header", "X-Api-Key"),
    "behind a step that passes items on": (
        [passing("P"), asking("Ask", **header("={{ $json.apiKey }}"))],
        "header",
        "X-Api-Key",
    ),
    "under another name": (
        [
            node("Rename", "set", 3.4, {"assignments": {"assignments": BEARER}}),
            asking("Ask", **header("={{ $json.auth }}")),
        ],
        "header",
        "X-Api-Key",
    ),
    "in a query parameter": ([asking("Ask", **IN_QUERY)], "query", "k"),
    "in the query of an address": (
        [passing("P"), asking("Ask", url="=https://a.example/?k={{ $('Keys').item.json.apiKey }}&n=1")],
        "query",
        "k",
    ),
    "out of a list of all items": (
        [
            node("Gather", "aggregate", 1, {"aggregate": "aggregateAllItemData", "options": {}}),
            asking("Ask", **header("={{ $json.data[0].apiKey }}")),
        ],
        "header",
        "X-Api-Key",
    ),
    "under a name that another step gave it": (
        [
            node("Rename", "renameKeys", 1, {"keys": {"key": [{"currentKey": "apiKey", "newKey": "k"}]}}),
            node("Split", "splitOut", 1, {"fieldToSplitOut": "k", "options": {"destinationFieldName": "v"}}),
            asking("Ask", **header("={{ $json.v }}")),
        ],
        "header",
        "X-Api-Key",
    ),
    "within what a script made of the item": (
        [
            code("Wrap", "return $input.all().map((item) => ({json: {all: item.json}}));"),
            asking("Ask", **header("={{ $json.all.apiKey }}")),
        ],
        "header",
        "X-Api-Key",
    ),
    "as a bearer token": (
        [asking("Ask", sendHeaders=True, headerParameters={"parameters": AUTHORIZATION})],
        "bearer",
        None,
    ),
    "in a body": ([asking("Ask", **json_body('={"k": "{{ $json.apiKey }}"}'))], "body", None),
    "joined in an expression": (
        [asking("Ask", **header("={{ 'Key ' + $json.apiKey.trim() }}"))],
        "header",
        "X-Api-Key",
    ),
    "in a template literal": (
        [asking("Ask", **header("={{ `Key ${$json.apiKey}` }}"))],
        "header",
        "X-Api-Key",
    ),
    "or another text": (
        [asking("Ask", **header("={{ $json.apiKey || $json.shop }}"))],
        "header",
        "X-Api-Key",
    ),
    "in a body as an object": (
        [asking("Ask", **json_body("={{ JSON.stringify({k: $json.apiKey, n: $json.shop}) }}"))],
        "body",
        None,
    ),
    "in the path of an address": (
        [asking("Ask", url="=https://a.example/bot{{ $json.apiKey }}/orders/{{ $json.shop }}")],
        "path",
        "/bot",
    ),
    "in an address of an expression": (
        [asking("Ask", url="={{ 'https://a.example/' + $json['apiKey'].trim() }}")],
        "path",
        "/",
    ),
    "encoded in the query of an expression": (
        [
            asking(
                "Ask",
                url="={{ 'https://a.example/?k=' + encodeURIComponent($json.apiKey) + '&n=' + $json.shop }}",
            )
        ],
        "query",
        "k",
    ),
    "in base64 as a basic sign-in": (
        [asking("Ask", sendHeaders=True, headerParameters={"parameters": BASIC})],
        "basic",
        None,
    ),
    "beside another sign-in": (
        [asking("Ask", **{**header("={{ $json.apiKey }}"), **HEADER})],
        "custom",
        None,
    ),
    "in two places of a body": (
        [asking("Ask", **json_body('={"k": "{{ $json.apiKey }}", "at": "/{{ $json.apiKey }}.txt"}'))],
        "body",
        None,
    ),
    "in two places": ([asking("Ask", **header("={{ $json.apiKey }}"), **IN_QUERY)], "custom", None),
}


@pytest.mark.parametrize(("steps", "sign_in", "name"), REPLACED.values(), ids=REPLACED.keys())
def test_an_account_replaces_a_removed_key_that_a_request_reads(
    steps: list[dict[str, Any]], sign_in: str, name: str | None
) -> None:
    """Keeps the import supported and proposes the sign-in that puts the key where the request reads it."""
    read = read_value(chain(keys(apiKey=SECRET, shop="one"), *steps))
    assert [
        (finding.step, finding.level) for finding in read.findings if finding.code == "secret_removed"
    ] == [("Keys", FindingLevel.NOTE)]
    assert [finding.step for finding in read.findings if finding.code == "credential"] == ["Ask"]
    [origin] = [step.origin for step in read.plan.steps if step.name == "Ask"]
    assert origin is not None
    assert origin.needs == "http_api"
    assert origin.account is not None
    assert (origin.account["sign_in"], origin.account["name"]) == (sign_in, name)


def form_body(**fields: str) -> dict[str, Any]:
    """Returns the parameters of a POST of a form with these fields."""
    rows = [{"name": name, "value": value} for name, value in fields.items()]
    return {"method": "POST", "sendBody": True, "bodyParameters": {"parameters": rows}}


OTHER = "sk-live-zyxwvutsrqponmlk0987654321"
OAUTH = {"authentication": "genericCredentialType", "genericAuthType": "oAuth2Api"}


def path(key: str) -> dict[str, Any]:
    """Returns the parameters of a request whose address holds a key."""
    return {"url": f"https://a.example/v1/{key}/orders"}


LITERAL: dict[str, tuple[dict[str, Any], bool, str | None]] = {
    "a field": (form_body(api_key=SECRET), True, "body"),
    "a member of JSON": (json_body(f'{{"api_key": "{SECRET}"}}'), True, "body"),
    "the same key twice": (form_body(api_key=SECRET, again=SECRET), True, "body"),
    "two keys": (form_body(api_key=SECRET, api_secret=OTHER), True, "custom"),
    "a key in a header too": ({**form_body(api_key=SECRET), **header(OTHER)}, True, "custom"),
    "beside a key in a header": ({**form_body(api_key=SECRET), **HEADER}, True, "custom"),
    "beside OAuth 2": ({**form_body(api_key=SECRET), **OAUTH}, False, "oauth2"),
    "in a call": (json_body(f'={{{{ btoa("{SECRET}") }}}}'), False, None),
    "in a call that keeps it": (json_body(f'={{"k": "{{{{ "{SECRET}".toString() }}}}"}}'), True, "body"),
    "beside a call": (json_body(f'={{"k": "{SECRET}", "at": "{{{{ $now.toISO() }}}}"}}'), True, "body"),
    "compared": (json_body(f'={{"k": "{{{{ $json.k == "{SECRET}" ? 1 : 2 }}}}"}}'), False, None),
    "a character of it": (json_body(f'={{"k": "{{{{ "{SECRET}"[0] }}}}"}}'), False, None),
    "its length": (json_body(f'={{"k": {{{{ "{SECRET}".length }}}}}}'), False, None),
    "a header of an expression": (header(f'={{{{ "Key " + "{SECRET}" }}}}'), True, "header"),
    "a header beside an empty expression": (header(f'=Bearer {SECRET}{{{{ "" }}}}'), True, "header"),
    "a header beside data": (header(f"=Bearer {SECRET}{{{{ $json.n }}}}"), False, None),
    "a header by a condition": (header(f'={{{{ $json.live ? "{SECRET}" : "{OTHER}" }}}}'), False, None),
    "the path and a header": ({**path(SECRET), **header(OTHER)}, True, "custom"),
    "the path behind data and a header": (
        {"url": f"=https://a.example/{{{{ $json.n }}}}/{SECRET}/x", **header(OTHER)},
        False,
        None,
    ),
    "two keys in the path": ({"url": f"https://a.example/{SECRET}/x/{OTHER}/y"}, True, "custom"),
    "two keys with data between": (
        {"url": f"=https://a.example/{SECRET}/{{{{ $json.n }}}}/{OTHER}"},
        False,
        None,
    ),
    "a password in the address and a header": (
        {"url": "https://ann:old-password-4711@a.example/x", **header(OTHER)},
        True,
        "custom",
    ),
}


@ON_SQLITE
@pytest.mark.parametrize(("parameters", "is_supported", "sign_in"), LITERAL.values(), ids=LITERAL.keys())
async def test_a_literal_key_of_a_body_is_replaced_by_an_account(
    service: Service, parameters: dict[str, Any], is_supported: bool, sign_in: str | None
) -> None:
    """Proposes an account where it can fill in the key as written; not within a call or beside OAuth 2."""
    export = chain(asking("Ask", **parameters))
    assert (await verdict(service, export))["supported"] is is_supported
    [origin] = [step.origin for step in read_value(export).plan.steps]
    assert origin is not None
    assert (origin.account or {}).get("sign_in") == sign_in


UNUSED: dict[str, list[dict[str, Any]]] = {
    "nobody reads it": [asking("Ask", **header("={{ $json.shop }}"))],
    "its item is replaced": [asking("Get"), asking("Ask", **header("={{ $json.apiKey }}"))],
    "a disabled step reads it": [
        {**asking("Ask", **header("={{ $json.apiKey }}")), "disabled": True},
        passing("P"),
    ],
    "a script reads another field": [code("Ask", "return [{json: {k: $input.first().json.shop}}]")],
    "a script writes out another field": [
        code("Ask", "const t = JSON.stringify($input.first().json.shop); return [{json: {t}}]")
    ],
    "a script writes out another field of an item by its place": [
        code("Ask", "return [{json: {t: JSON.stringify(items[0].json.shop)}}]")
    ],
    "a script writes out what it has of another field by a key": [
        code(
            "Ask",
            "const t = {}; for (const item of items) { t[item.json.shop] = item.json.shop; "
            "t[item.json.shop] += 1; }\nreturn [{json: {t: JSON.stringify(t)}}]",
        )
    ],
    "a script writes out the item to the console alone": [
        code("Ask", "console.log('Got', JSON.stringify(items[0].json)); return [{json: {a: 1}}]")
    ],
    "a script writes out a sum of items": [
        code(
            "Ask",
            "const n = items.reduce((s, i) => s + i.json.shop.length, 0);\n"
            "return [{json: {t: JSON.stringify(n)}}]",
        )
    ],
    "a function of a script gets another field": [
        code("Ask", "const f = (a, o) => JSON.stringify(a);\nreturn [{json: {t: f(item.json.shop, item)}}]")
    ],
    "a script writes out one field of each item": [
        code(
            "Ask",
            "const shops = items.map(function (row) { return row.json.shop; });\n"
            "return [{json: {t: JSON.stringify(shops)}}]",
        )
    ],
    "a script goes through what it has counted": [
        code(
            "Ask",
            "// unlike Object.keys(item.json)\nconst totals = {};\n"
            "for (const item of items) totals[item.json.shop] = (totals[item.json.shop] || 0) + 1;\n"
            "for (const k in totals) totals[k] += 1;\n"
            "return Object.keys(totals).map((shop) => ({ json: { shop, n: totals[shop] } }));",
        )
    ],
}


@pytest.mark.parametrize("steps", UNUSED.values(), ids=UNUSED.keys())
async def test_a_removed_secret_that_no_step_reads_is_a_note(
    service: Service, steps: list[dict[str, Any]]
) -> None:
    """Reports a note, and the import stays supported."""
    record = await verdict(service, chain(keys(apiKey=SECRET, shop="one"), *steps))
    assert about_secrets(record) == [("Keys", "note")]
    assert record["supported"] is True


def test_at_most_a_hundred_removed_secrets_are_traced() -> None:
    """Follows 100 removed secrets and takes all for used beyond that.

    Reads 999 of them within 5 s of CPU time.
    """
    for count, levels in ((MAX_FOLLOWED, {"note"}), (MAX_FOLLOWED + 1, {"note", "error"})):
        steps = [{**keys(apiKey=f"{SECRET}{number}"), "name": f"Keys {number}"} for number in range(count)]
        findings = [
            finding for finding in read_value(chain(*steps)).findings if finding.code == "secret_removed"
        ]
        assert len(findings) == count
        assert {str(finding.level) for finding in findings} == levels
    long = chain(*({**keys(apiKey=f"{SECRET}{number}"), "name": f"Keys {number}"} for number in range(999)))
    began = time.process_time()
    read_value(long)
    assert time.process_time() - began < 5


async def test_a_removed_secret_in_a_script_is_an_error_where_it_runs(service: Service) -> None:
    """Reports an error where the script runs, and a note where no run reaches it."""
    script = code("Sign", f"const key = '{SECRET}'; return [{{json: {{key}}}}]")
    running = await verdict(service, chain(script))
    assert about_secrets(running) == [("Sign", "error")]
    idle = await verdict(service, connected([BEGIN, passing("A"), script], {"Begin": ["A"]}))
    assert about_secrets(idle) == [("Sign", "note")]
    assert idle["supported"] is True


async def test_a_step_that_reads_one_that_never_runs_is_an_error(service: Service) -> None:
    """Reports an error when a step reads one that no run reaches, or a trigger other than the start.

    An expression that first checks whether the step ran gives no error.
    """
    hook = node("Hook", "webhook", 2, {})
    url = "=https://a.example/?id={{ $('Aside').item.json.id }}"
    nodes = [BEGIN, passing("A"), asking("Ask", url=url), passing("Aside")]
    record = await verdict(service, connected(nodes, {"Begin": ["A"], "A": ["Ask"]}))
    assert errors(record) == [("Ask", "expression_feature")]
    assert any("“Aside”" in issue["message"] for issue in record["issues"] if issue["step"] == "Ask")
    by_trigger = [BEGIN, hook, passing("A"), asking("Ask", url=url.replace("Aside", "Hook"))]
    lines = {"Begin": ["A"], "A": ["Ask"], "Hook": ["Ask"]}
    assert errors(await verdict(service, connected(by_trigger, lines))) == [("Ask", "expression_feature")]
    guarded = "={{ $('Aside').isExecuted ? 'https://a.example' : 'https://b.example' }}"
    nodes[2] = asking("Ask", url=guarded)
    assert errors(await verdict(service, connected(nodes, {"Begin": ["A"], "A": ["Ask"]}))) == []


async def test_a_step_that_reads_an_unavailable_response_is_an_error(service: Service) -> None:
    """Reports an error when a step reads the response to a posted message.

    Reading an earlier step by name is no error.
    """
    record = await verdict(
        service, chain(tell_step(), passing("P"), asking("Ask", url="=https://a.example/?id={{ $json.id }}"))
    )
    assert errors(record) == [("Ask", "parameter")]
    [issue] = [issue for issue in record["issues"] if issue["level"] == "error"]
    assert "“Tell”" in issue["message"]
    past = asking("Ask", url="=https://a.example/?id={{ $('First').item.json.id }}")
    assert errors(await verdict(service, chain(passing("First"), tell_step(), past))) == []


def looped(*body: dict[str, Any]) -> dict[str, Any]:
    """Returns an export whose loop sends a message in each iteration; `body` are the steps after the loop."""
    loop = node("Loop", "splitInBatches", 3, {"options": {}})
    script = code("Mark", "return [{json: {n: $('Loop').context.currentRunIndex}}]")
    export = connected([BEGIN, loop, script, tell_step(), *body], {"Begin": ["Loop"], "Mark": ["Tell"]})
    to = [[{"node": name, "type": "main", "index": 0}] for name in (body[0]["name"], "Mark")]
    back = [[{"node": "Loop", "type": "main", "index": 0}]]
    export["connections"] |= {"Loop": {"main": to}, "Tell": {"main": back}}
    return export


async def test_a_loop_reads_its_own_items_and_not_the_responses(service: Service) -> None:
    """Reports no error when a script in the loop reads its round."""
    assert errors(await verdict(service, looped(passing("After")))) == []


@pytest.mark.parametrize(
    ("parameters", "reads"),
    [
        ({"aggregate": "aggregateAllItemData", "destinationFieldName": "all", "options": {}}, False),
        ({"fieldsToAggregate": {"fieldToAggregate": [{"fieldToAggregate": "id"}]}, "options": {}}, True),
    ],
)
async def test_a_step_that_names_no_field_reads_no_response(
    service: Service, parameters: dict[str, Any], reads: bool
) -> None:
    """Gathering all items reads no field of theirs; gathering one field does and is an error."""
    gather = node("Gather", "aggregate", 1, parameters)
    assert errors(await verdict(service, chain(tell_step(), gather))) == [("Gather", "parameter")] * reads
