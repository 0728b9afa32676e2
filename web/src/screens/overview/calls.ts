/** The overview's calls; rounded times, so that what goes out before the screen is there is what it asks for. */

import { prefetch } from "../../api/cache.svelte";
import { asked as waiting } from "../../layout/waiting.svelte";
import { now } from "../../lib/clock.svelte";
import { wire } from "../../lib/time";

const HOUR = 3_600_000;
const STEP = HOUR / 6;
export const FAILED_DAYS = 3;

export function asked(at: number) {
  const failedFrom = Math.floor(at / HOUR) * HOUR - FAILED_DAYS * 24 * HOUR;
  const comingTo = Math.ceil(at / STEP) * STEP + 24 * HOUR;
  return {
    failed: [
      "/v1/automations/runs",
      { query: { status: ["failed", "expired"] as ("failed" | "expired")[], from: wire(failedFrom), limit: 200 } },
    ] as const,
    paused: ["/v1/automations", { query: { state: ["paused"] as "paused"[], limit: 200 } }] as const,
    coming: ["/v1/automations/occurrences", { query: { to: wire(comingTo), limit: 10 } }] as const,
    status: ["/v1/automations/status"] as const,
  };
}

export function prefetchOverview(): void {
  const { failed, paused, coming, status } = asked(now());
  prefetch(...waiting.approvals);
  prefetch(...failed);
  prefetch(...waiting.toMend);
  prefetch(...paused);
  prefetch(...coming);
  prefetch(...status);
}
