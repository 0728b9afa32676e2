/** The run strips of the automations in a list, requested for the first 50; the others have none. */

import { watch } from "../../api/cache.svelte";
import type { StripRecord } from "../../api/schema";

const PAGE = 50;
const PAGES = 4;

/** Watches the strips; call it while a component is created. */
export function watchStrips(ids: () => readonly string[]) {
  const pages = Array.from({ length: PAGES }, (_, page) =>
    watch(
      () => {
        const pageIds = ids().slice(page * PAGE, (page + 1) * PAGE);
        return pageIds.length ? ["/app/automations/strips", { query: { automation_ids: pageIds } }] : null;
      },
      { every: 60, keepPrevious: true },
    ),
  );
  const strips = $derived(
    new Map<string, StripRecord>(pages.flatMap(({ current }) => (current?.data?.strips ?? []).map((strip) => [strip.automation_id, strip]))),
  );
  return {
    of: (id: string): StripRecord | undefined => strips.get(id),
    /** Whether the totals cover all changes of 30 days. */
    get complete() {
      return pages.every(({ current }) => current?.data?.complete !== false);
    },
  };
}
