"""Steps of imported workflows that call private hosts, over the API and to real servers on loopback.

See docs/design/imports-accounts.md#private-hosts.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from tests.fake_clock import FakeClock
from tests.imports.exports import chain, node
from tests.outbound.test_transport import ScriptedPeer, listening
from tests.people import ApiResponse, Caller
from tests.runs.shop import Shop, open_shop
from tests.service import Service, settle
from tests.services.test_over_the_api import approve

IMPORTS = "/v1/automations/imports"
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def _response(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Office:
    """A service with real sockets beside a private host that its operator lists, and one that is not."""

    def __init__(self, shop: Shop, ports: tuple[int, int]) -> None:
        self.shop = shop
        self.listed, self.unlisted = (f"http://127.0.0.1:{port}" for port in ports)
        self.api, self.other_api = ScriptedPeer(_response("200 OK", b'{"n": 7}')), ScriptedPeer()

    async def open(self) -> None:
        """Adds the people."""
        self.service = Service(self.shop.service.context, self.shop.clock, lines=[], wake_hints=[])
        await self.service.write(lambda tx: settle(tx, self.service))
        self.web, self.token = await self.service.web("owner"), await self.service.token("owner")

    async def connect(self, web: Caller | None = None, **settings: str) -> ApiResponse:
        """Connects an account of an HTTP API."""
        body = {"kind": "http_api", "name": f"Account {len(settings)}", "settings": settings}
        return await (web or self.web).post("/app/connections", body)

    async def account(self, **settings: str) -> dict[str, Any]:
        """Connects an account and returns it as `accounts` takes it."""
        response = await self.connect(**settings)
        assert response.status == 201, str(response.body)
        return {"integration_id": response.data["connection"]["integration_id"]}

    async def keep(self, *steps: dict[str, Any]) -> dict[str, Any]:
        """Stores the import of a workflow and returns it."""
        body = {"source": "workflow_tool", "name": "Office", "content": chain(*steps)}
        response = await self.token.post(IMPORTS, body)
        assert response.status in (200, 201), response.body
        record: dict[str, Any] = response.data["import"]
        return record

    async def automate(self, record: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Creates an automation of an import."""
        body = {"name": "Office", "schedule": {"cadence": "manual"}, **fields}
        response = await self.token.post(f"{IMPORTS}/{record['id']}/automations", body)
        assert response.status == 201, str(response.body)
        automation: dict[str, Any] = response.data["automation"]
        return automation

    async def run(self, automation: dict[str, Any], key: str = "a-run-by-hand") -> dict[str, Any]:
        """Runs an automation, approves what it asks for, and returns the run with its steps."""
        path = f"/v1/automations/{automation['id']}/runs"
        response = await self.token.post(path, {"idempotency_key": key})
        assert response.status == 201, str(response.body)
        run_path = f"/v1/automations/runs/{response.data['run']['id']}"
        await self.shop.drain()
        run = (await self.token.get(run_path)).data["run"]
        while run["status"] == "waiting_approval":
            await approve(self.web, run["approval_id"])
            await self.shop.drain()
            run = (await self.token.get(run_path)).data["run"]
        return {**run, "words": repr((await self.token.get(run_path)).data)}

    async def run_steps(self, *steps: dict[str, Any], key: str = "a-run", **fields: Any) -> dict[str, Any]:
        """Imports a workflow, automates and runs it."""
        return await self.run(await self.automate(await self.keep(*steps), **fields), key)


@pytest.fixture
async def office(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Office]:
    """Provides the service with real sockets, on each engine."""
    async with AsyncExitStack() as stack:
        peers: list[ScriptedPeer] = []

        async def talk(number: int, *streams: Any) -> None:
            await peers[number](*streams)

        ports = (
            await stack.enter_async_context(listening(lambda *streams: talk(0, *streams))),
            await stack.enter_async_context(listening(lambda *streams: talk(1, *streams))),
        )
        shop = await open_shop(
            database_url,
            clock,
            tmp_path,
            around=lambda world: setattr(world, "transport", lambda: None),
            STEWARD_ALLOW_PRIVATE_HOSTS=f"127.0.0.1:{ports[0]},127.0.0.1:1",
        )
        opened = Office(shop, ports)
        peers += [opened.api, opened.other_api]
        await opened.open()
        yield opened
        await shop.service.close()


