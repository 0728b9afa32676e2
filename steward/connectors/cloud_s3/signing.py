"""AWS Signature Version 4 for reads of S3."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_EMPTY = hashlib.sha256(b"").hexdigest()
_SERVICE = "s3"


def signed_headers(
    access_key: str,
    secret: str,
    *,
    method: str,
    url: str,
    headers: Mapping[str, str],
    region: str,
    now: datetime,
    service: str = _SERVICE,
    payload: str = _EMPTY,
) -> dict[str, str]:
    """Returns the headers to add: date, hash of the payload, authorization.

    `headers` are signed beside host and date, with names in lower case; `payload` is the SHA-256 of the
    body.
    """
    parts = urlsplit(url)
    timestamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": parts.netloc, "x-amz-date": timestamp, **headers}
    if service == _SERVICE:
        signed["x-amz-content-sha256"] = payload
    names = sorted(signed)
    request = "\n".join(
        (
            method,
            _escaped(unquote(parts.path) or "/", safe="/"),
            canonical_query(parts.query),
            "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names),
            ";".join(names),
            payload,
        )
    )
    scope = f"{timestamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(
        ("AWS4-HMAC-SHA256", timestamp, scope, hashlib.sha256(request.encode("utf-8")).hexdigest())
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode("utf-8"), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode("utf-8"), hashlib.sha256).hexdigest()
    added = {name: value for name, value in signed.items() if name.startswith("x-amz-")}
    credential = f"Credential={access_key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    return {**added, "authorization": f"AWS4-HMAC-SHA256 {credential}"}


def canonical_query(query: str) -> str:
    """Returns the query's names and values, escaped again and sorted."""
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(f"{name}={value}" for name, value in sorted((_escaped(n), _escaped(v)) for n, v in pairs))


def _escaped(text: str, safe: str = "") -> str:
    return quote(text, safe=f"{safe}-_.~")
