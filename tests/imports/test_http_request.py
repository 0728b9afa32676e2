"""Tests what httpRequest sends: bodies, lists in the query, batches, files, and what it refuses."""

import base64
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from steward.imports.n8n.read import read_value
from steward.model.run import Run, RunStatus
from steward.steps.n8n.http_bodies import BODY_FILE_BYTES
from tests.fake_clock import FakeClock
from tests.fakes.partner_api import API, PartnerApi
from tests.imports.exports import automated, chain, code, node
from tests.runs.shop import Shop, connect_all, open_shop

ORDERS = f"https://{API}/orders"
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class OpenApi:
    """Holds a shop beside an API that answers every request."""

    def __init__(self, shop: Shop, api: PartnerApi) -> None:
        self.shop = shop
        self.api = api

    async def run(self, *steps: dict[str, Any]) -> Run:
        """Runs the steps, approves what they send, and returns the settled run."""
        automation = await automated(self.shop, chain(*steps))
        run = await self.shop.run_and_drain(automation)
        if run.status is RunStatus.WAITING_APPROVAL:
            await self.shop.approve(run)
            run = await self.shop.until_settled(run)
        return run


@pytest.fixture
async def partner(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[OpenApi]:
    """Provides the service beside the API."""
    api = PartnerApi(respond=lambda request: _json(b'{"ok": true}'))
    shop = await open_shop(database_url, clock, tmp_path, around=api.beside)
    await connect_all(shop)
    yield OpenApi(shop, api)
    await shop.service.close()


def _json(body: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "application/json"}, stream=httpx.ByteStream(body))


def http(version: float = 4.5, **parameters: Any) -> dict[str, Any]:
    """Returns a step of the newest version."""
    return node("Ask", "httpRequest", version, {"url": ORDERS, "options": {}, **parameters})


def rows(**values: Any) -> dict[str, Any]:
    """Returns names and values in the form of the step's parameters."""
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}


@on_one_engine
@pytest.mark.parametrize(
    ("parameters", "content_type", "body"),
    [
        (
            {"contentType": "json", "bodyParameters": rows(**{"a.b": "1", "a.c[0]": 2})},
            "application/json",
            b'{"a":{"b":"1","c":[2]}}',
        ),
        ({"bodyParameters": rows(**{"a.\u00b2": 1})}, "application/json", '{"a":{"\u00b2":1}}'.encode()),
        (
            {"contentType": "form-urlencoded", "bodyParameters": rows(**{"a.b": "1 2"})},
            "application/x-www-form-urlencoded",
            b"a.b=1+2",
        ),
        ({"contentType": "raw", "rawContentType": "text/csv", "body": "a;b"}, "text/csv", b"a;b"),
    ],
)
async def test_a_body_is_sent_in_its_form(
    partner: OpenApi, parameters: dict[str, Any], content_type: str, body: bytes
) -> None:
    """Sends JSON, a form or raw text with its content type."""
    run = await partner.run(http(method="POST", sendBody=True, **parameters))
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert (request.headers["content-type"], request.content) == (content_type, body)


@on_one_engine
@pytest.mark.parametrize(
    ("version", "name", "words"),
    [(3, "={{ 'a' + '.b' }}", "a dot or bracket"), (4.5, "a[99999999]", "99999999")],
)
async def test_an_invalid_path_in_a_name_fails_its_item(
    partner: OpenApi, version: float, name: str, words: str
) -> None:
    """Sends nothing for a path that releases of n8n read differently, or for an index far beyond its list."""
    run = await partner.run(http(version, method="POST", sendBody=True, bodyParameters=rows(**{name: 1})))
    assert words in (await partner.shop.steps(run))[-1]["message"]
    assert partner.api.seen == []


