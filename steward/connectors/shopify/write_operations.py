"""The list of what can be changed in a Shopify store."""

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.shopify.field_operations import (
    CHANGE_TAGS,
    RELEASE,
    SET_CUSTOMER_FIELDS,
    SET_ORDER_FIELDS,
    SET_PRODUCT_FIELDS,
    SET_REDIRECT,
)
from steward.connectors.shopify.operations import SET_PRICE, SET_PUBLISHED, SET_STATUS, SET_STOCK, SET_TAGS
from steward.connectors.shopify.order_operations import (
    CANCEL_ORDER,
    CAPTURE,
    CLOSE_ORDER,
    CREATE_REDIRECT,
    HOLD,
    REFUND,
    SET_CUSTOMER_NOTE,
    SET_CUSTOMER_TAGS,
    SET_DRAFT_TAGS,
    SET_METAFIELD,
    SET_ORDER_NOTE,
    SET_ORDER_TAGS,
)
from steward.connectors.shopify.undo_operations import DELETE_METAFIELD, DELETE_REDIRECT

WRITE_OPERATIONS: tuple[AnyWriteOperation, ...] = (
    *(SET_PRICE, SET_STOCK, SET_STATUS, SET_PUBLISHED, SET_TAGS, SET_ORDER_TAGS, SET_CUSTOMER_TAGS),
    *(SET_DRAFT_TAGS, SET_ORDER_NOTE, SET_CUSTOMER_NOTE, CANCEL_ORDER, CLOSE_ORDER, HOLD, CAPTURE),
    *(REFUND, SET_METAFIELD, CREATE_REDIRECT, SET_REDIRECT, RELEASE),
    *(SET_PRODUCT_FIELDS, SET_ORDER_FIELDS, SET_CUSTOMER_FIELDS),
    *CHANGE_TAGS,
    *(DELETE_METAFIELD, DELETE_REDIRECT),
)
