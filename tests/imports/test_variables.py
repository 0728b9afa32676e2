"""Tests variables of n8n: which ones a workflow needs, their values at set-up, and runs that read them.

See docs/design/imports-variables.md.
"""

import json
from functools import partial
from typing import Any

import pytest

from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.database.automations import history
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.imports.secrets.variables import holds_key, is_key
from steward.model import plan_json
from steward.model.automation import Automation
from steward.model.refusals import NotReady, ValidationFailed
from steward.model.run import Mode, RunStatus
from tests.fakes.partner_api import API, KEY
from tests.imports.exports import automated, calling, chain, code, node, store_export, tell_step
from tests.imports.responses.workflows import output_items
from tests.imports.test_called_imports import call_by_id, import_of, passed_to
from tests.imports.test_http_accounts import PartnerShop, partner
from tests.imports.test_imports_api import MANUAL, PATH, body
from tests.imports.test_runs import bound, on_one_engine
from tests.runs.shop import Shop
from tests.service import Service

__all__ = ["partner"]

SHOWN = code("Show", "return [{json: {shop: $vars.shop, zone: $env['ZONE'] ?? 'Berlin'}}]")
BOTH = [{"name": "$env.ZONE", "required": False}, {"name": "$vars.shop", "required": True}]


async def updated(shop: Shop, automation: Automation, **fields: Any) -> Automation:
    """Changes the automation as its owner does."""
    rules = shop.service.worker_context.automation_rules
    command = UpdateCommand(automation.id, automation.version, **fields)
    return await shop.write(partial(change.update, actor=shop.owner, command=command, rules=rules))


def request(address: str, **parameters: Any) -> dict[str, Any]:
    """Returns a step that makes a request."""
    return node("Ask", "httpRequest", 4.2, {"url": address, "options": {}} | parameters)


def with_headers(**headers: str) -> dict[str, Any]:
    """Returns the parameters of a request with headers."""
    rows = [{"name": name, "value": value} for name, value in headers.items()]
    return {"sendHeaders": True, "headerParameters": {"parameters": rows}}


async def test_the_values_of_variables_are_set_and_changed(service: Service) -> None:
    """Lists the names, refuses runs that lack a required value, and shows the values.

    See docs/design/api/imports.md#requests and docs/design/api/automations.md#variables.
    """
    member = await service.token("member")
    stored_import = (await member.post(PATH, body(chain(SHOWN)))).data["import"]
    assert (stored_import["supported"], stored_import["variables"]) == (True, BOTH)
    path = f"{PATH}/{stored_import['id']}"
    preview = (await member.post(f"{path}/preview", {})).data
    assert preview["variables"] == [{**variable, "value": None} for variable in BOTH]
    assert (preview["readiness"]["ready"], preview["readiness"]["unset"]) == (False, ["$vars.shop"])
    values = {"$vars.shop": "Tea & Co"}
    preview = (await member.post(f"{path}/preview", {"variables": values})).data
    assert (preview["readiness"]["ready"], preview["variables"][1]["value"]) == (True, "Tea & Co")

    created = await member.post(f"{path}/automations", {"name": "A", "schedule": MANUAL})
    automation = created.data["automation"]
    assert (automation["variables"], automation["readiness"]["unset"]) == ({}, ["$vars.shop"])
    runs = f"/v1/automations/{automation['id']}/runs"
    refused = await member.post(runs, {"idempotency_key": "one"})
    assert refused.status == 422
    assert "“$vars.shop”" in refused.body["message"]

    automation_path = f"/v1/automations/{automation['id']}"
    changed = await member.patch(automation_path, {"version": 1, "variables": values})
    assert changed.data["automation"]["variables"] == values
    assert (changed.data["automation"]["version"], changed.data["automation"]["plan_version"]) == (2, 2)
    assert changed.data["automation"]["readiness"]["ready"] is True
    same = await member.patch(automation_path, {"version": 2, "variables": values})
    assert same.data["automation"]["version"] == 2
    assert (await member.post(runs, {"idempotency_key": "two"})).status == 201
    plan = (await (await service.web("member")).get(f"/app/automations/{automation['id']}/plan")).data
    assert plan["variables"] == [{**BOTH[0], "value": None}, {**BOTH[1], "value": "Tea & Co"}]
    second_response = await member.post(
        f"{path}/automations", {"name": "B", "schedule": MANUAL, "variables": values}
    )
    assert second_response.data["automation"]["readiness"]["ready"] is True


@pytest.mark.parametrize(
    ("variables", "field", "words"),
    [
        ({"$vars.other": "x"}, "variables.$vars.other", "reads no variable of that name"),
        ({"$vars.shop": ""}, "variables.$vars.shop", "1 to 10,000 characters"),
        ({"$vars.shop": " \n"}, "variables.$vars.shop", "1 to 10,000 characters"),
        ({"$vars.shop": "x" * 10_001}, "variables.$vars.shop", "1 to 10,000 characters"),
        ({"$vars.shop": 7}, "variables.$vars.shop", "1 to 10,000 characters"),
        ({"$vars.shop": "ghp_Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7b"}, "variables.$vars.shop", "contains a key"),
        ({"$vars.shop": "a\x00b"}, "variables", ""),
        (["x"], "variables", "Give an object."),
        ({f"$vars.v{number}": "x" for number in range(501)}, "variables", "at most 500 values"),
        ({f"$vars.v{number}": "x" * 10_000 for number in range(11)}, "variables", "100,000 characters"),
    ],
)
async def test_an_invalid_value_of_a_variable_is_refused_at_its_name(
    service: Service, variables: Any, field: str, words: str
) -> None:
    """Refuses names that no step reads, values that are not texts, and keys, which it does not repeat."""
    member = await service.token("member")
    stored_import = (await member.post(PATH, body(chain(SHOWN)))).data["import"]
    request_body = {"name": "A", "schedule": MANUAL, "variables": variables}
    refused = await member.post(f"{PATH}/{stored_import['id']}/automations", request_body)
    assert (refused.status, list(refused.body["errors"])) == (422, [field])
    assert words in str(refused.body["errors"])
    assert "ghp_" not in str(refused.body)


async def test_a_run_reads_the_values_of_its_plan_version(shop: Shop) -> None:
    """Reads the values in scripts and expressions; a variable without a value is undefined."""
    address = node(
        "Address", "set", 3.4, {"mode": "raw", "jsonOutput": '={{ {"a": `${$vars["shop"]}/${$env?.ZONE}`} }}'}
    )
    automation = await automated(shop, chain(SHOWN, address))
    with pytest.raises(NotReady, match=r"“\$vars.shop”"):
        await shop.run_now(automation)
    automation = await updated(shop, automation, variables={"$vars.shop": "{{ 7 * 6 }}", "$env.ZONE": "Oslo"})
    for mode in (Mode.LIVE, Mode.TEST):
        run = await shop.run_and_drain(automation, mode)
        assert run.status is RunStatus.SUCCEEDED, run
        assert await output_items(shop, run, "Show") == [{"shop": "{{ 7 * 6 }}", "zone": "Oslo"}]
        assert await output_items(shop, run, "Address") == [{"a": "{{ 7 * 6 }}/Oslo"}]
    automation = await updated(shop, automation, variables={"$vars.shop": "Tea"})
    with pytest.raises(NotReady, match=r"“\$env.ZONE”"):
        await shop.run_now(automation)


@on_one_engine
async def test_an_optional_variable_may_stay_without_a_value(shop: Shop) -> None:
    """Goes on with the fallback, also of a key that no account can replace."""
    fallbacks = code("Show", "return [{json: {a: $env.SHOP || 'a', b: $vars.apiKey ?? 'b'}}]")
    automation = await automated(shop, chain(fallbacks))
    run = await shop.run_and_drain(automation)
    assert await output_items(shop, run, "Show") == [{"a": "a", "b": "b"}]
    automation = await updated(shop, automation, variables={"$env.SHOP": "Tea"})
    run = await shop.run_and_drain(automation)
    assert await output_items(shop, run, "Show") == [{"a": "Tea", "b": "b"}]
    with pytest.raises(ValidationFailed) as refused:
        await updated(shop, automation, variables={"$vars.apiKey": "x"})
    assert list(refused.value.errors or ()) == ["variables.$vars.apiKey"]


UNSEEN = {
    "behind a condition": ("const e = $json.n ? $env : {}; return [{json: {a: e.SHOP}}]", False),
    "behind a name of a function": (
        "const f = $env => $env.q; return [{json: {a: f({q: 1}), b: $env.SHOP}}]",
        False,
    ),
    "behind a name of a block": ("{ const $vars = {shop: 1}; } return [{json: {a: $vars.shop}}]", False),
    "of a name of the script": ("const $vars = {shop: 1}; return [{json: {a: $vars.shop}}]", True),
    "of a key": ("return [{json: {a: [1].map((n) => ({$env: n}))[0].$env}}]", True),
}


