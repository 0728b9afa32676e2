"""The node stripe: customers, charges, coupons and the balance, through a bound account."""

from collections.abc import Callable, Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js

_PAGE = 100
_NAMES = (
    "resource operation customerId chargeId name amount currency source additionalFields updateFields filters"
    " returnAll limit"
)


def _metadata(value: JsonValue) -> JsonObject:
    rows = rows_of(value, "metadataProperties")
    return {"metadata": {js.text(row.get("key")): row.get("value") for row in rows}}


def _address(value: AnyJson) -> dict[str, JsonValue]:
    rows = rows_of(value, "details")
    return {"address": dict(rows[0])} if rows else {}


def _shipping(value: JsonValue) -> JsonObject:
    [row, *_] = rows_of(value, "shippingProperties") or [{}]
    return {"shipping": {"name": row.get("name"), **_address(row.get("address"))}} if row else {}


_SHAPES: Mapping[str, AnyJson] = {"metadata": _metadata, "address": _address, "shipping": _shipping}
_NEW_CUSTOMER = OptionTable("additionalFields", "description email phone", _SHAPES)
_CUSTOMER_CHANGES = OptionTable("updateFields", "description email name phone", _SHAPES)


def _flat(value: JsonObject, prefix: str = "") -> dict[str, str]:
    """Flattens nested fields into form fields such as `address[city]`, omitting empty ones."""
    flat_fields: dict[str, str] = {}
    for name, inner in value.items():
        path = f"{prefix}[{name}]" if prefix else name
        if isinstance(inner, Mapping):
            flat_fields |= _flat(inner, path)
        elif not js.is_missing(inner):
            flat_fields[path] = js.text(inner)
    return flat_fields


def _form(table: OptionTable, *first: str) -> Callable[[ServiceFields], dict[str, str]]:
    def body(fields: ServiceFields) -> dict[str, str]:
        return _flat({**{name: fields.value(name) for name in first}, **table.read(fields)})

    return body


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    """Returns the query for the records after the last one, or None if there are no more."""
    page = response if isinstance(response, Mapping) else {}
    listed = page.get("data")
    last = listed[-1] if isinstance(listed, list) and listed else None
    if not page.get("has_more") or not isinstance(last, Mapping):
        return None
    return {**query, "starting_after": js.text(last.get("id"))}


def _read_by_id(path: str, key: str, words: str) -> ServiceOperation:
    return ServiceOperation("GET", path, needed={key: words})


def _list(path: str, filters: str) -> ServiceOperation:
    table = OptionTable("filters", filters)
    return ServiceOperation(
        "GET", path, lambda fields: {"limit": _PAGE, **table.read(fields)}, "data", next_page=_next_page,
        check=table.check,
    )  # fmt: skip


_CUSTOMER = {"customerId": "which customer it means"}
_CHARGE_CHANGES = OptionTable("updateFields", "description receipt_email", _SHAPES)
_OPERATIONS = {
    "balance.get": ServiceOperation("GET", "/balance"),
    "customer.create": ServiceOperation(
        "POST", "/customers", _form(_NEW_CUSTOMER, "name"), recipient="additionalFields.email", text="name",
        needed={"name": "the name of the customer"}, is_form=True, check=_NEW_CUSTOMER.check,
    ),
    "customer.update": ServiceOperation(
        "POST", "/customers/{customerId}", _form(_CUSTOMER_CHANGES), recipient="customerId",
        needed=_CUSTOMER, is_form=True, check=_CUSTOMER_CHANGES.check,
    ),
    "customer.delete": ServiceOperation(
        "DELETE", "/customers/{customerId}", recipient="customerId", needed=_CUSTOMER
    ),
    "customer.get": _read_by_id("/customers/{customerId}", "customerId", "which customer it means"),
    "customer.getAll": _list("/customers", "email"),
    "charge.get": _read_by_id("/charges/{chargeId}", "chargeId", "which charge it means"),
    "charge.getAll": _list("/charges", ""),
    "charge.update": ServiceOperation(
        "POST", "/charges/{chargeId}", _form(_CHARGE_CHANGES), recipient="chargeId",
        needed={"chargeId": "which charge it means"}, is_form=True, check=_CHARGE_CHANGES.check,
    ),
    "coupon.getAll": _list("/coupons", ""),
}  # fmt: skip
_DEFAULTS = {"balance": "get", "customer": "get", "charge": "get", "coupon": "create"}


class StripeNode(HttpServiceNode):
    """Supports customers, and reading charges and coupons, but not charging or creating cards."""

    types = ("stripe",)
    versions = (1,)
    service = "Stripe"
    address = "https://api.stripe.com/v1"
    credential_types = ("stripeApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "balance"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