def http(name: str, url: str, **parameters: Any) -> dict[str, Any]:
    """Returns an HTTP Request step."""
    return node(name, "httpRequest", 4.2, {"url": url, "options": {}, **parameters})


BASIC = {"authentication": "genericCredentialType", "genericAuthType": "httpBasicAuth"}
POSTS = {"method": "POST", "sendBody": True, "specifyBody": "json", "jsonBody": '={"n": {{ $json.n }} }'}


async def test_a_workflow_with_a_private_host_is_set_up_and_runs(office: Office) -> None:
    """Asks for an account of the host, which only the operator's list permits, and one serves both steps."""
    record = await office.keep(
        http("Read", f"={office.listed}/orders/{{{{ 7 }}}}"),
        http("Tell", f"{office.listed}/notes", **POSTS),
    )
    assert (record["supported"], record["needs"]) == (True, ["http_api"])
    entry = office.listed.removeprefix("http://")
    [words, _] = [issue["message"] for issue in record["issues"] if issue["code"] == "credential"]
    assert words.startswith(
        f"It calls {office.listed}, which is called only if the operator of Steward lists"
    )
    assert f"lists {entry} in STEWARD_ALLOW_PRIVATE_HOSTS" in words
    preview = (await office.token.post(f"{IMPORTS}/{record['id']}/preview", {})).data
    assert [(step["step"], step["hosts"], step["proposed"]) for step in preview["bindable"]] == [
        ("Read", [office.listed], None),
        ("Tell", [office.listed], None),
    ]
    automation = await office.automate(record)
    assert [step["why"] for step in automation["readiness"]["unbound"]] == ["no_connection"] * 2

    refused = await office.connect(hosts=office.unlisted, sign_in="none")
    assert refused.status == 422
    unlisted = office.unlisted.removeprefix("http://")
    assert refused.errors["settings.hosts"] == [
        f"Steward may not call {unlisted}, as its operator does not list it. "
        f"Ask them to add {unlisted} to STEWARD_ALLOW_PRIVATE_HOSTS."
    ]
    number = await office.account(hosts=office.listed, sign_in="none", test_url=f"{office.listed}/health")
    preview = (await office.token.post(f"{IMPORTS}/{record['id']}/preview", {})).data
    assert {step["proposed"] for step in preview["bindable"]} == {number["integration_id"]}
    accounts = {"Read": number, "Tell": number}
    bound = await office.token.patch(
        f"/v1/automations/{automation['id']}", {"version": automation["version"], "accounts": accounts}
    )
    assert bound.data["automation"]["readiness"]["ready"] is True
    run = await office.run(automation)
    assert run["status"] == "succeeded", run
    requests = [head.partition(" HTTP/")[0] for head in office.api.heads]
    assert requests == ["GET /health", "GET /orders/7", "POST /notes"]
    assert all("authorization" not in head.lower() for head in office.api.heads)


@on_one_engine
async def test_a_key_is_sent_over_http_to_a_listed_host_alone(office: Office) -> None:
    """A step with a credential of its own asks for the account, whose key goes over http to that host."""
    record = await office.keep(http("Read", f"{office.listed}/me", **BASIC))
    assert record["supported"]
    [words] = [issue["message"] for issue in record["issues"] if issue["code"] == "credential"]
    assert words.startswith(f"It signs in at {office.listed}")
    assert words.endswith("Over http others can read its key.")
    key = {"username": "ann", "password": "a-long-password-77"}
    refused = await office.connect(hosts=office.unlisted, **key)
    assert "settings.hosts" in refused.errors
    automation = await office.automate(
        record, accounts={"Read": await office.account(hosts=office.listed, **key)}
    )
    run = await office.run(automation)
    assert run["status"] == "succeeded", run
    [head] = office.api.heads
    assert "authorization: Basic " in head
    assert "a-long-password-77" not in run["words"]


