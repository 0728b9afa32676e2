"""Requests no client sends by mistake: clear refusals in bounded memory."""

import asyncio
import json
import os
import re
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import pytest

from steward.api.app.connections import ReconnectBody
from steward.api.http import envelope
from steward.api.http import validation as shapes
from steward.api.http.body import MAX_DISCARDED, ClientDisconnected, parse, read_bytes
from steward.api.operations import OPERATIONS, RAW_OPERATIONS
from steward.api.v1.schedule import PreviewBody
from steward.model.refusals import ValidationFailed
from tests.authz.rows import at, spelled
from tests.authz.two_organizations import PREFIX, TwoOrganizations
from tests.people import Caller

T = TypeVar("T")

MIB = 1024 * 1024
# Each operation gets one in so many queries, bodies, headers and values of a field, always the same ones, and
# on PostgreSQL others than on SQLite; `make fuzz` sends all on both.
ONE_IN = 1 if "FUZZ_EXAMPLES" in os.environ else 4
CHANGING = [row for row in OPERATIONS if row.method != "GET"]
READING = [row for row in OPERATIONS if row.method == "GET"]
# A browser comes back from an account's sign-in page here: it is sent on, whatever it brings.
WAY_BACK = "/app/connections/sign-in/callback"
# 503 is only ever `not_configured` here (`send`).
REFUSED = {400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 431, 503}


def sample(items: Sequence[T], dialect: str, *case: object) -> list[T]:
    """Returns the part of `items` that is sent in a case on this engine; no part is sent on both.

    `make fuzz` sends all of them.
    """
    shuffled_items = Random(repr(case)).sample(items, len(items))
    return shuffled_items[(dialect == "postgresql") % ONE_IN :: ONE_IN]


@dataclass
class Response:
    """What the application sent; nothing when it went away in silence."""

    status: int | None
    body: Any
    received_messages: int  # messages of the body


async def send(
    two: TwoOrganizations,
    method: str,
    path: bytes,
    *,
    query: bytes = b"",
    headers: Iterable[tuple[bytes, bytes]] = (),
    parts: Iterable[bytes] = (b"",),
    ends: bool = True,
) -> Response:
    """A request to the byte, past any client's manners; without `ends` the caller goes away."""
    sent: list[Any] = []
    waiting = list(parts)
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if not waiting:
            return {"type": "http.disconnect"}
        taken += 1
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting) or not ends}

    async def respond(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("203.0.113.9", 50_000),
    }
    await two.service.app(scope, receive, respond)
    if not sent:
        return Response(None, None, taken)
    status = sent[0]["status"]
    if status == 303 and path == WAY_BACK.encode():
        return Response(200, None, taken)
    body = json.loads(sent[1]["body"])
    not_set_up = status == 503 and body["code"] == "not_configured"  # the sign-in at Google
    assert status < 500 or not_set_up, (method, path[:80], query[:80], body)
    assert body["contract_version"] == 1 if "contract_version" in body else status == 200
    return Response(status, body, taken)


def signed(caller: Caller) -> list[tuple[bytes, bytes]]:
    """The headers of a caller: token, or cookie and CSRF token."""
    headers = [(name.lower().encode(), value.encode()) for name, value in caller.headers.items()]
    if caller.csrf is not None:
        cookies = "; ".join(f"{name}={value}" for name, value in caller.client.cookies.items())
        headers += [(b"cookie", cookies.encode()), (b"x-csrf-token", caller.csrf.encode())]
    return headers


JSON = (b"content-type", b"application/json")
QUERIES = [
    b"&".join(b"q=1" for _ in range(2_000)),
    b"&".join(b"p%d=1" % number for number in range(1_000)),
    b"%ff=1&a=%ff",
    b"limit=%00",
    b"q=%00",
    b"cursor=%00",
    b"cursor=" + b"A" * 7_000,
    b"cursor=%ed%a0%80",
    b"cursor=%f0%9f%98%80",
    b"limit=9999999999999999999999",
    b"limit=-0",
    b"limit=%D9%A3",
    b"limit=1_0",
    b"after_seq=9007199254740991",
    b"seq=9007199254740991",
    b"from=9999-12-31T23:59:59.999Z",
    b"from=1970-01-01T00:00:00Z&to=9999-12-31T23:59:59Z",
    b"from=9999-12-31T23:59:59-23:59",
    b"from=1970-01-01T00:00:00%2B23:59",
    b"from=2026-02-30T00:00:00Z",
    b"updated_since=9999-12-31T23:59:59-00:01",
    b"integration_id=9007199254740991",
    b"integration_id=-9007199254740991",
    b"integration_id=0",
    b"automation_id=" + b"Z" * 26,
    b"state=" + b",".join(b"s%d" % number for number in range(1_000)),
    b"status=,,,",
    b"q=" + b"%F0%9F%98%80" * 120,
    b"q=%25_%5C%27%22--",
    b"parent=%00",
    b"=",
    b"&&&=&",
    b"a" * 8_000,
]


