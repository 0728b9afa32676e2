"""Every GraphQL document that reads a Shopify store, as constants; values are sent as variables.

Page sizes keep each query below 1,000, the highest cost that one query may have. mutations.py holds the
documents that change a store.
"""

from steward.outbound.documents import Document

PRODUCTS_PAGE = 28
_VARIANTS_PAGE = 100
ORDERS_PAGE = 8
CUSTOMERS_PAGE = 100
PLAIN_PAGE = 250

# A product's own fields; scalars cost nothing.
_PRODUCT = """
fragment ProductFields on Product {
  id title handle status vendor productType tags descriptionHtml createdAt updatedAt
  isGiftCard hasVariantsThatRequiresComponents hasOnlyDefaultVariant
  seo { title description }
  category { fullName }
  featuredMedia { alt preview { image { url } } }
  resourcePublicationsV2(first: 12, onlyPublished: true) {
    pageInfo { hasNextPage }
    nodes { publication { id } }
  }
}
"""
_VARIANT_PLAIN = """
  id title sku barcode price compareAtPrice createdAt updatedAt inventoryPolicy inventoryQuantity
  inventoryItem {
    id tracked requiresShipping countryCodeOfOrigin harmonizedSystemCode
    unitCost { amount }
    measurement { weight { value unit } }
    %s
  }
  product {
    id title status vendor productType tags
    isGiftCard hasVariantsThatRequiresComponents hasOnlyDefaultVariant
    resourcePublicationsCount(onlyPublished: true) { count }
  }
"""
_AT_LOCATION = 'inventoryLevel(locationId: $location) { quantities(names: ["available"]) { quantity } }'
_VARIANT = "fragment VariantFields on ProductVariant {" + _VARIANT_PLAIN % "" + "}\n"
_VARIANT_AT = "fragment VariantFields on ProductVariant {" + _VARIANT_PLAIN % _AT_LOCATION + "}\n"

_LINE = """
  id title variantTitle sku quantity currentQuantity unfulfilledQuantity requiresShipping
  discountedTotalSet { shopMoney { amount } }
  product { id }
  variant { id }
"""
_ORDER_PLAIN = """
  id name createdAt updatedAt processedAt cancelledAt closedAt closed test currencyCode
  displayFinancialStatus displayFulfillmentStatus fullyPaid capturable
  email note tags discountCodes returnStatus
  totalPriceSet { shopMoney { amount } }
  totalTaxSet { shopMoney { amount } }
  totalRefundedSet { shopMoney { amount } }
  customer { id displayName firstName lastName }
  shippingAddress { name countryCodeV2 }
  billingAddress { name countryCodeV2 }
  risk { assessments { riskLevel facts { description sentiment } } }
  refunds(first: 5) { id createdAt totalRefundedSet { shopMoney { amount } } }
  fulfillments(first: 5) { createdAt status }
  transactions(first: 5) { id kind status processedAt gateway amountSet { shopMoney { amount } } }
"""
_ORDER = (
    "fragment OrderFields on Order {"
    + _ORDER_PLAIN
    + """
  fulfillmentOrders(first: 5) { nodes { id status } }
  lineItems(first: 10) { pageInfo { hasNextPage endCursor } nodes {"""
    + _LINE
    + """} }
}
"""
)
_CUSTOMER = """
  id displayName firstName lastName note tags updatedAt numberOfOrders
  defaultEmailAddress { emailAddress }
  amountSpent { amount currencyCode }
"""

SHOP = Document(
    """
query Shop {
  shop { name myshopifyDomain ianaTimezone currencyCode }
  currentAppInstallation { accessScopes { handle } }
}
""",
    10,
)
LOCATIONS = Document(
    """
query Places {
  locations(first: 200, includeInactive: true) { nodes { id name isActive } }
}
""",
    210,
)
CHANNELS = Document(
    """
query Channels {
  publications(first: 50, catalogType: APP) { nodes { id name } }
}
""",
    60,
)
COUNTS = Document(
    """
query Counts {
  productsCount(limit: 6000) { count }
  productVariantsCount(limit: 6000) { count }
}
""",
    10,
)
ORDERS_COUNT = Document(
    "query OrdersCount($query: String) { ordersCount(limit: 2000, query: $query) { count } }",
    5,
)
CUSTOMERS_COUNT = Document("query CustomersCount { customersCount(limit: 6000) { count } }", 5)

