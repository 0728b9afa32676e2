"""Inserts the fixed secrets of an account into a request's address and body."""

import json
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus, unquote_plus, urlencode, urlsplit, urlunsplit

from steward.model.removed_secrets import MARKER
from steward.outbound.endpoint import Credentials, PlacedSecrets
from steward.outbound.errors import CallRefused

_MARKER = re.compile(MARKER.pattern.encode())
_BEGINNING = b"__removed_secret_"  # faster to search for than the pattern in bodies without a marker


def url_with(placed: PlacedSecrets, url: str) -> str:
    """Returns the address with the account's secrets in place of the values it has there."""
    parts = urlsplit(url)
    parts = parts._replace(path=_path_with(placed, parts.path))
    if not placed.query:
        return urlunsplit(parts)
    names = {name for name, _ in placed.query}
    pairs = [
        pair for pair in parts.query.split("&") if pair and unquote_plus(pair.partition("=")[0]) not in names
    ]
    pairs += [urlencode({name: secret.reveal()}) for name, secret in placed.query]
    return urlunsplit(parts._replace(query="&".join(pairs)))


def _path_with(placed: PlacedSecrets, path: str) -> str:
    """Returns the path with each secret in place of the marker that follows the secret's prefix."""
    texts: dict[int, str] = {}  # by the position of the marker
    for prefix, secret in placed.path:
        before = MARKER.pattern.join(map(re.escape, prefix.split("*")))
        if beginning := re.match(before, path):
            texts[beginning.end()] = quote(secret.reveal(), safe=":")
    return MARKER.sub(lambda marker: texts.get(marker.start(), marker[0]), path)


def body_with(credentials: Credentials, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Returns the body with the account's secrets in place of the markers of removed ones.

    Raises CallRefused if it has more markers than the account has secrets for a body.
    """
    if _BEGINNING not in body:
        return body
    secrets = credentials.body if isinstance(credentials, PlacedSecrets) else ()
    markers = list(dict.fromkeys(match[0] for match in _MARKER.finditer(body)))
    if len(markers) > len(secrets):
        message = (
            "The body contains a key that was removed at import, and the account does not put it back. "
            "Choose an account with a key for the body."
        )
        raise CallRefused("a body is sent with its keys or not at all", message)
    content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    texts = {
        marker: _written(secret.reveal(), content_type).encode()
        for marker, secret in zip(markers, secrets, strict=False)
    }
    return _MARKER.sub(lambda match: texts[match[0]], body)


def refuse_markers_in(url: str, headers: Mapping[str, str]) -> None:
    """Raises CallRefused if an address or a header contains the marker of a removed secret."""
    part = (
        "address" if MARKER.search(url) else "header" if any(map(MARKER.search, headers.values())) else None
    )
    if part is not None:
        message = (
            f"The {part} of the request contains the mark of a key that was removed at import, and the"
            " account does not put that key back. Choose an account that has it."
        )
        raise CallRefused("a mark of a removed key is not sent", message)


def _written(secret: str, content_type: str) -> str:
    """Returns a secret as text inside a body of this type."""
    if "json" in content_type:
        return json.dumps(secret, ensure_ascii=False)[1:-1]
    return quote_plus(secret) if "form-urlencoded" in content_type else secret
