/** The strips of the automations in a list, asked for 50 at a time; the automations further down have none. */

import { watch } from "../../api/cache.svelte";
import type { StripRecord } from "../../api/schema";

const PAGE = 50;
const PAGES = 4;

/** Call it while a component is made. */
export function watchStrips(ids: () => readonly string[]) {
  const pages = Array.from({ length: PAGES }, (_, page) =>
    watch(
      () => {
        const pageIds = ids().slice(page * PAGE, (page + 1) * PAGE);
        return pageIds.length ? ["/app/automations/strips", { query: { automation_ids: pageIds } }] : null;
      },
      { every: 60, keep: true },
    ),
  );
  const strips = $derived(
    new Map<string, StripRecord>(pages.flatMap(({ current }) => (current?.data?.strips ?? []).map((strip) => [strip.automation_id, strip]))),
  );
  return {
    of: (id: string): StripRecord | undefined => strips.get(id),
    /** Whether the changes of 30 days are all added up. */
    get complete() {
      return pages.every(({ current }) => current?.data?.complete !== false);
    },
  };
}
