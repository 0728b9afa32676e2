"""The read-only connector of S3-compatible storage: its reads and how a bucket is connected."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    CurrentValue,
    Destination,
    Health,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import FILE, FILES, FileQuery, FilesQuery, ReadOp, RecordPage
from steward.connectors.base.records import CloudFile, FileContent
from steward.connectors.base.settings import (
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.base.writing import WriteOutcome
from steward.connectors.cloud_s3.responses import error_of, head_of, listed
from steward.connectors.cloud_s3.signing import signed_headers
from steward.model.change import Part
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.model.limits import MAX_FILE_BYTES
from steward.model.undo import LookUpResult
from steward.outbound.address import UrlOrigin, looks_like_address, origin_of
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, RequestSigner, Timeouts, UnsignedRequest
from steward.outbound.errors import (
    CallError,
    CallRefused,
    MissingRight,
    RemoteNotFound,
    ResponseTooLarge,
    Stale,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
)
from steward.telemetry.redact import Secret

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741
_FILE_S = 120.0
_PACE = RateLimit(max_concurrency=4, failure_backoff_s=(2.0, 8.0, 30.0))
_NAMES = ("endpoint_url", "region", "bucket", "access_key_id", "secret_access_key")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_FORMS = {"region": _REGION, "bucket": _BUCKET, "access_key_id": _KEY, "secret_access_key": _KEY}
_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": list(_NAMES),
    "properties": {
        "endpoint_url": {
            "type": "string",
            "title": "Address of the storage",
            "format": "uri",
            "maxLength": 500,
        },
        "region": {"type": "string", "title": "Region", "maxLength": 40},
        "bucket": {"type": "string", "title": "Bucket", "maxLength": 63},
        "prefix": {"type": "string", "title": "Folder (prefix)", "maxLength": 500},
        "access_key_id": {"type": "string", "title": "Access key id", "maxLength": 200},
        "secret_access_key": {
            "type": "string",
            "title": "Secret access key",
            "maxLength": 200,
            "secret": True,
        },
    },
}


class CloudS3Reader:
    """Reads one bucket below its prefix."""

    def __init__(self, http: ReadClient, *, path: str, prefix: str) -> None:
        self._http = http
        self._path = path
        self._prefix = prefix

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields the pages of a read. Raises CallError; KeyError for an unsupported read."""
        reads: dict[str, Callable[[Any], AsyncIterator[RecordPage[Any]]]] = {
            "files": self._files,
            "file": self._file,
        }
        return cast("AsyncIterator[RecordPage[I]]", reads[op.name](params))

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns no values: nothing is ever written."""
        return [CurrentValue(part, None) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Raises KeyError: there are no changes to confirm."""
        raise KeyError(part.operation)

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns False: nothing is ever written."""
        return False

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Raises KeyError: there are no changes to undo."""
        raise KeyError("look_up_inverses")

    async def _files(self, query: FilesQuery) -> AsyncIterator[RecordPage[CloudFile]]:
        token: str | None = None
        while True:
            page = listed(await self._http.get(self._path, self._query(query, token), operation="files"))
            after = query.modified_after
            files = [file for file in page.files if after is None or file.modified_at > after]
            yield RecordPage(tuple(files), next=page.next)
            if page.next is None:
                return
            if page.next == token:
                raise UnusableResponse("a list repeats the token of the page before")
            token = page.next

    def _query(self, query: FilesQuery, token: str | None) -> dict[str, str]:
        params = {"list-type": "2", "max-keys": "1000", "encoding-type": "url"}
        params["prefix"] = self._prefix + (query.folder or "")
        return params | ({"continuation-token": token} if token is not None else {})

    async def _file(self, query: FileQuery) -> AsyncIterator[RecordPage[FileContent]]:
        """Reads the file's head, then fetches it unless it was replaced. Raises Stale, RemoteNotFound."""
        path = self._path_of(query.path)
        head = head_of(await self._http.head(path, operation="file"), query.path)
        if query.unless_etag == head.etag:
            yield RecordPage((FileContent(head, None),), total=1)
            return
        if head.size > MAX_FILE_BYTES:
            raise ResponseTooLarge(f"the file is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
        response = await self._http.get(
            path,
            operation="file",
            headers={"if-match": head.etag, "accept-encoding": "identity"},
            max_bytes=MAX_FILE_BYTES,
            timeout_s=_FILE_S,
        )
        if not response.ok:
            raise error_of(response)
        if response.headers.get("etag", head.etag) != head.etag or len(response.body) != head.size:
            raise Stale("The file was replaced while it was read.")
        yield RecordPage((FileContent(head, response.body),), total=1)

    def _path_of(self, name: str) -> str:
        """Returns the path of a file below the prefix. Raises RemoteNotFound for any other name."""
        full_name = name if name.startswith(self._prefix) else self._prefix + name
        segments = full_name.split("/")
        if not name or len(full_name) > 1024 or any(segment in ("", ".", "..") for segment in segments):
            raise RemoteNotFound("There is no file of this name below the folder of the connection.")
        return f"{self._path.rstrip('/')}/{quote(full_name, safe='/-_.~')}"


class CloudS3Connector:
    """Connects buckets; allows plain http and other ports only for entries of the operator's list."""

    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    writes: Mapping[str, AnyWriteOperation] = {}
    title: ClassVar[str] = "Cloud storage (S3)"
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True)

    def __init__(self, *, private_hosts: Collection[str], read_s: float, bounded: bool = False) -> None:
        self._private = frozenset(private_hosts)
        self._times = Timeouts.of_kind(read_s, bounded=bounded)
        self.facts = ConnectorFacts(
            "cloud_s3",
            self.title,
            ConnectionKind.ACCOUNT,
            (Auth.KEY,),
            _PACE,
            self._times,
            _SCHEMA,
            self.capabilities,
        )
        self.reads: Mapping[str, ReadOp[Any, Any]] = {op.name: op for op in (FILES, FILE)}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(private_hosts=options.private_hosts, read_s=options.read_s, bounded=options.bounded)

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates endpoint_url, region, bucket, keys and the optional prefix. Raises BadSettings."""
        texts, errors = _texts(form)
        base = self._address(texts["endpoint_url"], errors) if "endpoint_url" in texts else ""
        prefix = _folder(texts.get("prefix", ""), errors)
        if errors:
            raise BadSettings(errors)
        plain = {
            "endpoint_url": base,
            "region": texts["region"],
            "bucket": texts["bucket"],
            "prefix": prefix,
            "access_key_id": texts["access_key_id"],
        }
        sealed = {"secret_access_key": Secret(texts["secret_access_key"])}
        host = base.partition("://")[2]
        return ConnectionSettings(plain, sealed, Auth.KEY, subject=f"{host}/{texts['bucket']}/{prefix}")

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint; every request is signed for the bucket's region just before it is sent."""
        plain = secrets.plain
        sign = partial(_signed, plain["access_key_id"], plain["region"])
        proof = RequestSigner(secrets.sealed["secret_access_key"], sign)
        base, _ = self._bucket_location(secrets)
        return PlatformEndpoint(
            "cloud_s3", base, proof, self._times, _PACE, f"cloud_s3 {secrets.integration_id}"
        )

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> CloudS3Reader:
        """Returns a reader of the bucket."""
        _, path = self._bucket_location(secrets)
        return CloudS3Reader(http, path=path, prefix=secrets.plain["prefix"])

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> NoReturn:
        """Raises KeyError: there are no changes."""
        raise KeyError("cloud_s3")

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Lists one key below the prefix, the only right that the connector needs."""
        _, path = self._bucket_location(secrets)
        plain = secrets.plain
        label = f"{plain['bucket']}/{plain['prefix']}".rstrip("/")
        query = {"list-type": "2", "max-keys": "1", "prefix": plain["prefix"]}
        try:
            listed(await http.get(path, query))
        except (Unauthorized, MissingRight) as error:
            field = "secret_access_key" if isinstance(error, Unauthorized) else "bucket"
            return Health(ok=False, account_label=label, error=error, error_field=field)
        except WrongAddress as error:
            return Health(ok=False, account_label=label, error=error, error_field=error.field or "bucket")
        except CallError as error:
            return Health(ok=False, account_label=label, error=error)
        return Health(ok=True, account_label=label, name=label, rights=("read",))

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: nothing is written there."""
        return []

    def _bucket_location(self, secrets: ConnectionSecrets) -> tuple[str, str]:
        """Returns base and path of the bucket: its own host if possible, else a path.

        A name with dots has no valid certificate as a host, and an IP address or an address with a port has
        no subdomains.
        """
        base, bucket = secrets.plain["endpoint_url"], secrets.plain["bucket"]
        parts = urlsplit(base)
        host = parts.hostname or ""
        if bucket == host.partition(".")[0]:
            return base, "/"
        if host.endswith(".amazonaws.com") and "." not in bucket and not looks_like_address(host):
            return f"{parts.scheme}://{bucket}.{parts.netloc}", "/"
        return base, f"/{bucket}"

    def _address(self, url: str, errors: dict[str, list[str]]) -> str:
        parts = urlsplit(url)
        try:
            if parts.query or parts.fragment:
                raise CallRefused("an endpoint has no query")
            origin: UrlOrigin = origin_of(url, self._private)
        except CallRefused as refusal:
            errors["endpoint_url"] = [f"Give the https address of the storage. {refusal.sentence}"]
            return ""
        path = parts.path.rstrip("/")
        if _has_dots(path):
            errors["endpoint_url"] = ["This is not the address of a storage."]
        plain_port = origin.port == (443 if origin.scheme == "https" else 80)
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        return f"{origin.scheme}://{host if plain_port else f'{host}:{origin.port}'}{path}"


