/** The requests of the approval screens, also sent while their code loads. */

import { prefetch } from "../../api/cache.svelte";
import type { RouteLocation } from "../../router.svelte";

/** The list's filters, stored in its address. */
export function filtersOf(query: URLSearchParams) {
  const store = Number(query.get("store"));
  return {
    limit: 200,
    automation_id: query.get("automation") || undefined,
    integration_id: Number.isSafeInteger(store) && store > 0 ? store : undefined,
  };
}

/** Returns the arguments for the waiting approvals. */
export function queueQuery(query: URLSearchParams) {
  return { query: filtersOf(query) };
}

/** Returns the arguments for the decided and expired approvals. */
export function decidedOf(query: URLSearchParams) {
  return { query: { ...filtersOf(query), limit: 50 } };
}

export function prefetchApprovals(route: RouteLocation): void {
  prefetch("/v1/automations/approvals", queueQuery(route.query));
}

export function prefetchApproval(route: RouteLocation): void {
  prefetch("/v1/automations/approvals/{approval_id}", { params: { approval_id: route.params.id! } });
}
