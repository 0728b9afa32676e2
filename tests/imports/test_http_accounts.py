"""Tests HTTP steps that sign in: the account that an import requires, and runs with a bound account."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from steward.automations.bindable import bindable
from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.database.accounts import connections
from steward.imports.n8n.read import read_value
from steward.model import plan_json
from steward.model.limits import MAX_FILE_BYTES, MAX_PATH_KEYS
from steward.model.refusals import NotReady, ValidationFailed
from steward.model.run import RunStatus
from steward.outbound.response import RESPONSE_BYTES
from tests.fake_clock import FakeClock
from tests.fakes.partner_api import API, ELSEWHERE, KEY, PartnerApi
from tests.imports.exports import automated, chain, node
from tests.runs.shop import Shop, connect_all, open_shop

ORDERS = f"https://{API}/orders"
HEADER = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}


def asking(**parameters: Any) -> dict[str, Any]:
    """Returns a step that signs in with a header."""
    return node("Ask", "httpRequest", 4.2, {"url": ORDERS, **HEADER, **parameters, "options": {}})


class PartnerShop:
    """Holds a shop beside a partner's API whose account is connected."""

    def __init__(self, shop: Shop, api: PartnerApi) -> None:
        self.shop = shop
        self.api = api

    @property
    def account(self) -> dict[str, Any]:
        """Returns the account in the form that `accounts` takes."""
        return {"integration_id": self.shop.connections["http_api"].integration_id}


@pytest.fixture
async def partner(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[PartnerShop]:
    """Provides the service beside the partner's API, on each engine."""
    api = PartnerApi()
    shop = await open_shop(database_url, clock, tmp_path, around=api.beside)
    await connect_all(shop)
    key = {"hosts": API, "header_name": "X-Api-Key", "header_value": KEY, "test_url": f"https://{API}/me"}
    await shop.connect("http_api", key)
    api.seen.clear()
    yield PartnerShop(shop, api)
    await shop.service.close()


async def test_a_read_uses_the_bound_account(partner: PartnerShop) -> None:
    """Is not ready without an account; with one it sends the key and does not store it in the steps' rows."""
    shop = partner.shop
    automation = await automated(shop, chain(asking()))
    with pytest.raises(NotReady, match="Ask"):
        await shop.run_now(automation)
    rules = shop.service.worker_context.automation_rules
    command = UpdateCommand(automation.id, automation.version, accounts={"Ask": partner.account})
    changed = await shop.write(lambda tx: change.update(tx, shop.owner, command, rules=rules))
    assert changed.plan_version == changed.version == automation.version + 1
    run = await shop.run_and_drain(changed)
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert (str(request.url), request.headers["x-api-key"]) == (ORDERS, KEY)
    assert KEY not in repr(await shop.steps(run))


def _respond_with(response: httpx.Response, request: httpx.Request) -> httpx.Response:
    return response


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("content_type", "limit"), [("application/pdf", MAX_FILE_BYTES), ("application/json", RESPONSE_BYTES)]
)
async def test_a_detected_file_of_an_account_may_be_as_large_as_files_are(
    partner: PartnerShop, content_type: str, limit: int
) -> None:
    """Passes on a file of 20 MiB and JSON of 10 MiB, and fails for larger ones."""
    for size, status in ((limit, RunStatus.SUCCEEDED), (limit + 1, RunStatus.FAILED)):
        headers = {"content-type": content_type}
        response = httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"7".ljust(size)))
        partner.api.respond = partial(_respond_with, response)
        automation = await automated(partner.shop, chain(asking()), accounts={"Ask": partner.account})
        run = await partner.shop.run_and_drain(automation)
        assert run.status is status
        if status is RunStatus.FAILED:
            message = (await partner.shop.steps(run))[-1]["message"]
            assert f"larger than {limit // 1024 // 1024} MiB" in message


