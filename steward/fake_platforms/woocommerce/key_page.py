"""The fake shop's page that issues keys (`/wc-auth/v1/authorize`); its owner always consents."""

import secrets
from urllib.parse import urlencode

import httpx

from steward.fake_platforms.exchange import FakeRequest, FakeResponse, text_response
from steward.fake_platforms.woocommerce.shop import FakeShop, Key

_SECONDS = 60.0
_RIGHTS = ("read", "write", "read_write")


async def authorize(
    shop: FakeShop, request: FakeRequest, transport: httpx.AsyncBaseTransport | None
) -> FakeResponse:
    """Serves `GET /wc-auth/v1/authorize`: creates keys, delivers them, then redirects the browser back.

    Keys that the caller does not accept with 200 are deleted, as in the real shop.
    """
    user, scope = request.first("user_id"), request.first("scope") or ""
    back, callback = request.first("return_url"), request.first("callback_url")
    if not user or not back or not callback or scope not in _RIGHTS or not request.first("app_name"):
        return text_response(401, "Error: Missing parameter.")
    if not callback.startswith("https://"):
        return text_response(401, "Error: The callback_url needs to be over SSL.")
    key, secret = f"ck_{secrets.token_hex(20)}", f"cs_{secrets.token_hex(20)}"
    shop.keys[key] = Key(secret, scope)
    delivery = {
        "key_id": len(shop.keys),
        "user_id": user,
        "consumer_key": key,
        "consumer_secret": secret,
        "key_permissions": scope,
    }
    async with httpx.AsyncClient(transport=transport, timeout=_SECONDS) as client:
        response = await client.post(callback, json=delivery)
    if response.status_code != 200:
        del shop.keys[key]
        return text_response(401, "Error: An error occurred in the request.")
    query = urlencode({"success": 1, "user_id": user})
    return FakeResponse(302, b"", {"location": back + ("&" if "?" in back else "?") + query})