@on_one_engine
async def test_a_service_on_a_private_host_of_its_own_is_called_there(office: Office) -> None:
    """Calls a Home Assistant by the scheme, host and port of its account."""
    account = await office.account(hosts=office.listed, token="a-long-token-778")
    sent = {"resource": "service", "operation": "call", "domain": "light", "service": "turn_on"}
    run = await office.run_steps(node("Light", "homeAssistant", 1, sent), accounts={"Light": account})
    assert run["status"] == "succeeded", run
    [head] = office.api.heads
    assert head.startswith("POST /api/services/light/turn_on HTTP/1.1")
    assert "authorization: Bearer a-long-token-778" in head


@on_one_engine
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_account_reaches_its_own_origin_alone(office: Office, method: str) -> None:
    """Fails for another port, another scheme and another spelling of the host; no other server is called."""
    account = await office.account(hosts=office.listed, sign_in="none")
    port = office.listed.rpartition(":")[2]
    elsewhere = (
        office.unlisted,
        "http://127.0.0.1:1",
        office.listed.replace("http:", "https:"),
        f"http://localhost:{port}",
        f"http://127.1:{port}",
    )
    for number, origin in enumerate(elsewhere):
        step = http("Call", f"={{{{ '{origin}' }}}}/x", method=method, **BASIC)
        run = await office.run_steps(step, key=f"run-{number}", accounts={"Call": account}, send_mode="send")
        assert run["status"] == "failed", (origin, run)
        assert "are sent only to its own hosts" in run["words"], (origin, run)
    assert office.api.heads == office.other_api.heads == []


@on_one_engine
async def test_a_private_host_is_not_reached_without_an_account(office: Office) -> None:
    """An expression that leads to a listed private host fails as before, for reads and sends."""
    for number, method in enumerate(("GET", "POST")):
        step = http("Call", f"={{{{ '{office.listed}'.trim() }}}}/x", method=method)
        run = await office.run_steps(step, key=f"run-{number}", send_mode="send")
        assert run["status"] == "failed", run
    assert office.api.heads == []


@on_one_engine
async def test_a_redirect_does_not_leave_the_origin_of_the_account(office: Office) -> None:
    """Follows a redirect on the same origin and none to another."""
    account = await office.account(hosts=office.listed, sign_in="none")
    step, bound = http("Read", f"{office.listed}/old"), {"accounts": {"Read": account}}
    office.api.response = _response("302 Found", location=f"{office.unlisted}/new")
    assert (await office.run_steps(step, key="run-1", **bound))["status"] == "failed"
    assert (len(office.api.heads), office.other_api.heads) == (1, [])
    office.api.response = _response("302 Found", location="/old")
    assert (await office.run_steps(step, key="run-2", **bound))["status"] == "failed"
    assert len(office.api.heads) == 1 + 4


@on_one_engine
async def test_a_host_that_is_not_listed_any_more_is_not_called(office: Office) -> None:
    """Says whom to ask, in the run and in the check."""
    number = await office.account(hosts=office.listed, sign_in="none")
    automation = await office.automate(
        await office.keep(http("Read", f"{office.listed}/x")), accounts={"Read": number}
    )
    office.shop.environ = {**office.shop.environ, "STEWARD_ALLOW_PRIVATE_HOSTS": "127.0.0.1:1"}
    await office.shop.restart()
    office.service.context = office.shop.service.context
    office.service.restart()
    run = await office.run(automation)
    assert run["status"] in ("failed", "refused"), run
    assert "its operator does not list it" in run["words"]
    check = await office.web.post(f"/app/connections/{number['integration_id']}/check", {})
    [message] = check.data["check"]["messages"]
    assert "its operator does not list it" in message["message"]
    assert office.api.heads == []


