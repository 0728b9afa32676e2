"""Every template the service offers, by id; one file a template."""

from steward.templates import (
    archive_fulfilled_orders,
    cancel_unpaid_orders,
    daily_sales_summary,
    duplicate_sku_check,
    hide_out_of_stock_products,
    low_stock_alert,
    missing_product_data_audit,
    price_update_from_spreadsheet,
    sale_end,
    sale_start,
    sales_summary_across_stores,
    show_back_in_stock_products,
    sync_stock_between_stores,
    tag_customers_by_spend,
    tag_orders_by_rule,
    tag_products_by_rule,
    unfulfilled_order_alert,
)
from steward.templates.base import Template

ALL: list[Template] = [
    archive_fulfilled_orders.TEMPLATE,
    cancel_unpaid_orders.TEMPLATE,
    daily_sales_summary.TEMPLATE,
    duplicate_sku_check.TEMPLATE,
    hide_out_of_stock_products.TEMPLATE,
    low_stock_alert.TEMPLATE,
    missing_product_data_audit.TEMPLATE,
    price_update_from_spreadsheet.TEMPLATE,
    sale_end.TEMPLATE,
    sale_start.TEMPLATE,
    sales_summary_across_stores.TEMPLATE,
    show_back_in_stock_products.TEMPLATE,
    sync_stock_between_stores.TEMPLATE,
    tag_customers_by_spend.TEMPLATE,
    tag_orders_by_rule.TEMPLATE,
    tag_products_by_rule.TEMPLATE,
    unfulfilled_order_alert.TEMPLATE,
]
