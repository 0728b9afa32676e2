"""Reads the XML responses of S3 without building a tree: lists and errors, within limits."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import unquote
from xml.parsers import expat

from steward.connectors.base.records import CloudFile
from steward.outbound.errors import (
    CallError,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Stale,
    Throttled,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
)
from steward.outbound.response import PlatformResponse

_DEPTH = 8
_NODES = 20_000
_KEYS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken"})
_ELSEWHERE = frozenset({"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"})
_REGION = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True, slots=True)
class FileListing:
    """A page of a list; `next` is the token of the next page."""

    files: tuple[CloudFile, ...]
    next: str | None


class _Reader:
    """Collects texts by their path of element names; expands no entity and refuses document types."""

    def __init__(self) -> None:
        self.elements: list[tuple[str, str]] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self._nodes = 0

    def read(self, body: bytes) -> list[tuple[str, str]]:
        """Returns (path, text) of each element in document order. Raises UnusableResponse."""
        parser = expat.ParserCreate(namespace_separator=None)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(body, True)
        except expat.ExpatError:
            raise UnusableResponse("it is not XML") from None
        return self.elements

    def _start(self, name: str, attributes: object) -> None:
        self._nodes += 1
        self._path.append(name)
        if self._nodes > _NODES or len(self._path) > _DEPTH:
            raise UnusableResponse("its XML is too large")
        if len(self._path) == 2:
            self.elements.append((name, ""))
        self._text.clear()

    def _end(self, name: str) -> None:
        self.elements.append(("/".join(self._path[1:]), "".join(self._text)))
        self._path.pop()
        self._text.clear()

    def _refuse(self, *_: object) -> None:
        raise UnusableResponse("it declares a document type")


def listed(response: PlatformResponse) -> FileListing:
    """Returns a page of ListObjectsV2. Raises UnusableResponse, or the response's error."""
    if not response.ok:
        raise error_of(response)
    files: list[CloudFile] = []
    row: dict[str, str] = {}
    token: str | None = None
    more = False
    for path, text in _Reader().read(response.body):
        match path.partition("/"):
            case "IsTruncated", "", "":
                more = text.strip() == "true"
            case "NextContinuationToken", "", "":
                token = text or token
            case "Contents", "/", name:
                row[name] = text
            case "Contents", "", "" if row:
                files.append(_file(row))
                row = {}
    return FileListing(tuple(files), _next_token(token) if more else None)


def _next_token(token: str | None) -> str:
    if token is None:
        raise UnusableResponse("a list has more pages but no token for the next one")
    return token


def head_of(response: PlatformResponse, key: str) -> CloudFile:
    """Returns a file from its headers. Raises UnusableResponse, or the response's error."""
    if not response.ok:
        raise error_of(response)
    size = response.headers.get("content-length", "")
    if not size.isdigit() or "etag" not in response.headers:
        raise UnusableResponse("a file has no size or no mark")
    try:
        modified_at = parsedate_to_datetime(response.headers.get("last-modified", ""))
    except ValueError:
        raise UnusableResponse("a file has no time") from None
    return CloudFile(key, int(size), response.headers["etag"], modified_at.astimezone(UTC))


def error_of(response: PlatformResponse) -> CallError:
    """Returns the error of a response other than 2xx; a response to HEAD has no body."""
    elements = _error_elements(response)
    code = elements.get("Code", "")
    text = response.quote(f"{code} {elements.get('Message', '')}".strip())
    if 300 <= response.status < 400 or code in _ELSEWHERE:
        return _moved(elements.get("Region") or response.headers.get("x-amz-bucket-region", ""), text)
    if response.status in (400, 401, 403) and code in _KEYS:
        return Unauthorized("The storage does not know this key, or its secret is wrong.", platform_text=text)
    return _error_by_code(code, response.status, text)


def _error_by_code(code: str, status: int, text: str) -> CallError:
    match code, status:
        case "RequestTimeTooSkewed", _:
            message = "The clock of this machine differs too much from the storage's."
            return PlatformUnavailable(message, platform_text=text)
        case _, 403:
            return MissingRight("list and read this bucket", platform_text=text)
        case "NoSuchBucket", _:
            return WrongAddress("There is no bucket of this name.", field="bucket", platform_text=text)
        case _, 404:
            return RemoteNotFound("There is no file of this name.", platform_text=text)
        case _, 412:
            return Stale("The file was replaced while it was read.", platform_text=text)
        case "SlowDown", _:
            return Throttled(2.0, platform_text=text)
    if status >= 500:
        return PlatformUnavailable(platform_text=text)
    return UnusableResponse(f"status {status}", platform_text=text)


def _moved(region: str, text: str) -> CallError:
    where = f" It is in the region {region}." if _REGION.fullmatch(region) else ""
    message = f"The bucket is not at this address and region.{where}"
    return WrongAddress(message, field="region", platform_text=text)


def _error_elements(response: PlatformResponse) -> dict[str, str]:
    try:
        return dict(_Reader().read(response.body[:64_000]))
    except UnusableResponse:
        return {}


def _file(row: dict[str, str]) -> CloudFile:
    try:
        modified_at = datetime.fromisoformat(row["LastModified"]).astimezone(UTC)
        return CloudFile(unquote(row["Key"]), int(row["Size"]), row["ETag"], modified_at)
    except (KeyError, ValueError):
        raise UnusableResponse("a file of the list has no name, size or time") from None
