/** Whether all changes are stopped; requested once for all screens. */

import { watch } from "../api/cache.svelte";
import { begunAfter } from "../lib/clock.svelte";
import { isFreeze } from "../lib/closed";

const ACTIVE = { query: { state: "active", limit: 200 } };
/** The delay of the first request, so that the requests of the first screen go out before it. */
const AFTER_MS = 1000;

/** Watches the active freezes; call it while a component is created. */
export function watchFrozen(may: () => boolean) {
  const later = begunAfter(AFTER_MS);
  const periods = watch(() => (may() && later.begun ? ["/app/closed-periods", ACTIVE] : null), { every: 30 });
  const freezes = () => (periods.current?.data?.closed_periods ?? []).filter(isFreeze);
  return {
    get freezes() {
      return freezes();
    },
    /** Whether a freeze covers the whole organization, not only single stores. */
    get all() {
      return freezes().some(({ scope }) => scope.kind === "organization");
    },
  };
}
