"""The parts of Google that spreadsheets need: tokens, sign-in, and access to spreadsheets."""

import base64
import binascii
import functools
import hashlib
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from steward.fake_platforms import sheets
from steward.fake_platforms.exchange import (
    FakeChange,
    FakeRequest,
    FakeResponse,
    Row,
    json_response,
    text_response,
)
from steward.fake_platforms.seed import Keys
from steward.fake_platforms.sheets import FakeSpreadsheet, SheetError

_TOKEN_SECONDS = 3600
_CODE_SECONDS = 600
_SKEW_SECONDS = 300
_AUDIENCE = "https://oauth2.googleapis.com/token"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_BOOK = re.compile(r"/sheets/v4/spreadsheets/(?P<id>[^/:]+)(?P<rest>/values.*|:batchUpdate)?", re.DOTALL)


class _TokenError(Exception):
    """A refused token request: `{error, error_description}`."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.status, self.row = status, {"error": error, "error_description": description}


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token; `address` is the service account's, null for a person, who owns every spreadsheet."""

    address: str | None
    until: datetime


@dataclass(frozen=True, slots=True)
class _SignInCode:
    """The grant of a sign-in code; valid once."""

    redirect_uri: str
    challenge: str
    scope: str
    until: datetime


@functools.cache
def _public_key(private_key: str) -> rsa.RSAPublicKey:
    """Returns the key that verifies assertions; cached, because loading it is slow."""
    private = serialization.load_pem_private_key(private_key.encode(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    return private.public_key()


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class FakeGoogle:
    """Spreadsheets and the tokens that open them."""

    def __init__(
        self, url: str, keys: Keys, now: Callable[[], datetime], books: list[FakeSpreadsheet]
    ) -> None:
        self.url = url
        self.books = {book.id: book for book in books}
        self._keys, self._now = keys, now
        self._tokens: dict[str, Token] = {}
        self._codes: dict[str, _SignInCode] = {}
        self._refresh: dict[str, str] = {}

    def revoke(self) -> None:
        """Ends every token, as when a person revokes the access; for tests."""
        self._tokens.clear()
        self._refresh.clear()

    # Tokens

    def authorize(self, request: FakeRequest) -> FakeResponse:
        """Serves `GET /google/authorize`: redirects at once with a code, or with an error without PKCE."""
        redirect, state = request.first("redirect_uri"), request.first("state")
        if request.first("client_id") != self._keys.client_id:
            return text_response(401, "Error 401: invalid_client")
        if not redirect or not redirect.startswith(("http://", "https://")):
            return text_response(400, "Error 400: redirect_uri_mismatch")
        challenge, scope = request.first("code_challenge"), request.first("scope") or ""
        kind = request.first("response_type") == "code" and request.first("code_challenge_method") == "S256"
        if not challenge or not kind:
            response_params = {"error": "invalid_request"}
        else:
            code = "4/" + secrets.token_urlsafe(24)
            until = self._now() + timedelta(seconds=_CODE_SECONDS)
            self._codes[code] = _SignInCode(redirect, challenge, scope, until)
            response_params = {"code": code, "scope": scope}
        query = urlencode({**({"state": state} if state is not None else {}), **response_params})
        return FakeResponse(302, b"", {"location": redirect + ("&" if "?" in redirect else "?") + query})

    def token(self, request: FakeRequest) -> FakeResponse:
        """Serves `POST /google/token`: JWT bearer, code with PKCE, refresh."""
        try:
            form = self._form(request)
            match form.get("grant_type"):
                case grant if grant == _JWT_BEARER:
                    return json_response(200, self._by_assertion(form.get("assertion", "")))
                case "authorization_code":
                    return json_response(200, self._by_code(form))
                case "refresh_token":
                    return json_response(200, self._by_refresh(form))
            raise _TokenError("unsupported_grant_type", "Invalid grant_type")
        except _TokenError as refusal:
            return json_response(refusal.status, refusal.row)

    def _form(self, request: FakeRequest) -> dict[str, str]:
        if "json" in request.headers.get("content-type", ""):
            decoded = request.json()
            form = {str(k): str(v) for k, v in decoded.items()} if isinstance(decoded, dict) else {}
        else:
            form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                name, _, secret = base64.b64decode(text).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise _TokenError("invalid_client", "Unauthorized", 401) from None
            form |= {"client_id": unquote(name), "client_secret": unquote(secret)}
        return form

    def _grant(self, address: str | None) -> Row:
        token = "ya29." + secrets.token_urlsafe(32)
        self._tokens[token] = Token(address, self._now() + timedelta(seconds=_TOKEN_SECONDS))
        return {"access_token": token, "expires_in": _TOKEN_SECONDS - 1, "token_type": "Bearer"}

    def _by_assertion(self, assertion: str) -> Row:
        parts = assertion.split(".")
        try:
            head, claims = (json.loads(_unpadded(part)) for part in parts[:2])
            signed, signature = f"{parts[0]}.{parts[1]}".encode(), _unpadded(parts[2])
        except (ValueError, IndexError, binascii.Error):
            raise _TokenError("invalid_grant", "Bad Request: the assertion is not a JWT") from None
        if not isinstance(head, dict) or not isinstance(claims, dict) or len(parts) != 3:
            raise _TokenError("invalid_grant", "Bad Request: the assertion is not a JWT")
        account = self._keys.service_account
        if claims.get("iss") != account["client_email"]:
            raise _TokenError("invalid_grant", "Invalid grant: account not found")
        if head.get("alg") != "RS256" or not self._is_signed(signed, signature):
            raise _TokenError("invalid_grant", "Invalid JWT Signature.")
        self._check_claims(claims)
        return self._grant(account["client_email"])

    def _is_signed(self, signed: bytes, signature: bytes) -> bool:
        public = _public_key(self._keys.service_account["private_key"])
        try:
            public.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    def _check_claims(self, claims: Row) -> None:
        # Google's own clients name its address, whatever address they call.
        if claims.get("aud") not in (f"{self.url}/google/token", _AUDIENCE):
            raise _TokenError("invalid_grant", "Invalid JWT: Failed audience check.")
        issued, ends, now = claims.get("iat"), claims.get("exp"), self._now().timestamp()
        if (
            not isinstance(issued, int | float)
            or not isinstance(ends, int | float)
            or not issued - _SKEW_SECONDS <= now < ends + _SKEW_SECONDS
            or ends - issued > _TOKEN_SECONDS
        ):
            message = "Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
            raise _TokenError("invalid_grant", f"Invalid JWT: {message}")
        scopes = str(claims.get("scope", "")).split()
        if not any("/auth/spreadsheets" in scope or "/auth/drive" in scope for scope in scopes):
            raise _TokenError("invalid_scope", "Invalid OAuth scope or ID token audience provided.")

    def _check_client(self, form: dict[str, str]) -> None:
        credentials = form.get("client_id", ""), form.get("client_secret", "")
        if credentials != (self._keys.client_id, self._keys.client_secret):
            raise _TokenError("invalid_client", "The OAuth client was not found.", 401)

    def _by_code(self, form: dict[str, str]) -> Row:
        self._check_client(form)
        code = self._codes.pop(form.get("code", ""), None)
        if code is None or code.until <= self._now():
            raise _TokenError("invalid_grant", "Malformed auth code.")
        if form.get("redirect_uri") != code.redirect_uri:
            raise _TokenError("redirect_uri_mismatch", "Bad Request")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code.challenge.rstrip("="):
            raise _TokenError("invalid_grant", "Invalid code verifier.")
        refresh = "1//" + secrets.token_urlsafe(32)
        self._refresh[refresh] = code.scope
        return {**self._grant(None), "refresh_token": refresh, "scope": code.scope}

    def _by_refresh(self, form: dict[str, str]) -> Row:
        self._check_client(form)
        scope = self._refresh.get(form.get("refresh_token", ""))
        if scope is None:
            raise _TokenError("invalid_grant", "Token has been expired or revoked.")
        return {**self._grant(None), "scope": scope}

    # Spreadsheets

    def _seen_by(self, request: FakeRequest, book_id: str) -> FakeSpreadsheet:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        token = self._tokens.get(text.strip()) if kind.lower() == "bearer" else None
        if token is None or token.until <= self._now():
            message = "Request had invalid authentication credentials. Expected OAuth 2 access token."
            raise SheetError(401, "UNAUTHENTICATED", message)
        book = self.books.get(book_id)
        if book is None:
            raise SheetError(404, "NOT_FOUND", "Requested entity was not found.")
        if token.address is not None and token.address not in book.shared_with:
            raise SheetError(403, "PERMISSION_DENIED", "The caller does not have permission")
        return book

    def spreadsheets(self, request: FakeRequest) -> FakeResponse:
        """Serves everything below `/sheets/v4/spreadsheets`."""
        match = _BOOK.fullmatch(request.path)
        if match is None:
            return SheetError(404, "NOT_FOUND", "Requested entity was not found.").response()
        remaining_path = match["rest"] or ""
        try:
            book = self._seen_by(request, match["id"])
            outcome: tuple[Any, tuple[FakeChange, ...]]
            if remaining_path == ":batchUpdate" and request.method == "POST":
                outcome = sheets.book_batch(book, request)
            elif remaining_path.startswith("/values"):
                outcome = sheets.values_call(book, remaining_path[len("/values") :], request)
            elif not remaining_path and request.method in ("GET", "HEAD"):
                outcome = sheets.about(book), ()
            else:
                raise SheetError(404, "NOT_FOUND", "Method not found.")
        except SheetError as refusal:
            return refusal.response()
        return json_response(200, outcome[0], changed_objects=outcome[1])
