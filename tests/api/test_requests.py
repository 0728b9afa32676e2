"""What requests may contain: bodies, queries and fields, each at its limit and one past it."""

import json

import pytest

from tests.people import ApiResponse, Caller, altered
from tests.service import Service

ECHO = "/v1/automations/probe/echo"
FEW = "/v1/automations/probe/few"
SMALL = "/v1/automations/probe/small"
MIB = 1024 * 1024
ID = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"


@pytest.fixture
async def caller(probed: Service) -> Caller:
    """Returns the member's token caller on the service with the probes."""
    return await probed.token("member")


async def send(caller: Caller, content: bytes, path: str = ECHO, **headers: str) -> ApiResponse:
    """Posts raw bytes as JSON and returns the response."""
    return await caller.call(
        "POST", path, content=content, headers={"Content-Type": "application/json", **headers}
    )


KINDS: list[str] = ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"']


async def test_json_in_utf_8_is_accepted(caller: Caller) -> None:
    """Accepts JSON with charset UTF-8 in any case."""
    for kind in KINDS:
        response = await caller.call("POST", ECHO, content=b"{}", headers={"Content-Type": kind})
        assert response.status == 201, kind


OTHER_KINDS: list[dict[str, str]] = [
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Type": "application/jsonp"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Content-Encoding": "gzip"},
    {"Content-Type": ""},
]


async def test_another_kind_of_body_is_refused_before_its_size(caller: Caller) -> None:
    """Refuses other media types, charsets and encodings with 415, also when the body is too large."""
    for headers in OTHER_KINDS:
        for content in (b"{}", b" " * (MIB + 1)):
            response = await send(caller, content, **headers)
            assert (response.status, response.code) == (415, "unsupported_media_type")


async def test_an_empty_body_is_an_empty_object_of_whatever_type(caller: Caller) -> None:
    """Reads an empty body of any media type as an empty object."""
    response = await caller.call("POST", ECHO, content=b"", headers={"Content-Type": "text/plain"})
    assert (response.status, response.data) == (201, {"echo": {}})


MALFORMED = [
    b"{",
    b"{} {}",
    b"\xef\xbb\xbf{}",
    b'{"text": "\xff"}',
    b'{"number": NaN}',
    b'{"number": Infinity}',
    b'{"number": -Infinity}',
    b'{"text": "a", "text": "b"}',
    b'{"inputs": {"a": {"b": 1, "b": 2}}}',
    b'{"text": "\\ud800"}',
    b'{"inputs": {"\\udc00x": 1}}',
    b'{"text": "a\nb"}',
    b"{'text': 1}",
    b'{"number": 01}',
    b'{"number": ' + b"1" * 41 + b"}",
    b'{"inputs": {"x": 0.' + b"1" * 40 + b"}}",
    b'{"inputs": ' + b"[" * 64 + b"]" * 64 + b"}",
    b"{}\x00",
]


async def test_a_body_that_is_not_json_as_promised_is_malformed(caller: Caller) -> None:
    """Refuses with 400 a body that is not strict UTF-8 JSON within the limits of depth and digits."""
    for content in MALFORMED:
        response = await send(caller, content)
        assert (response.status, response.code) == (400, "malformed"), content


async def test_limits_of_json_are_accepted_at_the_limit(caller: Caller) -> None:
    """Accepts depth 64 and 40 digits, surrogate pairs, and long digits or brackets inside text."""
    deepest = b'{"inputs": {"x": ' + b"[" * 62 + b"]" * 62 + b"}}"
    assert (await send(caller, deepest)).status == 201
    assert (await send(caller, b'{"inputs": {"x": ' + b"[" * 63 + b"]" * 63 + b"}}")).status == 400
    assert (await send(caller, b'{"inputs": {"x": 0.' + b"1" * 39 + b"}}")).status == 201
    assert (await send(caller, b'{"text": "' + b"1" * 60 + b'"}')).status == 201
    assert (await send(caller, b'{"text": "\\ud83d\\ude00"}')).data == {"echo": {"text": "😀"}}
    assert (await send(caller, b'{"text": "' + b"[{" * 500 + b'"}')).status == 201


async def test_as_many_values_as_allowed_and_one_more(caller: Caller) -> None:
    """Counts values without keys; accepts the probe's 10 and refuses 11."""
    for extra, status in ((0, 200), (1, 400)):
        items = json.dumps({"inputs": {"a,b": list(range(7 + extra))}}).encode()
        response = await send(caller, items, FEW)
        assert response.status == status


async def test_fifty_thousand_values_and_one_more(caller: Caller) -> None:
    """Accepts a body of 50,000 values and refuses one of 50,001."""
    for extra, status in ((0, 201), (1, 400)):
        body = b'{"inputs":{"x":[' + b",".join([b"1"] * (49_997 + extra)) + b"]}}"
        assert (await send(caller, body)).status == status