async def test_no_query_breaks_an_operation(two: TwoOrganizations) -> None:
    """Repeated, unknown, unreadable, out of range."""
    headers = signed(await two.service.web("owner"))
    for row in READING:
        path = at(row, two.ours).encode()
        for query in sample(QUERIES, two.service.context.engine.dialect, row.path):
            response = await send(two, "GET", path, query=query, headers=headers)
            assert response.status in REFUSED | {200}, (row.path, query)
        for query in (b"surplus=1", b"surplus=1&surplus=1", b"%ff=1", b"%00=1"):
            if row.path == WAY_BACK:
                continue
            response = await send(two, "GET", path, query=query, headers=headers)
            assert response.status == 422, (row.path, query)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
BODIES = {
    "depth of 100,000": DEEP,
    "a million keys": b"{" + b",".join(b'"%d":1' % number for number in range(80_000)) + b"}",
    "200,001 values": b'{"a":[' + b"1," * 200_000 + b"1]}",
    "a number of 5,000 digits": b'{"version":' + b"9" * 5_000 + b"}",
    "two of one key": b'{"version":1,"version":1}',
    "NaN": b'{"version":NaN}',
    "broken UTF-8": b'{"name":"\xff\xfe"}',
    "half a surrogate": b'{"name":"\\ud800"}',
    "half a surrogate for a key": b'{"\\udfff":1}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"version":1}'.encode("utf-16"),
    "nothing but a quote": b'"',
    "NUL": b"\x00",
    "two values": b"{}{}",
    "a comment": b"{/**/}",
    "one quote too many": b"[" + b"[]," * 70 + b'"' + b'\\"' * 200_000,
}
SHAPES = [b"null", b"true", b"1", b'"text"', b"[]", b"[{}]"]


# A body is refused before any of it reaches the database; `make fuzz` sends all bodies on both engines.
@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"][: 1 + (ONE_IN == 1)], indirect=True)
async def test_no_body_breaks_an_operation(two: TwoOrganizations) -> None:
    """400 for what is no JSON as promised, 422 for what is no object."""
    headers = [*signed(await two.service.web("owner")), JSON]
    for row in CHANGING:
        path = at(row, two.ours).encode()
        for name, body in sample([*BODIES.items()], two.service.context.engine.dialect, row.path):
            is_short = name == "a million keys" and row.body_values > 80_000
            if len(body) <= row.body_limit and not is_short:
                response = await send(two, row.method, path, headers=headers, parts=[body])
                assert (response.status, response.body["code"]) == (400, "malformed"), (row.path, name)
        for shape in SHAPES:
            response = await send(two, row.method, path, headers=headers, parts=[shape])
            if response.body["code"] == "not_configured":
                continue  # nobody has set a mail server up here
            assert (response.status, list(response.body["errors"])) == (422, ["body"]), (row.path, shape)


VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2**53, -(2**53), 2**63, 10**39, 1e308, "", " ", "\x00", "a\x00b", "\u202e",
    "\U0010ffff",
    "A" * 70_000, "9999-12-31T23:59:59.999999999-23:59", "1970-01-01T00:00:00+23:59", "24:00", "2026-02-30",
    "__proto__", "../../etc/passwd", "{{7*7}}", "' OR 1=1 --", [], [[]], [None], ["x"] * 5_001, {}, {"": {}},
    {"cadence": "daily"}, {"cadence": ["daily"]}, {"cadence": "weekly", "days": [None, {}, 1e308]},
    {"cadence": "once", "date": "9999-12-31", "run_at": "23:59"},
    {"cadence": "monthly", "day_of_month": 2**60},
    {"integration_id": "1"}, {"kind": None}, {"kind": "event", "topics": [None]}, {"\ud7ff": "\uffff"},
]  # fmt: skip


async def test_no_value_of_a_field_breaks_an_operation(two: TwoOrganizations) -> None:
    """Every field of the body, each with values of every other kind."""
    headers: list[tuple[bytes, bytes]] = []
    dialect = two.service.context.engine.dialect
    for row in CHANGING:
        path, sound = at(row, two.ours).encode(), spelled(row).body(two.ours)
        for name in sorted(field.alias or field_name for field_name, field in row.body.model_fields.items()):
            for value in sample(VALUES, dialect, row.path, name):
                headers = headers or [*signed(await two.service.web("owner")), JSON]
                body = json.dumps({**sound, name: value}).encode()
                response = await send(two, row.method, path, headers=headers, parts=[body])
                assert response.status in REFUSED | {200, 201}, (row.path, name, value)
                if response.status in (200, 401) and row.path.startswith("/app/session"):
                    headers = []  # another cookie since


