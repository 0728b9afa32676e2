"""Every GraphQL document that changes a Shopify store or a subscription, as constants."""

from steward.outbound.documents import Document


def _mutation(text: str, *, max_cost: float = 20) -> Document:
    """Returns a document that costs 10 for the mutation plus the cost of the returned fields."""
    return Document(text, max_cost)


SET_PRICES = _mutation("""
mutation SetPrices($product: ID!, $variants: [ProductVariantsBulkInput!]!) {
  productVariantsBulkUpdate(productId: $product, variants: $variants, allowPartialUpdates: true) {
    productVariants { id price compareAtPrice updatedAt }
    userErrors { field message code }
  }
}
""")
SET_STOCK = _mutation("""
mutation SetStock($key: String!, $input: InventorySetQuantitiesInput!) {
  inventorySetQuantities(input: $input) @idempotent(key: $key) {
    inventoryAdjustmentGroup {
      createdAt
      changes(quantityNames: ["available"]) { delta quantityAfterChange item { id } location { id } }
    }
    userErrors { field message code }
  }
}
""")
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
ADD_TAGS = _mutation(
    "mutation AddTags($id: ID!, $tags: [String!]!) { tagsAdd(id: $id, tags: $tags) {" + _TAGGED
)
REMOVE_TAGS = _mutation(
    "mutation RemoveTags($id: ID!, $tags: [String!]!) { tagsRemove(id: $id, tags: $tags) {" + _TAGGED
)
SET_STATUS = _mutation("""
mutation SetStatus($product: ProductUpdateInput!) {
  productUpdate(product: $product) { product { id status updatedAt } userErrors { field message } }
}
""")
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
PUBLISH = _mutation(
    "mutation Publish($id: ID!, $input: [PublicationInput!]!) { publishablePublish(id: $id, input: $input) {"
    + _PUBLISHED,
    max_cost=230,
)
UNPUBLISH = _mutation(
    "mutation Unpublish($id: ID!, $input: [PublicationInput!]!) {"
    " publishableUnpublish(id: $id, input: $input) {" + _PUBLISHED,
    max_cost=230,
)
SET_METAFIELDS = _mutation("""
mutation SetMetafields($metafields: [MetafieldsSetInput!]!) {
  metafieldsSet(metafields: $metafields) {
    metafields { id namespace key type value compareDigest updatedAt }
    userErrors { field message code elementIndex }
  }
}
""")
SET_ORDER_NOTE = _mutation("""
mutation SetOrderNote($input: OrderInput!) {
  orderUpdate(input: $input) { order { id note updatedAt } userErrors { field message } }
}
""")
SET_CUSTOMER_NOTE = _mutation("""
mutation SetCustomerNote($input: CustomerInput!) {
  customerUpdate(input: $input) { customer { id note updatedAt } userErrors { field message } }
}
""")
CANCEL_ORDER = _mutation("""
mutation CancelOrder($id: ID!, $reason: OrderCancelReason!, $restock: Boolean!, $notify: Boolean) {
  orderCancel(
    orderId: $id, reason: $reason, restock: $restock, notifyCustomer: $notify,
    refundMethod: { originalPaymentMethodsRefund: false }
  ) {
    job { id done }
    orderCancelUserErrors { field message code }
  }
}
""")
CLOSE_ORDER = _mutation("""
mutation CloseOrder($id: ID!) {
  orderClose(input: { id: $id }) { order { id closed updatedAt } userErrors { field message } }
}
""")
OPEN_ORDER = _mutation("""
mutation OpenOrder($id: ID!) {
  orderOpen(input: { id: $id }) { order { id closed updatedAt } userErrors { field message } }
}
""")
HOLD = _mutation("""
mutation Hold($id: ID!, $hold: FulfillmentOrderHoldInput!) {
  fulfillmentOrderHold(id: $id, fulfillmentHold: $hold) {
    fulfillmentOrder { id status updatedAt }
    userErrors { field message code }
  }
}
""")
RELEASE = _mutation("""
mutation Release($id: ID!, $holds: [ID!]!) {
  fulfillmentOrderReleaseHold(id: $id, holdIds: $holds) {
    fulfillmentOrder { id status updatedAt fulfillmentHolds { id } }
    userErrors { field message code }
  }
}
""")
SET_PRODUCT_FIELDS = _mutation("""
mutation SetProductFields($product: ProductUpdateInput!) {
  productUpdate(product: $product) {
    product { id title vendor productType handle templateSuffix updatedAt }
    userErrors { field message }
  }
}
""")
SET_ORDER_FIELDS = _mutation("""
mutation SetOrderFields($input: OrderInput!) {
  orderUpdate(input: $input) {
    order { id email phone poNumber updatedAt }
    userErrors { field message }
  }
}
""")
SET_CUSTOMER_FIELDS = _mutation("""
mutation SetCustomerFields($input: CustomerInput!) {
  customerUpdate(input: $input) {
    customer { id firstName lastName locale taxExempt updatedAt }
    userErrors { field message }
  }
}
""")
CAPTURE = _mutation("""
mutation Capture($input: OrderCaptureInput!) {
  orderCapture(input: $input) {
    transaction { id status order { id capturable displayFinancialStatus updatedAt } }
    userErrors { field message }
  }
}
""")
REFUND = _mutation(
    """
mutation Refund($key: String!, $input: RefundInput!) {
  refundCreate(input: $input) @idempotent(key: $key) {
    refund { id }
    order { id updatedAt totalRefundedSet { shopMoney { amount } } refunds(first: 50) { id } }
    userErrors { field message }
  }
}
""",
    max_cost=80,
)
CREATE_REDIRECT = _mutation("""
mutation MakeRedirect($redirect: UrlRedirectInput!) {
  urlRedirectCreate(urlRedirect: $redirect) {
    urlRedirect { id path target }
    userErrors { field message code }
  }
}
""")
SET_REDIRECT = _mutation("""
mutation SetRedirect($id: ID!, $redirect: UrlRedirectInput!) {
  urlRedirectUpdate(id: $id, urlRedirect: $redirect) {
    urlRedirect { id path target }
    userErrors { field message code }
  }
}
""")
DELETE_METAFIELDS = _mutation("""
mutation DeleteMetafields($metafields: [MetafieldIdentifierInput!]!) {
  metafieldsDelete(metafields: $metafields) {
    deletedMetafields { ownerId namespace key }
    userErrors { field message }
  }
}
""")
DELETE_REDIRECT = _mutation("""
mutation DeleteRedirect($id: ID!) {
  urlRedirectDelete(id: $id) { deletedUrlRedirectId userErrors { field message code } }
}
""")