@on_one_engine
async def test_a_multipart_form_can_be_parsed_by_its_boundary(partner: OpenApi) -> None:
    """Sends each field as a part, as RFC 7578 says; quotes in names are escaped."""
    fields = {
        "contentType": "multipart-form-data",
        "bodyParameters": rows(**{'a"b': "1", "c": "line\r\n--x"}),
    }
    run = await partner.run(http(method="POST", sendBody=True, **fields))
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    kind, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    parts = request.content.split(f"--{boundary}".encode())
    assert parts[0] == b""
    assert parts[-1] == b"--\r\n"
    assert parts[1] == b'\r\nContent-Disposition: form-data; name="a%22b"\r\n\r\n1\r\n'
    assert parts[2].endswith(b"\r\n\r\nline\r\n--x\r\n")


@on_one_engine
@pytest.mark.parametrize(
    ("kind", "body", "content_type"),
    [
        ("raw", b"<a/>", "text/xml"),
        ("form-urlencoded", b"a=1", "application/x-www-form-urlencoded"),
        ("json", b'{"a":1}', "application/json"),
    ],
)
async def test_an_older_step_sends_its_body_as_its_option_says(
    partner: OpenApi, kind: str, body: bytes, content_type: str
) -> None:
    """Version 2 reads text, or JSON as text, from one parameter."""
    text = "<a/>" if kind == "raw" else '{"a": 1}'
    options = {"bodyContentType": kind, "bodyContentCustomMimeType": "text/xml"}
    fields = {"requestMethod": "POST", "jsonParameters": True, "bodyParametersJson": text, "options": options}
    run = await partner.run(http(2, **fields))
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert (request.content, request.headers["content-type"]) == (body, content_type)


@on_one_engine
async def test_a_read_may_have_a_body(partner: OpenApi) -> None:
    """Sends a GET with a JSON body, as n8n does."""
    fields = {"sendBody": True, "specifyBody": "json", "jsonBody": '{"q": "tea"}'}
    assert (await partner.run(http(**fields))).status is RunStatus.SUCCEEDED
    [request] = partner.api.seen
    assert (request.method, request.content) == ("GET", b'{"q":"tea"}')


@on_one_engine
@pytest.mark.parametrize(
    ("lists", "query"),
    [
        (None, "tag=a&tag=b"),
        ("repeat", "tag=a&tag=b"),
        ("brackets", "tag%5B%5D=a&tag%5B%5D=b"),
        ("indices", "tag%5B0%5D=a&tag%5B1%5D=b"),
    ],
)
async def test_lists_are_written_into_the_query_as_the_option_says(
    partner: OpenApi, lists: str | None, query: str
) -> None:
    """Writes each element of a list as a separate parameter."""
    options = {} if lists is None else {"queryParameterArrays": lists}
    step = http(sendQuery=True, queryParameters=rows(tag="={{ ['a', 'b'] }}"), options=options)
    assert (await partner.run(step)).status is RunStatus.SUCCEEDED
    assert partner.api.seen[0].url.query.decode() == query


def response_of(content_type: str, body: bytes, status: int = 200) -> httpx.Response:
    """Returns a response with a content type."""
    headers = {"content-type": content_type} if content_type else {}
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


async def items_made_of(
    partner: OpenApi, responses: Sequence[httpx.Response], options: dict[str, Any]
) -> list[Any]:
    """Returns the fields and the file types of the items that a step makes of these responses in one run."""
    partner.api.respond = lambda request: responses[int(request.url.params["n"])]
    many = code("Many", f"return [...Array({len(responses)}).keys()].map((n) => ({{ json: {{ n }} }}));")
    ask = http(url=f"={ORDERS}?n={{{{ $json.n }}}}", options=options)
    facts = "[json, Object.entries(binary || {}).map(([name, file]) => name + ' ' + file.mimeType)]"
    tell = code("Tell", f"throw new Error(JSON.stringify($input.all().map(({{ json, binary }}) => {facts})))")
    run = await partner.run(many, ask | {"onError": "continueRegularOutput"}, tell)
    message = (await partner.shop.steps(run))[-1]["message"]
    return list(json.JSONDecoder().raw_decode(message[message.index("[") :])[0])