HEADERS = [
    (b"authorization", b"\xff\xfe"),
    (b"authorization", b"Bearer \xff\x00"),
    (b"authorization", b"Bearer " + b"." * 20_000),
    (b"authorization", b"Bearer " + b"e30." * 3),
    (b"authorization", b"Basic \xff"),
    (b"authorization", b""),
    (b"cookie", b"\xff=\xff; steward=\xff\xfe"),
    (b"cookie", b"steward=" + b"a" * 20_000),
    (b"cookie", b"steward=\x00"),
    (b"cookie", b"=;;;=;steward"),
    (b"origin", b"\xff"),
    (b"sec-fetch-site", b"\xff"),
    (b"x-csrf-token", b"\xe4\x00"),
    (b"content-type", b"\xff"),
    (b"content-type", b"application/json; charset=\xff"),
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"\xff"),
    (b"content-length", b"-1"),
    (b"x-request-id", b"\xff\n"),
    (b"x-request-id", b"a" * 10_000),
    (b"x-forwarded-for", b"\xff, \x00"),
    (b"user-agent", b"\x00\xff" * 1_000),
    (b"x-steward-poll", b"\xff"),
    (b"transfer-encoding", b"\xff"),
    (b"accept", b"text/html"),
]


async def test_no_header_breaks_anything(two: TwoOrganizations) -> None:
    """Bytes that are no text, overlong and repeated ones."""
    web, token = await two.service.web("owner"), await two.service.token("owner")
    targets = [(row.method, at(row, two.ours).encode()) for row in OPERATIONS if "{" not in row.path]
    targets += [(row.method, row.path.encode()) for row in RAW_OPERATIONS]
    targets += [("OPTIONS", b"/v1/automations"), ("HEAD", b"/healthz"), ("GET", b"/nowhere")]
    for method, path in targets:
        for header in sample(HEADERS, two.service.context.engine.dialect, method, path):
            for before in ([], signed(web), signed(token)):
                content = [] if header[0] == b"content-type" else [JSON]
                response = await send(two, method, path, headers=[*before, *content, header], parts=[b"["])
                assert response.status in REFUSED | {200}, (method, path, header)


PATHS = [
    b"", b"/", b"//", b"/v1", b"/v1/", b"/v1/automations/", b"/v1//automations", b"/V1/automations",
    b"/v1/automations/\xff", b"/v1/automations/%ff", b"/v1/automations/%00", b"/v1/automations/..%2f..",
    b"/v1/automations/../app/people", b"/v1/automations/./status", b"/v1/automations/" + b"A" * 26,
    b"/v1/automations/" + b"8" * 26, b"/v1/automations/runs/" + b"0" * 26,
    b"/v1/automations/" + b"a/" * 3_000,
    b"/v1/automations/templates/" + b"a" * 5_000, b"/app/people/0", b"/app/people/9007199254740993",
    b"/app/people/9999999999999999", b"/app/people/99999999999999999999", b"/app/people/-1",
    b"/app/people/\xd9\xa3",
    b"/app/connections/00000001", b"/app/connections/1e3", b"/app//people", b"/app/people;x=1",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "TRACE", "BREW"])
async def test_no_path_breaks_anything(two: TwoOrganizations, method: str) -> None:
    """Exactly as listed, ids of their shape, any method."""
    web, token = await two.service.web("owner"), await two.service.token("owner")
    for path in PATHS:
        for before in ([], signed(web), signed(token)):
            response = await send(two, method, path, headers=[*before, JSON], parts=[b"{}"])
            assert response.status in REFUSED, (method, path, response)


