"""The fake shop's description of itself: index, general settings, currency, system status."""

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import errors
from steward.fake_platforms.woocommerce.shop import FakeShop

_EDIT = ["GET", "POST", "PUT", "PATCH"]
_CURRENCIES = {"CHF": "Swiss franc (&#67;&#72;&#70;) — CHF", "EUR": "Euro (&euro;) — EUR"}
_CURRENCIES |= {"GBP": "Pound sterling (&pound;) — GBP", "USD": "United States (US) dollar (&#36;) — USD"}
_PLACES = {"left": "Left", "right": "Right", "left_space": "Left, space", "right_space": "Right, space"}
_COUNTRIES = {"all": "Sell to all countries", "specific": "Sell to specific countries"}
_YES = "checkbox"

# id: label, type, default, value, options
_GENERAL: dict[str, tuple[str, str, str, object, dict[str, str] | None]] = {
    "woocommerce_store_address": ("Address line 1", "text", "", "", None),
    "woocommerce_store_address_2": ("Address line 2", "text", "", "", None),
    "woocommerce_store_city": ("City", "text", "", "", None),
    "woocommerce_default_country": ("Country / State", "select", "US:CA", "DE:DE-BE", {"DE:DE-BE": "Berlin"}),
    "woocommerce_store_postcode": ("Postcode / ZIP", "text", "", "", None),
    "woocommerce_allowed_countries": ("Selling location(s)", "select", "all", "all", _COUNTRIES),
    "woocommerce_all_except_countries": ("All but", "multiselect", "", "", {"DE": "Germany"}),
    "woocommerce_specific_allowed_countries": ("Only to", "multiselect", "", "", {"DE": "Germany"}),
    "woocommerce_ship_to_countries": ("Shipping location(s)", "select", "", "", {"": "Where we sell"}),
    "woocommerce_specific_ship_to_countries": ("Ship only to", "multiselect", "", "", {"DE": "Germany"}),
    "woocommerce_default_customer_address": (
        "Customer's place",
        "select",
        "base",
        "base",
        {"base": "FakeShop"},
    ),
    "woocommerce_address_autocomplete_enabled": ("Address completion", _YES, "no", "no", None),
    "woocommerce_calc_taxes": ("Taxes", _YES, "no", "no", None),
    "woocommerce_enable_coupons": ("Coupons", _YES, "yes", "yes", None),
    "woocommerce_calc_discounts_sequentially": ("Discounts in a row", _YES, "no", "no", None),
    "woocommerce_currency": ("Currency", "select", "USD", "EUR", _CURRENCIES),
    "woocommerce_currency_pos": ("Currency position", "select", "left", "left", _PLACES),
    "woocommerce_price_thousand_sep": ("Thousand separator", "text", ",", ",", None),
    "woocommerce_price_decimal_sep": ("Decimal separator", "text", ".", ".", None),
    "woocommerce_price_num_decimals": ("Number of decimals", "number", "2", "2", None),
}
_UNITS: dict[str, tuple[str, str, str, object, dict[str, str] | None]] = {
    "woocommerce_weight_unit": (
        "Weight unit",
        "select",
        "lbs",
        "kg",
        {u: u for u in ("kg", "g", "lbs", "oz")},
    ),
    "woocommerce_dimension_unit": (
        "Dimensions unit",
        "select",
        "in",
        "cm",
        {u: u for u in ("m", "cm", "mm", "in", "yd")},
    ),
}
_GROUPS = {"general": _GENERAL, "products": _UNITS}
_WITHOUT_TIP: tuple[str, ...] = ("woocommerce_all_except_countries",)
_WITHOUT_TIP += ("woocommerce_specific_allowed_countries", "woocommerce_specific_ship_to_countries")


def _setting(shop: FakeShop, group: str, name: str) -> Row:
    label, kind, default, value, options = _GROUPS[group][name]
    row: Row = {"id": name, "label": label, "description": label + ".", "type": kind, "default": default}
    if options is not None:
        row["options"] = dict(options)
    if name not in _WITHOUT_TIP:
        row["tip"] = label + "."
    links = shop.links(f"settings/{group}/{name}", collection=f"settings/{group}", allow=_EDIT)
    return {**row, "value": value, "_links": links}


def group_listed(shop: FakeShop, group: str) -> list[Row]:
    """Returns all settings of a group. Raises ShopError 404."""
    if group not in _GROUPS:
        raise errors.ShopError(404, "rest_setting_setting_group_invalid", "Invalid setting group.")
    return [_setting(shop, group, name) for name in _GROUPS[group]]


def setting(shop: FakeShop, group: str, name: str) -> Row:
    """Returns one setting. Raises ShopError 404."""
    if name not in _GROUPS.get(group, {}):
        raise errors.ShopError(404, "rest_setting_setting_invalid", "Invalid setting.")
    row = _setting(shop, group, name)
    links = row.pop("_links")
    return {**row, "group_id": group, "_links": links}


def current_currency(shop: FakeShop) -> Row:
    """Returns the currency with its name and symbol."""
    links = shop.links("data/currencies/EUR", collection="data/currencies", allow=("GET",))
    return {"code": "EUR", "name": "Euro", "symbol": "&euro;", "_links": links}


def system_status(shop: FakeShop) -> Row:
    """Returns versions and the settings that say how orders are stored."""
    in_tables = shop.orders_in_own_tables
    store = "Automattic\\WooCommerce\\Internal\\DataStores\\Orders\\OrdersTableDataStore"
    states: tuple[str, ...] = ("exclude-from-catalog", "exclude-from-search", "featured", "outofstock")
    states += tuple(f"rated-{n}" for n in range(1, 6))
    settings: Row = {
        "api_enabled": False,
        "force_ssl": False,
        "currency": "EUR",
        "currency_symbol": "&euro;",
        "currency_position": "left",
        "thousand_separator": ",",
        "decimal_separator": ".",
        "number_of_decimals": 2,
        "geolocation_enabled": False,
        "taxonomies": {kind: kind for kind in ("external", "grouped", "simple", "variable")},
        "product_visibility_terms": {state: state for state in states},
        "woocommerce_com_connected": "no",
        "enforce_approved_download_dirs": True,
        "order_datastore": store if in_tables else "WC_Order_Data_Store_CPT",
        "HPOS_enabled": in_tables,
        "HPOS_sync_enabled": False,
        "enabled_features": ["analytics", "order_attribution"],
    }
    version = ".".join(map(str, shop.version))
    environment = {"home_url": shop.url, "site_url": shop.url, "version": version, "wp_version": "7.1"}
    return {"environment": environment, "settings": settings}


def site_index(shop: FakeShop) -> Row:
    """Returns the data that the site serves without a key: name, time zone, namespaces."""
    offset = shop.now().astimezone(shop.zone).utcoffset()
    hours = offset.total_seconds() / 3600 if offset is not None else 0.0
    return {
        "name": shop.title,
        "description": "",
        "url": shop.url,
        "home": shop.url,
        "gmt_offset": int(hours) if hours == int(hours) else hours,
        "timezone_string": str(shop.zone),
        "namespaces": ["oembed/1.0", "wc/v3", "wc/v2", "wc/v1", "wc/store", "wp/v2"],
    }