async def test_a_body_of_its_limit_and_one_byte_more(caller: Caller) -> None:
    """Accepts 1 MiB as received and refuses one byte more with 413, and so a smaller limit of an operation.

    See docs/design/api/conventions.md#requests.

    Interface statements: 7 413.
    """
    body = b'{"text":"x"}'
    assert (await send(caller, body + b" " * (MIB - len(body)))).status == 201
    response = await send(caller, body + b" " * (MIB - len(body) + 1))
    assert (response.status, response.code) == (413, "too_large")
    assert (await send(caller, b" " * 300, FEW)).status == 400
    assert (await send(caller, b" " * 301, FEW)).status == 413


async def test_a_body_that_is_no_object_is_the_body_s_fault(caller: Caller) -> None:
    """Refuses a body that is not an object with 422 on `body`."""
    for content in (b"[]", b'"x"', b"5", b"null", b"true"):
        response = await send(caller, content)
        assert (response.status, list(response.errors)) == (422, ["body"])


FIELDS: list[tuple[str, list[object], list[object]]] = [
    ("whole", [0, 6.0, -(2**53) + 1, 2**53 - 1], [2**53, -(2**53), 6.5, True, "6", [], 1e300]),
    ("number", [1, 1.5, -0.0], [True, "1"]),
    ("flag", [True, False], [0, "true", []]),
    ("text", ["", "x" * 65_536, "a\tb"], ["x" * 65_537, "a\x00b", 5, {}]),
    ("name", ["n" * 120, "  é  "], ["", "   ", "n" * 121, "a\nb", "a\x7fb", 5]),
    ("comment", ["", "a\nb", "c" * 500], ["c" * 501, "a\tb", "a\rb"]),
    ("id", [ID], [ID.lower(), ID[:-1], ID + "A", "I" * 26, 5]),
    (
        "at",
        ["2026-11-20T07:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"],
        [
            "2026-11-20",
            "2026-11-20T07:00:00",
            "2026-11-20 07:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-02-30T00:00:00Z",
            "2026-11-20T07:00:00.1234567890Z",
            5,
        ],
    ),
    ("key", ["k" * 200, "!~"], ["", "k" * 201, "a b", "é", "a\n"]),
    ("inputs", [{}, {"a": [None, 1.5, "x"]}], [[], "x", {"a": ["b\x00"]}, {"a\x00": 1}]),
    ("inner", [{"kind": "x"}], ["x", {}, {"kind": "x", "count": "1"}]),
    ("items", [[], [{"kind": "x"}] * 2], [[{"kind": "x"}] * 3, {}]),
    ("days", [[1, 7], []], [[1, 1], [0], [8], [1, "2"], [True]]),
]


async def test_a_field_takes_what_is_good_and_names_what_is_not(caller: Caller) -> None:
    """Accepts the valid values of each kind of field and names the field of each invalid one."""
    for field, good, bad in FIELDS:
        for value in good:
            assert (await caller.post(ECHO, {field: value})).status == 201, (field, value)
        for value in bad:
            response = await caller.post(ECHO, {field: value})
            assert (response.status, response.code) == (422, "validation_failed"), (field, value)
            assert all(name.split(".")[0] == field and words for name, words in response.errors.items())


async def test_numbers_names_and_instants_are_normalised(caller: Caller) -> None:
    """Reads 6.0 as 6, trims names and normalises them to NFC, and cuts instants to milliseconds in UTC."""
    response = await caller.post(
        ECHO, {"whole": 6.0, "name": "  e\u0301 ", "at": "2026-11-20T09:00:00.123987+02:00"}
    )
    assert response.data["echo"] == {"whole": 6, "name": "é", "at": "2026-11-20T07:00:00.123Z"}
    assert "6.0" not in json.dumps(response.data)


async def test_a_number_too_large_for_a_float_is_refused(caller: Caller) -> None:
    """Refuses a number that overflows a float."""
    assert (await send(caller, b'{"number": 1e999}')).errors == {"number": ["The number is too large."]}
    assert (await send(caller, b'{"inputs": {"a": -1e999}}')).status == 422


async def test_all_faults_are_reported_together_by_path(caller: Caller) -> None:
    """Reports all invalid parameters and fields at once, list items by their index.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 7 validation_failed.
    """
    response = await caller.call(
        "POST",
        ECHO,
        body={
            "whole": "x",
            "surplus": 1,
            "inner": {"count": 1.5, "more": 1},
            "items": [{"kind": "x"}, {"kind": 5, "odd": 1}],
            "days": [1, 9, 9],
            "flag": None,
        },
        params={"q": 1},
    )
    assert response.status == 422
    assert set(response.errors) == {
        "q",
        "whole",
        "surplus",
        "inner.kind",
        "inner.count",
        "inner.more",
        "items.1.kind",
        "items.1.odd",
        "days.1",
        "days.2",
    }


