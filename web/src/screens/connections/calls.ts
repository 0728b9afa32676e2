/** What the screens of connections read: up to 200 of them, with their use, in one response. */

import { prefetch } from "../../api/cache.svelte";

export const ALL = ["/app/connections", { query: { limit: 200 } }] as const;

export function prefetchConnections(): void {
  prefetch(...ALL);
}