async def test_a_send_waits_for_approval_and_is_sent_once_with_the_key(partner: PartnerShop) -> None:
    """Shows no key in the approval, and sends the request once with the key."""
    shop = partner.shop
    step = asking(method="POST", sendBody=True, specifyBody="json", jsonBody='{"a": 1}')
    automation = await automated(shop, chain(step), accounts={"Ask": partner.account})
    run = await shop.waiting(automation)
    assert partner.api.seen == []
    assert KEY not in repr(await shop.changes(run))
    await shop.approve(run)
    await shop.restart()
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    [request] = partner.api.seen
    assert (request.method, request.headers["x-api-key"], request.content) == ("POST", KEY, b'{"a":1}')


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_key_is_not_sent_to_another_host(partner: PartnerShop, method: str) -> None:
    """Fails a step whose address data lead to another host, and sends nothing there."""
    shop = partner.shop
    step = asking(url=f"={{{{ 'https://{ELSEWHERE}/orders' }}}}", method=method)
    automation = await automated(shop, chain(step), accounts={"Ask": partner.account})
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert "are sent only to its own hosts" in repr(await shop.steps(run))
    assert partner.api.seen == []


async def test_another_kind_of_connection_is_refused_as_account(partner: PartnerShop) -> None:
    """Refuses a connection of another kind, or an unknown one, with an error on the step."""
    shop = partner.shop
    for number in (shop.connections["teams"].integration_id, 999_999):
        with pytest.raises(ValidationFailed) as refused:
            await automated(shop, chain(asking()), accounts={"Ask": {"integration_id": number}})
        assert set(refused.value.errors or ()) == {"accounts.Ask"}


async def test_a_literal_key_is_replaced_by_the_key_of_the_account(partner: PartnerShop) -> None:
    """Removes the key of the file; the bound account's key fills the same header."""
    header = {"parameters": [{"name": "X-Api-Key", "value": "an-old-key-4711-of-the-file"}]}
    step = node("Ask", "httpRequest", 4.2, {"url": ORDERS, "sendHeaders": True, "headerParameters": header})
    shop = partner.shop
    automation = await automated(shop, chain(step), accounts={"Ask": partner.account})
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert request.headers.get_list("x-api-key") == [KEY]


def read(step: dict[str, Any]) -> tuple[str | None, Any, list[tuple[str, str]]]:
    """Returns the kind of connection that the step needs, the proposed account, and its findings.

    Notes are left out.
    """
    export = read_value(chain(step))
    plan = plan_json.from_json(plan_json.to_json(export.plan))
    origin = plan.step("Ask").origin
    assert origin is not None
    findings = [(str(finding.level), finding.code) for finding in export.findings if finding.step == "Ask"]
    return origin.needs, origin.account, [entry for entry in findings if entry[0] != "note"]


def http(version: float = 4.2, **parameters: Any) -> dict[str, Any]:
    """Returns a step without a sign-in."""
    return node("Ask", "httpRequest", version, {"url": ORDERS, **parameters})


def predefined(name: str, **parameters: Any) -> dict[str, Any]:
    """Returns a step with the predefined sign-in of a service."""
    return http(authentication="predefinedCredentialType", nodeCredentialType=name, **parameters)


