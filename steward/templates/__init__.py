"""Every template the service offers, by id; one file a template."""

from steward.templates import (
    cancel_unpaid_orders,
    daily_sales_summary,
    hide_out_of_stock_products,
    low_stock_alert,
    price_update_from_spreadsheet,
    sale_start,
    sales_summary_across_stores,
    show_back_in_stock_products,
    tag_orders_by_rule,
    tag_products_by_rule,
)
from steward.templates.base import Template

ALL: list[Template] = [
    cancel_unpaid_orders.TEMPLATE,
    daily_sales_summary.TEMPLATE,
    hide_out_of_stock_products.TEMPLATE,
    low_stock_alert.TEMPLATE,
    price_update_from_spreadsheet.TEMPLATE,
    sale_start.TEMPLATE,
    sales_summary_across_stores.TEMPLATE,
    show_back_in_stock_products.TEMPLATE,
    tag_orders_by_rule.TEMPLATE,
    tag_products_by_rule.TEMPLATE,
]
