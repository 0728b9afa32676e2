"""A bucket as S3-compatible storage shows it: GET, HEAD, list, signatures checked; nothing is written."""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from steward.fake_platforms.exchange import Answer, Asked

_FORM = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)"
    r"/aws4_request,\s*SignedHeaders=(?P<signed>[^,]+),\s*Signature=(?P<mark>[0-9a-f]{64})"
)
_XML = "application/xml"
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
SKEW = timedelta(minutes=15)


class StoreError(Exception):
    """A refusal: status, code and message of the service, and further elements."""

    def __init__(self, status: int, code: str, message: str, extra: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.extra = status, code, message, extra


@dataclass(frozen=True, slots=True)
class Stored:
    """One object of a bucket."""

    content: bytes
    modified_at: datetime
    kind: str = "text/csv"

    @property
    def etag(self) -> str:
        """The quoted MD5 of the content."""
        return f'"{hashlib.md5(self.content).hexdigest()}"'


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_request(asked: Asked, signed: list[str], payload_hash: str) -> str:
    """The text a version 4 signature is made over, before the scope is added."""
    path = quote(unquote(asked.raw_path), safe="/-_.~")
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in asked.query)
    query = "&".join(f"{name}={value}" for name, value in pairs)
    lines = [f"{name}:{' '.join(asked.headers.get(name, '').split())}\n" for name in signed]
    return "\n".join([asked.method, path, query, "".join(lines), ";".join(signed), payload_hash])


