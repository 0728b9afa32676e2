"""Every GraphQL document that changes a Shopify store or a subscription there; constants."""

from steward.outbound.documents import Document

# The highest query cost of one of these: 10 for the mutation, plus the fields it returns.
_MUTATION_COST = 20

SET_PRICES = Document(
    "SetPrices",
    """
mutation SetPrices($product: ID!, $variants: [ProductVariantsBulkInput!]!) {
  productVariantsBulkUpdate(productId: $product, variants: $variants, allowPartialUpdates: true) {
    productVariants { id price compareAtPrice updatedAt }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
SET_STOCK = Document(
    "SetStock",
    """
mutation SetStock($key: String!, $input: InventorySetQuantitiesInput!) {
  inventorySetQuantities(input: $input) @idempotent(key: $key) {
    inventoryAdjustmentGroup {
      createdAt
      changes(quantityNames: ["available"]) { delta quantityAfterChange item { id } location { id } }
    }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
_TAGGED = """
    node {
      id
      ... on Product { tags updatedAt }
      ... on Order { tags updatedAt }
      ... on Customer { tags updatedAt }
      ... on DraftOrder { tags updatedAt }
    }
    userErrors { field message }
  }
}
"""
ADD_TAGS = Document(
    "AddTags",
    "mutation AddTags($id: ID!, $tags: [String!]!) { tagsAdd(id: $id, tags: $tags) {" + _TAGGED,
    _MUTATION_COST,
)
REMOVE_TAGS = Document(
    "RemoveTags",
    "mutation RemoveTags($id: ID!, $tags: [String!]!) { tagsRemove(id: $id, tags: $tags) {" + _TAGGED,
    _MUTATION_COST,
)
SET_STATUS = Document(
    "SetStatus",
    """
mutation SetStatus($product: ProductUpdateInput!) {
  productUpdate(product: $product) { product { id status updatedAt } userErrors { field message } }
}
""",
    _MUTATION_COST,
)
_PUBLISHED = """
    publishable {
      ... on Product {
        id updatedAt
        resourcePublicationsV2(first: 100, onlyPublished: true) { nodes { publication { id } } }
      }
    }
    userErrors { field message }
  }
}
"""
PUBLISH = Document(
    "Publish",
    "mutation Publish($id: ID!, $input: [PublicationInput!]!) { publishablePublish(id: $id, input: $input) {"
    + _PUBLISHED,
    230,
)
UNPUBLISH = Document(
    "Unpublish",
    "mutation Unpublish($id: ID!, $input: [PublicationInput!]!) {"
    " publishableUnpublish(id: $id, input: $input) {" + _PUBLISHED,
    230,
)
SET_METAFIELDS = Document(
    "SetMetafields",
    """
mutation SetMetafields($metafields: [MetafieldsSetInput!]!) {
  metafieldsSet(metafields: $metafields) {
    metafields { id namespace key type value compareDigest updatedAt }
    userErrors { field message code elementIndex }
  }
}
""",
    _MUTATION_COST,
)
SET_ORDER_NOTE = Document(
    "SetOrderNote",
    """
mutation SetOrderNote($input: OrderInput!) {
  orderUpdate(input: $input) { order { id note updatedAt } userErrors { field message } }
}
""",
    _MUTATION_COST,
)
SET_CUSTOMER_NOTE = Document(
    "SetCustomerNote",
    """
mutation SetCustomerNote($input: CustomerInput!) {
  customerUpdate(input: $input) { customer { id note updatedAt } userErrors { field message } }
}
""",
    _MUTATION_COST,
)
CANCEL_ORDER = Document(
    "CancelOrder",
    """
mutation CancelOrder($id: ID!, $reason: OrderCancelReason!, $restock: Boolean!, $notify: Boolean) {
  orderCancel(
    orderId: $id, reason: $reason, restock: $restock, notifyCustomer: $notify,
    refundMethod: { originalPaymentMethodsRefund: false }
  ) {
    job { id done }
    orderCancelUserErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
CLOSE_ORDER = Document(
    "CloseOrder",
    """
mutation CloseOrder($id: ID!) {
  orderClose(input: { id: $id }) { order { id closed updatedAt } userErrors { field message } }
}
""",
    _MUTATION_COST,
)
OPEN_ORDER = Document(
    "OpenOrder",
    """
mutation OpenOrder($id: ID!) {
  orderOpen(input: { id: $id }) { order { id closed updatedAt } userErrors { field message } }
}
""",
    _MUTATION_COST,
)
HOLD = Document(
    "Hold",
    """
mutation Hold($id: ID!, $hold: FulfillmentOrderHoldInput!) {
  fulfillmentOrderHold(id: $id, fulfillmentHold: $hold) {
    fulfillmentOrder { id status updatedAt }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
RELEASE = Document(
    "Release",
    """
mutation Release($id: ID!, $holds: [ID!]!) {
  fulfillmentOrderReleaseHold(id: $id, holdIds: $holds) {
    fulfillmentOrder { id status updatedAt fulfillmentHolds { id } }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
SET_PRODUCT_FIELDS = Document(
    "SetProductFields",
    """
mutation SetProductFields($product: ProductUpdateInput!) {
  productUpdate(product: $product) {
    product { id title vendor productType handle templateSuffix updatedAt }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
SET_ORDER_FIELDS = Document(
    "SetOrderFields",
    """
mutation SetOrderFields($input: OrderInput!) {
  orderUpdate(input: $input) {
    order { id email phone poNumber updatedAt }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
SET_CUSTOMER_FIELDS = Document(
    "SetCustomerFields",
    """
mutation SetCustomerFields($input: CustomerInput!) {
  customerUpdate(input: $input) {
    customer { id firstName lastName locale taxExempt updatedAt }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
CAPTURE = Document(
    "Capture",
    """
mutation Capture($input: OrderCaptureInput!) {
  orderCapture(input: $input) {
    transaction { id status order { id capturable displayFinancialStatus updatedAt } }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
REFUND = Document(
    "Refund",
    """
mutation Refund($key: String!, $input: RefundInput!) {
  refundCreate(input: $input) @idempotent(key: $key) {
    refund { id }
    order { id updatedAt totalRefundedSet { shopMoney { amount } } refunds(first: 50) { id } }
    userErrors { field message }
  }
}
""",
    80,
)
CREATE_REDIRECT = Document(
    "MakeRedirect",
    """
mutation MakeRedirect($redirect: UrlRedirectInput!) {
  urlRedirectCreate(urlRedirect: $redirect) {
    urlRedirect { id path target }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
SET_REDIRECT = Document(
    "SetRedirect",
    """
mutation SetRedirect($id: ID!, $redirect: UrlRedirectInput!) {
  urlRedirectUpdate(id: $id, urlRedirect: $redirect) {
    urlRedirect { id path target }
    userErrors { field message code }
  }
}
""",
    _MUTATION_COST,
)
DELETE_METAFIELDS = Document(
    "DeleteMetafields",
    """
mutation DeleteMetafields($metafields: [MetafieldIdentifierInput!]!) {
  metafieldsDelete(metafields: $metafields) {
    deletedMetafields { ownerId namespace key }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
DELETE_REDIRECT = Document(
    "DeleteRedirect",
    """
mutation DeleteRedirect($id: ID!) {
  urlRedirectDelete(id: $id) { deletedUrlRedirectId userErrors { field message code } }
}
""",
    _MUTATION_COST,
)

# Subscriptions belong to the connection, not to a run.
SUBSCRIBE = Document(
    "Subscribe",
    """
mutation Subscribe($topic: WebhookSubscriptionTopic!, $subscription: WebhookSubscriptionInput!) {
  webhookSubscriptionCreate(topic: $topic, webhookSubscription: $subscription) {
    webhookSubscription { id topic uri }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
RESUBSCRIBE = Document(
    "Resubscribe",
    """
mutation Resubscribe($id: ID!, $subscription: WebhookSubscriptionInput!) {
  webhookSubscriptionUpdate(id: $id, webhookSubscription: $subscription) {
    webhookSubscription { id topic uri }
    userErrors { field message }
  }
}
""",
    _MUTATION_COST,
)
UNSUBSCRIBE = Document(
    "Unsubscribe",
    """
mutation Unsubscribe($id: ID!) {
  webhookSubscriptionDelete(id: $id) { deletedWebhookSubscriptionId userErrors { field message } }
}
""",
    _MUTATION_COST,
)

WRITES = (
    *(SET_PRICES, SET_STOCK, ADD_TAGS, REMOVE_TAGS, SET_STATUS, PUBLISH, UNPUBLISH, SET_METAFIELDS),
    *(SET_ORDER_NOTE, SET_CUSTOMER_NOTE, CANCEL_ORDER, CLOSE_ORDER, OPEN_ORDER, HOLD, CAPTURE, REFUND),
    *(RELEASE, SET_PRODUCT_FIELDS, SET_ORDER_FIELDS, SET_CUSTOMER_FIELDS, SET_REDIRECT),
    *(DELETE_METAFIELDS, DELETE_REDIRECT),
    *(CREATE_REDIRECT, SUBSCRIBE, RESUBSCRIBE, UNSUBSCRIBE),
)