@on_one_engine
async def test_a_response_is_read_as_its_content_type_says(partner: OpenApi) -> None:
    """Parses JSON by content type, passes on other text unchanged, and makes a file of anything else."""
    cases: list[tuple[str, bytes, Any, list[str]]] = [
        ("application/json", b'{"a": 1}', {"a": 1}, []),
        ("application/problem+json", b'{"a": 1}', {"a": 1}, []),
        ("application/json", b"", {}, []),
        ("application/vnd.api+json", b'\xef\xbb\xbf{"a": 1}', {"a": 1}, []),
        ("application/x-ndjson", b'{"a": 1}\n{"a": 2}', {"page": '{"a": 1}\n{"a": 2}'}, []),
        ("application/vnd.github.v3.raw", b"tea", {"page": "tea"}, []),
        ("application/vnd.ms-sync+xml", b"<a/>", {"page": "<a/>"}, []),
        ("text/plain", b'{"a": 1}', {"page": '{"a": 1}'}, []),
        ("text/html", b"[tea]", {"page": "[tea]"}, []),
        ("text/csv; charset=ISO-8859-1", b"th\xe9", {"page": "th\u00e9"}, []),
        ("text/csv; charset=punycode", b"th\xc3\xa9", {"page": "th\u00e9"}, []),
        ("", b"tea", {"page": "tea"}, []),
        ("image/png", b"\x89PNG", {}, ["page image/png"]),
        ("binary/octet-stream", b"\x00", {}, ["page binary/octet-stream"]),
        ("application/vnd.ms-excel", b"\xd0\xcf", {}, ["page application/vnd.ms-excel"]),
    ]
    responses = [response_of(kind, body) for kind, body, _, _ in cases]
    responses.append(response_of("application/json", b"{a}"))
    options = {"response": {"response": {"outputPropertyName": "page"}}}
    *items, [failed, _] = await items_made_of(partner, responses, options)
    assert items == [[item, files] for *_, item, files in cases]
    assert "not JSON" in failed["error"]["message"]


@on_one_engine
async def test_each_response_format_accepts_its_own_types(partner: OpenApi) -> None:
    """Accepts the types of the format first, in reads and sends; a header of the step replaces them."""
    partner.api.respond = lambda request: response_of("text/plain", b"tea")
    formats: list[dict[str, Any]] = [{}, {"responseFormat": "text"}, {"responseFormat": "file"}]
    steps = [http(options={"response": {"response": chosen}}) for chosen in formats]
    steps += [http(version=2, responseFormat="string"), http(method="POST")]
    steps.append(http(sendHeaders=True, headerParameters=rows(Accept="text/csv")))
    named = [{**step, "name": f"Ask {number}"} for number, step in enumerate(steps)]
    assert (await partner.run(*named)).status is RunStatus.SUCCEEDED
    detected, text = "application/json, text/*;q=0.9, */*;q=0.8", "text/plain, text/*;q=0.9, */*;q=0.8"
    accepted = [request.headers["accept"] for request in partner.api.seen]
    assert accepted == [detected, text, detected, text, detected, "text/csv"]
    json_steps = [http(version=2), http(options={"response": {"response": {"responseFormat": "json"}}})]
    partner.api.respond = lambda request: _json(b"{}")
    await partner.run(*({**step, "name": f"Ask {number}"} for number, step in enumerate(json_steps)))
    accepted = [request.headers["accept"] for request in partner.api.seen[6:]]
    assert accepted == ["application/json, */*;q=0.5"] * 2


