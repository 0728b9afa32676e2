"""Checks a WooCommerce shop: its address, the rights of the key, time zone and currency.

See `docs/design/connectors.md#woocommerce`.
"""

import uuid
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from steward.connectors.base.connector import Health, HealthWarning
from steward.connectors.base.settings import IDENTITY
from steward.connectors.woocommerce.bodies import has_notices, page_error
from steward.connectors.woocommerce.pages import PREFIX
from steward.connectors.woocommerce.responses import Row, error_of, row_of, rows_of
from steward.connectors.woocommerce.variations import LIST_PATH
from steward.model.json import JsonValue
from steward.outbound.client import ManagementClient
from steward.outbound.errors import CallError, MissingRight, Unauthorized, WrongAddress, WrongResponder
from steward.outbound.response import PlatformResponse
from steward.scheduling.zones import zone_names

# The fact that says whether a connection's shop lists the variations of all products.
LISTS_VARIATIONS = "lists_variations"
_ELSEWHERE = (
    "WooCommerce does not answer under this address. Give the address of the shop's front page, and in"
    " WordPress under Settings, Permalinks choose any form but Plain."
)
_PLAIN_PERMALINKS = (
    "This WordPress uses Plain permalinks, with which WooCommerce does not accept keys. In WordPress, open"
    " Settings, Permalinks, choose Post name or any other form but Plain, save, and connect the shop again."
)
_NOTICES = (
    "The shop prints messages of PHP before its data. They are skipped, but they slow it down and may tell"
    " strangers about it: set WP_DEBUG_DISPLAY to false in its wp-config.php."
)
_NO_SHOP = "There is a WordPress at this address, but no WooCommerce in it."


@dataclass(slots=True)
class _CheckReport:
    warnings: list[HealthWarning] = field(default_factory=list)
    rights: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)

    def note(self, response: PlatformResponse) -> None:
        """Adds a warning when a response has PHP notices before its data."""
        if has_notices(response) and not any(warning.code == "notices" for warning in self.warnings):
            self.warnings.append(HealthWarning("notices", _NOTICES))


async def check_shop(http: ManagementClient, *, domain: str) -> Health:
    """Returns the health of a shop and its key. Reports a failed call instead of raising it."""
    report = _CheckReport()
    try:
        index = await _index(http, report)
        await _rights(http, report)
        currency = await _currency(http)
        await _storage(http, report)
        await _variations(http, report)
    except (WrongAddress, Unauthorized, MissingRight) as error:
        name = "url" if isinstance(error, WrongAddress) else "consumer_key"
        return Health(ok=False, domain=domain, error=error, error_field=name)
    except CallError as error:
        return Health(ok=False, domain=domain, error=error)
    zone = _zone(index, report)
    identity = _identity(index)
    if identity is not None:
        report.facts[IDENTITY] = identity
    title = index.get("name")
    return Health(
        ok=True,
        account_label=domain,
        name=title if isinstance(title, str) and title else domain,
        domain=domain,
        zone=zone,
        currency=currency,
        rights=tuple(report.rights),
        missing_rights=tuple(report.missing),
        version="wc/v3",
        warnings=tuple(report.warnings),
        facts=report.facts,
    )


async def _index(http: ManagementClient, report: _CheckReport) -> Row:
    """Returns the site's own description, which WordPress serves without a key."""
    try:
        response = await http.get_without_credentials("/wp-json/")
    except WrongAddress:  # a redirect
        raise await _address_error(http, None) from None
    if response.status >= 500:
        raise error_of(response, write=False)
    index = _described(response)
    page = page_error(response) if index is None and response.status != 404 else None
    if page is not None and response.status in (401, 403):
        raise page
    report.note(response)
    if index is None:
        raise await _address_error(http, page)
    if not _has_shop(index):
        raise WrongAddress(_NO_SHOP)
    return index


async def _address_error(http: ManagementClient, page: CallError | None) -> CallError:
    """Returns why `/wp-json/` serves no description of a site.

    With plain permalinks that path leads nowhere or to a page, while the form with a query works.
    """
    index = _described(await http.get_without_credentials("/", {"rest_route": "/"}))
    if index is None:
        return page or WrongResponder(_ELSEWHERE)
    return WrongAddress(_PLAIN_PERMALINKS if _has_shop(index) else _NO_SHOP)


