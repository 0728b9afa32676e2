/** The requests of the list of automations, with the filters in its address. */

import { prefetch } from "../../api/cache.svelte";
import type { AutomationState, Sort } from "../../api/schema";
import type { RouteLocation } from "../../router.svelte";

export const SORTS: readonly Sort[] = ["-created_at", "created_at", "name", "next_run_at"];

/** Returns the list's filters; an empty state means all but archived automations. */
export function listQuery(query: URLSearchParams) {
  const sort = query.get("sort") as Sort;
  const store = Number(query.get("store"));
  return {
    query: {
      limit: 50,
      q: query.get("q")?.trim().slice(0, 120) || undefined,
      state: query.get("state") ? [query.get("state") as AutomationState] : undefined,
      kind: (query.get("kind") || undefined) as "template" | "workflow" | undefined,
      trigger: (query.get("starts") || undefined) as "schedule" | "event" | undefined,
      template_id: query.get("template") || undefined,
      integration_id: Number.isInteger(store) && store > 0 ? store : undefined,
      sort: SORTS.includes(sort) ? sort : ("name" as const),
    },
  };
}

export function prefetchAutomations(route: RouteLocation): void {
  prefetch("/v1/automations", listQuery(route.query));
}

export function prefetchAutomation(route: RouteLocation): void {
  prefetch("/v1/automations/{automation_id}", { params: { automation_id: route.params.id! } });
}
