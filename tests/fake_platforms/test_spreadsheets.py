"""Tests fake spreadsheets and the tokens for them. See docs/design/fake-platforms.md#services."""

import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.fake_platforms.seed import private_key
from tests.fake_clock import FakeClock

pytestmark = pytest.mark.anyio

SCOPE = "https://www.googleapis.com/auth/spreadsheets"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
LOG = "/sheets/v4/spreadsheets/sheet-log"
PRICES = "/sheets/v4/spreadsheets/sheet-prices"


def _assertion(platforms: FakePlatforms, clock: FakeClock, *, key: str | None = None, **claims: Any) -> str:
    account = platforms.described()["spreadsheet"]["service_account"]
    now = int(clock.now().timestamp())
    claim_set = {"iss": account["client_email"], "scope": SCOPE, "aud": account["token_uri"]}
    claim_set |= {"iat": now, "exp": now + 3600, **claims}
    return jwt.encode(claim_set, key or account["private_key"], algorithm="RS256")


async def _token(outside: httpx.AsyncClient, assertion: str) -> httpx.Response:
    form = {"grant_type": BEARER, "assertion": assertion}
    return await outside.post("/google/token", data=form)


@pytest.fixture
async def sheets(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> AsyncIterator[httpx.AsyncClient]:
    """Provides a client with the service account's token."""
    granted = (await _token(outside, _assertion(platforms, clock))).json()
    headers = {"Authorization": f"Bearer {granted['access_token']}"}
    base = "https://shop.example"
    async with httpx.AsyncClient(transport=platforms.transport(), base_url=base, headers=headers) as client:
        yield client


async def test_a_signed_assertion_is_worth_a_token_for_an_hour(
    sheets: httpx.AsyncClient, clock: FakeClock
) -> None:
    """Gives a token for a signed JWT; the token ends after an hour.

    See docs/design/fake-platforms.md#services.
    """
    assert (await sheets.get(LOG)).status_code == 200
    await clock.advance(3600)
    ended = await sheets.get(LOG)
    assert (ended.status_code, ended.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("claims", "error"),
    [
        ({"iss": "somebody@else.example"}, "invalid_grant"),
        ({"aud": "https://elsewhere.example/token"}, "invalid_grant"),
        ({"exp": 1}, "invalid_grant"),
        ({"scope": "email"}, "invalid_scope"),
    ],
)
async def test_an_assertion_that_does_not_fit_is_refused(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock, claims: dict[str, Any], error: str
) -> None:
    """Refuses another issuer, audience or scope, and an assertion that has expired.

    See docs/design/fake-platforms.md#services.
    """
    response = await _token(outside, _assertion(platforms, clock, **claims))
    assert (response.status_code, response.json()["error"]) == (400, error)


async def test_an_assertion_signed_with_another_key_or_longer_than_an_hour_is_refused(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Refuses another key, a lifetime over an hour, and a text that is not a JWT.

    See docs/design/fake-platforms.md#services.
    """
    other = await _token(outside, _assertion(platforms, clock, key=private_key(2)))
    assert (other.status_code, other.json()["error_description"]) == (400, "Invalid JWT Signature.")
    now = int(clock.now().timestamp())
    assert (await _token(outside, _assertion(platforms, clock, exp=now + 3601))).status_code == 400
    assert (await _token(outside, "not.a.token")).status_code == 400


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _code(outside: httpx.AsyncClient, platforms: FakePlatforms, **query: str) -> httpx.Response:
    query_values = {
        "client_id": platforms.state.keys.client_id,
        "redirect_uri": "https://steward.example/back",
    }
    query_values |= {"response_type": "code", "scope": SCOPE, "state": "s t", "code_challenge_method": "S256"}
    query_values |= {"code_challenge": _challenge("v" * 43), **query}
    return await outside.get("/google/authorize", params=query_values)


def _form(platforms: FakePlatforms, code: str) -> dict[str, str]:
    keys = platforms.state.keys
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": "v" * 43}
    form |= {"redirect_uri": "https://steward.example/back", "client_id": keys.client_id}
    return form | {"client_secret": keys.client_secret}


async def test_a_sign_in_redirects_at_once_with_a_code_good_for_one_token(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Redirects with a code that is good for one token; the refresh token works until it is revoked.

    See docs/design/fake-platforms.md#services.
    """
    response = await _code(outside, platforms)
    assert response.status_code == 302
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert query["state"] == ["s t"]
    form = _form(platforms, query["code"][0])
    granted = (await outside.post("/google/token", data=form)).json()
    again = await outside.post("/google/token", data=form)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    fresh = {"grant_type": "refresh_token", "refresh_token": granted["refresh_token"]}
    fresh |= {"client_id": form["client_id"], "client_secret": form["client_secret"]}
    second = (await outside.post("/google/token", data=fresh)).json()
    for token in (granted["access_token"], second["access_token"]):
        headers = {"Authorization": f"Bearer {token}"}
        assert (await outside.get(LOG, headers=headers)).status_code == 200
    platforms.state.google.revoke()
    ended = await outside.post("/google/token", data=fresh)
    assert (ended.status_code, ended.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"code_verifier": "w" * 43}, 400),
        ({"redirect_uri": "https://other.example/back"}, 400),
        ({"client_secret": "wrong"}, 401),
        ({"code": "4/unknown"}, 400),
    ],
)
async def test_a_code_is_worth_nothing_with_another_verifier_address_or_secret(
    outside: httpx.AsyncClient, platforms: FakePlatforms, change: dict[str, str], status: int
) -> None:
    """Refuses a code with another verifier, address or secret, and an unknown code.

    See docs/design/fake-platforms.md#services.
    """
    query = parse_qs(urlsplit((await _code(outside, platforms)).headers["location"]).query)
    form = _form(platforms, query["code"][0]) | change
    assert (await outside.post("/google/token", data=form)).status_code == status


