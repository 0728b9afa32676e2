"""Refusals of the fake shop, with the messages and codes of WooCommerce."""

from typing import Any

from steward.fake_platforms.exchange import Row


class ShopError(Exception):
    """A refusal; `data.status` is the HTTP status, except for refunds."""

    def __init__(self, status: int, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.data: Any = {"status": status, **data} if isinstance(data, dict) else data or {"status": status}

    def body(self) -> Row:
        """Returns `{code, message, data}`; a refused refund has a bare number as data."""
        return {"code": self.code, "message": self.message, "data": self.data}


class _ShopFailure(ShopError):
    """A failure of the shop's program, for which WordPress adds a list of further errors."""

    def body(self) -> Row:
        """Returns `{code, message, data, additional_errors}`."""
        return {**super().body(), "additional_errors": []}


def critical() -> ShopError:
    """Returns an error that the shop's program does not handle."""
    message = "<p>There has been a critical error on this website.</p>"
    return _ShopFailure(500, "internal_server_error", message)


def refund_refused(code: str, message: str, data: int) -> ShopError:
    """Returns a refusal of the refunds resource.

    Its status is a bare number, which WordPress does not read, so the response is always 500.
    """
    return ShopError(500, f"woocommerce_rest_{code}", message, data)


def no_route() -> ShopError:
    """Returns the refusal of an unknown path or method."""
    return ShopError(404, "rest_no_route", "No route was found matching the URL and request method.")


def invalid_id(kind: str, status: int) -> ShopError:
    """Returns the refusal of an unknown id: 404 on a read, 400 on most writes."""
    if kind == "customer":
        return ShopError(status, "wc_user_invalid_id", "Invalid user ID.")
    code = f"woocommerce_rest_{kind}_invalid_id"
    message = "ID is invalid." if kind.startswith("shop_") and status == 400 else "Invalid ID."
    return ShopError(status, code, message)


def trash_unsupported(plural: str) -> ShopError:
    """Returns the refusal to delete without `force` an object that has no trash."""
    message = f"{plural} do not support trashing."
    return ShopError(501, "woocommerce_rest_trash_not_supported", message)


def already_trashed(kind: str) -> ShopError:
    """Returns the refusal to trash an object that is in the trash already."""
    return ShopError(410, "woocommerce_rest_already_trashed", f"The {kind} has already been deleted.")


def invalid_sku(resource_id: int, unique: str) -> ShopError:
    """Returns the refusal of a SKU that another product or variation has."""
    data = {"resource_id": resource_id, "unique_sku": unique}
    return ShopError(400, "product_invalid_sku", "Invalid or duplicated SKU.", data)