def sign(secret: str, scope: tuple[str, str, str], at: str, request: str) -> str:
    """The signature of a canonical request; `scope` is day, region, service."""
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = _hmac(key, part)
    text = "\n".join(["AWS4-HMAC-SHA256", at, "/".join((*scope, "aws4_request")), _sha(request.encode())])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class ObjectStore:
    """The buckets; `put` and `remove` are for tests, no request can write."""

    def __init__(self, keys: tuple[str, str], region: str, now: Callable[[], datetime]) -> None:
        self._access_key, self._secret = keys
        self._region, self._now = region, now
        self.buckets: dict[str, dict[str, Stored]] = {}

    def put(self, bucket: str, key: str, content: bytes, *, at: datetime | None = None) -> None:
        """Places an object, as the supplier would."""
        self.buckets.setdefault(bucket, {})[key] = Stored(content, at or self._now())

    def _check(self, asked: Asked) -> None:
        text = asked.headers.get("authorization")
        if not text:
            raise StoreError(403, "AccessDenied", "Access Denied")
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise StoreError(400, "AuthorizationHeaderMalformed", "The authorization header is malformed.")
        if match["region"] != self._region:
            words = f"The authorization header is malformed; the region '{match['region']}' is wrong; "
            extra = f"<Region>{self._region}</Region>"
            raise StoreError(
                400, "AuthorizationHeaderMalformed", words + f"expecting '{self._region}'", extra
            )
        if match["key"] != self._access_key:
            words = "The AWS Access Key Id you provided does not exist in our records."
            raise StoreError(403, "InvalidAccessKeyId", words)
        at = asked.headers.get("x-amz-date", "")
        try:
            said = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise StoreError(403, "AccessDenied", "AWS authentication requires a valid Date") from None
        if abs(said - self._now()) > SKEW:
            words = "The difference between the request time and the current time is too large."
            raise StoreError(403, "RequestTimeTooSkewed", words)
        payload = asked.headers.get("x-amz-content-sha256", "")
        if payload not in ("UNSIGNED-PAYLOAD", _sha(asked.body)):
            words = "The provided 'x-amz-content-sha256' header does not match what was computed."
            raise StoreError(400, "XAmzContentSHA256Mismatch", words)
        signed = match["signed"].split(";")
        scope = (match["day"], match["region"], match["service"])
        expected = sign(self._secret, scope, at, canonical_request(asked, signed, payload))
        bound = {"host", "x-amz-date"} <= set(signed) and at.startswith(match["day"])
        if not bound or not hmac.compare_digest(expected, match["mark"]):
            words = "The request signature we calculated does not match the signature you provided."
            raise StoreError(403, "SignatureDoesNotMatch", words)

    def answer(self, asked: Asked) -> Answer:
        """One request below `/s3` (contract 9.1)."""
        bucket, _, key = asked.path.removeprefix("/s3/").partition("/")
        try:
            self._check(asked)
            if asked.method not in ("GET", "HEAD"):
                raise StoreError(403, "AccessDenied", "Access Denied")
            if bucket not in self.buckets:
                raise StoreError(404, "NoSuchBucket", "The specified bucket does not exist")
            if key:
                return self._object(asked, bucket, key)
            if asked.method == "HEAD":
                return Answer(200, b"", {"x-amz-bucket-region": self._region})
            if asked.first("list-type") != "2":
                raise StoreError(501, "NotImplemented", "Only version 2 of the list is offered here")
            return self._listed(asked, bucket)
        except StoreError as refusal:
            if asked.method == "HEAD":
                return Answer(refusal.status, b"", {"content-type": _XML})
            text = f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
            text += f"{refusal.extra}<Resource>{escape(asked.path)}</Resource></Error>"
            return Answer(refusal.status, text.encode(), {"content-type": _XML})

    def _object(self, asked: Asked, bucket: str, key: str) -> Answer:
        stored = self.buckets[bucket].get(key)
        if stored is None:
            raise StoreError(404, "NoSuchKey", "The specified key does not exist.")
        wanted = asked.headers.get("if-match")
        if wanted not in (None, "*", stored.etag, stored.etag.strip('"')):
            words = "At least one of the pre-conditions you specified did not hold"
            raise StoreError(412, "PreconditionFailed", words)
        headers = {
            "etag": stored.etag,
            "last-modified": format_datetime(stored.modified_at.astimezone(UTC), usegmt=True),
            "accept-ranges": "bytes",
            "content-type": stored.kind,
        }
        if asked.headers.get("if-none-match") in ("*", stored.etag):
            return Answer(304, b"", headers)
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
        size = len(stored.content)
        if span is None:
            return Answer(200, stored.content, headers)
        first, last = int(span[1]), min(int(span[2] or size - 1), size - 1)
        if first > last:
            raise StoreError(416, "InvalidRange", "The requested range is not satisfiable")
        headers["content-range"] = f"bytes {first}-{last}/{size}"
        return Answer(206, stored.content[first : last + 1], headers)

    def _listed(self, asked: Asked, bucket: str) -> Answer:
        prefix, mark = asked.first("prefix") or "", asked.first("delimiter") or ""
        most = asked.first("max-keys") or "1000"
        if not most.isdigit():
            raise StoreError(
                400, "InvalidArgument", "Provided max-keys not an integer or within integer range"
            )
        size = min(int(most), 1000)
        after = asked.first("continuation-token") or asked.first("start-after") or ""
        found_keys: dict[str, bool] = {}
        for key in sorted(self.buckets[bucket]):
            if not key.startswith(prefix):
                continue
            head, found, _ = key[len(prefix) :].partition(mark) if mark else ("", "", "")
            name = prefix + head + mark if found else key
            if name > after:
                found_keys.setdefault(name, bool(found))
        entries = list(found_keys.items())
        page, more = entries[:size], len(entries) > size
        encoded = asked.first("encoding-type") == "url"

        def written(text: str) -> str:
            return quote(text, safe="/-_.~") if encoded else escape(text)

        parts = [f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{_SPACE}">']
        parts.append(f"<Name>{escape(bucket)}</Name><Prefix>{written(prefix)}</Prefix>")
        parts.append(f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{size}</MaxKeys>")
        parts.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more and page:
            parts.append(f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>")
        for key, is_common in page:
            if is_common:
                parts.append(f"<CommonPrefixes><Prefix>{written(key)}</Prefix></CommonPrefixes>")
                continue
            stored = self.buckets[bucket][key]
            at = stored.modified_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            parts.append(f"<Contents><Key>{written(key)}</Key><LastModified>{at}</LastModified>")
            parts.append(f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.content)}</Size>")
            parts.append("<StorageClass>STANDARD</StorageClass></Contents>")
        parts.append("</ListBucketResult>")
        return Answer(200, "".join(parts).encode(), {"content-type": _XML})