@on_one_engine
@pytest.mark.parametrize("case", UNSEEN)
async def test_names_that_a_script_declares_are_its_own(shop: Shop, case: str) -> None:
    """Refuses scripts that hide a read of a variable; a name of the whole script is the script's."""
    script, is_supported = UNSEEN[case]
    automation_import = (await store_export(shop, chain(code("Show", script)))).record
    assert automation_import.supported is is_supported
    assert not is_supported or automation_import.report["variables"] == []


async def test_an_approved_request_is_sent_with_the_values_it_was_shown_with(shop: Shop) -> None:
    """Ends a run that waits when a value changes; an approved one sends the value that it was shown with."""
    tell = tell_step()
    tell["parameters"]["message"] = "=Now {{ $vars.shop }}"
    source = code("One", "return [{json: {id: 7}}]")
    values = {"variables": {"$vars.shop": "Tea & Co"}}
    automation = await automated(shop, chain(source, tell), bindings={"Tell": bound(shop)}, **values)
    waiting = await shop.waiting(automation)
    automation = await updated(shop, automation, variables={"$vars.shop": "Coffee & Co"})
    assert (await shop.run(waiting)).status is RunStatus.REFUSED
    approved = await shop.waiting(automation)
    assert "Coffee & Co" in repr(await shop.changes(approved))
    await shop.approve(approved)
    await shop.drain()
    [write] = shop.writes()
    assert "Now Coffee" in repr(write)
    rows = await shop.read(partial(history.find, org=shop.owner.org, automation=automation.id, limit=9))
    edits = [row.fields for row in rows if row.action is HistoryAction.CHANGED]
    assert "variables.$vars.shop" in repr(edits)


async def test_the_variables_of_a_called_workflow_are_listed(shop: Shop) -> None:
    """Asks for those of an embedded workflow and of a chosen one, when it is chosen; a name is one value."""
    reads = code("Inside", "return [{json: {inner: $vars.shop + $env.PLACE}}]")
    chosen = await import_of(shop, passed_to(reads))
    export = chain(SHOWN, call_by_id())
    automation = await automated(
        shop, export, calls={"Call": {"import_id": chosen}}, variables={"$vars.shop": "Tea"}
    )
    with pytest.raises(NotReady, match=r"“\$env.PLACE”"):
        await shop.run_now(automation)
    values = {"$vars.shop": "Tea", "$env.PLACE": "Kiel", "$env.ZONE": "Oslo"}
    automation = await updated(shop, automation, variables=values)
    assert await output_items(shop, await shop.run_and_drain(automation), "Call") == [{"inner": "TeaKiel"}]
    other = await import_of(
        shop, passed_to(code("Inside", "return [{json: {n: $vars.count}}]"), name="Other")
    )
    automation = await updated(shop, automation, calls={"Call": {"import_id": other}})
    with pytest.raises(NotReady, match=r"“\$vars.count”"):
        await shop.run_now(automation)
    automation = await updated(shop, automation, calls={"Call": {"import_id": chosen}})
    with pytest.raises(NotReady, match=r"“\$env.PLACE”"):
        await shop.run_now(automation)  # the value ended with the workflow that read it
    embedded = (await store_export(shop, chain(calling([reads]), name="Embedded"))).record
    assert [variable["name"] for variable in embedded.report["variables"]] == ["$env.PLACE", "$vars.shop"]


