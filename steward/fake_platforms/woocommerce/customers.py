"""Customers of the fake shop."""

import hashlib
import re
from typing import Any

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors
from steward.fake_platforms.woocommerce.arguments import Arg, coerced, is_email, validated
from steward.fake_platforms.woocommerce.listing import Listing, RouteResult
from steward.fake_platforms.woocommerce.orders import ADDRESS, META
from steward.fake_platforms.woocommerce.shop import FakeShop, slug

_ROLES = ("all", "administrator", "editor", "author", "contributor", "subscriber", "customer", "shop_manager")
ARGS: dict[str, Arg] = {
    "email": Arg("email"),
    "first_name": Arg(),
    "last_name": Arg(),
    "username": Arg(),
    "password": Arg(),
    "billing": Arg("object", inside=ADDRESS),
    "shipping": Arg("object", inside=ADDRESS),
    "meta_data": META,
}
# The form of a new customer's address is not checked here: the creation of the account refuses it, with
# another code.
_NEW = ARGS | {"email": Arg()}
_PREFIXES = ("sales", "hello", "mail", "contact", "info")
_SORT = {"id": "id", "name": "username", "registered_date": "date_created_gmt"}
_LIST = {"email": Arg("email"), "role": Arg("string", _ROLES)}


def find(shop: FakeShop, customer_id: int, status: int) -> Row:
    """Returns the customer. Raises ShopError with the given status."""
    if customer_id not in shop.customers:
        raise errors.invalid_id("customer", status)
    return shop.customers[customer_id]


def show(shop: FakeShop, row: Row) -> Row:
    """Returns a customer as the shop answers it."""
    return {**row, "_links": shop.links(f"customers/{row['id']}", collection="customers")}


def listed(shop: FakeShop, query: Row) -> RouteResult:
    """Returns the list of customers; other roles only on request."""
    listing = Listing(_LIST, _SORT, "name", shop.zone, ("email", "username", "first_name", "last_name"))
    arguments = listing.read(query)
    role = arguments.get("role", "customer")
    rows = [row for row in shop.customers.values() if role in ("all", row["role"])]
    if "email" in arguments:
        rows = [row for row in rows if row["email"] == arguments["email"]]
    url = f"{shop.url}/wp-json/wc/v3/customers"
    return listing.respond(rows, arguments, query, url=url, show=lambda row: show(shop, row))


def _is_taken(shop: FakeShop, name: str, value: str) -> bool:
    """Returns whether an account has this e-mail address or username, ignoring case."""
    return any(row[name].casefold() == value.casefold() for row in shop.customers.values())


def _refuse_registration(shop: FakeShop, values: Row) -> None:
    """Raises ShopError if no account can be created, in the shop's order of checks."""
    email, username = values.get("email", ""), values.get("username", "")
    refusal: tuple[str, str] | None = None
    if not is_email(email):
        refusal = "invalid-email", "Please provide a valid email address."
    elif _is_taken(shop, "email", email):
        message = f"An account is already registered with {email}. Please log in or use a different address."
        refusal = "email-exists", message
    elif username and not re.sub(r"[^\w @.*+-]", "", username, flags=re.ASCII).strip():
        refusal = "invalid-username", "Please provide a valid account username."
    elif username and _is_taken(shop, "username", username):
        refusal = "username-exists", "An account is already registered with that username."
    if refusal is not None:
        raise errors.ShopError(400, f"registration-error-{refusal[0]}", refusal[1])


def _username(shop: FakeShop, email: str) -> str:
    """Returns an unused username from the address; from its domain for addresses like info@."""
    local_part, _, domain = email.partition("@")
    stem = slug(domain if local_part in _PREFIXES else local_part)
    name, number = stem, 0
    while _is_taken(shop, "username", name):
        number += 1
        name = f"{stem}-{number:04}"
    return name


def _apply(shop: FakeShop, row: Row, values: Row) -> None:
    for name in ("email", "first_name", "last_name"):
        if name in values:
            row[name] = values[name]
    for name in ("billing", "shipping"):
        fields = {key: value for key, value in values.get(name, {}).items() if key in row[name]}
        row[name] = {**row[name], **fields}
    digest = hashlib.sha256(row["email"].strip().lower().encode()).hexdigest()
    row["avatar_url"] = f"https://secure.gravatar.com/avatar/{digest}?s=96&d=mm&r=g"
    if "meta_data" in values:
        shop.merge_meta(row, values["meta_data"])


def _written(values: Row) -> list[Any]:
    return [name for name in values if name != "password"]


def create(shop: FakeShop, body: Row, *, loose: bool = False) -> Row:
    """Creates a customer. Raises ShopError."""
    values = coerced(body, _NEW, fallback="") if loose else validated(body, _NEW, required=("email",))
    _refuse_registration(shop, values)
    row = blank.customer()
    row["id"] = shop.next_id("user")
    shop.mark_created(row)
    row["username"] = values.get("username") or _username(shop, values["email"])
    _apply(shop, row, values)
    shop.customers[row["id"]] = row
    shop.record_change("customer", row["id"], None, row, _written(values))
    shop.record_event("customer.created", row["id"])
    return show(shop, row)


def update(shop: FakeShop, customer_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a customer. Raises ShopError."""
    values = coerced(body, ARGS, fallback="") if loose else validated(body, ARGS)
    row = find(shop, customer_id, 404)
    email, username = values.get("email"), values.get("username")
    if email and email != row["email"] and _is_taken(shop, "email", email):
        code = "woocommerce_rest_customer_invalid_email"
        raise errors.ShopError(400, code, "Email address is invalid.")
    if username and username != row["username"]:
        code = "woocommerce_rest_customer_invalid_argument"
        raise errors.ShopError(400, code, "Username isn't editable.")
    before = dict(row)
    _apply(shop, row, {name: value for name, value in values.items() if name != "username"})
    shop.mark_modified(row)
    shop.record_change("customer", customer_id, before, row, _written(values))
    shop.record_event("customer.updated", customer_id)
    return show(shop, row)


def delete(shop: FakeShop, customer_id: int, *, force: bool) -> Row:
    """Removes a customer permanently; answers 501 without force, as customers have no trash."""
    row = find(shop, customer_id, 404)
    if not force:
        raise errors.trash_unsupported("Customers")
    resource = show(shop, row)
    # The response to this one write has no hints (customers recording).
    del resource["_links"]["self"][0]["targetHints"]
    del shop.customers[customer_id]
    shop.record_change("customer", customer_id, row, None, ("email",))
    shop.record_event("customer.deleted", customer_id)
    return resource
