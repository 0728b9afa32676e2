/** Whether all changes are stopped, asked once for every screen. */

import { watch } from "../api/cache.svelte";
import { begunAfter } from "../lib/clock.svelte";
import { isFreeze } from "../lib/closed";

const ACTIVE = { query: { state: "active", limit: 200 } };
/** The first view is there by then: what it shows is asked for first. */
const AFTER_MS = 1000;

/** Call it while a component is made. */
export function watchFrozen(may: () => boolean) {
  const later = begunAfter(AFTER_MS);
  const periods = watch(() => (may() && later.begun ? ["/app/closed-periods", ACTIVE] : null), { every: 30 });
  const freezes = () => (periods.current?.data?.closed_periods ?? []).filter(isFreeze);
  return {
    get freezes() {
      return freezes();
    },
    /** Whether everything is stopped, not one store alone. */
    get all() {
      return freezes().some(({ scope }) => scope.kind === "organization");
    },
  };
}