async def test_a_key_in_a_variable_is_replaced_by_an_account(partner: PartnerShop) -> None:
    """Asks for an account in place of the key, and for the value of the address; the key is in no row."""
    shop = partner.shop
    headers = {"X-Api-Key": "={{ $env.PARTNER_API_KEY || '' }}", "X-Shop": "={{ $env.SHOP }}"}
    export = chain(request("={{ $env.PARTNER_URL }}/orders", **with_headers(**headers)))
    record = (await store_export(shop, export)).record
    assert [variable["name"] for variable in record.report["variables"]] == ["$env.PARTNER_URL", "$env.SHOP"]
    automation = await automated(shop, export)
    with pytest.raises(NotReady, match="“Ask”"):
        await shop.run_now(automation)
    values = {"$env.PARTNER_URL": f"https://{API}", "$env.SHOP": "Tea"}
    automation = await updated(shop, automation, accounts={"Ask": partner.account}, variables=values)
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    [sent] = partner.api.seen
    assert (str(sent.url), sent.headers["x-api-key"]) == (f"https://{API}/orders", KEY)
    assert sent.headers["x-shop"] == "Tea"
    assert KEY not in repr(await shop.steps(run))
    foreign = {**values, "$env.PARTNER_URL": f"https://{API}/__removed_secret_1__"}
    automation = await updated(shop, automation, variables=foreign)
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert len(partner.api.seen) == 1


_ROW = {"parameters": [{"name": "key", "value": "={{ $env.PLACES_API }}"}]}
_SENT_AS_KEYS = {
    "a header": with_headers(**{"X-Goog-Api-Key": "={{ $env.PLACES_API }}"}),
    "a header with a scheme": with_headers(Authorization="=Bearer {{ $env.PLACES_API }}"),
    "the query": {"sendQuery": True, "queryParameters": _ROW},
    "the address": {"url": "=https://a.example/?q={{ $json.q }}&key={{ $env.PLACES_API }}"},
    "code of the address": {"url": "={{ 'https://a.example/?key=' + $env.PLACES_API + '&a=1' }}"},
    "a header in JSON": {
        "sendHeaders": True,
        "specifyHeaders": "json",
        "jsonHeaders": '={"X-Api-Key": "{{ $env.PLACES_API }}"}',
    },
}


@on_one_engine
@pytest.mark.parametrize("where", _SENT_AS_KEYS)
async def test_a_variable_that_a_request_sends_as_a_key_is_a_key(shop: Shop, where: str) -> None:
    """Requires an account instead of a value that set-up would refuse, whatever the variable's name."""
    step = request("https://a.example/", **_SENT_AS_KEYS[where])
    record = (await store_export(shop, chain(step))).record
    assert (record.supported, record.report["variables"]) == (True, []), record.report["issues"]
    [ask] = plan_json.from_json(record.plan).steps
    assert ask.origin is not None
    assert ask.origin.needs == "http_api"
    reads = code("Show", "return [{json: {a: $env.PLACES_API}}]")
    issues = (await store_export(shop, chain(step, reads))).record.report["issues"]
    [issue] = [issue for issue in issues if issue["step"] == "Show"]
    assert (issue["level"], issue["code"]) == ("error", "variable")
    assert "a key since a request sends it as one" in issue["message"]


_SENT_AS_SETTINGS = {
    "a header of no key": with_headers(
        **{"X-Shop": "={{ $env.PLACE }}", "X-Auth-Email": "={{ $env.PLACE }}"}
    ),
    "beside data": with_headers(Authorization="={{ $env.PLACE }} {{ $json.token }}"),
    "a field of the body": {
        "method": "POST",
        "sendBody": True,
        "specifyBody": "json",
        "jsonBody": '={"key": "{{ $env.PLACE }}"}',
    },
    "a parameter of no key": {"url": "=https://a.example/?q={{ $env.PLACE }}"},
}


@on_one_engine
@pytest.mark.parametrize("where", _SENT_AS_SETTINGS)
async def test_a_variable_that_a_request_sends_as_other_data_is_a_setting(shop: Shop, where: str) -> None:
    """Requires the value of a variable that is not sent as a key."""
    record = (
        await store_export(shop, chain(request("https://a.example/", **_SENT_AS_SETTINGS[where])))
    ).record
    assert record.supported, record.report["issues"]
    assert [variable["name"] for variable in record.report["variables"]] == ["$env.PLACE"]


