"""Empty objects of the shop with the fields of WooCommerce's responses."""

from steward.fake_platforms.exchange import Row

_NO_SALE_DATES: Row = {
    "date_on_sale_from": None,
    "date_on_sale_from_gmt": None,
    "date_on_sale_to": None,
    "date_on_sale_to_gmt": None,
}
_DATES: Row = dict.fromkeys(("date_created", "date_created_gmt", "date_modified", "date_modified_gmt"))


def _product_rest() -> Row:
    return {
        "sold_individually": False,
        "weight": "",
        "dimensions": {"length": "", "width": "", "height": ""},
        "shipping_required": True,
        "shipping_taxable": True,
        "shipping_class": "",
        "shipping_class_id": 0,
        "reviews_allowed": True,
        "average_rating": "0.00",
        "rating_count": 0,
        "upsell_ids": [],
        "cross_sell_ids": [],
        "parent_id": 0,
        "purchase_note": "",
        "categories": [],
        "brands": [],
        "tags": [],
        "images": [],
        "attributes": [],
        "default_attributes": [],
        "variations": [],
        "grouped_products": [],
        "menu_order": 0,
        "price_html": "",
        "related_ids": [],
        "meta_data": [],
        "stock_status": "instock",
        "has_options": False,
        "post_password": "",
        "global_unique_id": "",
    }


def product() -> Row:
    """Returns a simple product without a name or a price."""
    return {
        "id": 0,
        "name": "Product",
        "slug": "",
        "permalink": "",
        **_DATES,
        "type": "simple",
        "status": "publish",
        "featured": False,
        "catalog_visibility": "visible",
        "description": "",
        "short_description": "",
        "sku": "",
        "price": "",
        "regular_price": "",
        "sale_price": "",
        **_NO_SALE_DATES,
        "on_sale": False,
        "purchasable": False,
        "total_sales": 0,
        "virtual": False,
        "downloadable": False,
        "downloads": [],
        "download_limit": -1,
        "download_expiry": -1,
        "external_url": "",
        "button_text": "",
        "tax_status": "taxable",
        "tax_class": "",
        "manage_stock": False,
        "stock_quantity": None,
        "backorders": "no",
        "backorders_allowed": False,
        "backordered": False,
        "low_stock_amount": None,
        **_product_rest(),
    }


def variation() -> Row:
    """Returns a variation without a price."""
    return {
        "id": 0,
        "type": "variation",
        **_DATES,
        "description": "",
        "permalink": "",
        "sku": "",
        "global_unique_id": "",
        "price": "",
        "regular_price": "",
        "sale_price": "",
        **_NO_SALE_DATES,
        "on_sale": False,
        "status": "publish",
        "purchasable": False,
        "virtual": False,
        "downloadable": False,
        "downloads": [],
        "download_limit": -1,
        "download_expiry": -1,
        "tax_status": "taxable",
        "tax_class": "",
        "manage_stock": False,
        "stock_quantity": None,
        "stock_status": "instock",
        "backorders": "no",
        "backorders_allowed": False,
        "backordered": False,
        "low_stock_amount": None,
        "weight": "",
        "dimensions": {"length": "", "width": "", "height": ""},
        "shipping_class": "",
        "shipping_class_id": 0,
        "image": None,
        "gallery_image_ids": [],
        "attributes": [],
        "menu_order": 0,
        "meta_data": [],
        "name": "",
        "parent_id": 0,
    }


def address(*, email: bool) -> Row:
    """Returns an empty billing address (with e-mail) or shipping address."""
    names = ("first_name", "last_name", "company", "address_1", "address_2", "city", "state", "postcode")
    row: Row = {**dict.fromkeys(names, ""), "country": ""}
    return {**row, "email": "", "phone": ""} if email else {**row, "phone": ""}


def order() -> Row:
    """Returns a pending order without lines."""
    zeros = (
        "discount_total",
        "discount_tax",
        "shipping_total",
        "shipping_tax",
        "cart_tax",
        "total",
        "total_tax",
    )
    texts = ("payment_method", "payment_method_title", "transaction_id", "customer_ip_address")
    return {
        "id": 0,
        "parent_id": 0,
        "status": "pending",
        "currency": "EUR",
        "version": "11.0.1",
        "prices_include_tax": False,
        "date_created": None,
        "date_modified": None,
        **dict.fromkeys(zeros, "0.00"),
        "customer_id": 0,
        "order_key": "",
        "billing": address(email=True),
        "shipping": address(email=False),
        **dict.fromkeys(texts, ""),
        "customer_user_agent": "",
        "created_via": "rest-api",
        "customer_note": "",
        "date_completed": None,
        "date_paid": None,
        "cart_hash": "",
        "number": "",
        "meta_data": [],
        "line_items": [],
        "tax_lines": [],
        "shipping_lines": [],
        "fee_lines": [],
        "coupon_lines": [],
        "refunds": [],
        "payment_url": "",
        "is_editable": True,
        "needs_payment": False,
        "needs_processing": False,
        "date_created_gmt": None,
        "date_modified_gmt": None,
        "date_completed_gmt": None,
        "date_paid_gmt": None,
        "currency_symbol": "€",
    }


def customer() -> Row:
    """Returns a customer without an address."""
    return {
        "id": 0,
        **_DATES,
        "email": "",
        "first_name": "",
        "last_name": "",
        "role": "customer",
        "username": "",
        "billing": address(email=True),
        "shipping": address(email=False),
        "is_paying_customer": False,
        "avatar_url": "",
        "meta_data": [],
    }