async def test_an_endless_body_is_read_no_further_than_promised(two: TwoOrganizations) -> None:
    """Counted on the bytes received; 8 MiB of the rest thrown away, nothing of it kept."""
    headers = [*signed(await two.service.token("owner")), JSON]
    part = b" " * (64 * 1024)
    many = 64 * 16  # 64 MiB
    tracemalloc.start()
    try:
        path = f"{PREFIX}/schedule/preview".encode()
        response = await send(two, "POST", path, headers=headers, parts=[part] * many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (response.status, response.body["code"]) == (413, "too_large")
    assert response.received_messages <= (MIB + MAX_DISCARDED) // len(part) + 1
    assert peak < 16 * MIB


@pytest.mark.parametrize("path", [f"{PREFIX}/imports", "/v1/store-events/unknown", "/v1/nowhere"])
async def test_a_refusal_reaches_who_is_still_sending(two: TwoOrganizations, path: str) -> None:
    """A body that nobody wants is read to its end, so that closing does not cut the response off."""
    part = b" " * (64 * 1024)

    async def refused(parts: int, *more: tuple[bytes, bytes]) -> Response:
        length = (b"content-length", b"%d" % (parts * len(part)))
        return await send(two, "POST", path.encode(), headers=[JSON, length, *more], parts=[part] * parts)

    for response in (large := await refused(32), await refused(32, (b"expect", b"100-continue"))):
        assert response.status in (401, 404)
    assert (large.received_messages, response.received_messages) == (32, 0)
    assert (await refused(1)).received_messages == 0
    limit = MAX_DISCARDED // len(part) + 1
    assert (await refused(limit)).received_messages == limit
    assert (await refused(limit + 1)).received_messages == limit


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"%d":1' % number for number in range(49_000)) + b"}",
        b'{"schedule":{' + b",".join(b'"%d":1' % number for number in range(49_000)) + b"}}",
        b'{"schedule":[' + b",".join(b"{}" for _ in range(49_000)) + b"]}",
        b'{"schedule":"' + b"a" * (MIB - 100) + b'"}',
    ],
    ids=["keys", "keys inside", "items", "text"],
)
def test_the_largest_body_takes_bounded_memory_and_a_bounded_response(body: bytes) -> None:
    """`bombs`: at most 64 MiB more; of unknown fields the first thousand are named."""
    errors: shapes.Errors = {}
    tracemalloc.start()
    try:
        assert shapes.body(PreviewBody, parse(body, 50_000), errors) is None
        reply = envelope.refuse(ValidationFailed(errors=errors))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB
    assert 1 <= len(errors) <= 1_001
    assert len(reply.body) < MIB


def test_many_unknown_fields_hide_no_fault_of_a_known_one() -> None:
    """All faults of known fields, wherever they stand; what is kept open stays whole."""
    surplus = {f"x{number}": 1 for number in range(5_000)}
    errors: shapes.Errors = {}
    assert shapes.body(ReconnectBody, {**surplus, "settings": 1}, errors) is None
    assert (errors["settings"], len(errors)) == (["Give an object."], 1_001)
    errors = {}
    body = shapes.body(ReconnectBody, {"settings": surplus}, errors)
    assert (errors, body and body.settings) == ({}, surplus)


async def test_a_client_that_leaves_amid_its_body_gets_no_response(two: TwoOrganizations) -> None:
    """Who goes away amid a body is answered nothing."""
    headers = [*signed(await two.service.token("owner")), JSON]
    for path in (PREFIX, "/v2/api/automations/login"):
        response = await send(two, "POST", path.encode(), headers=headers, parts=[b'{"na'], ends=False)
        assert response.status is None
    assert not any("request_failed" in line for line in two.service.lines)


async def _trickle(pieces: list[bytes]) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": True}
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing more comes")

    return receive


async def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    """At least 1 KiB a second once the first seconds are over."""
    with pytest.raises(TimeoutError):
        await read_bytes(await _trickle([]), MIB, patience=0.001)
    with pytest.raises(TimeoutError):
        await read_bytes(await _trickle([b"a"] * 10), MIB, patience=0.001)

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnected):
        await read_bytes(gone, MIB, patience=0.001)


async def test_too_slow_a_body_gets_a_response_and_the_connection_is_closed(
    two: TwoOrganizations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, nothing was done; what is left of the body is not waited for."""
    monkeypatch.setitem(read_bytes.__kwdefaults__, "patience", 0.001)
    sent: list[Any] = []

    async def respond(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": PREFIX,
        "raw_path": PREFIX.encode(),
        "query_string": b"",
        "headers": [*signed(await two.service.token("owner")), JSON],
        "client": ("203.0.113.9", 50_000),
    }
    await two.service.app(scope, await _trickle([b"{"]), respond)
    headers = dict(sent[0]["headers"])
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (503, "unavailable")
    assert (headers[b"connection"], headers[b"retry-after"]) == (b"close", b"1")


async def test_nothing_hostile_was_taken_for_a_defect(two: TwoOrganizations) -> None:
    """The log of a defect names its operation, never what was sent."""
    headers = [*signed(await two.service.token("owner")), JSON]
    for body in (DEEP, b"\xff", b'{"name":"\\ud800"}'):
        await send(two, "POST", PREFIX.encode(), headers=headers, parts=[body])
    assert not [line for line in two.service.lines if re.search("request_failed", line)]
