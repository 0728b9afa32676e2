"""The S3 connector over sockets against the server of `moto`, whose signature check is not ours."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from steward.clock import SystemClock
from steward.connectors.base.connector import Health
from steward.connectors.base.queries import FILE, FILES, FileQuery, FilesQuery
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.cloud_s3.connector import CloudS3Connector
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.outbound.errors import MissingRight, RemoteNotFound, Stale, Unauthorized
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.processes.ports import free_port
from tests.processes.running import eventually

SERVER = Path(__file__).resolve().parents[2] / ".cache" / "moto" / "bin" / "moto_server"
REGION, BUCKET = "eu-central-1", "supplier"
# Characters whose encoding in a signature has only one right form.
NAMES = (
    "feed/stock.csv",
    "feed/März & April/a+b=c?d#e%20f.csv",
    "feed/~tilde_-.csv",
    "feed/'quote'(1)!*.csv",
)
RIGHTS = """{"Version": "2012-10-17", "Statement": [
 {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::supplier"},
 {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::supplier/feed/*"}]}"""

pytestmark = pytest.mark.skipif(
    not SERVER.exists(), reason="SKIPPED LOUDLY: the server of moto is not there; run `make try-s3`"
)


@dataclass
class Storage:
    """A moto server with a bucket and a user whose rights end at one prefix."""

    url: str
    key_id: str
    secret: str

    def opened(self, **changed: str) -> tuple[CloudS3Connector, ConnectionSecrets, Outbound]:
        """Returns the connector with that user's key over real sockets; `changed` replaces settings."""
        host = self.url.removeprefix("http://")
        connector = CloudS3Connector(private_hosts=frozenset([host]), read_s=20.0)
        form = {
            "endpoint_url": self.url,
            "region": REGION,
            "bucket": BUCKET,
            "prefix": "feed/",
            "access_key_id": self.key_id,
            "secret_access_key": self.secret,
            **changed,
        }
        settings = connector.settings(dict(form))
        clock, register = SystemClock(), SecretRegister()
        wire = HttpTransport(clock, register, Log(lambda line: None, clock, register), private_hosts=[host])
        return connector, ConnectionSecrets(IntegrationId(7), settings.plain, settings.sealed), Outbound(wire)

    async def check(self, **changed: str) -> Health:
        """Checks the connection as connecting does."""
        connector, secrets, outbound = self.opened(**changed)
        try:
            return await connector.check(
                outbound.management_client(OrgId(1), None, connector.endpoint(secrets)), secrets
            )
        finally:
            await outbound.aclose()

    async def all(self, op: Any, query: Any, **changed: str) -> list[Any]:
        """Returns every item of a read."""
        connector, secrets, outbound = self.opened(**changed)
        http = outbound.read_client(OrgId(1), IntegrationId(7), connector.endpoint(secrets))
        try:
            pages = connector.reader(http, secrets).read(op, query)
            return [item async for page in pages for item in page.items]
        finally:
            await outbound.aclose()

    async def put(self, files: Mapping[str, bytes]) -> None:
        """Stores files as another user, with moto's check of signatures switched off meanwhile."""
        async with httpx.AsyncClient(base_url=self.url) as client:
            await client.post("/moto-api/reset-auth", content=b"1000000")
            for name, content in files.items():
                path = f"/{BUCKET}/{quote(name)}"
                response = await client.put(path, content=content, headers=_somebody("s3"))
                assert response.status_code == 200, response.text
            await client.post("/moto-api/reset-auth", content=b"0")


def _somebody(service: str) -> dict[str, str]:
    """Returns headers with a signature that moto does not check and that names the service."""
    scope = f"Credential=seed/20260501/us-east-1/{service}/aws4_request"
    return {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    """Yields a fresh server that checks every signature and right from here on."""
    port = free_port()
    quiet = asyncio.subprocess.DEVNULL
    server = await asyncio.create_subprocess_exec(
        str(SERVER), "-H", "127.0.0.1", "-p", str(port), stdout=quiet, stderr=quiet
    )
    new_storage = Storage(f"http://127.0.0.1:{port}", "", "")
    try:
        await _populate(new_storage)
        yield new_storage
    finally:
        server.terminate()
        await server.wait()


async def _populate(storage: Storage) -> None:
    async with httpx.AsyncClient(base_url=storage.url, timeout=30) as client:
        await eventually(lambda: _responds(client))
        made_in = f"<LocationConstraint>{REGION}</LocationConstraint>"
        location = f"<CreateBucketConfiguration>{made_in}</CreateBucketConfiguration>"
        assert (await client.put(f"/{BUCKET}", content=location)).status_code == 200
        iam = _somebody("iam")
        for query in (
            {"Action": "CreateUser", "UserName": "steward"},
            {
                "Action": "PutUserPolicy",
                "UserName": "steward",
                "PolicyName": "feed",
                "PolicyDocument": RIGHTS,
            },
        ):
            response = await client.post("/", data={**query, "Version": "2010-05-08"}, headers=iam)
            assert response.status_code == 200, response.text
        request_body = {"Action": "CreateAccessKey", "UserName": "steward", "Version": "2010-05-08"}
        text = (await client.post("/", data=request_body, headers=iam)).text
        storage.key_id, storage.secret = (
            text.partition(f"<{name}>")[2].partition("<")[0] for name in ("AccessKeyId", "SecretAccessKey")
        )
    await storage.put({name: name.encode() for name in (*NAMES, "other/secret.csv")})


async def _responds(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/moto-api/")).status_code == 200
    except httpx.ConnectError:
        return False


async def test_files_of_any_name_are_listed_and_read(storage: Storage) -> None:
    """Lists and reads files whose names need encoding, and lists of more than one page.

    See docs/design/connectors.md#s3 and docs/design/connectors.md#tests.
    """
    assert (await storage.check()).ok
    listed = await storage.all(FILES, FilesQuery())
    assert {item.path for item in listed} == set(NAMES)
    for name in NAMES:
        [read] = await storage.all(FILE, FileQuery(name.removeprefix("feed/")))
        assert read.body == name.encode(), name
        [same] = await storage.all(FILE, FileQuery(name.removeprefix("feed/"), unless_etag=read.file.etag))
        assert (same.body, same.file) == (None, read.file)
    await storage.put({f"feed/many/{number:04}.csv": b"x" for number in range(1010)})
    assert len(await storage.all(FILES, FilesQuery(folder="many/"))) == 1010
    with pytest.raises(RemoteNotFound):
        await storage.all(FILE, FileQuery("missing.csv"))


async def test_storage_refusals_have_errors_of_their_own(storage: Storage) -> None:
    """Tells a wrong key or secret from a missing right at another bucket or outside the prefix.

    See docs/design/connectors.md#s3 and docs/design/connectors.md#errors.
    """
    cases: list[tuple[dict[str, str], type[Exception]]] = [
        ({"access_key_id": "AKIAOTHER"}, Unauthorized),
        ({"secret_access_key": "x" * 40}, Unauthorized),
        ({"bucket": "another"}, MissingRight),
    ]
    for settings, kind in cases:
        health = await storage.check(**settings)
        assert isinstance(health.error, kind), (settings, health)
    with pytest.raises(MissingRight):
        await storage.all(FILE, FileQuery("secret.csv"), prefix="other/")


async def test_a_file_replaced_between_its_head_and_its_body_is_noticed(storage: Storage) -> None:
    """Raises Stale when a file changes between HEAD and GET, by If-Match on its ETag.

    See docs/design/connectors.md#s3.
    """
    connector, secrets, outbound = storage.opened()
    http = outbound.read_client(OrgId(1), IntegrationId(7), connector.endpoint(secrets))
    query, real = FileQuery("stock.csv"), http.get

    async def get(path: str, *args: Any, **more: Any) -> Any:
        await storage.put({"feed/stock.csv": b"replaced"})
        return await real(path, *args, **more)

    http.get = get  # type: ignore[method-assign]
    with pytest.raises(Stale):
        async for _ in connector.reader(http, secrets).read(FILE, query):
            pass
    await outbound.aclose()