async def test_repeated_items_are_the_lists_fault(caller: Caller) -> None:
    """Reports repeated items of a list under the list's name."""
    assert list((await caller.post(ECHO, {"days": [1, 2, 1]})).errors) == ["days"]


async def test_a_query_is_read_strictly(caller: Caller) -> None:
    """Converts query parameters to their types and fills in the default limit."""
    response = await caller.get(SMALL, number="-5", flag="true", words="a,b", at="2026-11-20T07:00:00Z")
    query = response.data["echo"]["query"]
    assert query == {
        "limit": 50,
        "number": -5,
        "flag": True,
        "words": ["a", "b"],
        "at": "2026-11-20T07:00:00Z",
    }


async def test_an_offset_whose_plus_was_not_escaped_is_explained(caller: Caller) -> None:
    """Says how + is written in an address, where an offset arrives with a blank in its place."""
    response = await caller.call("GET", f"{SMALL}?at=2026-11-20T07:00:00+02:00")
    assert "%2B" in response.errors["at"][0]
    right = await caller.call("GET", f"{SMALL}?at=2026-11-20T07:00:00%2B02:00")
    assert right.data["echo"]["query"]["at"] == "2026-11-20T05:00:00Z"


WRONG_QUERIES = [
    ("unknown=1", ["unknown"]),
    ("number=1&number=1", ["number"]),
    ("number=1.0", ["number"]),
    ("number=+1", ["number"]),
    ("number=", ["number"]),
    ("number=9007199254740992", ["number"]),
    ("number=12345678901234567", ["number"]),
    ("flag=1", ["flag"]),
    ("flag=True", ["flag"]),
    ("words=a,,b", ["words"]),
    ("words=a,a", ["words"]),
    ("words=a,%20b", ["words"]),
    ("at=2026-11-20", ["at"]),
    ("limit=0", ["limit"]),
    ("limit=-1", ["limit"]),
    ("limit=x", ["limit"]),
    ("cursor=x", ["cursor"]),
    ("cursor=" + "a" * 513, ["cursor"]),
    ("limit=0&number=x&unknown=1", ["limit", "number", "unknown"]),
    ("number=%ff", ["number"]),
]


async def test_a_wrong_parameter_is_named(caller: Caller) -> None:
    """Names every unknown, repeated or ill-formed query parameter."""
    for query, names in WRONG_QUERIES:
        for path in (SMALL, "/v1/automations/probe/far"):
            response = await caller.call("GET", f"{path}?{query}")
            assert (response.status, sorted(response.errors)) == (422, sorted(names)), query


async def test_a_limit_above_the_maximum_is_lowered(caller: Caller) -> None:
    """Lowers a `limit` over 200 to 200."""
    for limit, meant in ((200, 200), (201, 200), (10**15, 200), (1, 1)):
        assert (await caller.get(SMALL, limit=limit)).data["echo"]["query"]["limit"] == meant


async def test_a_cursor_continues_after_its_row_and_only_with_its_own_filters(
    probed: Service, caller: Caller
) -> None:
    """Continues after the cursor's row; refuses it with other filters, path, organization or text."""
    cursor = (await caller.get(SMALL, number=5)).data["echo"]["next"]
    response = await caller.get(SMALL, number=5, cursor=cursor, limit=10)
    assert response.data["echo"]["after"] == ["ä", 5]
    stranger = await probed.token("stranger")
    refused = [
        await caller.get(SMALL, cursor=cursor),
        await caller.get(SMALL, number=6, cursor=cursor),
        await caller.get("/v1/automations/probe/far", number=5, cursor=cursor),
        await stranger.get(SMALL, number=5, cursor=cursor),
        await caller.get(SMALL, number=5, cursor=altered(cursor, -4)),
        await caller.get(SMALL, number=5, cursor=altered(cursor, 0)),
    ]
    for reply in refused:
        assert (reply.status, list(reply.errors)) == (422, ["cursor"])


async def test_a_target_or_headers_too_long_are_refused(caller: Caller) -> None:
    """Refuses a request target over 8 KiB with 414 and long headers with 431."""
    room = 8 * 1024 - len(SMALL) - len("x=")
    assert (await caller.call("GET", f"{SMALL}?x=" + "a" * room)).status == 422
    response = await caller.call("GET", f"{SMALL}?x=" + "a" * (room + 1))
    assert (response.status, response.code) == (414, "too_large")
    response = await caller.call("GET", SMALL, headers={"X-Much": "a" * 33_000})
    assert (response.status, response.code) == (431, "too_large")
