/** The calls of the approval screens; they go out before the screens' code is there. */

import { prefetch } from "../../api/cache.svelte";
import type { ApprovalStatus } from "../../api/schema";
import type { Place } from "../../router.svelte";

const ALL: ApprovalStatus[] = ["pending", "approved", "partly_approved", "rejected", "expired", "superseded", "cancelled"];

/** What the queue asks for, by the filters in its address. */
export function asked(query: URLSearchParams) {
  const store = Number(query.get("store"));
  return {
    query: {
      limit: 200,
      automation_id: query.get("automation") || undefined,
      integration_id: Number.isSafeInteger(store) && store > 0 ? store : undefined,
      status: query.get("decided") === "1" ? ALL : undefined,
    },
  };
}

export function startQueue(place: Place): void {
  prefetch("/v1/automations/approvals", asked(place.query));
}

export function startApproval(place: Place): void {
  prefetch("/v1/automations/approvals/{approval_id}", { params: { approval_id: place.params.id! } });
}
