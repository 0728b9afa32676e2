/** What the screens of connections read: all of them with their use, in one response of 200. */

import { prefetch } from "../../api/cache.svelte";

export const ALL = ["/app/connections", { query: { limit: 200 } }] as const;

export function prefetchConnections(): void {
  prefetch(...ALL);
}