@pytest.mark.parametrize(
    ("step", "account"),
    [
        (asking(), ("httpHeaderAuth", "header", None, [API])),
        (http(1, authentication="basicAuth"), ("httpBasicAuth", "basic", None, [API])),
        (http(2, authentication="oAuth2"), ("oAuth2Api", "oauth2", None, [API])),
        (predefined("openAiApi"), ("openAiApi", "bearer", None, ["api.openai.com"])),
        (
            predefined("pipedriveApi"),
            ("pipedriveApi", "query", "api_token", ["api.pipedrive.com", "*.pipedrive.com"]),
        ),
        (
            predefined("shopifyAccessTokenApi", url="https://a.myshopify.com/admin/api/x.json"),
            ("shopifyAccessTokenApi", "header", "X-Shopify-Access-Token", ["*.myshopify.com"]),
        ),
        (
            http(url=f"https://{API}/bot123456789:AAabcdefghijklmnopqrstuvwxyz0123456/getMe"),
            (None, "path", "/bot", [API]),
        ),
        (
            http(
                sendHeaders=True,
                specifyHeaders="json",
                jsonHeaders='{"X-Api-Key": "an-old-key-4711-of-the-file"}',
            ),
            (None, "header", "X-Api-Key", [API]),
        ),
        (predefined("someNewApi"), ("someNewApi", None, None, [API])),
        (predefined("someNewApi", url="={{ $json.url }}"), ("someNewApi", None, None, [])),
        (http(url=f"{ORDERS}?api_key=&a=1"), (None, "query", "api_key", [API])),
        (
            http(sendHeaders=True, headerParameters={"parameters": [{"name": "Authorization", "value": ""}]}),
            (None, "bearer", None, [API]),
        ),
        (
            http(
                url=f"{ORDERS}?token=",
                sendHeaders=True,
                headerParameters={"parameters": [{"name": "apikey", "value": ""}]},
            ),
            (None, "custom", None, [API]),
        ),
        (http(url=f"https://jane:old-password-4711@{API}/orders"), (None, "basic", None, [API])),
        (http(url=f"=https://jane:old-password-4711@{API}/{{{{ $json.n }}}}"), (None, "basic", None, [API])),
        (
            node(
                "Ask", "graphql", 1, {"endpoint": f"https://jane:old-password-4711@{API}/g", "query": "{ a }"}
            ),
            (None, "basic", None, [API]),
        ),
        (
            predefined("googleApi", url="https://indexing.googleapis.com/v3/x"),
            ("googleApi", "oauth2", None, ["*.googleapis.com"]),
        ),
        (
            node("Ask", "graphql", 1, {"endpoint": ORDERS, "query": "{ a }", "authentication": "headerAuth"}),
            ("httpHeaderAuth", "header", None, [API]),
        ),
    ],
)
def test_a_sign_in_of_the_file_becomes_an_account_to_bind(step: dict[str, Any], account: Any) -> None:
    """Proposes the sign-in and the hosts of the account, with a warning and no error."""
    needs, proposed, findings = read(step)
    credential, sign_in, name, hosts = account
    assert needs == "http_api"
    assert proposed == {"credential": credential, "sign_in": sign_in, "name": name, "hosts": hosts}
    assert not [entry for entry in findings if entry[0] == "error"]
    assert ("warning", "credential") in findings


@pytest.mark.parametrize("name", ["httpDigestAuth", "oAuth1Api"])
def test_a_sign_in_that_is_not_offered_is_an_error(name: str) -> None:
    """Reports a sign-in that Steward does not offer as a `credential` error."""
    needs, account, findings = read(http(authentication="genericCredentialType", genericAuthType=name))
    assert (needs, account, findings) == (None, None, [("error", "credential")])


@pytest.mark.parametrize("name", ["aws", "shopifyAccessTokenApi"])
def test_a_service_that_signs_in_another_way_is_an_error(name: str) -> None:
    """Reports request signing and writes to a store as `credential` errors."""
    needs, account, findings = read(predefined(name, method="POST"))
    assert (needs, account, findings) == (None, None, [("error", "credential")])


@pytest.mark.parametrize("user", ["jane", "jane:{{ $json.password }}", "{{ $json.user }}:x"])
def test_a_user_name_in_a_url_is_an_error(user: str) -> None:
    """Reports a user part whose password is not a removed secret; such an address is never called."""
    needs, account, findings = read(http(url=f"=https://{user}@{API}/orders"))
    assert (needs, account) == (None, None)
    assert [entry for entry in findings if entry[0] == "error"] == [("error", "credential")]


def test_each_removed_key_of_several_is_named() -> None:
    """Reports a key of the URL and one of a header as removed, in separate findings."""
    headers = {"parameters": [{"name": "X-Api-Key", "value": "an-old-key-4711-of-the-file"}]}
    url = f"=https://{API}/{{{{ $json.n }}}}/sk-live-abcdefghijklmnop1234567890/x"
    _, _, findings = read(http(url=url, sendHeaders=True, headerParameters=headers))
    assert [finding for finding in findings if finding[1] == "secret_removed"] == [
        ("error", "secret_removed")
    ] * 2


