/** What a store may send, in plain words, as the service says it in `trigger.words`. */

import type { EventTriggerBody, ScheduleTriggerBody } from "../api/schema";

/** How an automation is to start, as it is sent. */
export type TriggerBody = ScheduleTriggerBody | EventTriggerBody;

/** The topics that start an automation; none where its schedule does. */
export function topicsOf(trigger: { kind: string; topics?: string[] } | undefined): string[] {
  return trigger?.topics ?? [];
}

const WORDS: Readonly<Record<string, string>> = {
  "orders/create": "An order is created",
  "orders/updated": "An order is changed",
  "orders/paid": "An order is paid",
  "orders/fulfilled": "An order is fulfilled",
  "orders/cancelled": "An order is cancelled",
  "orders/delete": "An order is deleted",
  "refunds/create": "A refund is made",
  "products/create": "A product is created",
  "products/update": "A product is changed",
  "products/delete": "A product is deleted",
  "inventory_levels/update": "A stock level changes",
  "variants/out_of_stock": "A variant goes out of stock",
  "variants/in_stock": "A variant is in stock again",
  "customers/create": "A customer is created",
  "customers/update": "A customer is changed",
  "customers/delete": "A customer is deleted",
  "customers/tags_added": "A customer is tagged",
  "discounts/create": "A discount is created",
  "discounts/update": "A discount is changed",
  "discounts/delete": "A discount is deleted",
  "checkouts/create": "A checkout is begun",
  "fulfillments/create": "A fulfilment is made",
  "returns/request": "A return is asked for",
  "draft_orders/create": "A draft order is created",
  "collections/update": "A collection is changed",
  "locations/create": "A location is added",
};

/** "An order is created". */
export function topicWords(topic: string): string {
  return WORDS[topic] ?? `The store sends ${topic}`;
}
