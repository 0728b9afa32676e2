"""S3-compatible storage over a fake bucket: published signing examples, lists, files and refusals."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from steward.connectors.base.queries import FILE, FILES, FileQuery, FilesQuery
from steward.connectors.base.settings import BadSettings
from steward.connectors.cloud_s3.responses import listed
from steward.connectors.cloud_s3.signing import canonical_query, signed_headers
from steward.model.limits import MAX_FILE_BYTES
from steward.outbound.errors import (
    MissingRight,
    RemoteNotFound,
    Stale,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
)
from steward.outbound.response import PlatformResponse
from steward.telemetry.redact import Secret
from tests.connectors.fake_connections import Connection, FakePlatformsClient

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SIGNED_AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
# Signatures from the published test suite of Signature Version 4 (service "service", us-east-1).
EXAMPLES = [
    ("/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ("/%E1%88%B4", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
]


@pytest.mark.parametrize(("path", "mark"), EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_signatures_are_those_of_the_published_examples(path: str, mark: str) -> None:
    """Signs requests as the published test suite does. See docs/design/connectors.md#s3."""
    headers = signed_headers(
        KEY, SECRET, method="GET", url=f"https://example.amazonaws.com{path}", headers={}, region="us-east-1",
        now=SIGNED_AT, service="service",
    )  # fmt: skip
    assert headers["authorization"].endswith(f"SignedHeaders=host;x-amz-date, Signature={mark}")


def test_a_read_of_an_object_is_signed_as_the_documentation_shows() -> None:
    """Signs GET of an object with a range and GET with a query as the S3 documentation shows."""
    settings: dict[str, Any] = {
        "region": "us-east-1",
        "now": datetime(2013, 5, 24, tzinfo=UTC),
        "method": "GET",
    }
    keys = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    base = "https://examplebucket.s3.amazonaws.com"
    headers = signed_headers(*keys, url=f"{base}/test.txt", headers={"range": "bytes=0-9"}, **settings)
    assert headers["authorization"].endswith(
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )
    headers = signed_headers(*keys, url=f"{base}/?max-keys=2&prefix=J", headers={}, **settings)
    assert headers["authorization"].endswith(
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )
    assert canonical_query("b=2&a=%2F+x&a=") == "a=&a=%2F%20x&b=2"


@pytest.fixture
def bucket(world: FakePlatformsClient) -> Connection:
    """Returns the connection of the fake bucket."""
    return world.connection("cloud_s3")


