/** The newest notices and how many are unread, asked for the bell; reading them tells the service. */

import { changed, watch } from "../api/cache.svelte";
import { call } from "../api/client";
import { Action } from "../lib/action.svelte";
import { begunAfter } from "../lib/clock.svelte";

const SHOWN = 8;
/** The first view is there by then: what it shows is asked for before the bell. */
const AFTER_MS = 1000;

/** Call it while a component is made. */
export function watchInbox(may: () => boolean) {
  const later = begunAfter(AFTER_MS);
  return watch(() => (may() && later.begun ? ["/app/inbox", { query: { limit: SHOWN } }] : null), { every: 30 });
}

/** Marks notices as read; by their ids, or all up to the newest that is shown. */
export function reading() {
  return new Action(async (what: { ids: string[] } | { until: string }) => {
    await call("post", "/app/inbox/read", { body: what });
    changed("/app/inbox");
  });
}
