/** Waiting approvals and unusable connections, requested once for the navigation and the overview. */

import { watch } from "../api/cache.svelte";

const APPROVALS = { query: { limit: 200 } };
const UNUSABLE = { query: { state: ["needs_reconnecting", "disconnected"] as ("needs_reconnecting" | "disconnected")[], limit: 200 } };

export const WAITING = {
  approvals: ["/v1/automations/approvals", APPROVALS] as const,
  unusable: ["/app/connections", UNUSABLE] as const,
};

/** Watches both lists; call it while a component is created. */
export function watchWaiting(may: () => boolean) {
  const approvals = watch(() => (may() ? [...WAITING.approvals] : null), { every: 30 });
  const unusable = watch(() => (may() ? [...WAITING.unusable] : null), { every: 30 });
  return {
    get approvals() {
      return approvals.current;
    },
    get unusable() {
      return unusable.current;
    },
    count(page: string): { number: number; more: boolean } | null {
      const records =
        page === "approvals" ? approvals.current?.data?.approvals : page === "connections" ? unusable.current?.data?.connections : null;
      const more = page === "approvals" && approvals.current?.data?.next_cursor != null;
      return records?.length ? { number: records.length, more } : null;
    },
  };
}