_EQUALS = {"type": "string", "operation": "equals"}
_IS_KEY = {"leftValue": "={{ $env.API_KEY }}", "rightValue": "x", "operator": _EQUALS}
_FEATURE = ("error", "expression_feature")
FINDINGS = {
    "reads names": (SHOWN, [("warning", "variable"), ("note", "variable")]),
    "reads a computed name": (
        code("A", "return [{json: {a: $env[$json.b]}}]"),
        [_FEATURE],
    ),
    "reads all": (
        code("A", "return [{json: {a: JSON.stringify($vars)}}]"),
        [_FEATURE],
    ),
    "reads an escaped name": (
        request("https://a.example/", **with_headers(a=r"={{ $env['API\x5fKEY'] }}")),
        [_FEATURE],
    ),
    "reads a vault": (
        code("A", "return [{json: {a: $secrets.vault.key}}]"),
        [_FEATURE],
    ),
    "reads a key": (code("A", "return [{json: {a: $env.API_KEY}}]"), [("error", "variable")]),
    "compares a key": (
        node("A", "if", 2, {"conditions": {"combinator": "and", "conditions": [_IS_KEY]}}),
        [("error", "variable")],
    ),
    "changes a key": (
        request("https://a.example/", **with_headers(a="={{ $vars.token.split('.')[0] }}")),
        [("error", "credential"), ("error", "variable")],
    ),
}


@on_one_engine
@pytest.mark.parametrize("case", FINDINGS)
async def test_reads_of_variables_have_findings(shop: Shop, case: str) -> None:
    """Warns of names that need a value, and refuses reads that no value can be given for."""
    step, expected = FINDINGS[case]
    issues = (await store_export(shop, chain(step))).record.report["issues"]
    levels = [(issue["level"], issue["code"]) for issue in issues if issue["level"] == "error"]
    variables = [(issue["level"], issue["code"]) for issue in issues if issue["code"] == "variable"]
    assert list(dict.fromkeys(levels + variables)) == expected, issues


@on_one_engine
async def test_variables_of_unreached_steps_are_not_listed(shop: Shop) -> None:
    """Lists only the variables of steps that run."""
    export = chain(code("A", "return []"), {**SHOWN, "disabled": True})
    export["nodes"].append(code("Off", "return [{json: {a: $env[1], b: $env.B}}]"))
    export["nodes"].append({**calling([SHOWN]), "name": "Unreached"})
    record = (await store_export(shop, export)).record
    assert (record.supported, record.report["variables"]) == (True, [])
    assert [issue for issue in record.report["issues"] if issue["code"] == "variable"] == []


@on_one_engine
async def test_a_variable_has_one_finding(shop: Shop) -> None:
    """Names the steps that read a variable in one finding: a warning if one of them needs its value."""
    steps = [
        code(f"S{number}", "return [{json: {a: $env.SHOP ?? 'x', b: $env.SHOP}}]") for number in range(7)
    ]
    steps[0]["parameters"]["jsCode"] = "return [{json: {a: $env.SHOP ?? 'x', b: $vars.a || 'y'}}]"
    issues = (await store_export(shop, chain(*steps))).record.report["issues"]
    variable_issues = [issue for issue in issues if issue["code"] == "variable"]
    assert [(issue["step"], issue["level"], issue["message"]) for issue in variable_issues] == [
        (
            None,
            "warning",
            "“S0”, “S1”, “S2”, “S3”, “S4” and 2 more read “$env.SHOP” of n8n. Give its value when you set "
            "the automation up.",
        ),
        (
            "S0",
            "note",
            "It reads “$vars.a” of n8n. Give its value when you set the automation up, or leave it empty: "
            "its fallback is used then.",
        ),
    ]


async def test_an_import_of_an_earlier_version_has_no_variables(service: Service) -> None:
    """Lists and shows imports whose stored report has no variables."""
    member = await service.token("member")
    import_id = (await member.post(PATH, body(chain(code("A", "return []"))))).data["import"]["id"]

    async def remove_variables(tx: Tx) -> None:
        row = await tx.first("SELECT report FROM imports WHERE id = :id", {"id": import_id})
        assert row is not None
        report = json.loads(row["report"])
        assert report.pop("variables") == []
        await tx.execute(
            "UPDATE imports SET report = :report WHERE id = :id",
            {"report": json.dumps(report), "id": import_id},
        )

    await service.write(remove_variables, org=service.members["member"].org)
    assert [row["variables"] for row in (await member.get(PATH)).data["imports"]] == [[]]
    assert (await member.get(f"{PATH}/{import_id}")).data["import"]["variables"] == []
    preview = await member.post(f"{PATH}/{import_id}/preview", {})
    assert (preview.status, preview.data["variables"]) == (200, [])