@on_one_engine
async def test_a_full_response_has_the_message_of_its_status(partner: OpenApi) -> None:
    """Passes on the status, its words, the headers and the body of any response, and a file beside them."""
    words = {201: "Created", 404: "Not Found"}
    responses = [response_of("application/json", b"[1]", status) for status in words]
    responses.append(response_of("application/pdf", b"%PDF"))
    options = {"response": {"response": {"fullResponse": True, "neverError": True}}}
    *full, [file, files] = await items_made_of(partner, responses, options)
    assert [(item["statusCode"], item["statusMessage"], item["body"]) for item, _ in full] == [
        (status, text, [1]) for status, text in words.items()
    ]
    assert (file.keys(), files) == ({"headers", "statusCode", "statusMessage"}, ["data application/pdf"])


@on_one_engine
async def test_batches_are_read_with_pauses_between(partner: OpenApi) -> None:
    """Sends five items in batches of two, with two pauses of 30 s."""
    begun_at = partner.shop.clock.now()
    options = {"batching": {"batch": {"batchSize": 2, "batchInterval": 30_000}}}
    many = code("Many", "return [1, 2, 3, 4, 5].map((n) => ({ json: { n } }));")
    run = await partner.shop.clock.through(partner.run(many, http(options=options)))
    assert run.status is RunStatus.SUCCEEDED, run
    assert len(partner.api.seen) == 5
    assert 60 <= (partner.shop.clock.now() - begun_at).total_seconds() < 90


def body_of_size(size: int) -> dict[str, Any]:
    """Returns a step that makes a file of this many bytes."""
    blocks = f"'{base64.b64encode(b'tea').decode()}'.repeat({size // 3}) + '{_last_block(size)}'"
    fields = f"data: {blocks}, fileName: 't\"ea.png', mimeType: 'image/png'"
    return code("Make", f"return [{{json: {{}}, binary: {{photo: {{{fields}}}}}}}]")


def _last_block(size: int) -> str:
    return base64.b64encode(b"t" * (size % 3)).decode()


FILE_ROW = {"name": "image", "parameterType": "formBinaryData", "inputDataFieldName": "photo"}
WHOLE_FILE = {"contentType": "binaryData", "inputDataFieldName": "photo"}


async def test_a_file_is_the_body(partner: OpenApi) -> None:
    """Sends the file's bytes under its MIME type; the approval shows its name and size."""
    run = await partner.run(body_of_size(6), http(method="POST", sendBody=True, **WHOLE_FILE))
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    assert (request.headers["content-type"], request.content) == ("image/png", b"teatea")
    [change] = await partner.shop.changes(run)
    assert [field.after for field in change.proposal.fields][-1] == 'File “t"ea.png” (6 B)'


@on_one_engine
async def test_a_file_is_a_part_of_a_form(partner: OpenApi) -> None:
    """Sends the file as a part with its name and type, beside the fields."""
    parts = {"parameters": [FILE_ROW, {"name": "title", "value": "Tea", "parameterType": "formData"}]}
    form = {"contentType": "multipart-form-data", "bodyParameters": parts}
    run = await partner.run(body_of_size(6), http(method="POST", sendBody=True, **form))
    assert run.status is RunStatus.SUCCEEDED, run
    [request] = partner.api.seen
    boundary = request.headers["content-type"].partition("; boundary=")[2]
    assert request.content.split(f"--{boundary}".encode())[1:3] == [
        b'\r\nContent-Disposition: form-data; name="title"\r\n\r\nTea\r\n',
        b'\r\nContent-Disposition: form-data; name="image"; filename="t%22ea.png"\r\n'
        b"Content-Type: image/png\r\n\r\nteatea\r\n",
    ]


async def test_the_size_of_files_in_a_body_is_limited(partner: OpenApi) -> None:
    """Sends a file of 1.5 MiB; one byte more fails the step and nothing is sent."""
    asking = http(method="POST", sendBody=True, **WHOLE_FILE)
    run = await partner.run(body_of_size(BODY_FILE_BYTES), asking)
    assert run.status is RunStatus.SUCCEEDED, run
    assert len(partner.api.seen[0].content) == BODY_FILE_BYTES == 1536 * 1024
    run = await partner.run(body_of_size(BODY_FILE_BYTES + 1), asking)
    assert run.status is RunStatus.FAILED
    assert "larger than 1.5 MiB" in (await partner.shop.steps(run))[-1]["message"]
    assert len(partner.api.seen) == 1


