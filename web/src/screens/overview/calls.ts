/** The requests of the overview, also sent while its code loads. */

import { prefetch } from "../../api/cache.svelte";
import { WAITING as waiting } from "../../layout/waiting.svelte";
import { preferences } from "../../lib/preferences.svelte";

export function overviewCalls() {
  return {
    overview: ["/app/overview", { query: { timezone: preferences.zone } }] as const,
    paused: ["/v1/automations", { query: { state: ["paused"] as "paused"[], limit: 200 } }] as const,
    status: ["/v1/automations/status"] as const,
  };
}

export function prefetchOverview(): void {
  const { overview, paused, status } = overviewCalls();
  prefetch(...waiting.approvals);
  prefetch(...overview);
  prefetch(...waiting.unusable);
  prefetch(...paused);
  prefetch(...status);
}
