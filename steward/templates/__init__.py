"""Every template the service offers, by id; one file a template."""

from steward.templates import (
    archive_fulfilled_orders,
    cancel_unpaid_orders,
    daily_sales_summary,
    duplicate_sku_check,
    hide_out_of_stock_products,
    high_risk_order_hold,
    low_stock_alert,
    missing_product_data_audit,
    order_export_to_spreadsheet,
    price_difference_report,
    price_update_from_spreadsheet,
    sale_end,
    sale_start,
    sales_summary_across_stores,
    show_back_in_stock_products,
    slow_stock_markdown,
    spreadsheet_to_teams_digest,
    stock_report_across_stores,
    supplier_feed_import,
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
    high_risk_order_hold.TEMPLATE,
    low_stock_alert.TEMPLATE,
    missing_product_data_audit.TEMPLATE,
    order_export_to_spreadsheet.TEMPLATE,
    price_difference_report.TEMPLATE,
    price_update_from_spreadsheet.TEMPLATE,
    sale_end.TEMPLATE,
    sale_start.TEMPLATE,
    sales_summary_across_stores.TEMPLATE,
    show_back_in_stock_products.TEMPLATE,
    slow_stock_markdown.TEMPLATE,
    spreadsheet_to_teams_digest.TEMPLATE,
    stock_report_across_stores.TEMPLATE,
    supplier_feed_import.TEMPLATE,
    sync_stock_between_stores.TEMPLATE,
    tag_customers_by_spend.TEMPLATE,
    tag_orders_by_rule.TEMPLATE,
    tag_products_by_rule.TEMPLATE,
    unfulfilled_order_alert.TEMPLATE,
]


def find(template_id: str) -> Template | None:
    """Returns the template of this id; None when this release offers none."""
    return next((template for template in ALL if template.template_id == template_id), None)