def test_a_known_services_key_for_another_host_makes_a_warning() -> None:
    """Warns about a file that would send a known service's key to another host."""
    _, account, findings = read(predefined("openAiApi", url=f"https://{ELSEWHERE}/v1"))
    assert account["hosts"] == ["api.openai.com"]
    assert findings.count(("warning", "credential")) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://api.partner.example/orders",
        "=http://api.partner.example/{{ $json.id }}",
        "={{ 'http://api.partner.example/' + $json.id }}",
        "={{ `http://api.partner.example/${$json.id}` }}",
    ],
)
def test_a_key_over_http_to_a_public_host_is_an_error(url: str) -> None:
    """Refuses a step that signs in at an http address, also of an expression that only adds to it."""
    for step, level in ((asking(url=url), "error"), (http(url=url), "warning")):
        findings = read_value(chain(step)).findings
        [finding] = [finding for finding in findings if "http address" in finding.message]
        assert (str(finding.level), finding.code) == (level, "parameter")


async def test_the_one_account_that_fits_is_proposed(partner: PartnerShop) -> None:
    """Proposes the account only if exactly one fits the hosts of the step."""
    shop = partner.shop
    elsewhere = node(
        "Elsewhere", "httpRequest", 4.2, {"url": f"https://{ELSEWHERE}/a", **HEADER, "options": {}}
    )
    plan = plan_json.from_json(plan_json.to_json(read_value(chain(asking(), elsewhere)).plan))

    async def proposed() -> dict[str, Any]:
        rows = await shop.read(lambda tx: bindable(tx, shop.owner.org, plan))
        return {str(row["step"]): row["proposed"] for row in rows}

    expected = {"Ask": partner.account["integration_id"], "Elsewhere": None}
    assert await proposed() == expected
    await shop.connect("http_api", {"hosts": ELSEWHERE, "sign_in": "none"})  # has no key for the step
    assert await proposed() == expected
    await shop.connect("http_api", {"hosts": "*.partner.example", "token": KEY})
    assert await proposed() == {"Ask": None, "Elsewhere": None}


async def test_an_account_of_an_older_release_is_proposed(partner: PartnerShop) -> None:
    """Reads a host with a port and without a scheme, as stored by older releases, as https."""
    shop = partner.shop
    steps = [
        node(name, "httpRequest", 4.2, {"url": f"{url}/a", **HEADER, "options": {}})
        for name, url in {"Ask": "https://myservice:8443", "Over http": "http://myservice:8443"}.items()
    ]
    plan = plan_json.from_json(plan_json.to_json(read_value(chain(*steps)).plan))
    connection = await shop.connect("http_api", {"hosts": ELSEWHERE, "token": KEY})
    older_connection = replace(
        connection, facts={"settings": {"hosts": "myservice:8443", "sign_in": "bearer"}}
    )
    await shop.write(
        lambda tx: connections.save(tx, shop.owner.org, older_connection, expected_version=connection.version)
    )
    rows = await shop.read(lambda tx: bindable(tx, shop.owner.org, plan))
    assert [row["proposed"] for row in rows] == [connection.integration_id, None]


async def test_a_key_of_a_set_step_is_replaced_by_the_key_of_the_account(partner: PartnerShop) -> None:
    """Replaces the header and the query parameter that read the removed key by those of the account."""
    secret = "sk-live-abcdefghijklmnop1234567890"
    values = [{"id": "1", "name": "apiKey", "value": secret, "type": "string"}]
    set_step = node("Keys", "set", 3.4, {"assignments": {"assignments": values}, "options": {}})
    header = {"parameters": [{"name": "X-Api-Key", "value": "={{ $json.apiKey }}"}]}
    url = f"={ORDERS}?n=1&key={{{{ $('Keys').item.json.apiKey }}}}"
    step = node("Ask", "httpRequest", 4.2, {"url": url, "sendHeaders": True, "headerParameters": header})
    shop = partner.shop
    automation = await automated(shop, chain(set_step, step), accounts={"Ask": partner.account})
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert request.headers.get_list("x-api-key") == [KEY]
    assert str(request.url) == f"{ORDERS}?n=1"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_password_in_a_url_is_replaced_by_a_basic_sign_in(partner: PartnerShop, method: str) -> None:
    """Calls the address without its user part, with the user name and password of the bound account."""
    shop = partner.shop
    account = await shop.connect("http_api", {"hosts": API, "username": "jane", "password": KEY})
    step = http(url=f"https://jane:old-password-4711@{API}/orders?n=1", method=method)
    bound = {"Ask": {"integration_id": account.integration_id}}
    automation = await automated(shop, chain(step), accounts=bound, send_mode="send")
    partner.api.seen.clear()
    run = await shop.run_and_drain(automation)
    [request] = partner.api.seen
    assert str(request.url) == f"{ORDERS}?n=1"
    assert request.headers["authorization"] == f"Basic {b64encode(f'jane:{KEY}'.encode()).decode()}"
    assert "old-password" not in repr(await shop.steps(run))