PRODUCTS = Document(
    f"""
query Products($after: String, $query: String) {{
  products(first: {PRODUCTS_PAGE}, after: $after, query: $query, sortKey: ID) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ ...ProductFields }}
  }}
}}
"""
    + _PRODUCT,
    960,
)
PRODUCTS_BY_ID = Document(
    "query ProductsById($ids: [ID!]!) { nodes(ids: $ids) { id ... on Product { ...ProductFields } } }"
    + _PRODUCT,
    960,
)
PRODUCT_CHANNELS = Document(
    """
query ProductChannels($id: ID!) {
  product(id: $id) {
    id updatedAt
    resourcePublicationsV2(first: 250, onlyPublished: true) { nodes { publication { id } } }
  }
}
""",
    510,
)
VARIANTS = Document(
    f"""
query Variants($after: String, $query: String) {{
  productVariants(first: {_VARIANTS_PAGE}, after: $after, query: $query, sortKey: ID) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ ...VariantFields }}
  }}
}}
"""
    + _VARIANT,
    720,
)
VARIANTS_AT = Document(
    f"""
query VariantsAt($after: String, $query: String, $location: ID!) {{
  productVariants(first: {_VARIANTS_PAGE}, after: $after, query: $query, sortKey: ID) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ ...VariantFields }}
  }}
}}
"""
    + _VARIANT_AT,
    920,
)
VARIANTS_BY_ID = Document(
    "query VariantsById($ids: [ID!]!) { nodes(ids: $ids) { id ... on ProductVariant { ...VariantFields } } }"
    + _VARIANT,
    720,
)
ORDERS = Document(
    f"""
query Orders($after: String, $query: String) {{
  orders(first: {ORDERS_PAGE}, after: $after, query: $query, sortKey: ID) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ ...OrderFields }}
  }}
}}
"""
    + _ORDER,
    960,
)
ORDERS_BY_ID = Document(
    "query OrdersById($ids: [ID!]!) { nodes(ids: $ids) { id ... on Order { ...OrderFields } } }" + _ORDER,
    960,
)
ORDER_LINES = Document(
    """
query OrderLines($id: ID!, $after: String) {
  order(id: $id) {
    lineItems(first: 100, after: $after) { pageInfo { hasNextPage endCursor } nodes {"""
    + _LINE
    + """} }
  }
}
""",
    520,
)
REFUNDS = Document(
    """
query Refunds($id: ID!) {
  order(id: $id) { id refunds(first: 100) { id createdAt totalRefundedSet { shopMoney { amount } } } }
}
""",
    310,
)
CUSTOMERS = Document(
    f"""
query Customers($after: String, $query: String) {{
  customers(first: {CUSTOMERS_PAGE}, after: $after, query: $query, sortKey: ID) {{
    pageInfo {{ hasNextPage endCursor }}
    nodes {{ {_CUSTOMER} }}
  }}
}}
""",
    310,
)
CUSTOMERS_BY_ID = Document(
    f"query CustomersById($ids: [ID!]!) {{ nodes(ids: $ids) {{ id ... on Customer {{ {_CUSTOMER} }} }} }}",
    310,
)
DRAFT_ORDER = Document(
    "query DraftOrder($id: ID!) { draftOrder(id: $id) { id name status tags updatedAt } }", 5
)

# The read before a write and the read-back after it: only the values that writes change.
CURRENT = Document(
    """
query Current($ids: [ID!]!) {
  nodes(ids: $ids) {
    id
    ... on Product { status tags updatedAt }
    ... on Order {
      note tags closed cancelledAt capturable displayFinancialStatus updatedAt
      totalRefundedSet { shopMoney { amount } }
      refunds(first: 50) { id }
    }
    ... on Customer { note tags updatedAt }
    ... on DraftOrder { tags updatedAt }
    ... on FulfillmentOrder { sending: status updatedAt fulfillmentHolds { id } }
  }
}
""",
    560,
)
# The undo of a hold needs the hold that this app placed.
HOLDS = Document(
    """
query Holds($ids: [ID!]!) {
  nodes(ids: $ids) {
    id
    ... on FulfillmentOrder { fulfillmentHolds { id handle heldByRequestingApp } }
  }
}
""",
    10,
)
# The plain fields that can be set, by their own names, with the field that labels the object.
CURRENT_FIELDS = Document(
    """
query CurrentFields($ids: [ID!]!) {
  nodes(ids: $ids) {
    id
    ... on Product { title vendor productType handle templateSuffix updatedAt }
    ... on Order { name email phone poNumber updatedAt }
    ... on Customer { displayName firstName lastName locale taxExempt updatedAt }
  }
}
""",
    30,
)
CURRENT_PRICES = Document(
    "query CurrentPrices($ids: [ID!]!) {"
    " nodes(ids: $ids) { id ... on ProductVariant { price compareAtPrice updatedAt } } }",
    260,
)
CURRENT_STOCK = Document(
    """
query CurrentStock($ids: [ID!]!, $location: ID!) {
  nodes(ids: $ids) {
    id
    ... on InventoryItem {
      inventoryLevel(locationId: $location) { updatedAt quantities(names: ["available"]) { quantity } }
    }
  }
}
""",
    960,
)
METAFIELD = Document(
    """
query Metafield($id: ID!, $namespace: String!, $key: String!) {
  node(id: $id) {
    id
    ... on HasMetafields {
      metafield(namespace: $namespace, key: $key) { id namespace key type value compareDigest updatedAt }
    }
  }
}
""",
    10,
)
ITEM_PRODUCT = Document(
    "query ItemProduct($id: ID!) {"
    " inventoryItem(id: $id) { id variants(first: 1) { nodes { product { id } } } } }",
    10,
)
REDIRECTS = Document(
    "query Redirects($query: String) { urlRedirects(first: 50, query: $query) { nodes { id path target } } }",
    60,
)

