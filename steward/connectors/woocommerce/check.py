"""Checks a WooCommerce shop: is it one, what may the key do, which zone and currency (connectors 7.2)."""

import uuid
from dataclasses import dataclass, field
from zoneinfo import available_timezones

from steward.connectors.base import (
    Broken,
    CallError,
    Forbidden,
    Health,
    JsonValue,
    Unauthorized,
    Warned,
    WrongAddress,
)
from steward.connectors.woocommerce.answers import Row, error_of, row_of, rows_of
from steward.connectors.woocommerce.pages import PREFIX
from steward.outbound.client import UpkeepHttp

_PERMALINKS = (
    "WooCommerce does not answer under this address. Check the address, and in WordPress under"
    " Settings, Permalinks choose any form but Plain."
)


@dataclass(slots=True)
class _Found:
    warnings: list[Warned] = field(default_factory=list)
    rights: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)


async def check_shop(http: UpkeepHttp, *, domain: str) -> Health:
    """What the shop and its key are; never raises a call's error."""
    found = _Found()
    try:
        index = await _index(http)
        await _rights(http, found)
        currency = await _currency(http)
        await _storage(http, found)
    except (WrongAddress, Unauthorized, Forbidden) as error:
        name = "url" if isinstance(error, WrongAddress) else "consumer_key"
        return Health(ok=False, domain=domain, error=error, error_field=name)
    except CallError as error:
        return Health(ok=False, domain=domain, error=error)
    zone = _zone(index, found)
    title = index.get("name")
    return Health(
        ok=True,
        account_label=domain,
        name=title if isinstance(title, str) and title else domain,
        domain=domain,
        zone=zone,
        currency=currency,
        rights=tuple(found.rights),
        missing_rights=tuple(found.missing),
        version="wc/v3",
        warnings=tuple(found.warnings),
        facts=found.facts,
    )


async def _index(http: UpkeepHttp) -> Row:
    """The site's own description; needs no key, so none is sent."""
    answer = await http.get_bare("/wp-json/")
    if answer.status in (401, 403, 404) or not answer.ok:
        error = error_of(answer, write=False)
        raise WrongAddress(_PERMALINKS) if answer.status < 500 else error
    try:
        index = row_of(answer)
    except Broken:
        raise WrongAddress(_PERMALINKS) from None
    namespaces = index.get("namespaces")
    if not isinstance(namespaces, list) or "wc/v3" not in namespaces:
        raise WrongAddress("There is a WordPress at this address, but no WooCommerce in it.")
    return index


async def _rights(http: UpkeepHttp, found: _Found) -> None:
    """Reads one product, then sends an empty batch, which changes nothing: both right and wrong are told
    by the same code, so each is tried (connectors 4)."""
    read = await http.get(f"{PREFIX}/products", {"per_page": "1", "_fields": "id"})
    write = await http.send("POST", f"{PREFIX}/products/batch", {}, key=str(uuid.uuid4()))
    if read.ok:
        rows_of(read)
        found.rights.append("read")
    elif read.status in (401, 403) and write.ok:
        raise Forbidden("read this shop", "The key can write but not read. Give it the right to read.")
    else:
        raise error_of(read, write=False)
    if write.ok:
        found.rights.append("write")
    elif write.status in (401, 403):
        found.missing.append("write")
        words = "This key can read, but cannot change the shop. Automations that change something will fail."
        found.warnings.append(Warned("read_only", words))
    else:
        raise error_of(write, write=True)


async def _currency(http: UpkeepHttp) -> str | None:
    answer = await http.get(f"{PREFIX}/settings/general/woocommerce_currency", {"_fields": "id,value"})
    value = row_of(answer).get("value") if answer.ok else None
    return value if isinstance(value, str) and len(value) == 3 and value.isupper() else None


async def _storage(http: UpkeepHttp, found: _Found) -> None:
    answer = await http.get(f"{PREFIX}/system_status", {"_fields": "settings"})
    settings = row_of(answer).get("settings") if answer.ok else None
    if isinstance(settings, dict):
        found.facts["orders_stored_as"] = "tables" if settings.get("HPOS_enabled") is True else "posts"


def _zone(index: Row, found: _Found) -> str | None:
    name, offset = index.get("timezone_string"), index.get("gmt_offset")
    if isinstance(name, str) and name in available_timezones():
        return name
    hours = str(offset)
    try:
        whole = float(hours)
    except ValueError:
        whole = 0.5
    if whole == int(whole) and -12 <= whole <= 14:
        # The names of these zones have the sign turned round.
        return f"Etc/GMT{-int(whole):+d}" if whole else "Etc/GMT"
    words = "The shop does not name its time zone. Set one in WordPress under Settings, General."
    found.warnings.append(Warned("zone_missing", words))
    return None