OLDER_FILE = {"requestMethod": "POST", "jsonParameters": True, "sendBinaryData": True}
RAW, FORM = {"bodyContentType": "raw"}, {"bodyContentType": "multipart-form-data"}


@on_one_engine
@pytest.mark.parametrize(("version", "custom_type"), [(1, None), (2, "image/x-tea")])
async def test_an_older_step_sends_a_file_as_its_body(
    partner: OpenApi, version: float, custom_type: str | None
) -> None:
    """Sends the file's bytes under its MIME type, or under the type that the step names."""
    options = {"bodyContentType": "raw", "bodyContentCustomMimeType": custom_type or ""}
    step = http(version, **OLDER_FILE, binaryPropertyName="photo", options=options)
    assert (await partner.run(body_of_size(6), step)).status is RunStatus.SUCCEEDED
    [request] = partner.api.seen
    assert (request.headers["content-type"], request.content) == (custom_type or "image/png", b"teatea")


@on_one_engine
@pytest.mark.parametrize(
    ("names", "fields"),
    [("photo", ["file"]), ("a:photo", ["a"]), ("a:photo, b:photo", ["a", "b"]), ("={{ 'c:photo' }}", ["c"])],
)
async def test_an_older_step_sends_files_in_a_form(partner: OpenApi, names: str, fields: list[str]) -> None:
    """Sends each file in the field before its colon, a single one without a colon in `file`."""
    step = http(1, **OLDER_FILE, binaryPropertyName=names, options=FORM)
    messages = [finding.message for finding in read_value(chain(body_of_size(6), step)).findings]
    is_warned = any("it is sent as “file”" in message for message in messages)
    assert is_warned == (names == "photo" or names.startswith("="))
    assert (await partner.run(body_of_size(6), step)).status is RunStatus.SUCCEEDED
    [request] = partner.api.seen
    parts = re.findall(rb'name="(\w+)"; filename="t%22ea.png"\r\nContent-Type: image/png', request.content)
    assert [part.decode() for part in parts] == fields


@on_one_engine
async def test_an_older_file_setting_that_n8n_hides_sends_no_file(partner: OpenApi) -> None:
    """Warns of the setting beside fields or in a read, needs no file, and sends the fields."""
    fields = {"jsonParameters": False, "bodyParametersUi": {"parameter": [{"name": "a", "value": "tea"}]}}
    steps = [http(1, **OLDER_FILE | fields), http(2, **OLDER_FILE | {"requestMethod": "GET"}, options=RAW)]
    for step in steps:
        findings = [finding for finding in read_value(chain(step)).findings if finding.code == "binary"]
        assert [str(finding.level) for finding in findings] == ["warning"]
        assert (await partner.run(step)).status is RunStatus.SUCCEEDED
    assert [request.content for request in partner.api.seen] == [b'{"a":"tea"}', b""]


@on_one_engine
async def test_a_body_without_its_file_fails(partner: OpenApi) -> None:
    """Fails the step, naming the field that has no file."""
    made_otherwise = code("Make", "return [{ json: {} }]")
    run = await partner.run(made_otherwise, http(method="POST", sendBody=True, **WHOLE_FILE))
    assert "has no file “photo”" in (await partner.shop.steps(run))[-1]["message"]
    assert partner.api.seen == []