async def test_files_are_listed_and_read_and_nothing_is_written(
    bucket: Connection, world: FakePlatformsClient
) -> None:
    """Lists files by folder and time of change, reads one up to 20 MiB, and writes nothing.

    See docs/design/connectors.md#s3.
    """
    store = world.world.state.store
    later = world.clock.tick(60)
    for number in range(1100):
        store.put("supplier", f"old/{number:04} ä&.csv", b"x")
    files = await bucket.all(FILES, FilesQuery())
    assert len(files) == 1101
    assert len(await bucket.all(FILES, FilesQuery(folder="old/00"))) == 100
    assert "old/0007 ä&.csv" in {file.path for file in files}
    assert await bucket.all(FILES, FilesQuery(modified_after=later)) == []
    [read] = await bucket.all(FILE, FileQuery("stock.csv"))
    assert read.body is not None
    assert read.body.startswith(b"sku,stock,price,cost")
    [same] = await bucket.all(FILE, FileQuery("stock.csv", unless_etag=read.file.etag))
    assert (same.body, same.file) == (None, read.file)
    [odd] = await bucket.all(FILE, FileQuery("old/0007 ä&.csv"))
    assert odd.body == b"x"
    store.put("supplier", "large.csv", b"x" * MAX_FILE_BYTES)
    assert (await bucket.all(FILE, FileQuery("large.csv")))[0].body == b"x" * MAX_FILE_BYTES
    store.put("supplier", "larger.csv", b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(UnusableResponse, match="20 MiB"):
        await bucket.all(FILE, FileQuery("larger.csv"))
    assert world.written() == []


@pytest.mark.parametrize("name", ["", "../a", "a//b", "a/./b", "x" * 1025, "missing.csv"])
async def test_a_name_that_leads_outside_is_no_file(bucket: Connection, name: str) -> None:
    """Raises RemoteNotFound for names outside the prefix and for missing files.

    See docs/design/connectors.md#s3.
    """
    with pytest.raises(RemoteNotFound):
        await bucket.all(FILE, FileQuery(name))


async def test_a_file_replaced_while_it_is_read_is_noticed(
    bucket: Connection, world: FakePlatformsClient
) -> None:
    """Raises Stale when a file changes between the list and the read, by If-Match on its ETag.

    See docs/design/connectors.md#s3.
    """
    store, held = world.world.state.store, world.world.state.store.buckets["supplier"]

    class Changing(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            outcome = super().get(key, default)
            self[key] = replace(outcome, content=outcome.content + b"\n")
            return outcome

    store.buckets["supplier"] = Changing(held)
    with pytest.raises(Stale):
        await bucket.all(FILE, FileQuery("stock.csv"))


async def test_a_check_distinguishes_wrong_keys_regions_and_buckets(
    bucket: Connection, world: FakePlatformsClient
) -> None:
    """Names the field that is wrong: keys, region or bucket; a redirect names the right region.

    See docs/design/connectors.md#s3.
    """
    assert (await bucket.check()).ok
    cases: list[tuple[dict[str, str], type[Exception], str]] = [
        ({"access_key_id": "AKIAOTHER"}, Unauthorized, "secret_access_key"),
        ({"secret_access_key": "wrong"}, Unauthorized, "secret_access_key"),
        ({"region": "eu-west-9"}, WrongAddress, "region"),
        ({"bucket": "another"}, WrongAddress, "bucket"),
    ]
    for settings, kind, field in cases:
        health = await world.connection("cloud_s3", settings).check()
        assert isinstance(health.error, kind)
        assert health.error_field == field
    region = world.world.described()["cloud_s3"]["region"]
    error = (await world.connection("cloud_s3", {"region": "eu-west-9"}).check()).error
    assert error is not None
    assert region in error.message
    faults = world.world.state.faults
    faults.make({"method": "GET", "path": "/s3/**", "kind": "status", "status": 403, "count": 1})
    assert isinstance((await bucket.check()).error, MissingRight)
    assert not any("wJalr" in line or SECRET in line for line in world.lines)


def hostile() -> Iterator[bytes]:
    """Yields list answers that no storage sends."""
    yield b"<html>"
    yield b"not xml"
    yield b'<!DOCTYPE a [<!ENTITY x "y">]><ListBucketResult>&x;</ListBucketResult>'
    yield b"<a>" * 20 + b"</a>" * 20
    yield b"<L><IsTruncated>true</IsTruncated></L>"
    yield b"<L><Contents><Key>a</Key><Size>x</Size></Contents></L>"
    yield b"<L>" + b"<a/>" * 30_000 + b"</L>"


@pytest.mark.parametrize("body", list(hostile()))
def test_a_hostile_list_is_broken(body: bytes) -> None:
    """Raises UnusableResponse for a hostile list. See docs/design/connectors.md#tests."""
    with pytest.raises(UnusableResponse):
        listed(PlatformResponse(200, {}, body))


def test_settings_say_which_field_is_wrong(world: FakePlatformsClient) -> None:
    """Names the invalid or unknown field of the settings. See docs/design/api/connections.md#connecting."""
    good = {name: value for name, value in world.world.described()["cloud_s3"].items()}
    connector = world.connectors["cloud_s3"]
    assert connector.settings({**good, "prefix": "/a/b"}).plain["prefix"] == "a/b/"
    cases = {
        "endpoint_url": "http://public.example", "region": "EU West", "bucket": "A", "access_key_id": "a b",
        "secret_access_key": "", "prefix": "a/../b", "other": "x",
    }  # fmt: skip
    for name, value in cases.items():
        with pytest.raises(BadSettings) as refused:
            connector.settings({**good, name: value})
        assert set(refused.value.errors) == {name}


@pytest.mark.parametrize(
    ("endpoint", "bucket", "url"),
    [
        (
            "https://s3.eu-central-1.amazonaws.com",
            "supplier",
            "https://supplier.s3.eu-central-1.amazonaws.com",
        ),
        ("https://s3.eu-central-1.amazonaws.com", "sup.plier", "https://s3.eu-central-1.amazonaws.com"),
        ("https://objects.example", "supplier", "https://objects.example"),
        ("https://supplier.objects.example", "supplier", "https://supplier.objects.example"),
    ],
)
def test_both_styles_of_address_are_called(
    world: FakePlatformsClient, endpoint: str, bucket: str, url: str
) -> None:
    """Calls the bucket in path style or as a host name, as the endpoint and the bucket's name allow.

    See docs/design/connectors.md#s3.
    """
    settings = {"endpoint_url": endpoint, "bucket": bucket, "region": "eu-central-1"}
    connection = world.connection("cloud_s3", settings)
    assert connection.connector.endpoint(connection.secrets).base_url == url
    assert isinstance(connection.secrets.sealed["secret_access_key"], Secret)