OLD, OLDER = "sk-live-abcdefghijklmnop1234567890", "sk-live-zyxwvutsrqponmlk0987654321"
KEYS = {
    name: f"{name}-key-of-the-account-3f9c"
    for name in ("header", "query", "path", "second", "first", "password")
}


def everywhere(method: str) -> dict[str, Any]:
    """Returns a request with keys in its header, query, path and body, all within expressions."""
    header = {"parameters": [{"name": "X-Other", "value": f'={{{{ "Key " + "{OLD}" }}}}'}]}
    return http(
        url=f"={ORDERS}/{OLDER}/of/{OLD}/{{{{ 7 }}}}?api_key={{{{ '{OLD}'.trim() }}}}&n=1",
        method=method,
        sendHeaders=True,
        headerParameters=header,
        sendBody=True,
        specifyBody="json",
        jsonBody=f'={{{{ JSON.stringify({{token: "{OLD}", at: 7}}) }}}}',
    )


async def everywhere_account(shop: Shop) -> dict[str, Any]:
    """Connects the account that has a key for each of those places."""
    custom = {
        "headers": {"X-Other": f"Key {KEYS['header']}"},
        "qs": {"api_key": KEYS["query"]},
        "path": {"/orders/": KEYS["path"], "/orders/*/of/": KEYS["second"]},
        "auth": {"username": "ann", "password": KEYS["password"]},
        "body": [KEYS["first"]],
    }
    return {
        "integration_id": (
            await shop.connect("http_api", {"hosts": API, "custom": json.dumps(custom)})
        ).integration_id
    }


