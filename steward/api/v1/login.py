"""The login: reads client credentials from a header, form or JSON, and responds with a token."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from steward.accounts import attempts
from steward.accounts.login import GRANTED, LoggedIn, LoginRequest, login
from steward.api.http.body import is_json, parse, read_bytes
from steward.api.http.context import ServiceContext
from steward.api.http.envelope import CONTRACT_VERSION, ENCODER
from steward.api.http.operation import RawOperation, RawRequest, Reply
from steward.database.accounts.attempt_limits import AttemptKind
from steward.model.refusals import (
    InvalidCredentials,
    Malformed,
    NotConfigured,
    TooLarge,
    UnsupportedMediaType,
    ValidationFailed,
)
from steward.security.tokens import LIFE_S

_BODY_LIMIT = 16 * 1024
_LONGEST_FIELD = 320
_VALUES = 1_000
_NAMES = ("username", "email", "organization_name")
_CLIENT = ("client_id", "client_secret")
_ACCEPTED = frozenset({*_NAMES, *_CLIENT, "grant_type", "scope"})
_FORM = re.compile(
    r'application/x-www-form-urlencoded[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?', re.IGNORECASE
)
_REQUIRED = "This field is required."
_TWO_WAYS = "Give the client id and secret in one way: as HTTP Basic or in the body."

Errors = dict[str, list[str]]


async def post(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """Checks the credentials and responds with a token. Counts the attempt before it checks any field."""
    if not context.rules.api_access:
        raise NotConfigured
    now = context.clock.now()
    fields, errors, is_form = await _read(raw_request)
    basic = _basic(raw_request)
    readings = None if basic is None else _readings(basic)
    await _count(raw_request, context, fields, readings)
    _check(fields, errors, is_form=is_form, is_basic=basic is not None)
    if errors:
        raise ValidationFailed(errors=errors)
    if basic is None:
        readings = [(fields["client_id"], fields["client_secret"])]
    elif not readings:
        raise InvalidCredentials(basic=True)
    try:
        done = await login(
            context.engine,
            now,
            context.keys,
            LoginRequest(fields["username"], fields["email"], fields["organization_name"], readings or []),
        )
    except InvalidCredentials:
        context.log.info("login_failed", client=attempts.hashed((readings or [("", "")])[0][0]))
        raise InvalidCredentials(basic=basic is not None) from None
    return _response(done, context)


def _basic(raw_request: RawRequest) -> str | None:
    """Returns the value of an HTTP Basic authorization header."""
    scheme, _, value = (raw_request.header(b"authorization") or "").strip().partition(" ")
    return value.strip() if scheme.lower() == "basic" else None


async def _read(raw_request: RawRequest) -> tuple[dict[str, Any], Errors, bool]:
    """Returns the body's fields, their faults, and whether it is a form.

    Raises UnsupportedMediaType, TooLarge and Malformed, in this order.
    """
    kind = (raw_request.header(b"content-type") or "").strip()
    is_form = _FORM.fullmatch(kind) is not None
    body = await _read_body(raw_request, is_acceptable=is_form or is_json(kind))
    if is_form:
        fields, errors = _form(body)
        return fields, errors, True
    value = parse(body, _VALUES) if body else {}
    if not isinstance(value, dict):
        return {}, {"body": ["Give a JSON object."]}, False
    return value, {}, False


async def _read_body(raw_request: RawRequest, *, is_acceptable: bool) -> bytes:
    encoding = (raw_request.header(b"content-encoding") or "").strip().lower()
    is_acceptable = is_acceptable and encoding in ("", "identity")
    try:
        body = await read_bytes(raw_request.receive, _BODY_LIMIT)
    except TooLarge:
        if not is_acceptable:
            raise UnsupportedMediaType from None
        raise
    if body and not is_acceptable:
        raise UnsupportedMediaType(
            "Send the login as application/json or application/x-www-form-urlencoded, in UTF-8."
        )
    return body


def _form(body: bytes) -> tuple[dict[str, Any], Errors]:
    fields: dict[str, Any] = {}
    errors: Errors = {}
    for part in body.split(b"&"):
        if not part:
            continue
        name, value = (_form_text(field_bytes) for field_bytes in part.partition(b"=")[::2])
        if name in fields:
            errors[name] = ["Give this field once."]
        fields[name] = value
    return fields, errors


def _form_text(field_bytes: bytes) -> str:
    try:
        return unquote_to_bytes(field_bytes.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("The form is not valid UTF-8, percent-encoded.") from None


def _readings(basic: str) -> list[tuple[str, str]]:
    """Returns client id and secret of HTTP Basic, form-decoded and as sent; empty if unreadable."""
    try:
        padded = basic.rstrip("=") + "=" * (-len(basic.rstrip("=")) % 4)
        text = base64.b64decode(padded.encode("ascii"), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return []
    client_id, colon, secret = text.partition(":")
    if not colon or "\x00" in text:
        return []
    readings = [(client_id, secret)]
    try:
        decoded = (_form_text(client_id.encode("utf-8")), _form_text(secret.encode("utf-8")))
    except Malformed:
        return readings
    return readings if decoded == readings[0] or "\x00" in "".join(decoded) else [decoded, *readings]


async def _count(
    raw_request: RawRequest,
    context: ServiceContext,
    fields: Mapping[str, Any],
    readings: list[tuple[str, str]] | None,
) -> None:
    """Counts the attempt before any field is checked."""
    keys: dict[AttemptKind, str] = {"address": raw_request.address}
    client_id = fields.get("client_id")
    if readings:
        keys["client"] = readings[0][0]
    elif isinstance(client_id, str) and client_id:
        keys["client"] = client_id
    await attempts.count(context.engine, context.clock.now(), keys, limit=context.rules.limit_login)


def _check(fields: Mapping[str, Any], errors: Errors, *, is_form: bool, is_basic: bool) -> None:
    """Checks the shape of the fields and adds every fault to `errors`."""
    if "body" in errors:
        return
    if is_basic and not (is_form and fields.keys().isdisjoint(_CLIENT)):
        errors.setdefault("client_id", []).append(_TWO_WAYS)
    faults = {name: _fault(fields.get(name)) for name in (_NAMES if is_basic else (*_NAMES, *_CLIENT))}
    faults["grant_type"] = _grant_fault(fields, is_form=is_form)
    if not is_form:
        faults |= dict.fromkeys(fields.keys() - _ACCEPTED, "This field is not known here.")
    for name, fault in faults.items():
        if fault is not None:
            errors.setdefault(name, []).append(fault)


def _grant_fault(fields: Mapping[str, Any], *, is_form: bool) -> str | None:
    grant = fields.get("grant_type")
    if grant is None and is_form:
        return _REQUIRED
    if "grant_type" in fields and grant != "client_credentials":
        return "Give client_credentials."
    return None


def _fault(value: Any) -> str | None:
    if value is None:
        return _REQUIRED
    if not isinstance(value, str) or not value:
        return "Give text that is not empty."
    if len(value) > _LONGEST_FIELD:
        return f"Give at most {_LONGEST_FIELD} characters."
    if "\x00" in value:
        return "The text contains a character that is not allowed (U+0000)."
    return None


def _response(done: LoggedIn, context: ServiceContext) -> Reply:
    """Returns the fields at the top level and again in `data`."""
    fields = {
        "access_token": done.token,
        "token_type": "Bearer",
        "expires_in": LIFE_S,
        "scope": " ".join(str(scope) for scope in GRANTED),
        "service_url": context.rules.base_url.rstrip("/"),
        "direct": True,
        "user": {"email": done.email, "first_name": done.first_name, "last_name": done.last_name},
        "organization": {"id": done.org, "name": done.organization_name},
        "expires_at": done.expires_at.isoformat(timespec="seconds"),
    }
    body = {"success": True, "contract_version": CONTRACT_VERSION, **fields, "data": fields}
    return Reply(200, ENCODER.encode(body), ((b"pragma", b"no-cache"),))


RAW_OPERATIONS = (RawOperation("POST", "/v2/api/automations/login", post, "Log in"),)
