"""The address and the document of a connection's requests, and their decoded bodies."""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from steward.model.json import JsonValue
from steward.outbound.documents import Document
from steward.outbound.endpoint import SecretUrl
from steward.outbound.errors import CallRefused, UnusableResponse
from steward.outbound.response import Decoded, PlatformResponse
from steward.outbound.transport import OutboundRequest, Target


def document_request(
    target: Target, document: Document, variables: Mapping[str, JsonValue]
) -> OutboundRequest:
    """Returns the request that sends a document with its variables."""
    endpoint = target.endpoint
    assert endpoint.documents is not None
    return OutboundRequest(
        "POST",
        url_of(target, endpoint.documents.path, None),
        document.name,
        content=msgspec.json.encode({"query": document.text, "variables": variables}),
        headers={"content-type": "application/json"},
        credentials=endpoint.credentials,
        timeout_s=endpoint.timeouts.read_s,
        max_cost=document.max_cost,
    )


def body_of(response: PlatformResponse) -> Decoded:
    """Returns the decoded body; None when it is not JSON."""
    try:
        return response.json()
    except UnusableResponse:
        return None


def url_of(target: Target, path: str, params: Mapping[str, str] | None) -> str:
    """Returns the URL of a call; a SecretUrl has no path to choose.

    Raises CallRefused for a path that would leave the connection's base URL.
    """
    credentials = target.endpoint.credentials
    if isinstance(credentials, SecretUrl):
        if path or params:
            raise CallRefused("a secret address is called without a further path or parameters")
        return credentials.url.reveal()
    if not path.startswith("/") or any(mark in path for mark in ("?", "#", "\\", "//")):
        raise CallRefused("a path is relative to the connection's address")
    if any(segment in (".", "..") for segment in path.split("/")):
        raise CallRefused("a path stays under the connection's address")
    query = f"?{urlencode(params)}" if params else ""
    return f"{target.endpoint.base_url.rstrip('/')}{path}{query}"