def _texts(form: JsonObject) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns the well-formed settings and the errors of the others."""
    names = (*_NAMES, "prefix")
    texts: dict[str, str] = {}
    errors = unknown_settings(form, names, "This is not a setting of cloud storage.")
    for name in names:
        value = form.get(name, "" if name == "prefix" else None)
        text = value.strip() if isinstance(value, str) else ""
        if not text.isprintable() or len(text) > 500 or not (text or name == "prefix"):
            errors[name] = ["This is needed."]
        elif name in _FORMS and not _FORMS[name].fullmatch(text):
            errors[name] = [f"This is not a valid {name.replace('_', ' ')} of S3-compatible storage."]
        else:
            texts[name] = text
    return texts, errors


def _folder(prefix: str, errors: dict[str, list[str]]) -> str:
    """Returns a prefix that ends with a slash, or an empty one; adds the error of a bad prefix."""
    folder = prefix.lstrip("/")
    if _has_dots(folder):
        errors["prefix"] = ["Leave out . and .. from the folder, as in supplier/stock."]
    return folder if not folder or folder.endswith("/") else f"{folder}/"


def _has_dots(path: str) -> bool:
    """Returns whether a path has segments that servers resolve: only dots, or empty."""
    return "//" in path or any(segment in (".", "..") for segment in path.split("/"))


def _signed(access_key: str, region: str, secret: str, request: UnsignedRequest) -> Mapping[str, str]:
    return signed_headers(
        access_key,
        secret,
        method=request.method,
        url=request.url,
        headers={name: value for name, value in request.headers.items() if name == "if-match"},
        region=region,
        now=request.sent_at,
    )


CONNECTOR = CloudS3Connector
