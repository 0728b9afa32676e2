"""Tests the fake Teams workflow and the fake bucket. See docs/design/fake-platforms.md#services."""

import hashlib
import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.fake_platforms.object_store import sign
from tests.fake_clock import FakeClock

pytestmark = pytest.mark.anyio

CARD = {
    "type": "AdaptiveCard",
    "id": "mark-1",
    "body": [
        {"type": "TextBlock", "text": "Two prices changed"},
        {"type": "FactSet", "facts": [{"title": "Run", "value": "7"}]},
    ],
}


def _message(card: dict[str, Any]) -> dict[str, Any]:
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


async def test_a_card_is_accepted_and_kept(outside: httpx.AsyncClient, platforms: FakePlatforms) -> None:
    """Answers 202, and keeps the card, its text and its mark.

    See docs/design/fake-platforms.md#services and docs/design/fake-platforms.md#control.
    """
    address = platforms.described()["teams"]["webhook_url"]
    response = await outside.post(address, json=_message(CARD))
    assert (response.status_code, response.content) == (202, b"")
    (message,) = (await outside.get("/sandbox/teams/ops")).json()["messages"]
    assert (message["card"], message["text"]) == (CARD, "Two prices changed\nRun: 7")
    entry = platforms.state.ledger.writes()[0]
    assert (entry["service"], entry["marks"], entry["applied"]) == ("teams", ["mark-1"], True)


async def test_a_wrong_signature_and_an_unknown_workflow_are_refused(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Answers 401 to a wrong signature, 404 to an unknown workflow, and keeps no message.

    See docs/design/fake-platforms.md#services.
    """
    address = platforms.described()["teams"]["webhook_url"]
    assert (await outside.post(address + "x", json=_message(CARD))).status_code == 401
    assert (await outside.post("/teams/workflows/other?sig=x", json={})).status_code == 404
    assert (await outside.get("/sandbox/teams/other")).status_code == 404
    assert platforms.state.teams.inbox == {"ops": []}
    assert not any(entry["applied"] for entry in platforms.state.ledger.writes())


@pytest.mark.parametrize(("over", "status"), [(0, 202), (1, 413)])
async def test_a_message_may_have_28_kilobytes(
    outside: httpx.AsyncClient, platforms: FakePlatforms, over: int, status: int
) -> None:
    """Accepts a body of 28 KiB and answers 413 to one byte more.

    See docs/design/fake-platforms.md#services.
    """
    start = b'{"type": "message", "text": "'
    body = start + b"x" * (28 * 1024 + over - len(start) - 2) + b'"}'
    response = await outside.post(platforms.described()["teams"]["webhook_url"], content=body)
    assert response.status_code == status


class _Signer:
    """Signs requests as a client of the bucket does, independently of the server's code."""

    def __init__(self, platforms: FakePlatforms, clock: FakeClock) -> None:
        self.bucket = platforms.described()["cloud_s3"]
        self.clock = clock

    def request(
        self, method: str, path: str, query: dict[str, str] | None = None, **change: str
    ) -> httpx.Request:
        timestamp = self.clock.now().strftime("%Y%m%dT%H%M%SZ")
        region = change.get("region", self.bucket["region"])
        payload = hashlib.sha256(b"").hexdigest()
        pairs = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted((query or {}).items()))
        lines = f"host:shop.example\nx-amz-content-sha256:{payload}\nx-amz-date:{timestamp}\n"
        names = "host;x-amz-content-sha256;x-amz-date"
        canonical = f"{method}\n{quote(path)}\n{pairs}\n{lines}\n{names}\n{payload}"
        secret = change.get("secret", self.bucket["secret_access_key"])
        mark = sign(secret, (timestamp[:8], region, "s3"), timestamp, canonical)
        key = change.get("key", self.bucket["access_key_id"])
        text = f"AWS4-HMAC-SHA256 Credential={key}/{timestamp[:8]}/{region}/s3/aws4_request, "
        headers = {"x-amz-date": timestamp, "x-amz-content-sha256": payload, "host": "shop.example"}
        headers["authorization"] = f"{text}SignedHeaders={names}, Signature={mark}"
        url = f"https://shop.example{quote(path)}" + (f"?{pairs}" if pairs else "")
        return httpx.Request(method, url, headers=headers)


def test_the_signature_is_that_of_the_published_example() -> None:
    """Gives the signature that the documentation of signature version 4 publishes for “GET Object”."""
    empty = hashlib.sha256(b"").hexdigest()
    lines = f"host:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\nx-amz-content-sha256:{empty}\n"
    names = "host;range;x-amz-content-sha256;x-amz-date"
    canonical = f"GET\n/test.txt\n\n{lines}x-amz-date:20130524T000000Z\n\n{names}\n{empty}"
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    signature = sign(secret, ("20130524", "us-east-1", "s3"), "20130524T000000Z", canonical)
    assert signature == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"


