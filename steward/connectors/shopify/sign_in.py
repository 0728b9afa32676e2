"""Connects a Shopify store: the form, the credentials of calls, and the check."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from steward.connectors.base.connector import AccountResource, Health, HealthWarning
from steward.connectors.base.settings import BadSettings, ConnectionSettings
from steward.connectors.shopify import documents
from steward.connectors.shopify.responses import Row, data_of, list_of, nodes_of, number_of, row_of, sub, text
from steward.model.connection import Auth
from steward.model.json import JsonObject, JsonValue
from steward.outbound.client import ManagementClient
from steward.outbound.documents import Document
from steward.outbound.endpoint import ClientCredentials, HeaderSecret
from steward.outbound.errors import CallError, MissingRight, Unauthorized, WrongAddress
from steward.outbound.response import PlatformResponse
from steward.scheduling.zones import zone_names
from steward.telemetry.redact import Secret

_HEADER = "X-Shopify-Access-Token"
_TOKEN_PATH = "/admin/oauth/access_token"
# A stored domain (at most 255 characters), and the accepted input: any case, with surrounding blanks.
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,240}\.myshopify\.com")
_WRITTEN = r"^\s*[A-Za-z0-9][A-Za-z0-9-]{0,240}\.[Mm][Yy][Ss][Hh][Oo][Pp][Ii][Ff][Yy]\.[Cc][Oo][Mm]\s*$"
_SECRETS = ("client_secret", "access_token", "webhook_secret")
_NAMES = ("shop_domain", "client_id", *_SECRETS)

# The rights that all operations need, as the schema names them; tests compare.
RIGHTS = (
    *("read_products", "write_products", "read_inventory", "write_inventory", "read_locations"),
    *("read_orders", "write_orders", "read_customers", "write_customers"),
    *("read_publications", "write_publications"),
    *("read_merchant_managed_fulfillment_orders", "write_merchant_managed_fulfillment_orders"),
    *("read_draft_orders", "write_draft_orders"),
    *("read_online_store_navigation", "write_online_store_navigation"),
)
# Rights without which a store still works.
_OPTIONAL = frozenset(
    (
        *("read_draft_orders", "write_draft_orders"),
        *("read_online_store_navigation", "write_online_store_navigation"),
    )
)

SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["shop_domain"],
    "properties": {
        "shop_domain": {
            "type": "string",
            "title": "Domain of the store, ending in .myshopify.com",
            "description": "Blanks around it are removed, and it is kept in lower case.",
            "pattern": _WRITTEN,
        },
        "client_id": {"type": "string", "title": "Client ID of the app", "maxLength": 200},
        "client_secret": {"type": "string", "title": "Client secret", "maxLength": 200, "secret": True},
        "access_token": {
            "type": "string",
            "title": "Admin access token, of an app that has a fixed one",
            "maxLength": 200,
            "secret": True,
        },
        "webhook_secret": {
            "type": "string",
            "title": "Secret that the store signs its events with, beside an access token",
            "maxLength": 200,
            "secret": True,
        },
    },
    "oneOf": [
        {"required": ["client_id", "client_secret"], "not": {"required": ["access_token"]}},
        {
            "required": ["access_token"],
            "not": {"anyOf": [{"required": ["client_id"]}, {"required": ["client_secret"]}]},
        },
    ],
}


def settings_of(form: JsonObject) -> ConnectionSettings:
    """Validates shop_domain, and client_id with client_secret or access_token. Raises BadSettings."""
    errors: dict[str, list[str]] = {}
    for name in form.keys() - set(_NAMES):
        errors[name] = ["This is not a setting of a Shopify store."]
    texts = {name: text_ for name in _NAMES if (text_ := _text(form, name, errors)) is not None}
    domain = texts.get("shop_domain", "").lower()
    if "shop_domain" not in errors and not _DOMAIN.fullmatch(domain):
        errors["shop_domain"] = ["Give the store's own domain, such as my-store.myshopify.com."]
    _check_credentials(texts.keys(), errors)
    if errors:
        raise BadSettings(errors)
    plain = {"shop_domain": domain} | ({"client_id": texts["client_id"]} if "client_id" in texts else {})
    sealed = {name: Secret(texts[name]) for name in _SECRETS if name in texts}
    return ConnectionSettings(plain, sealed, Auth.KEY, subject=domain, domain=domain)


def _check_credentials(names: Set[str], errors: dict[str, list[str]]) -> None:
    """Adds the errors of a form that does not have exactly one of the two kinds of credentials."""
    by_app, by_token = {"client_id", "client_secret"} & names, "access_token" in names
    if by_app and by_token:
        errors["access_token"] = ["Give a client id and secret, or an access token, not both."]
    elif not by_app and not by_token:
        errors.setdefault("client_id", ["Give the app's client id and secret, or an access token."])
    elif by_app:
        for name in {"client_id", "client_secret"} - by_app:
            errors.setdefault(name, ["This is needed as well as the other."])
        if "webhook_secret" in names:
            errors["webhook_secret"] = ["With a client secret the store signs its events with that."]


def _text(form: JsonObject, name: str, errors: dict[str, list[str]]) -> str | None:
    """Returns a setting as text; a missing or empty one is None."""
    value = form.get(name)
    if value is None or value == "":
        return None
    text = value.strip() if isinstance(value, str) else ""
    if not 1 <= len(text) <= 255 or not text.isascii() or not text.isprintable() or " " in text:
        errors[name] = ["This is not what Shopify shows for it."]
        return None
    return text


def credentials_of(
    plain: Mapping[str, str], sealed: Mapping[str, Secret], base: str
) -> ClientCredentials | HeaderSecret:
    """Returns the credentials of calls. Raises BadSettings when a secret is missing."""
    if "access_token" in sealed:
        return HeaderSecret(_HEADER, sealed["access_token"])
    if "client_id" not in plain or "client_secret" not in sealed:
        raise BadSettings({"client_secret": ["This is needed."]})
    return ClientCredentials(plain["client_id"], sealed["client_secret"], f"{base}{_TOKEN_PATH}", _HEADER)


@dataclass(slots=True)
class _CheckState:
    rights: tuple[str, ...] = ()
    warnings: list[HealthWarning] = field(default_factory=list)
    locations: tuple[AccountResource, ...] = ()
    channels: tuple[AccountResource, ...] = ()
    versions: set[str] = field(default_factory=set)


async def check_store(http: ManagementClient, *, domain: str, version: str, verifies: bool) -> Health:
    """Checks the store and its key; never raises a call's error.

    `verifies`: the secret that verifies its events is known.
    """
    state = _CheckState()
    try:
        shop = await _shop(http, state)
        state.locations = await _locations(http, state)
        state.channels = await _channels(http, state)
    except (Unauthorized, MissingRight, WrongAddress) as error:
        name = "shop_domain" if isinstance(error, WrongAddress) else None
        return Health(ok=False, domain=domain, error=error, error_field=name)
    except CallError as error:
        return Health(ok=False, domain=domain, error=error)
    actual_domain = text(shop, "myshopifyDomain").lower()
    if actual_domain and actual_domain != domain:
        message = f"This key is for another store, {actual_domain}."
        return Health(ok=False, domain=domain, error=WrongAddress(message), error_field="shop_domain")
    missing = _missing(state.rights)
    _warn(state, missing, version=version, verifies=verifies)
    zone = text(shop, "ianaTimezone")
    return Health(
        ok=True,
        account_label=text(shop, "name") or domain,
        name=text(shop, "name") or domain,
        domain=domain,
        zone=zone if zone in zone_names() else None,
        currency=text(shop, "currencyCode") or None,
        channels=state.channels,
        locations=state.locations,
        rights=state.rights,
        missing_rights=missing,
        version=version,
        warnings=tuple(state.warnings),
        facts={"events_verified": verifies},
    )


def _warn(state: _CheckState, missing: Sequence[str], *, version: str, verifies: bool) -> None:
    required = [right for right in missing if right not in _OPTIONAL]
    if required:
        message = f"The app lacks rights: {', '.join(required)}. Automations that need them will fail."
        state.warnings.append(HealthWarning("missing_rights", message))
    if "read_all_orders" not in state.rights and "read_orders" in state.rights:
        message = "Only orders of the last 60 days can be read: the app lacks the right read_all_orders."
        state.warnings.append(HealthWarning("recent_orders_only", message))
    other = sorted(state.versions - {version})
    if other:
        message = f"The store answers with version {other[0]} of its interface, not with {version}."
        state.warnings.append(HealthWarning("other_version", message))
    if not verifies:
        message = "Without the secret that its events are signed with, the store's events start nothing."
        state.warnings.append(HealthWarning("events_unverified", message))


async def _shop(http: ManagementClient, state: _CheckState) -> Row:
    data = await _execute(http, documents.SHOP, state)
    scopes = list_of(row_of(sub(data, "currentAppInstallation")), "accessScopes")
    state.rights = tuple(sorted(text(row_of(scope), "handle") for scope in scopes))
    return row_of(data.get("shop"))


async def _locations(http: ManagementClient, state: _CheckState) -> tuple[AccountResource, ...]:
    """Returns the locations; none without the right to read them, which is reported as missing."""
    try:
        data = await _execute(http, documents.LOCATIONS, state)
    except MissingRight:
        return ()
    return tuple(
        AccountResource(number_of(row.get("id")), text(row, "name"), row.get("isActive") is True)
        for row in nodes_of(data, "locations")
    )


async def _channels(http: ManagementClient, state: _CheckState) -> tuple[AccountResource, ...]:
    try:
        data = await _execute(http, documents.CHANNELS, state)
    except MissingRight:
        return ()
    return tuple(
        AccountResource(number_of(row.get("id")), text(row, "name")) for row in nodes_of(data, "publications")
    )


async def _execute(http: ManagementClient, document: Document, state: _CheckState) -> Row:
    variables: dict[str, JsonValue] = {}
    response: PlatformResponse = await http.execute(document.name, variables)
    spoken = response.headers.get("x-shopify-api-version")
    if spoken:
        state.versions.add(spoken)
    return data_of(response)


def _missing(rights: Sequence[str]) -> tuple[str, ...]:
    """Returns the missing rights; a write right includes the read right."""
    held = {
        *rights,
        *(f"read_{right.removeprefix('write_')}" for right in rights if right.startswith("write_")),
    }
    return tuple(right for right in RIGHTS if right not in held)
