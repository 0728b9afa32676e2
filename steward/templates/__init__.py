"""Every template the service offers, by id; one file a template."""

from steward.templates import (
    hide_out_of_stock_products,
    low_stock_alert,
    price_update_from_spreadsheet,
)
from steward.templates.base import Template

ALL: list[Template] = [
    hide_out_of_stock_products.TEMPLATE,
    low_stock_alert.TEMPLATE,
    price_update_from_spreadsheet.TEMPLATE,
]