async def test_the_suppliers_file_is_read_with_its_tag_and_time(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Returns 40 rows, two of them not in the shop, with the same ETag and Last-Modified for GET and HEAD.

    See docs/design/fake-platforms.md#services.
    """
    signer = _Signer(platforms, clock)
    response = await outside.send(signer.request("GET", "/s3/supplier/stock.csv"))
    head = await outside.send(signer.request("HEAD", "/s3/supplier/stock.csv"))
    digest = hashlib.md5(response.content).hexdigest()
    assert response.headers["etag"] == head.headers["etag"] == f'"{digest}"'
    assert head.headers["last-modified"] == "Fri, 01 May 2026 06:00:00 GMT"
    assert (head.content, head.headers["content-length"]) == (b"", str(len(response.content)))
    lines = response.text.splitlines()
    assert lines[0] == "sku,stock,price,cost"
    shop = platforms.state.shop
    unknown = [line for line in lines[1:] if not list(shop.with_sku(line.partition(",")[0]))]
    assert (len(lines) - 1, len(unknown)) == (40, 2)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"secret": "wrong"}, 403, "SignatureDoesNotMatch"),
        ({"key": "AKIAOTHER"}, 403, "InvalidAccessKeyId"),
        ({"region": "us-east-1"}, 400, "AuthorizationHeaderMalformed"),
    ],
)
async def test_a_request_signed_otherwise_is_refused(
    outside: httpx.AsyncClient,
    platforms: FakePlatforms,
    clock: FakeClock,
    change: dict[str, str],
    status: int,
    code: str,
) -> None:
    """Refuses a wrong secret, an unknown key and another region with the code of S3.

    See docs/design/fake-platforms.md#services.
    """
    signer = _Signer(platforms, clock)
    response = await outside.send(signer.request("GET", "/s3/supplier/stock.csv", **change))
    assert response.status_code == status
    assert f"<Code>{code}</Code>" in response.text


async def test_an_unsigned_a_stale_and_a_changed_request_are_refused(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Refuses a request without a signature, for another path, or older than 15 minutes.

    See docs/design/fake-platforms.md#services.
    """
    assert (await outside.get("/s3/supplier/stock.csv")).status_code == 403
    signed = _Signer(platforms, clock).request("GET", "/s3/supplier/stock.csv")
    moved = httpx.Request("GET", "https://shop.example/s3/supplier/other.csv", headers=signed.headers)
    assert "SignatureDoesNotMatch" in (await outside.send(moved)).text
    await clock.advance(timedelta(minutes=15).total_seconds() + 1)
    assert "RequestTimeTooSkewed" in (await outside.send(signed)).text


async def test_a_list_is_given_in_pages_and_by_prefix(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Lists names in pages and by prefix, also names that need escaping.

    See docs/design/fake-platforms.md#services.
    """
    for number in range(5):
        platforms.state.store.put("supplier", f"in/päckchen & {number}.csv", b"x")
    signer, keys, token = _Signer(platforms, clock), [], ""
    while True:
        query = {"list-type": "2", "prefix": "in/", "max-keys": "2"}
        query |= {"continuation-token": token} if token else {}
        text = (await outside.send(signer.request("GET", "/s3/supplier", query))).text
        keys += re.findall("<Key>([^<]*)</Key>", text)
        token_match = re.search("<NextContinuationToken>([^<]*)</", text)
        if token_match is None:
            break
        token = token_match[1].replace("&amp;", "&")
    assert keys == [f"in/päckchen &amp; {number}.csv" for number in range(5)]
    response = await outside.send(signer.request("GET", "/s3/supplier/in/päckchen & 3.csv"))
    assert response.content == b"x"
    whole = await outside.send(signer.request("GET", "/s3/supplier", {"list-type": "2", "delimiter": "/"}))
    assert "<CommonPrefixes><Prefix>in/</Prefix></CommonPrefixes>" in whole.text


async def test_a_replaced_file_is_noticed_by_its_tag(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Answers 412 to If-Match after the file was replaced. See docs/design/connectors.md#s3."""
    signer = _Signer(platforms, clock)
    tag = (await outside.send(signer.request("HEAD", "/s3/supplier/stock.csv"))).headers["etag"]
    again = signer.request("GET", "/s3/supplier/stock.csv")
    again.headers["if-match"] = tag
    assert (await outside.send(again)).status_code == 200
    platforms.state.store.put("supplier", "stock.csv", b"sku\n")
    assert (await outside.send(again)).status_code == 412


async def test_nothing_can_be_written_to_the_bucket(
    outside: httpx.AsyncClient, platforms: FakePlatforms, clock: FakeClock
) -> None:
    """Answers 403 to every write, and records it as not applied.

    See docs/design/fake-platforms.md#services.
    """
    signer = _Signer(platforms, clock)
    for method in ("PUT", "DELETE", "POST"):
        assert (await outside.send(signer.request(method, "/s3/supplier/stock.csv"))).status_code == 403
    entries = platforms.state.ledger.writes()
    assert [(entry["service"], entry["applied"], entry["answered"]) for entry in entries] == [
        ("s3", False, 403)
    ] * 3
