"""Refusals of the pretend shop, in the words and codes of the recorded one."""

from typing import Any

from steward.fake_platforms.exchange import Row


class ShopError(Exception):
    """A refusal: `data.status` is the HTTP status, as every recorded answer has it but one (see `body`)."""

    def __init__(self, status: int, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.data: Any = {"status": status, **data} if isinstance(data, dict) else data or {"status": status}

    def body(self) -> Row:
        """`{code, message, data}`; a refused refund has a bare number as data (recorded)."""
        return {"code": self.code, "message": self.message, "data": self.data}


class ShopFailure(ShopError):
    """A failure of the shop's program: WordPress adds a list of further errors to its answer."""

    def body(self) -> Row:
        """`{code, message, data, additional_errors}`."""
        return {**super().body(), "additional_errors": []}


def critical() -> ShopError:
    """An error nobody caught in the shop's program."""
    words = "<p>There has been a critical error on this website.</p>"
    return ShopFailure(500, "internal_server_error", words)


def refund_refused(code: str, message: str, data: int) -> ShopError:
    """A refusal of the refunds resource: it gives its status as a bare number, which WordPress does not read,
    so that the answer is always 500 (recorded)."""
    return ShopError(500, f"woocommerce_rest_{code}", message, data)


def no_route() -> ShopError:
    """A path or a method the shop does not know."""
    return ShopError(404, "rest_no_route", "No route was found matching the URL and request method.")


def invalid_id(kind: str, status: int) -> ShopError:
    """An unknown id: 404 on a read, 400 on most writes; orders and webhooks use another wording there."""
    if kind == "customer":
        return ShopError(status, "wc_user_invalid_id", "Invalid user ID.")
    code = f"woocommerce_rest_{kind}_invalid_id"
    words = "ID is invalid." if kind.startswith("shop_") and status == 400 else "Invalid ID."
    return ShopError(status, code, words)


def trash_unsupported(plural: str) -> ShopError:
    """Deleting without `force` what knows no trash."""
    words = f"{plural} do not support trashing."
    return ShopError(501, "woocommerce_rest_trash_not_supported", words)


def already_trashed(kind: str) -> ShopError:
    """Trashing what lies in the trash."""
    return ShopError(410, "woocommerce_rest_already_trashed", f"The {kind} has already been deleted.")


def invalid_sku(resource_id: int, unique: str) -> ShopError:
    """A SKU another product or variation has."""
    data = {"resource_id": resource_id, "unique_sku": unique}
    return ShopError(400, "product_invalid_sku", "Invalid or duplicated SKU.", data)