@on_one_engine
async def test_a_neighbour_takes_no_account_of_another_organization(office: Office) -> None:
    """Another organization connects its own account to a listed host, and cannot bind that of the first."""
    mine = await office.account(hosts=office.listed, sign_in="none")
    stranger = await office.service.web("stranger")
    theirs = await office.connect(stranger, hosts=office.unlisted, sign_in="none")
    assert theirs.status == 422
    step = http("Read", f"{office.listed}/x")
    body = {"source": "workflow_tool", "name": "Theirs", "content": chain(step)}
    stored = (await stranger.post(IMPORTS, body)).data["import"]
    fields = {"name": "Theirs", "schedule": {"cadence": "manual"}, "accounts": {"Read": mine}}
    response = await stranger.post(f"{IMPORTS}/{stored['id']}/automations", fields)
    unbound = response.data["automation"]["readiness"]["unbound"] if response.status == 201 else []
    assert response.status == 422 or [step["why"] for step in unbound] == ["no_connection"]
    assert office.api.heads == []


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:5678",
        "https://ollama",
        "=http://host.docker.internal",
        "https://nas.lan",
        "http://192.168.1.5",
        "https://93.184.216.34",
        "https://[::1]:8080",
        "https://api.example.com:8443",
        "http://api.example.com:8080",
    ],
)
def test_an_address_that_only_an_account_may_call_asks_for_one(origin: str) -> None:
    """Asks for an account of exactly that origin, with a sign-in or not, and says what the operator lists."""
    named = origin.removeprefix("=")
    called = named if named.count(":") > 1 or named[-1] == "]" else f"{named}:{443 if 's:' in named else 80}"
    host = "nas.lan" if named == "https://nas.lan" else called
    for step in (
        http("Ask", f"{origin}/api?to={{{{ $json.to }}}}"),
        http("Ask", f"{origin}/api", **BASIC),
        node("Ask", "graphql", 1.1, {"endpoint": origin, "query": "{ shop }"}),
        node("Ask", "rssFeedRead", 1.1, {"url": f"{origin}/feed"}),
    ):
        read = read_value(chain(step))
        [message] = [finding.message for finding in read.findings if finding.code == "credential"]
        assert f"lists {called.partition('://')[2]} in STEWARD_ALLOW_PRIVATE_HOSTS" in message
        assert "error" not in [str(finding.level) for finding in read.findings]
        made_step = next(made for made in read.plan.steps if made.name == "Ask")
        assert made_step.origin is not None
        assert made_step.origin.needs == "http_api"
        assert made_step.origin.account is not None
        assert made_step.origin.account["hosts"] == [host]


@pytest.mark.parametrize(
    "url", ["http://exa$mple.com:80", "http://a..b:8080", "ftp://localhost/x", "=http://{{ 1 }}:8080/x"]
)
def test_an_address_that_is_none_asks_for_no_account(url: str) -> None:
    """Binds no account to a step whose host is not a name, or comes from an expression."""
    made_step = next(made for made in read_value(chain(http("Ask", url))).plan.steps if made.name == "Ask")
    assert made_step.origin is not None
    assert made_step.origin.needs is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("={{ 'http://localhost:3000/orders/' + $json.id }}", "http://localhost:3000"),
        ('={{ "http://localhost:3000" }}/orders', "http://localhost:3000"),
        ("={{ `http://nas.lan/x/${$json.a}/y?z=${ $json.b }` }}", "http://nas.lan:80"),
        ("={{ 'http://nas.lan/' + ($json.a ?? '') + $json.b?.c }}", "http://nas.lan:80"),
        ("={{ 'http://nas.lan/a?b=' + ($json.a ? f($json.b) : 'c?d') + '?e=1' }}", "http://nas.lan:80"),
        ("={{ 'http://nas.lan/a/' + $now.minus({days: 7}).toISO() + `?${1}` }}", "http://nas.lan:80"),
        ("={{ 'http://localhost' + $json.port }}", None),
        ("={{ 'http://localhost' }}:3000/x", "http://localhost:3000"),
        ("={{ 'http://localhost' }}{{ $json.port }}/x", None),
        ("={{ 'http://localhost/' + $json.a ? $json.b : $json.c }}", None),
        ("={{ 'http://localhost/'.replace('localhost', 'a.example') }}", None),
        ("={{ `http://${$json.host}/x` }}", None),
        ("={{ $json.host + 'http://localhost/' }}", None),
        ("={{ 'http://localhost/a' + ('(b)' + \"?\" + 'it\\'s') }}", "http://localhost:80"),
        ("={{ 'http://localhost/a' + ')' + ('?' + f('(')) + $json.b?.c }}", "http://localhost:80"),
        ("={{ 'http://localhost/a' + 'b }}", None),
        ("={{ 'http://localhost/a' + 'b\\' }}", None),
        ("={{ 'http://localhost/a' + ($json.a ? 'b' }}", None),
        ("={{ 'http://localhost/a' + " + r"\'" * 1900 + " }}", None),
    ],
)
def test_an_expression_that_begins_with_the_whole_origin_asks_for_an_account(
    url: str, host: str | None
) -> None:
    """Reads the origin of a text to which an expression adds, and of none that it may change."""
    made_step = next(made for made in read_value(chain(http("Ask", url))).plan.steps if made.name == "Ask")
    assert made_step.origin is not None
    hosts = None if made_step.origin.account is None else made_step.origin.account["hosts"]
    assert hosts == (None if host is None else [host])