@pytest.mark.parametrize(
    ("step", "code_"),
    [
        (http(method="GET", sendBody=True, contentType="binaryData"), "binary"),
        (
            http(
                method="GET",
                sendBody=True,
                contentType="multipart-form-data",
                bodyParameters={"parameters": [{"name": "a", "parameterType": "formBinaryData"}]},
            ),
            "binary",
        ),
        (http(method="POST", sendBody=True, contentType="protobuf"), "parameter"),
        (http(3, method="POST", sendBody=True, bodyParameters=rows(**{"a.b": "1"})), "parameter"),
        (http(2, **OLDER_FILE), "binary"),
        (http(2, **OLDER_FILE, bodyParametersJson='{"a": 1}', options=RAW), "binary"),
        (http(2, **OLDER_FILE, binaryPropertyName="", options=RAW), "binary"),
        *[
            (http(1, **OLDER_FILE, binaryPropertyName=names, options=FORM), "binary")
            for names in ("a,b", "a:b:c", ":x", "a:", "", "a:b,")
        ],
        (http(provideSslCertificates=True), "credential"),
        (http(options={"proxy": "http://proxy.example"}), "parameter"),
        (http(options={"queryParameterArrays": "csv"}), "parameter"),
        (http(options={"noSuchOption": 1}), "parameter"),
    ],
)
def test_unsendable_request_parts_are_errors(step: dict[str, Any], code_: str) -> None:
    """Reports files that cannot be sent, certificates, proxies and unknown options as errors."""
    codes = [finding.code for finding in read_value(chain(step)).findings if str(finding.level) == "error"]
    assert codes == [code_]


PLAIN = ORDERS.replace("https://", "http://")


@on_one_engine
async def test_an_http_url_is_called_only_without_a_key(partner: OpenApi) -> None:
    """Reads and sends over http without a key, with a warning.

    Follows a redirect of the host to https, but not one back to http.
    """
    [finding] = [
        finding
        for finding in read_value(chain(http(url=PLAIN))).findings
        if "http address" in finding.message
    ]
    assert str(finding.level) == "warning"
    run = await partner.run(http(url=PLAIN), http(url=PLAIN, method="POST") | {"name": "Send"})
    assert run.status is RunStatus.SUCCEEDED, run
    assert [f"{request.method} {request.url}" for request in partner.api.seen] == [
        f"GET {PLAIN}",
        f"POST {PLAIN}",
    ]
    partner.api.seen.clear()
    for url, leads_to, status in ((PLAIN, ORDERS, RunStatus.SUCCEEDED), (ORDERS, PLAIN, RunStatus.FAILED)):
        redirect = httpx.Response(301, headers={"location": leads_to}, stream=httpx.ByteStream(b""))
        partner.api.respond = lambda request, url=url, redirect=redirect: (
            redirect if str(request.url) == url else _json(b"{}")
        )
        assert (await partner.run(http(url=url))).status is status
    assert [str(item.url) for item in partner.api.seen] == [PLAIN, ORDERS, ORDERS]


