"""What S3 answers, read out of its XML without building a tree: lists and errors, under the caps."""

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

DEPTH = 8
NODES = 20_000
_KEYS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken"})
_ELSEWHERE = frozenset({"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"})
_REGION = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True, slots=True)
class FileListing:
    """One page of a list; `next` the token of the following one."""

    files: tuple[CloudFile, ...]
    next: str | None


class _Reader:
    """Texts by their path of element names; no entity is ever expanded, no document type taken."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self._nodes = 0

    def read(self, body: bytes) -> list[tuple[str, str]]:
        """(path, text) of each element in document order. Raises UnusableResponse."""
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
        return self.found

    def _start(self, name: str, attributes: object) -> None:
        self._nodes += 1
        self._path.append(name)
        if self._nodes > NODES or len(self._path) > DEPTH:
            raise UnusableResponse("its XML is too large")
        if len(self._path) == 2:
            self.found.append((name, ""))
        self._text.clear()

    def _end(self, name: str) -> None:
        self.found.append(("/".join(self._path[1:]), "".join(self._text)))
        self._path.pop()
        self._text.clear()

    def _refuse(self, *_: object) -> None:
        raise UnusableResponse("it declares a document type")


def listed(answer: PlatformResponse) -> FileListing:
    """A page of ListObjectsV2. Raises UnusableResponse, or the error it stands for."""
    if not answer.ok:
        raise error_of(answer)
    files: list[CloudFile] = []
    row: dict[str, str] = {}
    token: str | None = None
    more = False
    for path, text in _Reader().read(answer.body):
        if path == "IsTruncated":
            more = text.strip() == "true"
        elif path == "NextContinuationToken" and text:
            token = text
        elif path.startswith("Contents/"):
            row[path.removeprefix("Contents/")] = text
        elif path == "Contents" and row:
            files.append(_file(row))
            row = {}
    if more and token is None:
        raise UnusableResponse("a list that goes on does not say how")
    return FileListing(tuple(files), token if more else None)


def head_of(answer: PlatformResponse, key: str) -> CloudFile:
    """A file by its headers. Raises UnusableResponse, or the error they stand for."""
    if not answer.ok:
        raise error_of(answer)
    size = answer.headers.get("content-length", "")
    if not size.isdigit() or "etag" not in answer.headers:
        raise UnusableResponse("a file has no size or no mark")
    try:
        at = parsedate_to_datetime(answer.headers.get("last-modified", ""))
    except ValueError:
        raise UnusableResponse("a file has no time") from None
    return CloudFile(key, int(size), answer.headers["etag"], at.astimezone(UTC))


def error_of(answer: PlatformResponse) -> CallError:
    """The error of an answer that is no 2xx (connectors 4, 7.5); an answer to HEAD has no words."""
    told = _told(answer)
    code = told.get("Code", "")
    text = answer.quote(f"{code} {told.get('Message', '')}".strip())
    region = told.get("Region") or answer.headers.get("x-amz-bucket-region", "")
    if 300 <= answer.status < 400 or code in _ELSEWHERE:
        where = f" It is in the region {region}." if _REGION.fullmatch(region) else ""
        words = f"The bucket is not at this address and region.{where}"
        return WrongAddress(words, field="region", platform_text=text)
    if answer.status in (400, 401, 403) and code in _KEYS:
        return Unauthorized("The storage does not know this key, or its secret is wrong.", platform_text=text)
    if code == "RequestTimeTooSkewed":
        return PlatformUnavailable(
            "The clock of this machine differs too much from the storage's.", platform_text=text
        )
    if answer.status == 403:
        return MissingRight("list and read this bucket", platform_text=text)
    if code == "NoSuchBucket":
        return WrongAddress("There is no bucket of this name.", field="bucket", platform_text=text)
    if answer.status == 404:
        return RemoteNotFound("There is no file of this name.", platform_text=text)
    if answer.status == 412:
        return Stale("The file was replaced while it was read.", platform_text=text)
    if code == "SlowDown":
        return Throttled(2.0, platform_text=text)
    if answer.status >= 500:
        return PlatformUnavailable(platform_text=text)
    return UnusableResponse(f"status {answer.status}", platform_text=text)


def _told(answer: PlatformResponse) -> dict[str, str]:
    try:
        return dict(_Reader().read(answer.body[:64_000]))
    except UnusableResponse:
        return {}


def _file(row: dict[str, str]) -> CloudFile:
    try:
        at = datetime.fromisoformat(row["LastModified"]).astimezone(UTC)
        return CloudFile(unquote(row["Key"]), int(row["Size"]), row["ETag"], at)
    except (KeyError, ValueError):
        raise UnusableResponse("a file of the list has no name, size or time") from None
