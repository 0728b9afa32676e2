"""The fake shop's REST server: routes, keys and rights, errors."""

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steward.fake_platforms.exchange import FakeRequest, FakeResponse, Row, json_response, text_response
from steward.fake_platforms.woocommerce import (
    customers,
    errors,
    order_parts,
    orders,
    products,
    settings,
    terms,
    variations,
    webhooks,
)
from steward.fake_platforms.woocommerce.batch import batch
from steward.fake_platforms.woocommerce.errors import ShopError
from steward.fake_platforms.woocommerce.listing import RouteResult, only_fields
from steward.fake_platforms.woocommerce.shop import FakeShop

_READS = ("GET", "HEAD", "OPTIONS")
_WRITES = ("POST", "PUT", "PATCH")


@dataclass(frozen=True, slots=True)
class _RouteCall:
    """A call of a route: the ids of its path, the query, the body."""

    shop: FakeShop
    ids: tuple[int, ...]
    words: tuple[str, ...]
    query: Row
    body: Row
    force: bool


Act = Callable[[_RouteCall], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """A path and the function of each method; `created_path` is the path of created objects."""

    pattern: re.Pattern[str]
    acts: dict[str, Act]
    allow: str
    created_path: str | None = None


def _route(path: str, *, created_path: str | None = None, **acts: Act) -> Route:
    by_method: dict[str, Act] = {}
    for name, act in acts.items():
        methods = {"update": _WRITES, "batch": _WRITES}.get(name, (name.upper(),))
        by_method |= dict.fromkeys(methods, act)
    pattern = path.replace("{id}", r"(?P<id{n}>\d+)")
    for number in range(3):
        pattern = pattern.replace("{n}", str(number), 1)
    pattern = pattern.replace("{name}", r"(?P<name>[\w-]+)").replace("{group}", r"(?P<group>[\w-]+)")
    return Route(re.compile(pattern + "/?"), by_method, ", ".join(by_method), created_path)


def _term_routes(kind: str) -> list[Route]:
    def create_term(call: _RouteCall, body: Row) -> Row:
        return terms.show_one(call.shop, kind, terms.create(call.shop, kind, body))

    def update_term(call: _RouteCall, term_id: int, body: Row) -> Row:
        return terms.show_one(call.shop, kind, terms.update(call.shop, kind, term_id, body))

    return [
        _route(
            f"products/{kind}",
            created_path=f"products/{kind}/",
            get=lambda c: terms.listed(c.shop, kind, c.query),
            post=lambda c: create_term(c, c.body),
        ),
        _route(
            f"products/{kind}/{{id}}",
            get=lambda c: terms.show_one(c.shop, kind, terms.find(c.shop, kind, c.ids[0])),
            update=lambda c: update_term(c, c.ids[0], c.body),
            delete=lambda c: terms.delete(c.shop, kind, c.ids[0], force=c.force),
        ),
        _route(
            f"products/{kind}/batch",
            batch=lambda c: batch(
                c.body,
                c.query,
                create=lambda item: create_term(c, item),
                update=lambda term_id, item: update_term(c, term_id, item),
                delete=lambda term_id: terms.delete(c.shop, kind, term_id, force=True),
            ),
        ),
    ]


def _resource(name: str, module: Any, get: Act) -> list[Route]:
    return [
        _route(
            name,
            created_path=f"{name}/",
            get=lambda c: module.listed(c.shop, c.query),
            post=lambda c: module.create(c.shop, c.body),
        ),
        _route(
            f"{name}/{{id}}",
            get=get,
            update=lambda c: module.update(c.shop, c.ids[0], c.body),
            delete=lambda c: module.delete(c.shop, c.ids[0], force=c.force),
        ),
        _route(
            f"{name}/batch",
            batch=lambda c: batch(
                c.body,
                c.query,
                create=lambda item: module.create(c.shop, item, loose=True),
                update=lambda object_id, item: module.update(c.shop, object_id, item, loose=True),
                delete=lambda object_id: module.delete(c.shop, object_id, force=True),
            ),
        ),
    ]


def _variation_routes() -> list[Route]:
    root = "products/{id}/variations"
    return [
        _route(
            root,
            # The real shop also answers this address with its own pattern in it (variations recording).
            created_path="products/(?P<product_id>[\\d]+)/variations/",
            get=lambda c: variations.listed(c.shop, c.ids[0], c.query),
            post=lambda c: variations.create(c.shop, c.ids[0], c.body),
        ),
        _route(
            root + "/{id}",
            get=lambda c: variations.show(c.shop, variations.find(c.shop, *c.ids)),
            update=lambda c: variations.update(c.shop, c.ids[0], c.ids[1], c.body),
            delete=lambda c: variations.delete(c.shop, *c.ids, force=c.force),
        ),
        _route(
            root + "/batch",
            batch=lambda c: batch(
                c.body,
                c.query,
                create=lambda item: variations.create(c.shop, c.ids[0], item, loose=True),
                update=lambda variation_id, item: variations.update(
                    c.shop, c.ids[0], variation_id, item, loose=True
                ),
                delete=lambda variation_id: variations.delete(c.shop, c.ids[0], variation_id, force=True),
            ),
        ),
    ]


def _order_part_routes() -> list[Route]:
    return [
        _route(
            "orders/{id}/notes",
            created_path="orders/{order}/notes/",
            get=lambda c: order_parts.notes_listed(c.shop, c.ids[0], c.query),
            post=lambda c: order_parts.create_note(c.shop, c.ids[0], c.body),
        ),
        _route(
            "orders/{id}/notes/{id}",
            get=lambda c: order_parts.note_by_id(c.shop, *c.ids),
            delete=lambda c: order_parts.delete_note(c.shop, *c.ids, force=c.force),
        ),
        _route(
            "orders/{id}/refunds",
            created_path="orders/(?P<order_id>[\\d]+)/refunds/",
            get=lambda c: order_parts.refunds_listed(c.shop, c.ids[0], c.query),
            post=lambda c: order_parts.create_refund(c.shop, c.ids[0], c.body),
        ),
        _route(
            "orders/{id}/refunds/{id}",
            get=lambda c: order_parts.refund_by_id(c.shop, *c.ids),
            delete=lambda c: order_parts.delete_refund(c.shop, *c.ids, force=c.force),
        ),
    ]


def _setting_routes() -> list[Route]:
    def one_setting(call: _RouteCall) -> Row:
        return settings.setting(call.shop, *call.words)

    return [
        _route("system_status", get=lambda c: RouteResult(200, settings.system_status(c.shop))),
        _route("settings/{group}", get=lambda c: RouteResult(200, settings.group_listed(c.shop, c.words[0]))),
        _route("settings/{group}/{name}", get=one_setting),
        _route("data/currencies/current", get=lambda c: settings.current_currency(c.shop)),
    ]


_ROUTES: list[Route] = [
    *_term_routes("tags"),
    *_term_routes("categories"),
    *_resource("products", products, lambda c: products.get(c.shop, c.ids[0])),
    *_variation_routes(),
    _route("variations", get=lambda c: variations.listed_of_all(c.shop, c.query)),
    *_resource("orders", orders, lambda c: orders.show(c.shop, orders.find(c.shop, c.ids[0], 404))),
    *_order_part_routes(),
    *_resource(
        "customers", customers, lambda c: customers.show(c.shop, customers.find(c.shop, c.ids[0], 404))
    ),
    *_resource("webhooks", webhooks, lambda c: webhooks.get(c.shop, c.ids[0])),
    *_setting_routes(),
]


def _credentials(request: FakeRequest) -> tuple[str, str] | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            key, _, secret = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return key, secret
    key_there, secret_there = request.first("consumer_key"), request.first("consumer_secret")
    if request.scheme == "https" and key_there and secret_there:
        return key_there, secret_there
    return None


def _refuse(shop: FakeShop, request: FakeRequest, *, single: bool) -> None:
    """Checks key and rights as WooCommerce does. Raises ShopError.

    An unknown key sees nothing (401 cannot_view); a known key is told which right it lacks.
    """
    denial, words = _denial(request.method, single=single)
    credentials = _credentials(request)
    key = shop.keys.get(credentials[0]) if credentials else None
    if credentials is None or key is None:
        raise ShopError(401, denial, words)
    code = "woocommerce_rest_authentication_error"
    if key.secret != credentials[1]:
        raise ShopError(401, code, "Consumer secret is invalid.")
    needed = "read" if request.method in _READS else "write"
    if key.rights in ("read", "write") and key.rights != needed:
        raise ShopError(401, code, f"The API key provided does not have {needed} permissions.")
    if key.rights == "person":
        raise ShopError(403, denial, words)


def _denial(method: str, *, single: bool) -> tuple[str, str]:
    """Returns code and message for a caller who may not use the method."""
    if method in _READS:
        message = "Sorry, you cannot view this resource." if single else "Sorry, you cannot list resources."
        return "woocommerce_rest_cannot_view", message
    verb = _VERBS[method]
    return f"woocommerce_rest_cannot_{verb}", f"Sorry, you are not allowed to {verb} resources."


_VERBS = {"POST": "create", "PUT": "edit", "PATCH": "edit", "DELETE": "delete"}


def _body(request: FakeRequest) -> Row:
    if not request.body or request.method in _READS:
        return {}
    if "json" not in request.headers.get("content-type", ""):
        return {}
    try:
        decoded = json.loads(request.body)
    except ValueError:
        extra = {"json_error_code": 4, "json_error_message": "Syntax error"}
        raise ShopError(400, "rest_invalid_json", "Invalid JSON body passed.", extra) from None
    return decoded if isinstance(decoded, dict) else {}


def _query(request: FakeRequest) -> Row:
    """Returns query parameters; `status[]=a&status[0]=b` becomes a list, as in PHP."""
    read: Row = {}
    for name, value in request.query:
        plain = re.sub(r"\[\d*\]$", "", name)
        if plain != name:
            read.setdefault(plain, [])
            read[plain] = [*(read[plain] if isinstance(read[plain], list) else [read[plain]]), value]
        else:
            read[name] = value
    return read


def _link_to_index(shop: FakeShop) -> dict[str, str]:
    return {"link": f'<{shop.url}/wp-json/>; rel="https://api.w.org/"'}


def _matched_route(path: str) -> tuple[Route, dict[str, str]]:
    """Returns the route of a path and the path's parts by name. Raises ShopError for an unknown path."""
    for route in _ROUTES:
        match = route.pattern.fullmatch(path)
        if match is not None:
            return route, match.groupdict()
    raise errors.no_route()


def _called(shop: FakeShop, request: FakeRequest, path: str) -> RouteResult:
    route, parts = _matched_route(path)
    act = route.acts.get("GET" if request.method == "HEAD" else request.method)
    if act is None:
        raise errors.no_route()
    ids = tuple(int(value) for name, value in parts.items() if name.startswith("id"))
    words = tuple(value for name, value in parts.items() if not name.startswith("id"))
    _check_rights(shop, request, path, single=bool(ids))
    query = _query(request)
    try:
        body = _body(request)
        force = str(body.get("force", query.get("force", ""))).lower() in ("true", "1")
        outcome = act(_RouteCall(shop, ids, words, query, body, force))
    except ShopError as refusal:
        return RouteResult(refusal.status, refusal.body(), {"allow": route.allow})
    return _completed(shop, route, request, ids, query, outcome)


def _check_rights(shop: FakeShop, request: FakeRequest, path: str, *, single: bool) -> None:
    """Refuses a caller without the right, unless the shop refuses the unknown object first."""
    try:
        _refuse(shop, request, single=single)
    except ShopError as refusal:
        if not (refusal.code.startswith("woocommerce_rest_cannot") and _is_unknown(shop, path)):
            raise


def _completed(
    shop: FakeShop, route: Route, request: FakeRequest, ids: tuple[int, ...], query: Row, outcome: Any
) -> RouteResult:
    headers = {"allow": route.allow}
    if isinstance(outcome, RouteResult):
        value = outcome.value
        if isinstance(value, dict):
            value = only_fields(value, query.get("_fields"), keep_links=False)
        return RouteResult(outcome.status, value, headers | outcome.headers)
    if request.method == "POST" and route.created_path and isinstance(outcome, dict):
        path = route.created_path.replace("{order}", str(ids[0]) if ids else "")
        headers["location"] = f"{shop.url}/wp-json/wc/v3/{path}{outcome['id']}"
        return RouteResult(201, only_fields(outcome, query.get("_fields"), keep_links=True), headers)
    if isinstance(outcome, dict) and not route.pattern.pattern.endswith("batch/?"):
        outcome = only_fields(outcome, query.get("_fields"), keep_links=True)
    return RouteResult(200, outcome, headers)


_PREFIX = "/wp-json/wc/v3/"
# Here the shop looks up the object before it checks the key, so an unknown object is refused as such.
_LOOKED_FOR_FIRST = re.compile(r"(products|products/tags|products/categories|orders|customers)/(\d+)/?")


def _is_unknown(shop: FakeShop, path: str) -> bool:
    match = _LOOKED_FOR_FIRST.fullmatch(path)
    if match is None:
        return False
    tables = {
        "products": {**shop.products, **shop.variations},
        "products/tags": shop.terms["tags"],
        "products/categories": shop.terms["categories"],
        "orders": shop.orders,
        "customers": shop.customers,
    }
    return int(match[2]) not in tables[match[1]]


def _page_not_found(shop: FakeShop) -> FakeResponse:
    """Returns the page that WordPress serves at an unknown address."""
    html = (
        f"<!DOCTYPE html><html><head><title>Page not found – {shop.title}</title></head><body></body></html>"
    )
    return text_response(404, html, kind="text/html; charset=UTF-8")


def _by_query(shop: FakeShop, route: str) -> RouteResult:
    """Serves the form `/?rest_route=…`, which all sites have and which ignores keys."""
    if route.rstrip("/") == "":
        return RouteResult(200, settings.site_index(shop), {"allow": "GET"})
    inner = route.removeprefix("/wc/v3/")
    if inner == route or not any(registered.pattern.fullmatch(inner) for registered in _ROUTES):
        raise errors.no_route()
    raise ShopError(401, "woocommerce_rest_cannot_view", "Sorry, you cannot list resources.")


def _result(shop: FakeShop, request: FakeRequest, path: str) -> RouteResult:
    if path == "/":
        return _by_query(shop, request.first("rest_route") or "/")
    if path.rstrip("/") == "/wp-json" and request.method in _READS:
        index = only_fields(settings.site_index(shop), request.first("_fields"), keep_links=False)
        return RouteResult(200, index, {"allow": "GET"})
    if path.startswith(_PREFIX):
        return _called(shop, request, path[len(_PREFIX) :])
    raise errors.no_route()


def respond(shop: FakeShop, request: FakeRequest) -> FakeResponse:
    """Serves one request of the shop, `/wp-json/…` or `/?rest_route=…`."""
    path = request.path.removeprefix("/index.php")
    if path != "/" and (shop.plain_permalinks or not (path + "/").startswith("/wp-json/")):
        return _page_not_found(shop)
    try:
        result = _result(shop, request, path)
    except ShopError as refusal:
        result = RouteResult(refusal.status, refusal.body())
    touched = shop.pop_changes()
    headers = _link_to_index(shop) | result.headers
    return json_response(result.status, result.value, headers, changed_objects=touched)