def _set(value: str, name: str = "base", version: float = 3.4) -> dict[str, Any]:
    row = {"id": "1", "name": name, "type": "string", "value": value}
    return node("Config", "set", version, {"assignments": {"assignments": [row]}, "options": {}})


_RAW = node(
    "Config", "set", 3.4, {"mode": "raw", "jsonOutput": '{"base": "http://nas.lan:81"}', "options": {}}
)
_OLD = node("Config", "set", 1, {"values": {"string": [{"name": "base", "value": "http://nas.lan:81"}]}})


@pytest.mark.parametrize(
    ("config", "url", "host"),
    [
        (_set("http://nas.lan:81"), "={{ $json.base }}/orders", "http://nas.lan:81"),
        (_set("http://nas.lan:81/"), "={{ $json.base + $json.id }}", "http://nas.lan:81"),
        (_set("http://nas.lan"), "={{ $('Config').item.json.base }}/x", "http://nas.lan:80"),
        (
            _set("http://nas.lan", "api.base"),
            "={{ $('Config').first().json.api.base }}/x",
            "http://nas.lan:80",
        ),
        (_RAW, "={{ $json.base }}/orders", "http://nas.lan:81"),
        (_OLD, '={{$node["Config"].json["base"]}}/orders', "http://nas.lan:81"),
        (_set("http://nas.lan"), "={{ $json.base }}{{ $json.port }}/x", None),
        (_set("http://nas.lan"), "={{ $json.other }}/x", None),
        (_set("http://nas.lan"), "=https://a.example/?to={{ $json.base }}", None),
        (_set("https://a.example"), "={{ $json.base }}/x", None),
        (_set("={{ 'http://nas.lan' }}"), "={{ $json.base }}/x", None),
    ],
)
def test_a_private_host_that_a_set_step_holds_asks_for_an_account(
    config: dict[str, Any], url: str, host: str | None
) -> None:
    """Follows the field to the requests that begin with it, unchanged."""
    reading = read_value(chain(config, http("Ask", url)))
    asked = [finding.message for finding in reading.findings if finding.code == "credential"]
    assert len(asked) == (0 if host is None else 1)
    made_step = next(made for made in reading.plan.steps if made.name == "Ask")
    assert made_step.origin is not None
    assert made_step.origin.needs == (None if host is None else "http_api")
    if host is not None:
        assert asked[0].startswith(f"It calls {host}, ")
        assert made_step.origin.account is not None
        assert (made_step.origin.account["sign_in"], made_step.origin.account["hosts"]) == ("none", [host])


def test_hosts_that_differ_by_branch_bind_no_account() -> None:
    """Binds none where a public and a private address, or two private ones, reach one request."""
    for other in ("https://a.example", "http://other.lan"):
        export = chain(
            _set("http://nas.lan"), _set(other) | {"name": "Other"}, http("Ask", "={{ $json.base }}/x")
        )
        export["connections"] = {
            "Begin": {"main": [[{"node": name, "type": "main", "index": 0} for name in ("Config", "Other")]]},
            **{
                name: {"main": [[{"node": "Ask", "type": "main", "index": 0}]]}
                for name in ("Config", "Other")
            },
        }
        made_step = next(made for made in read_value(export).plan.steps if made.name == "Ask")
        assert made_step.origin is not None
        assert made_step.origin.needs is None


@on_one_engine
async def test_a_request_to_the_host_of_a_set_step_is_made_with_its_account(office: Office) -> None:
    """Runs with the account of the host that the set step holds."""
    account = await office.account(hosts=office.listed, sign_in="none")
    steps = _set(office.listed), http("Ask", "={{ $json.base }}/orders")
    run = await office.run_steps(*steps, accounts={"Ask": account})
    assert run["status"] == "succeeded", run
    assert office.api.heads[0].startswith("GET /orders HTTP/1.1")