async def test_the_number_and_length_of_values_are_limited(service: Service) -> None:
    """Takes 500 values of 100,000 characters together, in previews too, and refuses one more of either."""
    member = await service.token("member")
    names = [f"$vars.v{number}" for number in range(501)]
    reads = code("A", f"return [{{json: {{a: [{', '.join(names)}].length}}}}]")
    import_id = (await member.post(PATH, body(chain(reads)))).data["import"]["id"]
    path = f"{PATH}/{import_id}"
    values = {name: "x" * 200 for name in names[:500]}
    for refused_values in ({**values, names[0]: "x" * 201}, {name: "x" for name in names}):
        for command in ("preview", "automations"):
            fields = {"name": "A", "schedule": MANUAL} if command == "automations" else {}
            refused = await member.post(f"{path}/{command}", {**fields, "variables": refused_values})
            assert (refused.status, list(refused.body["errors"])) == (422, ["variables"])
            assert "at most 500 values, of 100,000 characters" in str(refused.body["errors"])
    assert (await member.post(f"{path}/preview", {"variables": values})).status == 200
    created = await member.post(f"{path}/automations", {"name": "A", "schedule": MANUAL, "variables": values})
    assert (created.status, len(created.data["automation"]["variables"])) == (201, 500)


@pytest.mark.parametrize(
    ("code_text", "marked"),
    [
        ("=Bearer {{ $env.API_KEY }}", "=Bearer __removed_secret_1__"),
        ("={{ 'Bearer ' + $vars['api-key'] }}", "={{ 'Bearer ' + \"__removed_secret_1__\" }}"),
        ('={{ `Bearer ${$env?.API_KEY ?? ""}` }}', '={{ `Bearer ${"__removed_secret_1__" ?? ""}` }}'),
        ("={{ '$env.API_KEY' + $json.$env.API_KEY }}", None),
        ("={{ $env.API_URL + $env[$json.API_KEY] }}", None),
        (r"={{ 'Bearer ' + $env['API\x5fKEY'] }}", None),
        ("=Bearer {{ $env.API_KEY", None),
        ("Bearer {{ $env.API_KEY }}", None),
    ],
)
@on_one_engine
async def test_only_reads_of_keys_are_marked(shop: Shop, code_text: str, marked: str | None) -> None:
    """Marks a key where an expression reads it, and neither texts nor other members."""
    export = chain(request("https://a.example/", **with_headers(Authorization=code_text)))
    plan = (await store_export(shop, export)).record.plan
    stored = json.dumps(plan, ensure_ascii=False)
    assert json.dumps(marked or code_text, ensure_ascii=False) in stored
    assert ("__removed_secret_" in stored) is (marked is not None)


def test_keys_are_recognized_by_the_name_of_a_variable() -> None:
    """Takes names of keys for keys, and values that look like keys."""
    keys = ["API_KEY", "apiKey", "GITHUB_TOKEN", "FB_PAGE_ACCESS_TOKEN", "SUPABASE_ANON_KEY", "DB_PASSWORD"]
    keys += ["CREDENTIALS", "SMTP_CREDS", "OTP"]
    settings = [
        "BASE_URL",
        "CHAT_ID",
        "MAX_TOKENS",
        "SHEET_ID",
        "TOKEN_URL",
        "SLACK_WEBHOOK_URL",
        "COUNTRY_CODE",
        "OTP_LENGTH",
        "CREDENTIALS_URL",
    ]
    assert [name for name in keys if not is_key(f"$env.{name}")] == []
    assert [name for name in settings if is_key(f"$vars.{name}")] == []
    webhook = "https://hooks.slack.com/services/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"
    assert holds_key("$env.SLACK_WEBHOOK_URL", webhook)
    assert holds_key("$env.API_URL", "https://ann:s3cr3t-pass@api.example/")
    assert holds_key("$vars.couponCode", "q8Zr3vT6yWp1")
    assert holds_key("$env.TWILIO_KEY_SID", "SK" + "0f3b9a27" * 4)
    values = {
        "$vars.countryCode": "DE",
        "$env.API_URL": "https://api.example/v1?page=2",
        "$env.TWILIO_ACCOUNT_SID": "AC" + "0f3b9a27" * 4,
        "$env.MESSAGING_SERVICE": "MG" + "c41d7e60" * 4,
        "$env.SHEET_ID": "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms",
        "$vars.prompt": "Write a friendly answer to the customer, in at most three sentences.",
        "$vars.limits": '{"orders": 20, "days": [1, 2]}',
    }
    assert [name for name, value in values.items() if holds_key(name, value)] == []
