"""Handles `POST /v1/store-events/{endpointKey}`, a store's delivery signed over its raw bytes."""

import asyncio
import hashlib
import re

from steward.api.http import envelope
from steward.api.http.body import PATIENCE_SECONDS, SLOWEST, ClientDisconnected
from steward.api.http.context import AppContext
from steward.api.http.operation import RawOperation, RawRequest, Reply
from steward.connectors.base.deliveries import RawBody
from steward.events.receive import LARGEST
from steward.model.refusals import NotFound, TooLarge
from steward.security.signatures import BodyVerifier

_MAX_READ_BYTES = 64 * 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9]{32}")


async def post(raw_request: RawRequest, context: AppContext) -> Reply:
    """Receives a delivery; responds with 200 once it is stored or can be ignored.

    Raises NotFound (an unknown address), TooLarge, Unauthenticated (the signature), Unavailable.
    """
    intake, [key] = context.intake, raw_request.values
    if intake is None or _KEY.fullmatch(key) is None:
        raise NotFound
    address = await intake.address(key)
    body = await _read(raw_request, address.verifier())
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw_request.headers}
    if await intake.receive(address, headers, body):
        context.wake("event")
    return Reply(200, envelope.EMPTY_RESPONSE)


async def _read(raw_request: RawRequest, verifier: BodyVerifier) -> RawBody:
    """Reads the body as it streams: signs and hashes all of it and keeps the first 256 KB.

    Raises TooLarge past 64 MiB, ClientDisconnected, and TimeoutError if it arrives too slowly.
    """
    chunks: list[bytes] = []
    size = 0
    hashed = hashlib.sha256()
    began_at = asyncio.get_running_loop().time()
    async with asyncio.timeout(PATIENCE_SECONDS) as bound:
        while True:
            message = await raw_request.receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            part: bytes = message.get("body", b"")
            if size < LARGEST:
                chunks.append(part[: LARGEST - size])
            size += len(part)
            if size > _MAX_READ_BYTES:
                raise TooLarge
            verifier.feed(part)
            hashed.update(part)
            if not message.get("more_body", False):
                break
            bound.reschedule(began_at + PATIENCE_SECONDS + size / SLOWEST)
    return RawBody(b"".join(chunks), size, hashed.hexdigest(), verifier)


RAW_OPERATIONS = (RawOperation("POST", "/v1/store-events/{endpoint_key}", post, "Take a store's event"),)
