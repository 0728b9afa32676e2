"""A fake S3 bucket: GET, HEAD and list with checked signatures; every write is refused."""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from steward.fake_platforms.exchange import FakeRequest, FakeResponse

_FORM = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)"
    r"/aws4_request,\s*SignedHeaders=(?P<signed>[^,]+),\s*Signature=(?P<mark>[0-9a-f]{64})"
)
_XML = "application/xml"
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_SKEW = timedelta(minutes=15)


class _StoreError(Exception):
    """A refusal: status, code and message of the service, and further elements."""

    def __init__(self, status: int, code: str, message: str, extra: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.extra = status, code, message, extra


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a bucket."""

    content: bytes
    modified_at: datetime
    kind: str = "text/csv"

    @property
    def etag(self) -> str:
        """Returns the quoted MD5 of the content."""
        return f'"{hashlib.md5(self.content).hexdigest()}"'


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _canonical_request(request: FakeRequest, signed: list[str], payload_hash: str) -> str:
    """Returns the canonical request of signature version 4."""
    path = quote(unquote(request.raw_path), safe="/-_.~")
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
    query = "&".join(f"{name}={value}" for name, value in pairs)
    lines = [f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed]
    return "\n".join([request.method, path, query, "".join(lines), ";".join(signed), payload_hash])


def sign(secret: str, scope: tuple[str, str, str], timestamp: str, canonical: str) -> str:
    """Returns the signature of a canonical request; `scope` is day, region, service."""
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = _hmac(key, part)
    text = "\n".join(
        ["AWS4-HMAC-SHA256", timestamp, "/".join((*scope, "aws4_request")), _sha(canonical.encode())]
    )
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class ObjectStore:
    """The buckets, to which no request can write."""

    def __init__(self, keys: tuple[str, str], region: str, now: Callable[[], datetime]) -> None:
        self._access_key, self._secret = keys
        self._region, self._now = region, now
        self.buckets: dict[str, dict[str, StoredObject]] = {}

    def put(self, bucket: str, key: str, content: bytes, *, modified_at: datetime | None = None) -> None:
        """Stores an object on behalf of the supplier."""
        self.buckets.setdefault(bucket, {})[key] = StoredObject(content, modified_at or self._now())

    def _check(self, request: FakeRequest) -> None:
        text = request.headers.get("authorization")
        if not text:
            raise _StoreError(403, "AccessDenied", "Access Denied")
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise _StoreError(400, "AuthorizationHeaderMalformed", "The authorization header is malformed.")
        if match["region"] != self._region:
            message = f"The authorization header is malformed; the region '{match['region']}' is wrong; "
            extra = f"<Region>{self._region}</Region>"
            raise _StoreError(
                400, "AuthorizationHeaderMalformed", message + f"expecting '{self._region}'", extra
            )
        if match["key"] != self._access_key:
            message = "The AWS Access Key Id you provided does not exist in our records."
            raise _StoreError(403, "InvalidAccessKeyId", message)
        timestamp = request.headers.get("x-amz-date", "")
        self._check_time(timestamp)
        payload = request.headers.get("x-amz-content-sha256", "")
        if payload not in ("UNSIGNED-PAYLOAD", _sha(request.body)):
            message = "The provided 'x-amz-content-sha256' header does not match what was computed."
            raise _StoreError(400, "XAmzContentSHA256Mismatch", message)
        signed = match["signed"].split(";")
        scope = (match["day"], match["region"], match["service"])
        expected = sign(self._secret, scope, timestamp, _canonical_request(request, signed, payload))
        bound = {"host", "x-amz-date"} <= set(signed) and timestamp.startswith(match["day"])
        if not bound or not hmac.compare_digest(expected, match["mark"]):
            message = "The request signature we calculated does not match the signature you provided."
            raise _StoreError(403, "SignatureDoesNotMatch", message)

    def _check_time(self, timestamp: str) -> None:
        try:
            request_time = datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise _StoreError(403, "AccessDenied", "AWS authentication requires a valid Date") from None
        if abs(request_time - self._now()) > _SKEW:
            message = "The difference between the request time and the current time is too large."
            raise _StoreError(403, "RequestTimeTooSkewed", message)

    def respond(self, request: FakeRequest) -> FakeResponse:
        """Serves one request below `/s3`."""
        bucket, _, key = request.path.removeprefix("/s3/").partition("/")
        try:
            self._check(request)
            if request.method not in ("GET", "HEAD"):
                raise _StoreError(403, "AccessDenied", "Access Denied")
            if bucket not in self.buckets:
                raise _StoreError(404, "NoSuchBucket", "The specified bucket does not exist")
            if key:
                return self._object(request, bucket, key)
            if request.method == "HEAD":
                return FakeResponse(200, b"", {"x-amz-bucket-region": self._region})
            if request.first("list-type") != "2":
                raise _StoreError(501, "NotImplemented", "Only version 2 of the list is offered here")
            return self._listed(request, bucket)
        except _StoreError as refusal:
            if request.method == "HEAD":
                return FakeResponse(refusal.status, b"", {"content-type": _XML})
            text = f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
            text += f"{refusal.extra}<Resource>{escape(request.path)}</Resource></Error>"
            return FakeResponse(refusal.status, text.encode(), {"content-type": _XML})

    def _object(self, request: FakeRequest, bucket: str, key: str) -> FakeResponse:
        stored = self.buckets[bucket].get(key)
        if stored is None:
            raise _StoreError(404, "NoSuchKey", "The specified key does not exist.")
        if_match = request.headers.get("if-match")
        if if_match not in (None, "*", stored.etag, stored.etag.strip('"')):
            message = "At least one of the pre-conditions you specified did not hold"
            raise _StoreError(412, "PreconditionFailed", message)
        headers = {
            "etag": stored.etag,
            "last-modified": format_datetime(stored.modified_at.astimezone(UTC), usegmt=True),
            "accept-ranges": "bytes",
            "content-type": stored.kind,
        }
        if request.headers.get("if-none-match") in ("*", stored.etag):
            return FakeResponse(304, b"", headers)
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        size = len(stored.content)
        if span is None:
            return FakeResponse(200, stored.content, headers)
        first, last = int(span[1]), min(int(span[2] or size - 1), size - 1)
        if first > last:
            raise _StoreError(416, "InvalidRange", "The requested range is not satisfiable")
        headers["content-range"] = f"bytes {first}-{last}/{size}"
        return FakeResponse(206, stored.content[first : last + 1], headers)

    def _listed(self, request: FakeRequest, bucket: str) -> FakeResponse:
        prefix, delimiter = request.first("prefix") or "", request.first("delimiter") or ""
        size = _page_size(request)
        after = request.first("continuation-token") or request.first("start-after") or ""
        stored = self.buckets[bucket]
        entries = _listed_names(sorted(stored), prefix, delimiter, after)
        page, more = entries[:size], len(entries) > size
        written = _written_in_url if request.first("encoding-type") == "url" else escape
        parts = [f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{_SPACE}">']
        parts.append(f"<Name>{escape(bucket)}</Name><Prefix>{written(prefix)}</Prefix>")
        parts.append(f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{size}</MaxKeys>")
        parts.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more and page:
            parts.append(f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>")
        for name, is_common in page:
            if is_common:
                parts.append(f"<CommonPrefixes><Prefix>{written(name)}</Prefix></CommonPrefixes>")
            else:
                parts.append(_contents_xml(written(name), stored[name]))
        parts.append("</ListBucketResult>")
        return FakeResponse(200, "".join(parts).encode(), {"content-type": _XML})


def _page_size(request: FakeRequest) -> int:
    max_keys = request.first("max-keys") or "1000"
    if not max_keys.isdigit():
        raise _StoreError(400, "InvalidArgument", "Provided max-keys not an integer or within integer range")
    return min(int(max_keys), 1000)


def _listed_names(keys: list[str], prefix: str, delimiter: str, after: str) -> list[tuple[str, bool]]:
    """Returns the sorted names after `after`, each with whether it is the common prefix of several keys."""
    names: dict[str, bool] = {}
    for key in keys:
        if key.startswith(prefix):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if end < 0 else key[: end + len(delimiter)]
            if name > after:
                names.setdefault(name, end >= 0)
    return list(names.items())


def _written_in_url(text: str) -> str:
    return quote(text, safe="/-_.~")


def _contents_xml(key: str, stored: StoredObject) -> str:
    modified_at = stored.modified_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{key}</Key><LastModified>{modified_at}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.content)}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )
