/** The calls of the runs list, by the filters in its address. */

import { prefetch } from "../../api/cache.svelte";
import { preferences } from "../../lib/preferences.svelte";
import { addDays, startOfDay, wire } from "../../lib/time";
import type { Place } from "../../router.svelte";
import type { RunStatus } from "../../api/schema";

const DAY = /^\d{4}-\d\d-\d\d$/;

/** Days are the viewer's; the last one counts whole. */
export function asked(query: URLSearchParams) {
  const day = (name: string) => (DAY.test(query.get(name) ?? "") ? query.get(name)! : null);
  const [from, to] = [day("from"), day("to")];
  return {
    query: {
      limit: 50,
      automation_id: query.get("automation") || undefined,
      status: (query.get("status")?.split(".").filter(Boolean) as RunStatus[] | undefined) ?? undefined,
      mode: (query.get("mode") || undefined) as "live" | "test" | undefined,
      started_by: (query.get("by") || undefined) as "schedule" | "event" | "hand" | undefined,
      from: from ? wire(startOfDay(from, preferences.zone)) : undefined,
      to: to ? wire(startOfDay(addDays(to, 1), preferences.zone)) : undefined,
    },
  };
}

export function startRuns(place: Place): void {
  prefetch("/v1/automations/runs", asked(place.query));
}