def test_a_path_has_at_most_as_many_keys_as_an_account() -> None:
    """Proposes an account for five keys in one path; six are an error that names the limit."""
    keys = [f"sk-live-abcdefghijklmnop123456789{number}" for number in range(6)]
    assert MAX_PATH_KEYS == 5
    needs, account, findings = read(http(url=f"https://{API}/{'/of/'.join(keys[:5])}"))
    assert (needs, account["sign_in"]) == ("http_api", "custom")
    assert "error" not in dict(findings)
    six = read_value(chain(http(url=f"https://{API}/{'/of/'.join(keys)}"))).findings
    messages = [finding.message for finding in six if str(finding.level) == "error"]
    assert any("at most 5 keys in one path" in message for message in messages)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_keys_within_expressions_are_sent_only_in_their_places(
    partner: PartnerShop, method: str
) -> None:
    """Sends each key where the file had one; rows and changes have none of them."""
    shop, step = partner.shop, everywhere(method)
    assert read(step)[:2] == (
        "http_api",
        {"credential": None, "sign_in": "custom", "name": None, "hosts": [API]},
    )
    bound = {"Ask": await everywhere_account(shop)}
    partner.api.seen.clear()
    partner.api.respond = lambda request: httpx.Response(200, stream=httpx.ByteStream(b'{"ok": 1}'))
    automation = await automated(shop, chain(step), accounts=bound, send_mode="send")
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    [sent] = partner.api.seen
    assert str(sent.url) == f"{ORDERS}/{KEYS['path']}/of/{KEYS['second']}/7?n=1&api_key={KEYS['query']}"
    assert sent.headers["x-other"] == f"Key {KEYS['header']}"
    assert json.loads(sent.content) == {"token": KEYS["first"], "at": 7}
    stored_rows = repr((await shop.steps(run), await shop.changes(run), run))
    for secret in (*KEYS.values(), OLD, OLDER):
        assert secret not in stored_rows


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_marker_without_a_key_in_the_account_is_not_sent(partner: PartnerShop, method: str) -> None:
    """Fails the step when a person binds an account with another sign-in, and sends nothing."""
    shop = partner.shop
    automation = await automated(
        shop, chain(everywhere(method)), accounts={"Ask": partner.account}, send_mode="send"
    )
    partner.api.seen.clear()
    run = await shop.run_and_drain(automation)
    assert run.status is not RunStatus.SUCCEEDED
    assert partner.api.seen == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_marker_from_data_is_not_replaced_by_a_key(partner: PartnerShop, method: str) -> None:
    """Fails the item whose data repeat the mark of a removed key, in the address or in the body."""
    shop, forged = partner.shop, "__removed_secret_1__"
    fetched = {"note": forged, "path": "7"} if method == "POST" else {"note": "", "path": forged}
    partner.api.respond = lambda request: _json_response(fetched)
    fetch = node("Fetch", "httpRequest", 4.2, {"url": ORDERS, **HEADER, "options": {}})
    send = http(
        url=f"={ORDERS}/{{{{ $json.path }}}}",
        method=method,
        sendBody=True,
        specifyBody="json",
        jsonBody=f'={{{{ JSON.stringify({{token: "{OLD}", note: $json.note}}) }}}}',
    )
    custom = {"path": {"/orders/": KEYS["path"]}, "body": [KEYS["first"], KEYS["query"]]}
    account = await shop.connect("http_api", {"hosts": API, "custom": json.dumps(custom)})
    bound = {"Fetch": partner.account, "Ask": {"integration_id": account.integration_id}}
    automation = await automated(shop, chain(fetch, send), accounts=bound, send_mode="send")
    partner.api.seen.clear()
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert "came with data" in repr(await shop.steps(run))
    assert [str(request.url) for request in partner.api.seen] == [ORDERS]


async def test_a_key_that_the_server_repeats_is_not_stored(partner: PartnerShop) -> None:
    """Replaces the key in responses, including headers, plain and encoded; the user name stays."""
    shop, password = partner.shop, "pass/word+7 & more"
    coded = b64encode(f"jane.doe:{password}".encode()).decode()
    echo = {"plain": password, "coded": coded, "query": quote(password, safe=""), "user": "jane.doe", "n": 1}
    partner.api.respond = lambda request: _json_response(echo, {"x-echo": f"Basic {coded}"})
    basic = {"hosts": API, "username": "jane.doe", "password": password}
    account = await shop.connect("http_api", basic)
    partner.api.seen.clear()
    asks = asking(genericAuthType="httpBasicAuth")
    asks["parameters"]["options"] = {"response": {"response": {"fullResponse": True}}}
    tell = http(method="POST", sendBody=True, specifyBody="json", jsonBody="={{ JSON.stringify($json) }}")
    bound = {"Ask": {"integration_id": account.integration_id}}
    workflow = chain(asks, tell | {"name": "Tell"})
    run = await shop.run_and_drain(await automated(shop, workflow, accounts=bound, send_mode="send"))
    assert run.status is RunStatus.SUCCEEDED, run
    request, tell_request = partner.api.seen
    assert request.headers["authorization"] == f"Basic {coded}"
    told_body = json.loads(tell_request.content)
    redacted = dict.fromkeys(("plain", "coded", "query"), "[redacted]")
    assert told_body["body"] == {**redacted, "user": "jane.doe", "n": 1}
    assert told_body["headers"]["x-echo"] == "Basic [redacted]"


def _json_response(value: object, headers: dict[str, str] | None = None) -> httpx.Response:
    content_type = {"content-type": "application/json"}
    stream = httpx.ByteStream(json.dumps(value).encode())
    return httpx.Response(200, headers=content_type | (headers or {}), stream=stream)
