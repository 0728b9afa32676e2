/** The newest notices and the number of unread ones, for the bell. */

import { invalidate, watch } from "../api/cache.svelte";
import { call } from "../api/client";
import { Action } from "../lib/action.svelte";
import { begunAfter } from "../lib/clock.svelte";

const SHOWN = 8;
/** The delay of the first request, so that the requests of the first screen go out before it. */
const AFTER_MS = 1000;

/** Watches the inbox; call it while a component is created. */
export function watchInbox(may: () => boolean) {
  const later = begunAfter(AFTER_MS);
  return watch(() => (may() && later.begun ? ["/app/inbox", { query: { limit: SHOWN } }] : null), { every: 30 });
}

/** Returns an action that marks notices as read: by id, or all up to a notice. */
export function reading() {
  return new Action(async (range: { ids: string[] } | { until: string }) => {
    await call("post", "/app/inbox/read", { body: range });
    invalidate("/app/inbox");
  });
}