# Subscriptions belong to the connection, not to a run.
SUBSCRIBE = _mutation("""
mutation Subscribe($topic: WebhookSubscriptionTopic!, $subscription: WebhookSubscriptionInput!) {
  webhookSubscriptionCreate(topic: $topic, webhookSubscription: $subscription) {
    webhookSubscription { id topic uri }
    userErrors { field message }
  }
}
""")
RESUBSCRIBE = _mutation("""
mutation Resubscribe($id: ID!, $subscription: WebhookSubscriptionInput!) {
  webhookSubscriptionUpdate(id: $id, webhookSubscription: $subscription) {
    webhookSubscription { id topic uri }
    userErrors { field message }
  }
}
""")
UNSUBSCRIBE = _mutation("""
mutation Unsubscribe($id: ID!) {
  webhookSubscriptionDelete(id: $id) { deletedWebhookSubscriptionId userErrors { field message } }
}
""")

WRITES = (
    *(SET_PRICES, SET_STOCK, ADD_TAGS, REMOVE_TAGS, SET_STATUS, PUBLISH, UNPUBLISH, SET_METAFIELDS),
    *(SET_ORDER_NOTE, SET_CUSTOMER_NOTE, CANCEL_ORDER, CLOSE_ORDER, OPEN_ORDER, HOLD, CAPTURE, REFUND),
    *(RELEASE, SET_PRODUCT_FIELDS, SET_ORDER_FIELDS, SET_CUSTOMER_FIELDS, SET_REDIRECT),
    *(DELETE_METAFIELDS, DELETE_REDIRECT),
    *(CREATE_REDIRECT, SUBSCRIBE, RESUBSCRIBE, UNSUBSCRIBE),
)