async def test_a_sign_in_without_pkce_comes_back_with_an_error(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Redirects with `invalid_request` without a code challenge; an unknown client is 401.

    See docs/design/fake-platforms.md#services.
    """
    response = await _code(outside, platforms, code_challenge="")
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert query["error"] == ["invalid_request"]
    assert (await _code(outside, platforms, client_id="other")).status_code == 401


async def test_a_service_account_sees_only_what_is_shared_with_it(
    sheets: httpx.AsyncClient, outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Answers 401 without a token, 404 for an unknown spreadsheet and 403 for one that is not shared.

    See docs/design/fake-platforms.md#services.
    """
    assert (await outside.get(LOG)).status_code == 401
    assert (await sheets.get("/sheets/v4/spreadsheets/unknown")).status_code == 404
    platforms.state.google.books["sheet-log"].shared_with.clear()
    refused = await sheets.get(LOG)
    assert (refused.status_code, refused.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


async def test_written_values_come_back_with_their_types_and_formulas_as_text(
    sheets: httpx.AsyncClient,
) -> None:
    """Returns values with their types, and RAW texts that begin with an equals sign as text.

    See docs/design/connectors.md#google-sheets.
    """
    rows = [["SKU", "Price", "Ok"], ["=1+1", 12.5, True], ["007", 3, False]]
    query = {"valueInputOption": "RAW"}
    put = await sheets.put(f"{LOG}/values/Log!A1:C3", params=query, json={"values": rows})
    assert put.json() == {
        "spreadsheetId": "sheet-log",
        "updatedRange": "Log!A1:C3",
        "updatedRows": 3,
        "updatedColumns": 3,
        "updatedCells": 9,
    }
    unformatted = {"valueRenderOption": "UNFORMATTED_VALUE"}
    assert (await sheets.get(f"{LOG}/values/Log", params=unformatted)).json()["values"] == rows
    values = (await sheets.get(f"{LOG}/values/Log!A2:C2")).json()["values"]
    assert values == [["=1+1", "12.5", "TRUE"]]
    turned = await sheets.get(f"{LOG}/values/Log!A1:A3", params={"majorDimension": "COLUMNS"})
    assert turned.json()["values"] == [["SKU", "=1+1", "007"]]


async def test_each_append_adds_rows_below_the_last(
    sheets: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Appends below the last row, so that a repeated append adds rows again.

    See docs/design/connectors.md#google-sheets.
    """
    query = {"valueInputOption": "RAW", "insertDataOption": "INSERT_ROWS"}
    first = await sheets.post(f"{LOG}/values/Log!A1:append", params=query, json={"values": [["a", 1]]})
    second = await sheets.post(f"{LOG}/values/Log:append", params=query, json={"values": [["a", 1]]})
    assert "tableRange" not in first.json()
    assert second.json()["tableRange"] == "Log!A1:B1"
    assert second.json()["updates"]["updatedRange"] == "Log!A2:B2"
    assert platforms.state.google.books["sheet-log"].tab("Log").values() == [["a", 1], ["a", 1]]
    missing = await sheets.post(f"{LOG}/values/Log:append", json={"values": [["b"]]})
    assert missing.status_code == 400


async def test_a_batch_of_values_is_written_whole_or_not_at_all(
    sheets: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Writes nothing of a batch with one bad range, and all of a good one.

    See docs/design/connectors.md#tests.
    """
    good = {"range": "Log!A1:B1", "values": [["x", "y"]]}
    bad = {"range": "Log!A1", "values": [["too", "wide"]]}
    body = {"valueInputOption": "RAW", "data": [good, bad]}
    refused = await sheets.post(f"{LOG}/values:batchUpdate", json=body)
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert platforms.state.google.books["sheet-log"].tab("Log").values() == []
    done = await sheets.post(f"{LOG}/values:batchUpdate", json={**body, "data": [good]})
    assert done.json()["totalUpdatedCells"] == 2
    query = [("ranges", "Log!A1"), ("ranges", "Log!B1")]
    value_ranges = (await sheets.get(f"{LOG}/values:batchGet", params=query)).json()["valueRanges"]
    assert [value_range["values"] for value_range in value_ranges] == [[["x"]], [["y"]]]


async def test_clearing_empties_the_range_alone(sheets: httpx.AsyncClient, platforms: FakePlatforms) -> None:
    """Empties the cells of the range, and no others. See docs/design/fake-platforms.md#services."""
    cleared = await sheets.post(f"{PRICES}/values/Prices!B2:B:clear", json={})
    assert cleared.json()["clearedRange"] == "Prices!B2:B1000"
    rows = platforms.state.google.books["sheet-prices"].tab("Prices").values()
    assert rows[0] == ["SKU", "Price"]
    assert all(len(row) == 1 for row in rows[1:])


@pytest.mark.parametrize("text", ["Gone!A1", "Gone", "Prices!A0", "Prices!", "Prices!B2:A1"])
async def test_a_range_that_cannot_be_read_is_refused(sheets: httpx.AsyncClient, text: str) -> None:
    """Answers 400 with the range to one that is malformed or names a missing tab.

    See docs/design/connectors.md#google-sheets.
    """
    response = await sheets.get(f"{PRICES}/values/{text}")
    assert response.status_code == 400
    assert response.json()["error"]["message"] == f"Unable to parse range: {text}"


async def test_tabs_and_marks_are_added_by_a_batch_that_is_whole_or_nothing(
    sheets: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Adds a tab and metadata in one batch, or nothing if one request fails.

    See docs/design/fake-platforms.md#services.
    """
    add = {"addSheet": {"properties": {"title": "Runs"}}}
    mark = {"metadataKey": "_steward_op", "metadataValue": "m1", "visibility": "DOCUMENT"}
    noted = {"createDeveloperMetadata": {"developerMetadata": {**mark, "location": {"spreadsheet": True}}}}
    twice = await sheets.post(f"{LOG}:batchUpdate", json={"requests": [add, add]})
    assert twice.status_code == 400
    assert len((await sheets.get(LOG)).json()["sheets"]) == 1
    done = await sheets.post(f"{LOG}:batchUpdate", json={"requests": [add, noted]})
    assert done.json()["replies"][0]["addSheet"]["properties"]["title"] == "Runs"
    spreadsheet = (await sheets.get(LOG)).json()
    assert [tab["properties"]["title"] for tab in spreadsheet["sheets"]] == ["Log", "Runs"]
    assert spreadsheet["developerMetadata"][0]["metadataValue"] == "m1"
    entry = platforms.state.ledger.writes()[-1]
    assert (entry["marks"], entry["applied"]) == (["m1"], True)
