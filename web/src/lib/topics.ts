/** The events that a store sends, in the words that the service uses in `trigger.words`. */

import type { EventTriggerBody, ScheduleTriggerBody } from "../api/schema";

/** The trigger of an automation, as requests send it. */
export type TriggerBody = ScheduleTriggerBody | EventTriggerBody;

/** Returns the topics that start an automation; empty if its schedule starts it. */
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
