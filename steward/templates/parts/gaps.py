"""Finds gaps in products: which data are missing, and in how many variants."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from steward.connectors.base.records import Product, Variant
from steward.steps.skus import key_of

# Data for which a platform has no field, or that its connector does not read.
UNSUPPORTED: Mapping[str, frozenset[str]] = {
    "woocommerce": frozenset(
        ("seo_title", "seo_description", "vendor", "cost", "country_of_origin", "hs_code")
    ),
}
WORDS = {
    "image": "image",
    "image_alt": "text of an image",
    "description": "description",
    "seo_title": "title for search engines",
    "seo_description": "description for search engines",
    "sku": "SKU",
    "barcode": "barcode",
    "price": "price",
    "cost": "cost",
    "weight": "weight",
    "vendor": "vendor",
    "type": "type",
    "category": "category",
    "country_of_origin": "country of origin",
    "hs_code": "customs code",
}
_TAG = re.compile(r"<[^>]*>")
# Elements that are visible without text.
_VISIBLE = re.compile(r"<\s*(img|video|audio|iframe|object|embed|picture|svg)\b", re.IGNORECASE)
_INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")


def has_text(markup: str) -> bool:
    """Returns whether HTML shows anything besides blanks and empty tags."""
    if _VISIBLE.search(markup):
        return True
    return bool(html.unescape(_TAG.sub("", markup)).translate(_INVISIBLE).strip())


def missing_of(product: Product, checks: Sequence[str], variants: Sequence[Variant]) -> dict[str, int]:
    """Returns the failed checks with the number of `variants` that fail; 0: the product itself fails."""
    failed: dict[str, int] = {}
    for check in checks:
        if check in _PRODUCT_CHECKS:
            if _PRODUCT_CHECKS[check](product):
                failed[check] = 0
        elif failing := sum(_VARIANT_CHECKS[check](variant) for variant in variants):
            failed[check] = failing
    return failed


def gap_words(check: str, failing: int, variants: int) -> str:
    """Returns a gap in words, such as `weight (2 of 3 variants)`."""
    return f"{WORDS[check]} ({failing} of {variants} variants)" if failing and variants > 1 else WORDS[check]


def _no_weight(variant: Variant) -> bool:
    """Returns whether a variant that needs shipping has no weight above 0."""
    if not variant.ships:
        return False
    try:
        return Decimal(variant.weight or "0") <= 0
    except InvalidOperation:
        return True


_PRODUCT_CHECKS: dict[str, Callable[[Product], bool]] = {
    "image": lambda product: not product.images,
    "image_alt": lambda product: (
        bool(product.images)
        and (not product.image_alts or not all(alt.strip() for alt in product.image_alts))
    ),
    "description": lambda product: not has_text(product.description),
    "seo_title": lambda product: not product.seo_title.strip(),
    "seo_description": lambda product: not product.seo_description.strip(),
    "vendor": lambda product: not (product.vendor or "").strip(),
    "type": lambda product: not (product.type or "").strip(),
    "category": lambda product: not (product.category or "").strip(),
}
_VARIANT_CHECKS: dict[str, Callable[[Variant], bool]] = {
    "sku": lambda variant: not key_of(variant.sku),
    "barcode": lambda variant: not key_of(variant.barcode),
    "price": lambda variant: not (variant.price or "").strip(),
    "cost": lambda variant: variant.cost is None,
    "weight": _no_weight,
    "country_of_origin": lambda variant: not variant.country_of_origin,
    "hs_code": lambda variant: not variant.hs_code,
}
