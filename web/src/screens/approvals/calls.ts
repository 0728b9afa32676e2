/** The calls of the approval screens; they go out before the screens' code is there. */

import { prefetch } from "../../api/cache.svelte";
import type { Place } from "../../router.svelte";

/** The filters in the address of the list. */
export function filtersOf(query: URLSearchParams) {
  const store = Number(query.get("store"));
  return {
    limit: 200,
    automation_id: query.get("automation") || undefined,
    integration_id: Number.isSafeInteger(store) && store > 0 ? store : undefined,
  };
}

/** What waits, by these filters. */
export function queueQuery(query: URLSearchParams) {
  return { query: filtersOf(query) };
}

/** What no longer waits; asked for when it is to be shown. */
export function decidedOf(query: URLSearchParams) {
  return { query: { ...filtersOf(query), limit: 50 } };
}

export function startQueue(place: Place): void {
  prefetch("/v1/automations/approvals", queueQuery(place.query));
}

export function startApproval(place: Place): void {
  prefetch("/v1/automations/approvals/{approval_id}", { params: { approval_id: place.params.id! } });
}