def _described(response: PlatformResponse) -> Row | None:
    """Returns the description of a WordPress site, or null for any other response."""
    try:
        index = row_of(response)
    except CallError:
        return None
    return index if isinstance(index.get("namespaces"), list) else None


def _has_shop(index: Row) -> bool:
    namespaces = index.get("namespaces")
    return isinstance(namespaces, list) and "wc/v3" in namespaces


def _identity(index: Row) -> str | None:
    """Returns the address that the shop gives as its own, without its scheme.

    It is the same under each address that leads to the shop.
    """
    home = index.get("home")
    if not isinstance(home, str):
        return None
    parts = urlsplit(home.strip())
    path = parts.path.rstrip("/")
    return f"{parts.netloc.lower()}{path}"[:500] if parts.netloc else None


async def _variations(http: ManagementClient, report: _CheckReport) -> None:
    """Notes whether the shop lists the variations of all products (WooCommerce 10.3 and later)."""
    try:
        response = await http.get(f"{PREFIX}{LIST_PATH}", {"per_page": "1", "_fields": "id,parent_id"})
        if response.ok:
            report.facts[LISTS_VARIATIONS] = all("parent_id" in row for row in rows_of(response))
        elif response.status == 404:
            report.facts[LISTS_VARIATIONS] = False
    except CallError:
        return  # The result of the last check stays valid: the shop works without the list as well.


async def _rights(http: ManagementClient, report: _CheckReport) -> None:
    """Reads one product, then sends an empty batch, which changes nothing.

    The shop answers a missing right and a wrong key with the same code, so both rights are tried.
    """
    read = await http.get(f"{PREFIX}/products", {"per_page": "1", "_fields": "id"})
    write = await http.send("POST", f"{PREFIX}/products/batch", {}, key=str(uuid.uuid4()))
    for response in (read, write):
        page = page_error(response) if response.status in (401, 403) else None
        if page is not None:  # the key is not at fault
            raise page
        report.note(response)
    if read.ok:
        rows_of(read)
        report.rights.append("read")
    elif read.status in (401, 403) and write.ok:
        raise MissingRight("read this shop", "The key can write but not read. Give it the right to read.")
    else:
        raise error_of(read, write=False)
    if write.ok:
        report.rights.append("write")
    elif write.status in (401, 403):
        report.missing.append("write")
        message = (
            "This key can read, but cannot change the shop. Automations that change something will fail."
        )
        report.warnings.append(HealthWarning("read_only", message))
    else:
        raise error_of(write, write=True)


async def _currency(http: ManagementClient) -> str | None:
    response = await http.get(f"{PREFIX}/settings/general/woocommerce_currency", {"_fields": "id,value"})
    value = row_of(response).get("value") if response.ok else None
    return value if isinstance(value, str) and len(value) == 3 and value.isupper() else None


async def _storage(http: ManagementClient, report: _CheckReport) -> None:
    response = await http.get(f"{PREFIX}/system_status", {"_fields": "settings"})
    settings = row_of(response).get("settings") if response.ok else None
    if isinstance(settings, dict):
        report.facts["orders_stored_as"] = "tables" if settings.get("HPOS_enabled") is True else "posts"


def _zone(index: Row, report: _CheckReport) -> str | None:
    name, offset = index.get("timezone_string"), index.get("gmt_offset")
    if isinstance(name, str) and name in zone_names():
        return name
    hours = str(offset)
    try:
        utc_offset = float(hours)
    except ValueError:
        utc_offset = 0.5  # unreadable: like a fraction of an hour, for which there is no such zone
    if utc_offset == int(utc_offset) and -12 <= utc_offset <= 14:
        # The names of these zones have the opposite sign.
        return f"Etc/GMT{-int(utc_offset):+d}" if utc_offset else "Etc/GMT"
    message = "The shop does not name its time zone. Set one in WordPress under Settings, General."
    report.warnings.append(HealthWarning("zone_missing", message))
    return None