# Only for events/: objects modified since an instant, and all ids.


def _changed(objects: str, more_fields: str = "") -> Document:
    return Document(
        f"query Changed{objects.capitalize()}($after: String, $query: String) {{"
        f" {objects}(first: {PLAIN_PAGE}, after: $after, query: $query, sortKey: UPDATED_AT) {{"
        f" pageInfo {{ hasNextPage endCursor }} nodes {{ id createdAt updatedAt {more_fields} }} }} }}",
        260,
    )


CHANGED_PRODUCTS = _changed("products")
CHANGED_ORDERS = _changed("orders", "cancelledAt displayFinancialStatus displayFulfillmentStatus")
CHANGED_CUSTOMERS = _changed("customers")
SUBSCRIPTIONS = Document(
    """
query Subscriptions($after: String) {
  webhookSubscriptions(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id topic uri format includeFields }
  }
}
""",
    110,
)

# Bulk operations: the only mutation that reads, and the queries that it runs.
START_BULK = Document(
    """
mutation StartBulk($query: String!) {
  bulkOperationRunQuery(query: $query, groupObjects: true) {
    bulkOperation { id status }
    userErrors { field message code }
  }
}
""",
    15,
)
BULK = Document(
    "query Bulk($id: ID!) { node(id: $id) { id ... on BulkOperation { status errorCode objectCount url } } }",
    5,
)
BULK_PRODUCTS = Document(
    """
query BulkProducts {
  products { edges { node {
    id title handle status vendor productType tags descriptionHtml createdAt updatedAt
    isGiftCard hasVariantsThatRequiresComponents hasOnlyDefaultVariant
    seo { title description }
    category { fullName }
    featuredMedia { alt preview { image { url } } }
    resourcePublicationsV2(onlyPublished: true) { edges { node { publication { id } } } }
    variants { edges { node {"""
    + _VARIANT_PLAIN % ""
    + """} } }
  } } }
}
""",
    0,
)
BULK_ORDERS = Document(
    "query BulkOrders { orders { edges { node {"
    + _ORDER_PLAIN
    + """
    fulfillmentOrders { edges { node { id status } } }
    lineItems { edges { node {"""
    + _LINE
    + """} } }
  } } } }
""",
    0,
)
BULK_CUSTOMERS = Document(f"query BulkCustomers {{ customers {{ edges {{ node {{ {_CUSTOMER} }} }} }} }}", 0)

READS = (
    *(
        SHOP,
        LOCATIONS,
        CHANNELS,
        COUNTS,
        ORDERS_COUNT,
        CUSTOMERS_COUNT,
        PRODUCTS,
        PRODUCTS_BY_ID,
        PRODUCT_CHANNELS,
    ),
    *(VARIANTS, VARIANTS_AT, VARIANTS_BY_ID, ORDERS, ORDERS_BY_ID, ORDER_LINES, REFUNDS),
    *(CUSTOMERS, CUSTOMERS_BY_ID, DRAFT_ORDER, CURRENT, CURRENT_PRICES, CURRENT_STOCK, METAFIELD, REDIRECTS),
    CURRENT_FIELDS,
    HOLDS,
    *(ITEM_PRODUCT, CHANGED_PRODUCTS, CHANGED_ORDERS, CHANGED_CUSTOMERS, SUBSCRIPTIONS, START_BULK, BULK),
    *(BULK_PRODUCTS, BULK_ORDERS, BULK_CUSTOMERS),
)
# Root fields of mutations that only read.
READ_ONLY_MUTATIONS = frozenset({"bulkOperationRunQuery"})
