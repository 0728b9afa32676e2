/** The requests of the list of runs, with the filters in its address. */

import { prefetch } from "../../api/cache.svelte";
import { preferences } from "../../lib/preferences.svelte";
import { addDays, fromWall, startOfDay, wire } from "../../lib/time";
import type { RouteLocation } from "../../router.svelte";
import type { RunStatus } from "../../api/schema";

const DAY = /^\d{4}-\d\d-\d\d$/;
const HOUR = /^([01]\d|2[0-3])$/;

/** Days and hours are in the viewer's zone; the last day is included. */
export function runsQuery(query: URLSearchParams) {
  const day = (name: string) => (DAY.test(query.get(name) ?? "") ? query.get(name)! : null);
  const [from, to] = [day("from"), day("to")];
  // An hour is one of the first day; the last day is then ignored.
  const hour = from && HOUR.test(query.get("hour") ?? "") ? fromWall(`${from}T${query.get("hour")!}:00`, preferences.zone).instant : null;
  return {
    query: {
      limit: 50,
      automation_id: query.get("automation") || undefined,
      integration_id: (!query.get("automation") && Number(query.get("store"))) || undefined,
      q: query.get("q") || undefined,
      status: (query.get("status")?.split(".").filter(Boolean) as RunStatus[] | undefined) ?? undefined,
      mode: (query.get("mode") || undefined) as "live" | "test" | undefined,
      started_by: (query.get("by") || undefined) as "schedule" | "event" | "hand" | undefined,
      from: hour !== null ? wire(hour) : from ? wire(startOfDay(from, preferences.zone)) : undefined,
      to: hour !== null ? wire(hour + 3_600_000) : to ? wire(startOfDay(addDays(to, 1), preferences.zone)) : undefined,
    },
  };
}

export function prefetchRuns(route: RouteLocation): void {
  prefetch("/app/runs", runsQuery(route.query));
}