def _messages(step: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the level and message of each finding about the URL that a step calls."""
    findings = read_value(chain(step)).findings
    return [
        (str(finding.level), finding.message)
        for finding in findings
        if finding.message.startswith("It calls ")
    ]


@pytest.mark.parametrize("has_account", [False, True])
def test_a_scheme_that_is_never_called_makes_a_finding(has_account: bool) -> None:
    """Names the scheme in an error, with an account too: no private host is called by another scheme."""
    signed_in = {"authentication": "headerAuth"} if has_account else {}
    endpoint = {"endpoint": "ftp://api.example.com/graphql", "query": "{ shop }"}
    begins = "It calls an address that begins with ftp://"
    assert _messages(node("Ask", "graphql", 1.1, endpoint | signed_in)) == [
        ("error", f"{begins}; only https and http are called. Change it.")
    ]
    assert _messages(http(url="ftp://api.example.com/orders")) == [
        ("error", f"{begins}; only https and http are called. Change it.")
    ]


@pytest.mark.parametrize(
    "host", ["exa$mple.com", "a..example.com", "-a.example.com", f"{'a' * 64}.example.com"]
)
def test_a_host_that_is_not_a_name_makes_a_finding(host: str) -> None:
    """Names the host and no port; with an account it warns."""
    words = f"It calls {host}, which is not a valid host name. Correct the address."
    signed_in = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
    assert _messages(http(url=f"https://{host}/orders")) == [("error", words)]
    assert _messages(http(url=f"https://{host}/orders", **signed_in)) == [("warning", words)]
    endpoint = {"endpoint": f"https://{host}/graphql", "query": "{ shop }"}
    assert _messages(node("Ask", "graphql", 1.1, endpoint)) == [("error", words)]


def test_an_invalid_port_makes_a_finding() -> None:
    """Names the usual port."""
    words = "It calls api.example.com:99999; only the usual port of https is called. Change the address."
    assert ("error", words) in _messages(http(url="https://api.example.com:99999/orders"))


@pytest.mark.parametrize(
    "url",
    ["https://api.example.com:443/x", "http://api.example.com", "={{ $json.host }}/x", "=https://{{ 1 }}:8/"],
)
def test_a_valid_url_makes_no_finding(url: str) -> None:
    """Reports no error, also where an expression decides the host."""
    errors = [
        finding for finding in read_value(chain(http(url=url))).findings if str(finding.level) == "error"
    ]
    assert errors == []


def test_an_empty_address_makes_a_finding() -> None:
    """Warns about an empty address, since the step fails in n8n too."""
    [finding] = [
        candidate for candidate in read_value(chain(http(url=""))).findings if "address" in candidate.message
    ]
    assert str(finding.level) == "warning"


@on_one_engine
async def test_a_fragment_is_not_sent(partner: OpenApi) -> None:
    """Leaves the fragment of an address out of the request."""
    run = await partner.run(http(url=f"{ORDERS}?page=1#top"))
    assert run.status is RunStatus.SUCCEEDED, run
    assert [str(item.url) for item in partner.api.seen] == [f"{ORDERS}?page=1"]


@on_one_engine
async def test_a_key_is_never_sent_over_http(partner: OpenApi) -> None:
    """Reports a literal http address with an account as an error; a computed one fails unsent."""
    account = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
    [error] = [
        finding
        for finding in read_value(chain(http(url=PLAIN, **account))).findings
        if finding.level == "error"
    ]
    assert "can read its key" in error.message
    connection = await partner.shop.connect("http_api", {"hosts": API, "token": "token-5d1e"})
    computed = http(url="={{ 'http:' + '//" + API + "/orders' }}", **account)
    accounts = {"Ask": {"integration_id": connection.integration_id}}
    automation = await automated(partner.shop, chain(computed), accounts=accounts)
    assert (await partner.shop.run_and_drain(automation)).status is RunStatus.FAILED
    assert partner.api.seen == []


@pytest.mark.parametrize(
    "script",
    [
        "return items[0].json.map(order => ({json: order}));",
        "return [{json: {first: $('Ask').first().json[0].id}}];",
        "return $input.first().json.filter(order => order.id).map(json => ({json}));",
    ],
)
def test_reading_an_older_versions_list_as_one_item_is_an_error(script: str) -> None:
    """Reports a script that reads the list as one item, as older versions hand it on.

    Here each element is an item.
    """

    def errors(step: dict[str, Any]) -> list[str | None]:
        findings = read_value(chain(step, code("Read", script))).findings
        return [finding.step for finding in findings if str(finding.level) == "error"]

    assert errors(http(2)) == ["Read"]
    for other in (
        http(2, options={"splitIntoItems": True}),
        http(2, options={"fullResponse": True}),
        http(4.5),
    ):
        assert errors(other) == []


def test_a_field_that_is_a_list_is_read_as_in_n8n() -> None:
    """Reports no error where a script reads a list in a field, which both read alike."""
    step = code("Read", "return items[0].json.orders.map(json => ({json}));")
    assert not [
        finding for finding in read_value(chain(http(1), step)).findings if str(finding.level) == "error"
    ]
